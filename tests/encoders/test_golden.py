import dataclasses
import hashlib
import importlib.util
import json

import numpy as np
import pytest

from marc.encoders import create_encoder, golden, list_encoders
from marc.encoders.cards import EncoderCard
from marc.encoders.golden import _golden_pictures
from marc.errors import MarcError
from marc.files import read_arrays, write_arrays
from marc.pictures.crops import Crop

CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
PICTURES = "44e4a340873666fe"


class Altered:
    """An encoder with something done to its card, its input or its output."""

    def __init__(self, encoder, card=None, before=None, after=None, precision="float32"):
        self._encoder, self.precision, self.batch = encoder, precision, encoder.batch
        self.card = card or encoder.card
        self._before, self._after = before or (lambda x: x), after or (lambda x: x)

    def encode(self, images):
        return self._after(self._encoder.encode(np.ascontiguousarray(self._before(images))))


def with_crop(card, **changes):
    return dataclasses.replace(card, crop=dataclasses.replace(card.crop, **changes))


@pytest.fixture(scope="module")
def mini():
    return create_encoder("mini:captions")


@pytest.fixture
def unknown(mini):
    """An encoder whose weights nobody knows."""
    return Altered(mini, dataclasses.replace(mini.card, name="onnx:my/own.onnx", digest="a" * 64))


def test_pictures_are_the_same_to_the_bit():
    pictures = _golden_pictures()
    assert {picture.mode for picture in pictures} == {"RGB"}
    digest = hashlib.sha256()
    for picture in pictures:
        digest.update(f"{picture.size}".encode() + picture.tobytes())
    assert digest.hexdigest()[:16] == PICTURES  # a change needs a new VERSION, then a new pin


def test_pictures_differ_in_shape_and_have_content_at_their_borders():
    shapes = [picture.size for picture in _golden_pictures()]
    assert any(width > 1.5 * height for width, height in shapes)
    assert any(height > 1.5 * width for width, height in shapes)
    assert any(width == height for width, height in shapes)
    assert any(max(shape) < 64 for shape in shapes)
    for picture in _golden_pictures():
        pixels = np.asarray(picture).astype(int)
        edges = (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1])
        assert max(edge.std() for edge in edges) > 20
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 8
        assert np.abs(pixels[..., 0] - pixels[..., 2]).mean() > 20


@pytest.mark.parametrize("name", list_encoders("mini:*"))
def test_encoders_that_ship_give_the_vectors_that_ship(name):
    verdict = golden.check_golden(create_encoder(name))
    assert verdict.status == "same", verdict
    assert verdict.largest < verdict.tolerance / 10
    assert "ship with marc" in verdict.message


def test_the_shipped_file_is_small_and_can_be_made_again(tmp_path):
    golden._write_shipped(tmp_path / "golden.npz")
    again, shipped = golden._shipped_vectors(tmp_path / "golden.npz"), golden._shipped_vectors()
    assert list(again) == list(shipped)
    for key, known in shipped.items():
        assert golden._distances(again[key].vectors, known.vectors).max() < 1e-6
    assert golden._SHIPPED.stat().st_size < 100_000
    arrays = read_arrays(golden._SHIPPED, "golden vectors")
    write_arrays(tmp_path / "old.npz", {**arrays, "version": np.array(0)})
    assert golden._shipped_vectors(tmp_path / "old.npz") == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resized": 73}, "crop.resized is 73, was 64"),
        ({"resize": "squash"}, "crop.resize is 'squash', was 'short'"),
        ({"interpolation": "bilinear"}, "crop.interpolation is 'bilinear', was 'bicubic'"),
    ],
)
def test_a_wrong_card_is_caught_and_named(mini, change, message):
    verdict = golden.check_golden(Altered(mini, with_crop(mini.card, **change)))
    assert verdict.status == "changed"
    assert verdict.largest > 5 * verdict.tolerance
    assert f"on its card {message}" in verdict.message


