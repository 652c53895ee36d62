"""Weights that nobody published, under a name that their user gives."""

import json

import numpy as np
import pytest
from helpers.torch_towers import filled

# isort: split
import open_clip
import timm
import torch
from safetensors.torch import save_file

import marc
from marc import MarcError
from marc.encoders import create_encoder, encoder_card
from marc.encoders.open_clip_configs import Architecture

TOWERS = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 64, "layers": 1, "width": 64, "patch_size": 16},
    "text_cfg": {"context_length": 77, "vocab_size": 49408, "width": 32, "heads": 1, "layers": 1},
}
PIXELS = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.2, 0.2], "interpolation": "bilinear"}


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with weights of a small pair of towers and a small space, and two descriptions."""
    monkeypatch.chdir(tmp_path)
    torch.save(filled(lambda: open_clip.CLIP(**TOWERS)).state_dict(), tmp_path / "clip.pt")
    save_file(filled(lambda: timm.create_model("test_vit")).state_dict(), "mine.safetensors")
    (tmp_path / "small.json").write_text(json.dumps(TOWERS))
    of_the_hub = {"model_cfg": TOWERS, "preprocess_cfg": PIXELS}
    (tmp_path / "open_clip_config.json").write_text(json.dumps(of_the_hub))
    return tmp_path


def create(name, weights):
    return create_encoder(name, weights=weights, offline=True, device="cpu")


@pytest.mark.parametrize("file", ["small.json", "open_clip_config.json"])
def test_towers_from_a_file_of_open_clip_give_its_own_vectors(here, file):
    before = open_clip.list_models()
    found = create(f"my-clip=open_clip:{file}", "clip.pt")
    assert open_clip.list_models() == before
    assert found.card.name == "my-clip"
    assert found.card.crop.size == 64
    model = filled(lambda: open_clip.CLIP(**TOWERS))
    images = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    with torch.inference_mode():
        pixels = torch.from_numpy(found.card.normalise(images))
        pictures = torch.nn.functional.normalize(model.encode_image(pixels)).numpy()
        tokens = open_clip.get_tokenizer("ViT-B-32")(["a mug", "a heron"])
        texts = torch.nn.functional.normalize(model.encode_text(tokens)).numpy()
    assert found.encode(images) == pytest.approx(pictures, abs=1e-6)
    assert found.encode_text(["a mug", "a heron"]) == pytest.approx(texts, abs=1e-6)


def test_numbers_come_from_the_file_or_are_said_to_be_defaults(here):
    plain, of_hub = (
        encoder_card(f"m=open_clip:{name}") for name in ("small.json", "open_clip_config.json")
    )
    assert (of_hub.mean, of_hub.crop.interpolation) == ((0.5, 0.4, 0.3), "bilinear")
    assert "those of the file" in of_hub.summary
    assert "the library's default" in plain.summary
    assert "-quickgelu" in plain.summary
    siglip = encoder_card("m=open_clip:ViT-B-16-SigLIP")
    assert siglip.mean == (0.5, 0.5, 0.5)
    assert "published weights" in siglip.summary


def test_a_file_that_changes_is_another_architecture(here):
    card = encoder_card("m=open_clip:small.json")
    other = {**TOWERS, "quick_gelu": True}
    (here / "small.json").write_text(json.dumps(other))
    with pytest.raises(MarcError, match="has changed"):
        Architecture.read(card.tag)
    assert encoder_card("m=open_clip:small.json").tag != card.tag


@pytest.mark.parametrize("tag", ["test_vit", "test_vit.r160_in1k"])
def test_a_tower_of_timm_has_the_name_that_was_given(here, tag):
    found = create(f"mine=timm:{tag}", "mine.safetensors")
    published = create("timm:test_vit.r160_in1k", "mine.safetensors")
    images = np.random.default_rng(0).integers(0, 256, (3, 160, 160, 3), dtype=np.uint8)
    assert np.array_equal(found.encode(images), published.encode(images))
    assert (found.card.name, found.card.tag) == ("mine", tag)


def test_an_architecture_without_any_published_weights(here):
    untrained = next(
        each
        for each in timm.list_models("vit*")
        if not (timm.get_pretrained_cfg(each).hf_hub_id or timm.get_pretrained_cfg(each).url)
    )
    name = f"deep=timm:{untrained}"
    assert "the library's default" in encoder_card(name).summary
    with pytest.raises(MarcError, match="no weights are published for deep") as caught:
        create(name, None)
    assert caught.value.hint == "--weights deep=PATH"
    with pytest.raises(MarcError, match="NAME=timm:"):
        encoder_card(f"timm:{untrained}")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("dinov2-b=timm:test_vit", "name of published weights"),
        ("predictor=timm:test_vit", "not a name for a space"),
        ("a+b=timm:test_vit", "not a name for a space"),
        ("mine=onnx:file.onnx", "no name can be given"),
        ("mine=timm:no_such_tower", "timm has no weights"),
        ("mine=open_clip:no-such-tower", "no architecture of this name"),
        ("mine=open_clip:nowhere.json", "no such"),
        ("mine=open_clip:empty.json", "describes no model"),
        ("mine=open_clip:odd.json", "three numbers"),
    ],
)
def test_names_that_cannot_be_given(here, name, problem):
    (here / "empty.json").write_text('{"model_cfg": {}}')
    (here / "odd.json").write_text(
        json.dumps({"model_cfg": TOWERS, "preprocess_cfg": {"mean": [1]}})
    )
    with pytest.raises(MarcError, match=problem):
        encoder_card(name)


def test_a_tokenizer_that_is_on_the_hub_is_refused_without_it(here):
    text = {**TOWERS["text_cfg"], "hf_tokenizer_name": "some/tokenizer"}
    (here / "hub.json").write_text(json.dumps({**TOWERS, "text_cfg": text}))
    with pytest.raises(MarcError, match="the tokenizer of mine cannot be loaded") as caught:
        create("mine=open_clip:hub.json", "clip.pt")
    assert "some/tokenizer" in caught.value.hint


def test_one_command_offline_from_pictures_to_a_page(here):
    """Two hundred pictures, no labels, weights that nobody has: answers and a page."""
    from PIL import Image

    from marc.embed.store import FeatureStore

    (here / "photos").mkdir()
    draw = np.random.default_rng(0)
    for number in range(200):
        pixels = draw.integers(256, size=(6, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((80, 60)).save(here / "photos" / f"{number:03}.jpg")
    options = {
        "predictor": "my-clip=open_clip:small.json",
        "encoders": ["mine=timm:test_vit"],
        "weights": ["my-clip=clip.pt", "mine=mine.safetensors"],
        "offline": True,
        "device": "cpu",
    }
    told = []
    classes = ["mug", "heron", "key"]
    found = marc.adapt(
        "folder/photos", classes, **options, on_progress=lambda *each: told.append(each)
    )
    assert found.answers.read_text(encoding="utf-8").count("\n") == 201
    assert found.page.is_file()
    assert any("my-clip" in note and "your own" in note for note in found.notes)
    assert FeatureStore(found.folder / "features").names("spaces") == ["mine"]
    loading = [what for what, _, _ in told if what.startswith("loading")]
    assert loading == ["loading my-clip", "loading mine"]
    moved = [done for what, done, total in told if what == "embedding" and total == 200]
    assert len(moved) > 10
    assert moved == sorted(moved)
    assert moved[-1] == 200
    assert marc.adapt("folder/photos", classes, **options).was_there
    session = marc.Session(
        classes, options["predictor"], options["encoders"], weights=options["weights"], offline=True
    )
    assert session.step("photos/000.jpg").answer in classes


def test_other_weights_under_a_published_name_are_said_to_be_others(here, monkeypatch):
    from marc.embed.plan import EncoderSpec
    from marc.encoders.golden import check_golden

    monkeypatch.setenv("MARC_CACHE", str(here / "cache"))
    first = create("timm:test_vit.r160_in1k", "mine.safetensors")
    spec = EncoderSpec("timm:test_vit.r160_in1k", "mine.safetensors")
    assert spec.notes_on(first.card) == ()  # nothing is known of this name
    check_golden(first)
    assert spec.notes_on(first.card) == ()
    torch.manual_seed(1)
    save_file(timm.create_model("test_vit").state_dict(), "other.safetensors")
    (note,) = spec.notes_on(create(spec.name, "other.safetensors").card)
    assert "other weights" in note
    assert f"NAME={spec.name}" in note
