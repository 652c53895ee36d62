"""One verb: the order that is chosen, and what may be replaced."""

import shutil

import numpy as np
import pytest
from helpers.commands import tree

import marc
from marc.files import LOCK, PARTIAL, locked
from marc.report import exchange
from marc.report.thumbnails import pictures_of
from marc.sources.pack import write_pack


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a run of two orders over a pack with pictures beside it."""
    folder = tmp_path_factory.mktemp("runs")
    stream = marc.synthetic_stream(n_images=30, n_classes=4, n_views=1)
    write_pack(stream, folder / "pack.npz")
    stream = marc.load_stream(f"arrays/{folder / 'pack.npz'}")
    made = [marc.run(marc.MARC("classes"), stream.shuffled(seed)) for seed in (3, 5)]
    marc.save_run(made, folder / "run", stream)
    return folder / "run", made


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_first_order_is_taken_unless_another_is_asked_for(runs, place):
    folder, made = runs
    first, second = marc.export(folder, "csv"), marc.export(folder, "csv", "b.csv", order=5)
    assert (first.order, first.others) == (3, (5,))
    assert (second.order, second.others) == (5, (3,))
    assert first.path.as_posix() == "exports/run.csv"
    stream = marc.load_stream(f"arrays/{folder.parent / 'pack.npz'}")
    for done, run in zip((first, second), made, strict=True):
        expected = marc.export(run, "csv", f"{run.seed}.csv", stream=stream).path
        assert done.path.read_bytes() == expected.read_bytes()
    assert first.path.read_bytes() != second.path.read_bytes()


def test_a_run_in_a_folder_of_answers_is_called_as_that_is(runs, place):
    answers = place / "photos"
    shutil.copytree(runs[0], answers / "run")
    (answers / "answers.csv").touch()
    assert marc.export(answers / "run", "csv").path.as_posix() == "exports/photos.csv"


@pytest.mark.parametrize("to", exchange.FORMATS)
def test_the_same_is_not_done_again_and_something_else_is_not_replaced(runs, place, to):
    pytest.importorskip("pyarrow")
    done = marc.export(runs[0], to, "out")
    before = tree(place)
    assert not done.was_there
    assert marc.export(runs[0], to, "out").was_there
    with pytest.raises(marc.MarcError, match=r"something else lies there(.|\n)*--force"):
        marc.export(runs[0], to, "out", order=5)
    assert tree(place) == before
    marc.export(runs[0], to, "out", order=5, force=True)
    assert tree(place) != before
    assert [path.name for path in place.iterdir()] == ["out"]


@pytest.mark.parametrize("to", ["hf", "fiftyone"])
def test_a_folder_of_somebody_else_is_left_alone(runs, place, to):
    pytest.importorskip("pyarrow")
    (place / "mine").mkdir()
    assert not marc.export(runs[0], to, "mine").was_there  # an empty one may be filled
    (place / "theirs").mkdir()
    (place / "theirs" / "README.md").write_text("mine")
    (place / "file").write_text("mine")
    before = tree(place)
    for path in ("theirs", "file"):
        with pytest.raises(marc.MarcError, match="left alone"):
            marc.export(runs[0], to, path, force=True)
    with pytest.raises(marc.MarcError, match="left alone"):
        marc.export(runs[0], "csv", "theirs", force=True)
    assert tree(place) == before


def test_a_failure_leaves_nothing(runs, place):
    def broken(row):
        if row == 7:
            raise OSError("the disk is full")

    for to in ("hf", "fiftyone", "atlas"):
        pytest.importorskip("pyarrow")
        with pytest.raises(OSError, match="full"):
            marc.export(runs[0], to, "out", pictures=broken)
    assert not [path for path in place.rglob("*") if path.name.endswith(PARTIAL)]
    assert tree(place) == {}


def test_what_a_killed_export_left_goes_with_the_next(runs, place):
    (place / f".out{PARTIAL}" / "data").mkdir(parents=True)
    marc.export(runs[0], "fiftyone", "out")
    assert [path.name for path in place.iterdir()] == ["out"]


def test_two_exports_to_one_folder_at_once_are_refused(runs, place):
    with (
        locked(place / "out", "busy", beside=place / f".out{LOCK}"),
        pytest.raises(marc.MarcError, match="another marc export"),
    ):
        marc.export(runs[0], "fiftyone", "out")


def test_what_cannot_be_exported_is_refused(runs, place):
    folder, (run, _) = runs
    other = marc.synthetic_stream(n_images=20, n_classes=4)
    cases = {
        "the run does not have this order": ((folder, "csv"), {"order": 4}),
        "unknown format": ((folder, "cvs"), {}),
        "with its stream": ((run, "csv"), {}),
        "of another stream": ((run, "csv"), {"stream": other}),
        "no finished run": (("nothing", "csv"), {}),
        "pixels": ((folder, "hf"), {"pixels": -1}),
        "nonsense": ((folder, "atlas"), {"spaces": ["nonsense"]}),
    }
    for words, (arguments, options) in cases.items():
        with pytest.raises(marc.MarcError, match=words):
            marc.export(*arguments, **options)
    assert tree(place) == {}


def test_without_pyarrow_it_is_said_what_to_install(runs, place, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    for to in ("atlas", "hf", "parquet"):
        with pytest.raises(marc.MarcError, match=r"marc-clip\[hf\]"):
            marc.export(runs[0], to, "out")
    assert tree(place) == {}
    assert marc.export(runs[0], "fiftyone", "out").n_pictures == 0


def test_spaces_are_those_of_the_run_or_all_of_which_the_most_trusted_is_first(runs, place):
    parquet = pytest.importorskip("pyarrow.parquet")
    names = parquet.read_schema(marc.export(runs[0], "atlas", "a").path).names
    assert [name for name in names if name[1:2] == "_"] == ["x_classes", "y_classes"]
    stream = marc.load_stream(f"arrays/{runs[0].parent / 'pack.npz'}")
    run = marc.run(marc.create_method("class-means"), stream)
    done = marc.export(run, "atlas", "b", stream=stream)
    names = [name[2:] for name in parquet.read_schema(done.path).names if name.startswith("x_")]
    assert sorted(names) == sorted(stream.spaces)
    assert names[-1] == "noise"


def test_pictures_are_as_large_as_one_asks(tmp_path):
    from PIL import Image

    Image.fromarray(np.zeros((300, 400, 3), np.uint8)).save(tmp_path / "0.png")
    rows = np.eye(3, dtype=np.float32)
    named = marc.Stream.from_arrays(rows, rows, {"s": rows}, ids=["0.png", "1.png", "2.png"])
    source = f"arrays/{tmp_path / 'pack.npz'}"
    assert pictures_of(named, source)(0).shape == (72, 96, 3)
    assert pictures_of(named, source, None)(0).shape == (300, 400, 3)
    assert pictures_of(named, source, 200)(0).shape == (150, 200, 3)
