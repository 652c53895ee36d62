"""The networks and pictures behind a store are those that made its features."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.embedding_trees import draw_lab_folder, embed_plan, make_plan

import marc
from marc.embed import networks
from marc.embed.networks import _name_of
from marc.errors import MarcError
from marc.scores import unit

ROUNDED = 1e-3  # views are stored in half precision


@pytest.fixture(params=[1, 3])
def store(request, tmp_path):
    plan = make_plan(
        draw_lab_folder(tmp_path / "pictures"), tmp_path / "store", n_views=request.param
    )
    embed_plan(plan)
    return plan.store


def stream_of(store, **options):
    return marc.load_stream(f"store/{store}", **options)


def test_crops_of_a_store_give_its_features_again(store):
    stream, encoder = stream_of(store), marc.create_encoder("mini:captions")
    for query in stream:
        crops = query.pixels()
        assert crops.shape == (stream.n_views, 64, 64, 3)
        assert np.array_equal(query.pixels(1), crops[:1])
        assert np.abs(encoder.encode(crops) - query.views).max() < ROUNDED


def test_fewer_views_have_fewer_crops(tmp_path):
    plan = make_plan(draw_lab_folder(tmp_path / "pictures"), tmp_path / "store", n_views=3)
    embed_plan(plan)
    two = stream_of(plan.store, n_views=2)
    assert np.array_equal(two.query(4).pixels(), stream_of(plan.store).query(4).pixels()[:2])


def test_pictures_that_cannot_be_read_are_passed_over(tmp_path):
    pictures = draw_lab_folder(tmp_path / "pictures")
    damaged = sorted(pictures.rglob("*.png"))[2]
    damaged.write_bytes(b"nothing")
    plan = make_plan(pictures, tmp_path / "store")
    embed_plan(plan)
    stream, encoder = stream_of(plan.store), marc.create_encoder("mini:captions")
    assert len(stream) == 13
    for query in stream:
        assert np.abs(encoder.encode(query.pixels()) - query.views).max() < ROUNDED


def test_another_picture_of_the_same_name_is_refused(store):
    stream = stream_of(store)
    first, second = sorted((store.parent / "pictures").rglob("*.png"))[:2]
    first.write_bytes(second.read_bytes())
    with pytest.raises(MarcError, match="pictures are not those that the store was made of"):
        [query.pixels() for query in stream]


def test_a_picture_that_is_gone_is_named(store):
    stream = stream_of(store)
    stream.query(0).pixels()  # the list is read once
    gone = sorted((store.parent / "pictures").rglob("*.png"))[3]
    gone.unlink()
    with pytest.raises(MarcError, match="can no longer be read"):
        stream.query(3).pixels()
    with pytest.raises(MarcError, match="some came or went"):
        stream_of(store).query(0).pixels()


def test_a_stream_opens_without_its_pictures(store):
    for path in (store.parent / "pictures").rglob("*.png"):
        path.unlink()
    assert len(marc.run(marc.create_method("zero-shot"), stream_of(store)).predictions) == 14


def test_towers_of_a_store_give_its_features_again(store):
    torch = pytest.importorskip("torch")
    stream = stream_of(store)
    predictor = stream.features.predictor
    text, image = predictor.text_tower, predictor.image_tower
    assert text.class_names == stream.features.class_names
    with torch.no_grad():
        for query in stream:
            found = unit(image.copy()(image.prepare(query.pixels())).numpy())
            assert np.abs(found - query.views).max() < ROUNDED
        words = text.tokenize([f"a {name}" for name in text.class_names])
        found = unit(text.encode(text.embed(words), words).numpy())
    asked = predictor.prompts.rows.reshape(len(text.class_names), -1, found.shape[1])[:, 0]
    # the text encoder of `captions` was learned after its prompts had shipped
    assert np.einsum("cd,cd->c", found, asked).min() > 0.999


def test_networks_with_other_weights_are_refused(store, monkeypatch):
    def another(name, **options):
        encoder = marc.create_encoder(name)
        encoder.card = replace(encoder.card, digest="0" * 64)
        return encoder

    monkeypatch.setattr(networks, "create_encoder", another)
    predictor = stream_of(store).features.predictor
    with pytest.raises(MarcError, match="not those that made the features"):
        _ = predictor.text_tower


def test_a_network_that_ships_takes_no_weights(store):
    predictor = stream_of(store, weights=["captions=here.onnx"]).features.predictor
    with pytest.raises(MarcError, match="no encoder here takes weights") as refused:
        _ = predictor.text_tower
    assert refused.value.got == "captions=here.onnx (not there)"
    assert refused.value.hint == "without --weights: mini:captions bring their own"


def test_only_a_store_has_networks_that_take_weights():
    with pytest.raises(MarcError, match="only a feature store has networks that take weights"):
        marc.load_stream("lab/sketch-12", weights=["a.safetensors"])


def test_an_unknown_device_is_refused_at_once(store):
    with pytest.raises(MarcError, match="unknown device"):
        stream_of(store, device="tpu")


@pytest.mark.parametrize("device", ["cuda", "cuda:3", "mps"])
def test_networks_of_the_lab_run_on_the_processor_alone(store, device):
    predictor = stream_of(store, device=device).features.predictor
    for tower in ("text_tower", "image_tower"):
        with pytest.raises(MarcError, match="networks of mini:captions run on the CPU alone"):
            getattr(predictor, tower)
    with pytest.raises(MarcError, match="only the networks of a feature store") as refused:
        marc.load_stream("lab/sketch-12", device=device)
    assert f"lab/sketch-12: '{device}'" in str(refused.value)


def test_a_source_without_networks_takes_any_device(tmp_path):
    marc.write_pack(marc.synthetic_stream(20, 3), tmp_path / "pack.npz")
    assert len(marc.load_stream(tmp_path / "pack.npz", device="cuda")) == 20


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_networks_of_the_lab_are_there_on_the_processor(store, device):
    pytest.importorskip("torch")
    predictor = stream_of(store, device=device).features.predictor
    assert next(predictor.image_tower.copy().parameters()).device.type == "cpu"


@pytest.mark.parametrize(
    ("name", "library", "tag", "asked"),
    [
        ("clip-b16-text", "open_clip", "ViT-B-16-quickgelu/openai", "clip-b16-text"),
        ("mini:captions", "onnx", "captions.onnx", "mini:captions"),
        ("ViT-B-32-openai", "open_clip", "ViT-B-32/openai", "open_clip:ViT-B-32/openai"),
        ("mine", "open_clip", "ViT-B-32", "mine=open_clip:ViT-B-32"),
    ],
)
def test_an_encoder_is_called_as_it_was(name, library, tag, asked):
    assert _name_of({"name": name, "library": library, "tag": tag}) == asked
