"""Encoders of the lab and of stores are timed, and what cannot be had is named."""

import numpy as np
import pytest
from helpers.commands import call
from helpers.embedding_trees import draw_lab_folder

from marc import Stream, load_stream
from marc.encoders import create_encoder
from marc.errors import MarcError
from marc_paper.study.tables import timing
from marc_paper.study.tables.timing import _Bench, _open_bench


@pytest.fixture(scope="module")
def lab():
    """What is asked of a stream of the lab: its spaces and how many pictures it has."""
    rows = np.eye(5, 4) + 0.1
    return Stream.from_arrays(rows, np.eye(2, 4), {"pairs-small": rows, "pixels": rows})


@pytest.fixture(scope="module")
def bench(lab):
    return _open_bench(lab, "lab/sketch-12", ["pairs-small"], 3)


def test_the_lab_has_its_encoders_and_pictures(bench):
    assert isinstance(bench, _Bench)
    assert bench.predictor.card.name == "mini:captions"
    assert {space: each.card.name for space, each in bench.encoders.items()} == {
        "pairs-small": "mini:pairs-small"
    }
    assert [picture.size for picture in bench.pictures] == [(64, 64)] * 3


class _Counting:
    """An encoder that counts the pictures it sees."""

    def __init__(self, encoder):
        self.card, self.seen = encoder.card, []

    def encode(self, images):
        self.seen.append(len(images))


def test_each_picture_is_embedded_once_after_the_warm_up(bench):
    predictor, space = (_Counting(create_encoder(f"mini:{n}")) for n in ("captions", "pixels"))
    counting = _Bench(predictor, {"pixels": space}, bench.pictures, "VC", 0)
    assert counting.predictor_seconds(4) > 0
    assert predictor.seen == [4] * 6
    assert counting.space_seconds("pixels") > 0
    assert space.seen == [1] * 6


def test_what_cannot_be_had_is_named(lab, monkeypatch):
    assert "does not say which encoders" in _open_bench(lab, "arrays/some.npz", ["pixels"], 1)
    assert "no encoder is known for other" in _open_bench(lab, "lab/sketch-12", ["other"], 1)
    asked = []

    def refuse(name, *, offline):
        asked.append(offline)
        raise MarcError("weights are not here")

    monkeypatch.setattr(timing, "create_encoder", refuse)
    assert _open_bench(lab, "lab/sketch-12", ["pixels"], 1) == "weights are not here"
    assert asked == [True]


def test_a_store_names_its_encoders_recipe_and_pictures(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw_lab_folder(tmp_path / "photos", count=4)
    encoders = ("--encoder", "mini:pixels", "--predictor", "mini:captions")
    outcome = call("embed", "folder/photos", *encoders, "--views", "3", "--workers", "0")
    assert outcome.status == 0, outcome.err
    stream = load_stream("folder/photos")
    for source in ("folder/photos", "store/stores/folder-photos"):
        bench = _open_bench(stream, source, ["pixels"], 2)
        assert isinstance(bench, _Bench), bench
        assert (bench.recipe, len(bench.pictures)) == ("VC", 2)
        assert bench.predictor.card.name == "mini:captions"
        assert bench.encoders["pixels"].card.name == "mini:pixels"
        assert np.isfinite(bench.predictor_seconds(3))
    for place in (tmp_path / "photos").rglob("*.*"):
        place.unlink()
    assert isinstance(_open_bench(stream, "store/stores/folder-photos", ["pixels"], 2), str)
