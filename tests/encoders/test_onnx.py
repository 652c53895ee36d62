"""`onnx:FILE`: any graph with a card beside it."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import marc
import marc_lab
from marc import MarcError
from marc.encoders import check_predictor, encoder_card

WEIGHTS = Path(marc_lab.__file__).with_name("weights")
CARD = {"name": "mine", "dim": 128, "size": 64, "mean": [0, 0, 0], "std": [1, 1, 1]}


@pytest.fixture
def graph(tmp_path):
    """A graph that takes 64 x 64 pixels from 0 to 1 and gives 128 numbers."""
    return Path(shutil.copy(WEIGHTS / "pairs-small.onnx", tmp_path / "tower.onnx"))


def write(graph, name="tower.onnx.json", **changes):
    card = {key: value for key, value in {**CARD, **changes}.items() if value is not None}
    (graph.parent / name).write_text(json.dumps(card))
    return f"onnx:{graph}"


def images(n=3):
    return np.random.default_rng(1).integers(0, 256, (n, 64, 64, 3), dtype=np.uint8)


@pytest.mark.parametrize("name", ["tower.onnx.json", "tower.json"])
def test_a_graph_gives_the_same_under_its_own_card(graph, name):
    encoder = marc.create_encoder(write(graph, name))
    assert np.array_equal(
        encoder.encode(images()), marc.create_encoder("mini:pairs-small").encode(images())
    )
    assert encoder.card.digest == hashlib.sha256(graph.read_bytes()).hexdigest()
    assert encoder.card.name == "mine"
    assert (encoder.precision, encoder.batch) == ("float32", 64)


def test_mean_and_std_are_used(graph):
    plain = marc.create_encoder(write(graph))
    mean, std = [0.25, 0.5, 0.125], [0.5, 2.0, 0.25]
    shifted = marc.create_encoder(write(graph, mean=mean, std=std))
    undone = (images() / 255 * std + mean) * 255  # what normalising turns into the plain pixels
    undone = np.clip(undone, 0, 255).astype(np.float32)
    inside = ((undone > 0) & (undone < 255)).all(axis=3, keepdims=True)
    same = np.where(inside, images(), 0)
    same_undone = np.where(inside, undone, np.float32(mean) * 255).astype(np.float32)
    assert np.allclose(shifted.encode(same_undone), plain.encode(same), atol=1e-4)
    assert not np.allclose(shifted.encode(images()), plain.encode(images()), atol=1e-2)


def test_floats_are_taken_as_bytes_are(graph):
    encoder = marc.create_encoder(write(graph), batch=2)
    assert encoder.batch == 2
    assert np.array_equal(encoder.encode(images()), encoder.encode(images().astype(np.float32)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"colour": "red"}, "unknown: colour"),
        ({"dim": None}, "missing: dim"),
        ({"dim": 0}, "dim on tower.onnx.json"),
        ({"size": "64"}, "size on tower.onnx.json"),
        ({"mean": [0, 0]}, "three numbers"),
        ({"std": [1, 0, 1]}, "above 0"),
        ({"std": [1, float("nan"), 1]}, "NaN is no number of JSON"),
        ({"resize": "long"}, "short, squash"),
        ({"resized": 32}, "resized >= size"),
        ({"pooling": 3}, "must be a text"),
    ],
)
def test_a_card_with_a_mistake_is_refused(graph, changes, words):
    with pytest.raises(MarcError, match=words):
        marc.create_encoder(write(graph, **changes))


def test_a_card_that_is_not_true_of_the_graph_is_refused(graph):
    with pytest.raises(MarcError, match="not as its card says"):
        marc.create_encoder(write(graph, dim=99))
    with pytest.raises(MarcError, match="not as its card says"):
        marc.create_encoder(write(graph, size=63, resized=70))


def test_what_is_no_graph_or_has_no_card_is_refused(graph, tmp_path):
    with pytest.raises(MarcError, match=r"tower\.onnx\.json or tower\.json"):
        encoder_card(f"onnx:{graph}")
    with pytest.raises(MarcError, match="no such ONNX file"):
        encoder_card(f"onnx:{tmp_path}/none.onnx")
    (tmp_path / "tower.json").write_text("[1, 2")
    with pytest.raises(MarcError, match="not JSON"):
        encoder_card(f"onnx:{graph}")
    graph.write_text("not a graph")
    with pytest.raises(MarcError, match="no ONNX graph"):
        marc.create_encoder(write(graph))


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"weights": "elsewhere"}, "has its weights"),
        ({"device": "abacus"}, "unknown device"),
        ({"precision": "float7"}, "unknown precision"),
        ({"batch": -1}, "batch"),
    ],
)
def test_choices_that_a_graph_does_not_have_are_refused(graph, choice, words):
    for name in (write(graph), "mini:pairs-small", "mini:pixels", "mini:captions"):
        with pytest.raises(MarcError, match=words):
            marc.create_encoder(name, **choice)


@pytest.mark.parametrize(
    "choice", [{"device": "cuda"}, {"device": "cuda:1"}, {"precision": "bfloat16"}]
)
def test_choices_for_the_torch_encoders_of_a_call_pass(graph, choice):
    for name in (write(graph), "mini:pairs-small", "mini:pixels", "mini:captions"):
        encoder = marc.create_encoder(name, **choice)
        assert encoder.precision == "float32"
        assert np.array_equal(encoder.encode(images()), marc.create_encoder(name).encode(images()))


def test_a_graph_is_no_predictor(graph):
    with pytest.raises(MarcError, match="text tower"):
        check_predictor(encoder_card(write(graph)))


def test_a_name_becomes_one_that_a_file_can_have(graph):
    assert encoder_card(write(graph, name="tower.json", **{})).name == "mine"
    (graph.parent / "tower.json").write_text(json.dumps({**CARD, "name": "../my tower"}))
    assert encoder_card(f"onnx:{graph}").name == "my-tower"
