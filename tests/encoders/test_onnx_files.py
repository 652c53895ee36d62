"""Graphs that keep their weights in another file. They are written here byte by byte."""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import marc
import marc_lab
from marc import MarcError
from marc.encoders import encoder_card
from marc.encoders.from_onnx import _external_files
from marc.scores import unit

SIZE, DIM = 4, 5
FLOAT, INTS, EXTERNAL = 1, 7, 1
WEIGHTS = Path(marc_lab.__file__).with_name("weights")


def number(value):
    low, high = value & 0x7F, value >> 7
    return bytes([low]) if not high else bytes([low | 0x80]) + number(high)


def field(place, value):
    """A field of a message: a number, or bytes."""
    if isinstance(value, int):
        return number(place << 3) + number(value)
    value = value.encode() if isinstance(value, str) else value
    return number(place << 3 | 2) + number(len(value)) + value


def several(place, values):
    return b"".join(field(place, value) for value in values)


def shape_of(name, sides):
    dims = b"".join(field(1, field(2 if isinstance(s, str) else 1, s)) for s in sides)
    return field(1, name) + field(2, field(1, field(1, FLOAT) + field(2, dims)))


def node(kind, inputs, output, attribute=b""):
    return several(1, inputs) + field(2, output) + field(4, kind) + attribute


def graph_bytes(location):
    """Pixels, made flat, times a matrix that is kept in another file."""
    entries = (field(1, "location") + field(2, location), field(1, "offset") + field(2, "0"))
    matrix = several(1, (3 * SIZE**2, DIM)) + field(2, FLOAT) + field(8, "matrix")
    matrix += several(13, entries) + field(14, EXTERNAL)
    axis = field(5, field(1, "axis") + field(3, 1) + field(20, 2))
    nodes = (
        node("Flatten", ["pixels"], "flat", axis),
        node("MatMul", ["flat", "matrix"], "vectors"),
    )
    graph = several(1, nodes) + field(2, "tower") + field(5, matrix)
    graph += field(11, shape_of("pixels", ("n", 3, SIZE, SIZE)))
    graph += field(12, shape_of("vectors", ("n", DIM)))
    return field(1, INTS) + field(7, graph) + field(8, field(1, "") + field(2, 13))


@pytest.fixture
def tower(tmp_path):
    matrix = np.random.default_rng(2).standard_normal((3 * SIZE**2, DIM), dtype=np.float32)
    (tmp_path / "tower.onnx.data").write_bytes(matrix.tobytes())
    (tmp_path / "tower.onnx").write_bytes(graph_bytes("tower.onnx.data"))
    card = {"name": "mine", "dim": DIM, "size": SIZE, "mean": [0.25] * 3, "std": [0.5] * 3}
    (tmp_path / "tower.json").write_text(json.dumps(card))
    return tmp_path / "tower.onnx", matrix


def test_weights_beside_a_graph_are_found_from_any_folder(tower, tmp_path, monkeypatch):
    path, matrix = tower
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    images = np.random.default_rng(1).integers(0, 256, (3, SIZE, SIZE, 3), dtype=np.uint8)
    flat = ((images / 255 - 0.25) / 0.5).transpose(0, 3, 1, 2).reshape(3, -1)
    expected = unit((flat @ matrix).astype(np.float32))
    for name in (path, Path("..") / path.name):
        assert np.allclose(marc.create_encoder(f"onnx:{name}").encode(images), expected, atol=1e-5)


def test_the_digest_covers_the_weights_beside_a_graph(tower):
    path, matrix = tower
    first = encoder_card(f"onnx:{path}").digest
    assert marc.create_encoder(f"onnx:{path}").card.digest == first
    assert first != hashlib.sha256(path.read_bytes()).hexdigest()
    matrix[3, 3] += 1
    path.with_name("tower.onnx.data").write_bytes(matrix.tobytes())
    assert encoder_card(f"onnx:{path}").digest != first


def test_weights_that_are_not_beside_their_graph_are_named(tower):
    path, _ = tower
    path.with_name("tower.onnx.data").unlink()
    with pytest.raises(MarcError, match="in another file") as caught:
        marc.create_encoder(f"onnx:{path}")
    assert "tower.onnx.data" in caught.value.got
    assert "tower.onnx.data" in caught.value.allowed


def test_files_are_found_wherever_a_graph_names_them():
    tensor = field(13, field(1, "location") + field(2, "deep.data"))
    branch = field(5, field(1, "then_branch") + field(6, field(5, tensor)))
    constant = field(5, field(1, "value") + field(5, tensor.replace(b"deep", b"here")))
    graph = field(
        7, several(1, (node("If", ["c"], "x", branch), node("Constant", [], "y", constant)))
    )
    assert _external_files(graph) == ["deep.data", "here.data"]
    function = field(25, field(7, node("Constant", [], "y", constant)))
    assert _external_files(function) == ["here.data"]


@pytest.mark.parametrize("name", sorted(path.name for path in WEIGHTS.glob("*.onnx")))
def test_the_shipped_graphs_are_whole(name):
    assert _external_files((WEIGHTS / name).read_bytes()) == []


@pytest.mark.parametrize(
    "content",
    [b"", b"not a graph", b"\x3a\xff\xff\xff\x7f", b"\xff" * 40],
    ids=["empty", "text", "length", "number"],
)
def test_what_is_no_graph_names_no_files(content):
    assert _external_files(content) == []