def test_wrong_colours_are_caught(mini):
    verdict = golden.check_golden(Altered(mini, before=lambda images: images[..., ::-1]))
    assert verdict.status == "changed"
    assert verdict.largest > 100 * verdict.tolerance
    assert "same card, other vectors" in verdict.message


def test_unknown_weights_are_stored_and_then_compared(unknown, tmp_path):
    folder = tmp_path / "deep" / "golden"
    first = golden.check_golden(unknown, folder)
    assert (first.status, first.largest) == ("stored", 0.0)
    [path] = folder.iterdir()
    assert path.name == f"onnx-my-own.onnx@{'a' * 16}-1.npz"
    second = golden.check_golden(unknown, folder)
    assert (second.status, second.largest) == ("same", 0.0)
    changed = golden.check_golden(Altered(unknown, with_crop(unknown.card, resized=80)), folder)
    assert changed.status == "changed"
    assert f"crop.resized is 80, was {unknown.card.crop.resized}" in changed.message
    assert f"rm '{path}'" in changed.message
    path.unlink()
    assert golden.check_golden(unknown, folder).status == "stored"


def test_the_users_cache_folder_is_the_usual_place(unknown, tmp_path, monkeypatch):
    monkeypatch.setenv("MARC_CACHE", str(tmp_path))
    assert golden.check_golden(unknown).status == "stored"
    assert len(list((tmp_path / "golden").iterdir())) == 1


def test_a_change_under_the_same_card_names_the_libraries(unknown, tmp_path, monkeypatch):
    golden.check_golden(unknown, tmp_path)
    computed = golden.versions("pillow")
    monkeypatch.setattr(golden, "versions", lambda **names: {**computed, "pillow": "99"})
    verdict = golden.check_golden(Altered(unknown, after=lambda v: v[::-1]), tmp_path)
    assert verdict.status == "changed"
    assert "same card, other vectors; " in verdict.message
    assert f"pillow 99, was {computed['pillow']}" in verdict.message
    coarse = Altered(unknown, after=lambda v: v[::-1], precision="bfloat16")
    message = golden.check_golden(coarse, tmp_path).message
    assert "computed in bfloat16, was float32" in message
    # words on the card are no reason for other vectors
    words = dataclasses.replace(unknown.card, summary="new words")
    assert golden.check_golden(Altered(unknown, words), tmp_path).status == "same"


def test_other_weights_under_one_name_are_told(unknown, tmp_path):
    golden.check_golden(unknown, tmp_path)
    card = dataclasses.replace(unknown.card, digest="b" * 64)
    verdict = golden.check_golden(Altered(unknown, card), tmp_path)
    assert verdict.status == "stored"
    assert "other weights had this name before: aaaaaaaa" in verdict.message


@pytest.mark.parametrize("damage", [b"", b"not an archive", None])
def test_a_damaged_file_is_written_again(unknown, tmp_path, damage):
    golden.check_golden(unknown, tmp_path)
    [path] = tmp_path.iterdir()
    if damage is None:
        write_arrays(path, {"vectors": np.zeros(3), "about": np.array(json.dumps({"no": 1}))})
    else:
        path.write_bytes(damage)
    assert golden.check_golden(unknown, tmp_path).status == "stored"
    assert golden.check_golden(unknown, tmp_path).status == "same"


def test_a_folder_that_cannot_be_written_is_told(unknown, tmp_path):
    (tmp_path / "file").write_text("in the way")
    verdict = golden.check_golden(unknown, tmp_path / "file" / "golden")
    assert verdict.status == "failed"
    assert "MARC_CACHE" in verdict.message


def refuse(images):
    raise MarcError("no memory left")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (None, lambda v: np.full_like(v, np.nan), "not finite"),
        (None, lambda v: 2 * v, "unit length"),
        (None, lambda v: v[:, :5], "shape"),
        (None, lambda v: np.repeat(v[:1], len(v), axis=0), "same vector for all"),
        (refuse, None, "no memory left"),
    ],
)
def test_vectors_that_cannot_be_right_fail_before_any_comparison(mini, before, after, message):
    verdict = golden.check_golden(Altered(mini, before=before, after=after))
    assert verdict.status == "failed"
    assert message in verdict.message


