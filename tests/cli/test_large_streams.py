"""Commands over streams that are not held give exactly what they give where all is held."""

import os

import numpy as np
import pytest
from helpers.commands import arrays_in, call, call_json

from benchmarks import million
from marc.sources.pack import write_pack
from marc.sources.synthetic import synthetic_stream
from marc.spaces import geometry
from marc.stream import rows

MARC = ("run", "--method", "marc", "--space", "space", "--seed", 0)
COMMANDS = {
    "class means": ("run", "--seed", 0, 1),
    "the paper's system": MARC,
    "its learned weight": (*MARC, "--weight", "auto"),
    "its own space": ("run", "--method", "marc", "--space", "predictor", "--in-order"),
    "fewer images": ("run", "--order", "long-tail:ratio=5", "--seed", 0),
    "in batches": ("run", "--method", "stata", "--seed", 0),
    "sweep": ("sweep", "--seed", 0, "--capacity", 1, 2, 4),
    "sweep of fewer images": (
        "sweep",
        "--order",
        "long-tail:ratio=5",
        "--seed",
        0,
        "--capacity",
        2,
    ),
    "geometry": ("geometry", "--images", 200, "--replicates", 5),
    "geometry of all": ("geometry", "--space", "space", "predictor", "--replicates", 5),
    "select": ("select", "--images", 200, "--replicates", 5),
    "select of all": ("select", "--replicates", 5),
}
N_IMAGES, N_CLASSES = 600, 10
LIMIT = 100  # numbers; no array of the stream has so few
BETWEEN = 300 * million.DIM  # a sample of 200 is held, the whole is not


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    path = tmp_path_factory.mktemp("stores") / "million"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(million, "CHUNK", 64)
        million.make_store(path, N_IMAGES, N_CLASSES)
    return f"store/{path}"


@pytest.fixture(scope="module")
def pack(tmp_path_factory):
    path = tmp_path_factory.mktemp("packs") / "pack.npz"
    write_pack(synthetic_stream(N_IMAGES, N_CLASSES, n_views=4), path)
    return f"arrays/{path}"


def told_by(words, source, folder):
    """What a command says and writes, less where and how fast."""
    verb, *options = words
    more = ("-o", folder) if verb in ("run", "sweep") else ()
    told = call_json(verb, source, *options, *more)
    told = {name: value for name, value in told.items() if name not in ("folder", "timing")}
    arrays = arrays_in(next(folder.glob("*.npz"))) if more else {}
    return told, arrays


def check_same(words, source, folder, monkeypatch, limit):
    told, arrays = told_by(words, source, folder / "held")
    monkeypatch.setattr(rows, "_LARGE", limit)
    told_again, arrays_again = told_by(words, source, folder / "unheld")
    assert told_again == told
    assert arrays_again.keys() == arrays.keys()
    for name, values in arrays.items():
        np.testing.assert_array_equal(arrays_again[name], values, strict=True, err_msg=name)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_store_that_is_read_in_place_gives_the_same_bits(store, tmp_path, monkeypatch, name):
    check_same(COMMANDS[name], store, tmp_path, monkeypatch, LIMIT)


@pytest.mark.parametrize("name", ["class means", "select"])
def test_arrays_at_hand_give_the_same_bits(pack, tmp_path, monkeypatch, name):
    check_same(COMMANDS[name], pack, tmp_path, monkeypatch, LIMIT)


def test_a_transform_of_a_sample_is_fitted_on_the_sample(store, tmp_path, monkeypatch):
    words = ("geometry", "--space", "space+whiten", "--images", 200, "--replicates", 5)
    check_same(words, store, tmp_path, monkeypatch, BETWEEN)


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--method", "marc", "--space", "space+whiten"),
        ("run", "--space", "space+pca:8", "--seed", 0),
        ("sweep", "--space", "space+center", "--seed", 0),
        ("geometry", "--space", "space+random:8"),
    ],
)
def test_what_needs_the_whole_array_is_refused_and_nothing_is_written(
    store, tmp_path, monkeypatch, words
):
    monkeypatch.setattr(rows, "_LARGE", LIMIT)
    more = ("-o", tmp_path / "out") if words[0] in ("run", "sweep") else ()
    refused = call(words[0], store, *words[1:], *more)
    assert refused.status == 2
    assert "needs all features of a large stream at once" in refused.err
    assert f"{N_IMAGES} x 768 numbers" in refused.err
    assert not (tmp_path / "out").exists()


def test_a_method_of_all_images_together_is_refused(store, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "_LARGE", N_IMAGES * N_CLASSES - 1)
    refused = call("run", store, "--method", "transclip", "--seed", 0, "-o", tmp_path / "out")
    assert refused.status == 2
    assert "transclip answers all images together, and so many are not held" in refused.err
    assert "600 images, 10 classes" in refused.err


@pytest.mark.parametrize("verb", ["geometry", "select"])
def test_of_very_many_images_a_sample_is_looked_at_unless_all_are_asked_for(
    store, monkeypatch, verb
):
    for name, value in (("EXACT_UP_TO", 500), ("ENOUGH", 200)):
        monkeypatch.setattr(geometry, name, value)
    words = ("--replicates", 5, "--space", "space")
    usual, asked = call(verb, store, *words), call(verb, store, *words, "--images", 200)
    assert usual.out == asked.out
    assert asked.err == ""
    note = "note: a random sample of 200 of 600 images is looked at; all of them: --images 0"
    assert usual.err.startswith(note)
    every = call_json(verb, store, *words, "--images", 0)
    assert every["n_images"] == N_IMAGES


def test_damage_is_found_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(million, "CHUNK", 64)
    path = tmp_path / "damaged"
    million.make_store(path, 200, 5)
    chunk = path / "spaces/space/c/3/0"
    chunk.write_bytes(os.urandom(chunk.stat().st_size))
    monkeypatch.setattr(rows, "_LARGE", LIMIT)
    refused = call("run", f"store/{path}", "--seed", 0, "-o", tmp_path / "out")
    assert refused.status == 2
    assert "spaces/space is not what was written: files were changed or lost" in refused.err
    assert {each.name for each in tmp_path.iterdir()} == {"damaged"}
