"""Cards, graphs and prompt sets that are damaged, too large or no plain files."""

import json
import os

import numpy as np
import pytest

from marc.encoders import create_encoder, encoder_card, golden
from marc.encoders.cards import Loading
from marc.encoders.from_onnx import _external_files
from marc.encoders.prompts import PromptSet
from marc.errors import MarcError
from marc.pictures.crops import Crop

CARD = {"name": "t", "dim": 128, "size": 64, "mean": [0, 0, 0], "std": [1, 1, 1]}


@pytest.mark.parametrize("batch", [-1, 2**16 + 1, 2**63, 1.5, True])
def test_batches_have_bounds(batch):
    with pytest.raises(MarcError, match="batch"):
        create_encoder("mini:pixels", batch=batch)
    with pytest.raises(MarcError, match="batch"):
        Loading(batch=batch)


@pytest.mark.parametrize(
    "change", [{"size": 2**40}, {"dim": 2**40}, {"resized": 2**40}, {"std": [1, 1, 0]}]
)
def test_numbers_on_a_card_have_bounds(change, tmp_path):
    (tmp_path / "t.onnx").write_bytes(b"")
    (tmp_path / "t.onnx.json").write_text(json.dumps({**CARD, **change}))
    with pytest.raises(MarcError, match=next(iter(change))):
        encoder_card(f"onnx:{tmp_path}/t.onnx")


def test_a_crop_has_bounds():
    with pytest.raises(MarcError, match="size of the crop"):
        Crop(2**14, 2**14).checked()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
def test_pipes_are_refused_and_nobody_waits(tmp_path):
    for name in ("p.txt", "t.onnx.json"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "t.onnx").write_bytes(b"")
    with pytest.raises(MarcError, match="plain file"):
        PromptSet.read(str(tmp_path / "p.txt"))
    with pytest.raises(MarcError, match="plain file"):
        encoder_card(f"onnx:{tmp_path}/t.onnx")


def test_a_name_that_no_file_can_have_is_no_graph():
    with pytest.raises(MarcError, match="no such ONNX file"):
        encoder_card("onnx:" + "n" * 5000)


def test_numbers_and_messages_without_end_in_a_graph_are_no_graph():
    assert _external_files(b"\xff" * 2**20) == []
    nested = b""
    # a graph in an attribute of a node of a graph, and so on
    for field in (b"\x32", b"\x2a", b"\x0a") * 1000 + (b"\x3a",):
        length, size = b"", len(nested)
        while size > 127:
            length, size = length + bytes([size & 127 | 128]), size >> 7
        nested = field + length + bytes([size]) + nested
    assert _external_files(nested) == []


@pytest.mark.parametrize("content", ["[" * 100_000, '["\\ud800 {}"]', "9" * 5000, '{"a": 1}'])
def test_prompts_of_every_kind_are_refused(content, tmp_path):
    (tmp_path / "p.json").write_text(content)
    with pytest.raises(MarcError):
        PromptSet.read(str(tmp_path / "p.json"))


@pytest.mark.parametrize(
    "change",
    [
        {"vectors": np.zeros(3)},
        {"vectors": np.array([["a"]])},
        {"about": np.array("[" * 100_000)},
        {"about": np.array('{"card": 3, "precision": "float32", "versions": {}}')},
    ],
)
def test_stored_vectors_of_another_kind_are_refused(change):
    known = golden._Known(np.zeros((5, 2)), {}, "float32", {}).as_arrays()
    assert golden._Known.from_arrays(known).precision == "float32"
    with pytest.raises(MarcError):
        golden._Known.from_arrays({**known, **change})