class SmallViT:
    """A vision transformer with random weights, in which one thing after another can be wrong."""

    precision, batch = "float32", 32

    def __init__(self, *, crop=None, norm=CLIP, colours=1, activation="quick_gelu", pool="token"):
        import torch
        from timm.layers import get_act_layer
        from timm.models.vision_transformer import VisionTransformer

        self.card = EncoderCard(
            "timm:small", "", "timm", "small", 192, crop or Crop(112, 112), *norm, pool, "", "", "c"
        )
        torch.manual_seed(0)
        sizes = {"img_size": 112, "embed_dim": 192, "depth": 6, "num_heads": 3, "num_classes": 0}
        layer = get_act_layer(activation)
        self._model = VisionTransformer(**sizes, act_layer=layer, global_pool=pool, fc_norm=False)
        self._model.eval()
        self._colours, self.kind = colours, torch.float

    def encode(self, images):
        import torch

        pixels = self.card.normalise(images)
        pixels = np.ascontiguousarray(pixels[:, :: self._colours])
        with torch.inference_mode():
            parts = torch.from_numpy(pixels).to(self.kind).split(self.batch)
            model = self._model.to(self.kind)
            vectors = torch.cat([model(part) for part in parts]).float().numpy()
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


MISTAKES = {
    "short side 128 instead of 112": {"crop": Crop(112, 128)},
    "squashed": {"crop": Crop(112, 112, "squash")},
    "bilinear": {"crop": Crop(112, 112, "short", "bilinear")},
    "mean and deviation of ImageNet": {"norm": IMAGENET},
    "blue, green, red": {"colours": -1},
    "GELU instead of QuickGELU": {"activation": "gelu"},
    "average instead of first token": {"pool": "avg"},
}


@pytest.fixture(scope="module")
def timm():
    for name in ("torch", "timm"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")
    from marc.encoders.torch_runtime import import_libraries

    import_libraries("timm")


@pytest.mark.parametrize("what", MISTAKES)
def test_every_mistake_in_a_network_is_far_above_the_tolerance(timm, what, tmp_path):
    assert golden.check_golden(SmallViT(), tmp_path).status == "stored"
    verdict = golden.check_golden(SmallViT(**MISTAKES[what]), tmp_path)
    print(f"{what}: {verdict.largest:.1e} of {verdict.tolerance:.1e}")
    assert verdict.status == "changed"
    assert verdict.largest > 5 * verdict.tolerance


def test_other_batches_threads_and_arithmetic_are_far_below_the_tolerance(timm, tmp_path):
    import torch

    honest = SmallViT()
    golden.check_golden(honest, tmp_path)
    threads = torch.get_num_threads()
    for batch, n_threads, kind in ((1, threads, "float"), (2, 1, "float"), (32, threads, "double")):
        honest.batch, honest.kind = batch, getattr(torch, kind)
        torch.set_num_threads(n_threads)
        verdict = golden.check_golden(honest, tmp_path)
        torch.set_num_threads(threads)
        print(f"batch {batch}, threads {n_threads}, {kind}: {verdict.largest:.1e}")
        assert verdict.status == "same"
        assert verdict.largest < verdict.tolerance / 1000
    assert verdict.largest > 0  # sums of doubles are rounded otherwise


def test_bfloat16_is_compared_with_float32_as_what_it_is(timm, tmp_path):
    import torch

    golden.check_golden(SmallViT(), tmp_path)
    coarse = SmallViT()
    coarse.precision = "bfloat16"
    with torch.autocast("cpu", torch.bfloat16):
        verdict = golden.check_golden(coarse, tmp_path)
    assert verdict.status == "same"
    assert verdict.largest > 0
    wrong = SmallViT(colours=-1)
    wrong.precision = "bfloat16"
    assert golden.check_golden(wrong, tmp_path).status == "changed"
