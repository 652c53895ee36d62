import contextlib
import os
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import arrays_in, events, tree

from marc.errors import MarcError
from marc.files import write_json
from marc.results import folder
from marc.results.folder import Folder, Stored

CONFIG = {
    **{"kind": "run", "weight": 10.0, "seeds": [0, 1], "fingerprint": {"ids": "ab"}},
    **{"source": "arrays/a.npz", "stream": "a", "n_images": 3, "n_classes": 2, "n_views": 1},
    **{"method": {"method": "marc"}, "selection": "fixed"},
}
OTHER = {**CONFIG, "weight": 2.0}


def metrics_of(config):
    return {"selection": "fixed", "final_weight": [config["weight"]], "changed": [0.5]}


def begun(path, config=CONFIG):
    """A folder whose writer has begun, and is gone."""
    folder = Folder.open(path, config)
    with folder.begin():
        return folder


def attempt(path, config=CONFIG, *, force=False):
    """What a command does with a folder: two parts, then the result. Gives the parts computed."""
    folder = Folder.open(path, config, force=force)
    if folder.done:
        return []
    with folder.begin() as wanted:
        return fill(folder, config) if wanted else []


def fill(folder, config=CONFIG):
    computed, whole = [], {}
    for name in ("first", "second"):
        part = folder.part(name)
        if part is None:
            computed.append(name)
            part = {"x": np.arange(50) * config["weight"], "name": np.array(name)}
            folder.keep_part(name, part)
        whole[name] = part["x"]
    folder.finish(metrics_of(config), whole)
    return computed


def assert_whole(path, config=CONFIG):
    stored, metrics = Stored.numbers(path, "run")
    assert {k: v for k, v in stored.items() if k != "versions"} == config
    assert metrics == metrics_of(config)
    whole = arrays_in(path / "predictions.npz")
    assert set(whole) == {"first", "second"}
    for part in whole.values():
        np.testing.assert_array_equal(part, np.arange(50) * config["weight"])


def assert_nothing_half(path, *configs):
    """What a reader finds after a crash is absent, or refused, or whole."""
    for place in path.parent.iterdir():
        try:
            config, _ = Stored.numbers(place, "run")
        except MarcError:
            assert place != path
        else:
            assert_whole(place, next(c for c in configs if c["weight"] == config["weight"]))


def dying(owner, name, calls=0):
    """A function that dies in the call that comes after `calls` good ones."""
    original, seen = getattr(owner, name), []

    def dies(*args, **kwargs):
        seen.append(name)
        if len(seen) > calls:
            raise KeyboardInterrupt
        return original(*args, **kwargs)

    return dies


def killed(monkeypatch, owner, name, function, *args, **kwargs):
    """An attempt that is killed inside the function `name` of `owner`."""
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, function)
        with pytest.raises(KeyboardInterrupt):
            attempt(*args, **kwargs)


def test_a_finished_folder_holds_the_result_and_no_parts(tmp_path):
    assert attempt(tmp_path / "a") == ["first", "second"]
    assert_whole(tmp_path / "a")
    assert list(tmp_path.iterdir()) == [tmp_path / "a"]
    names = {"config.json", "metrics.json", "log.jsonl", "predictions.npz", "digests.json"}
    assert {file.name for file in (tmp_path / "a").iterdir()} == names
    assert events(tmp_path / "a") == ["started", "part first", "part second", "finished"]
    assert {"python", "marc-clip", "numpy"} <= set(
        Stored.numbers(tmp_path / "a", "run")[0]["versions"]
    )


def test_the_same_configuration_is_done_and_changes_nothing(tmp_path):
    attempt(tmp_path / "a")
    before = tree(tmp_path)
    assert Folder.open(tmp_path / "a", CONFIG).done
    assert tree(tmp_path) == before


def test_other_versions_of_the_libraries_do_not_undo_a_result(tmp_path, monkeypatch):
    attempt(tmp_path / "a")
    monkeypatch.setattr(folder, "versions", lambda: {"numpy": "9.9"})
    assert attempt(tmp_path / "a") == []


def test_another_configuration_is_refused_by_the_names_that_differ(tmp_path):
    attempt(tmp_path / "a")
    before = tree(tmp_path)
    with pytest.raises(MarcError, match=r"differs in weight, seeds\n.*--force"):
        attempt(tmp_path / "a", {**OTHER, "seeds": [4]})
    assert tree(tmp_path) == before


def test_force_replaces_another_configuration_and_recomputes_the_same(tmp_path):
    attempt(tmp_path / "a")
    assert attempt(tmp_path / "a", OTHER, force=True) == ["first", "second"]
    assert_whole(tmp_path / "a", OTHER)
    assert attempt(tmp_path / "a", OTHER, force=True) == ["first", "second"]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("file", ["notes.txt", "config.json", "metrics.json", "draft.new"])
@pytest.mark.parametrize("ending", ["", ".partial"])
def test_a_folder_that_is_not_a_result_is_never_touched(tmp_path, file, ending, force):
    foreign = tmp_path / f"a{ending}"
    foreign.mkdir()
    (foreign / file).write_text('{"model_type": "clip"}')
    before = tree(tmp_path)
    with pytest.raises(MarcError, match="left alone"):
        attempt(tmp_path / "a", force=force)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("force", [False, True])
def test_a_foreign_folder_that_ends_in_old_is_never_touched(tmp_path, force):
    attempt(tmp_path / "a")
    (tmp_path / "a.old").mkdir()
    (tmp_path / "a.old" / "notes.txt").write_text("mine")
    with contextlib.suppress(MarcError):  # refusing is one way of leaving it alone
        attempt(tmp_path / "a", OTHER, force=force)
    assert (tmp_path / "a.old" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("force", [False, True])
def test_a_file_in_the_place_of_the_folder_is_never_touched(tmp_path, force):
    (tmp_path / "a").write_text("mine")
    with pytest.raises(MarcError, match="left alone"):
        attempt(tmp_path / "a", force=force)
    assert tree(tmp_path) == {"a": b"mine"}


def test_an_empty_folder_that_the_person_made_can_be_filled(tmp_path):
    (tmp_path / "a").mkdir()
    assert attempt(tmp_path / "a") == ["first", "second"]
    assert_whole(tmp_path / "a")


def test_parts_survive_and_are_taken_up(tmp_path):
    begun(tmp_path / "a", CONFIG).keep_part("first", {"x": np.arange(50) * 10.0})
    assert attempt(tmp_path / "a") == ["second"]
    assert_whole(tmp_path / "a")
    assert events(tmp_path / "a").count("part first") == 1


def test_parts_of_another_configuration_are_thrown_away(tmp_path):
    begun(tmp_path / "a", OTHER).keep_part("first", {"x": np.zeros(3)})
    assert attempt(tmp_path / "a") == ["first", "second"]
    assert_whole(tmp_path / "a")


def test_killed_before_the_configuration_is_written(tmp_path, monkeypatch):
    killed(monkeypatch, folder, "write_json", dying(folder, "write_json"), tmp_path / "a")
    assert_nothing_half(tmp_path / "a")
    assert attempt(tmp_path / "a") == ["first", "second"]


def test_killed_between_two_parts(tmp_path, monkeypatch):
    killed(monkeypatch, Folder, "keep_part", dying(Folder, "keep_part", calls=1), tmp_path / "a")
    assert_nothing_half(tmp_path / "a")
    assert attempt(tmp_path / "a") == ["second"]
    assert_whole(tmp_path / "a")


@pytest.mark.parametrize("save", ["savez", "savez_compressed"])
def test_killed_while_a_part_or_the_result_is_being_written(tmp_path, monkeypatch, save):
    def half(file, **arrays):
        file.write(b"PK\x03\x04 half of it")
        raise KeyboardInterrupt

    killed(monkeypatch, np, save, half, tmp_path / "a")
    assert_nothing_half(tmp_path / "a")
    assert attempt(tmp_path / "a") == (["first", "second"] if save == "savez" else [])
    assert_whole(tmp_path / "a")
    assert [file.name for file in tmp_path.rglob("*.new")] == []


@pytest.mark.parametrize("renames", [0, 1], ids=["before the first rename", "between the renames"])
def test_killed_while_the_folder_is_put_in_its_place(tmp_path, monkeypatch, renames):
    path = tmp_path / "a"
    attempt(path)
    rename = dying(Path, "rename", calls=renames)
    killed(monkeypatch, Path, "rename", rename, path, OTHER, force=True)
    assert_nothing_half(path, CONFIG, OTHER)
    assert path.exists() == (renames == 0)
    attempt(path, OTHER, force=path.exists())
    assert_whole(path, OTHER)
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


def test_killed_before_the_parts_are_deleted(tmp_path, monkeypatch):
    killed(monkeypatch, Path, "unlink", dying(Path, "unlink"), tmp_path / "a")
    attempt(tmp_path / "a")
    assert_whole(tmp_path / "a")


@contextlib.contextmanager
def config_first(path, scandir=os.scandir):
    """The listing of a folder in its worst order: systems differ in what they delete first."""
    with scandir(path) as entries:
        yield sorted(entries, key=lambda entry: entry.name != "config.json")


def leave_parts(path, config):
    folder = begun(path, config)
    for name in ("first", "second"):
        folder.keep_part(name, {"x": np.arange(50) * config["weight"]})


STARTS = {
    "nothing": (None, None, False),
    "the result": (attempt, CONFIG, True),
    "another result": (attempt, OTHER, True),
    "parts": (leave_parts, CONFIG, False),
    "parts of another": (leave_parts, OTHER, False),
}


@pytest.mark.parametrize("step", ["mkdir", "rename", "replace", "unlink", "rmdir"])
@pytest.mark.parametrize("start", STARTS)
def test_killed_at_any_change_of_the_disk_the_next_attempt_finishes(
    tmp_path, monkeypatch, step, start
):
    prepare, config, force = STARTS[start]
    for calls in range(30):
        path = tmp_path / str(calls) / "a"
        path.parent.mkdir()
        if prepare is not None:
            prepare(path, config)
        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            patch.setattr(os, "scandir", config_first)
            patch.setattr(os, step, dying(os, step, calls))
            attempt(path, force=force)
            return  # it made no further call of this kind
        assert_nothing_half(path, CONFIG, OTHER)
        attempt(path, force=force)
        assert_whole(path)
        # a lock that nobody holds may be left of who was killed when all was done
        assert {file.name for file in path.parent.iterdir()} - {".a.lock"} == {"a"}
    pytest.fail("a folder takes fewer steps than this")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_with_nan_is_refused_and_leaves_no_file(tmp_path, value):
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"accuracy": value})
    assert not (tmp_path / "a.json").exists()


def test_nan_in_the_metrics_leaves_no_result(tmp_path):
    folder = begun(tmp_path / "a", CONFIG)
    with pytest.raises(ValueError, match="JSON"):
        folder.finish({"accuracy": float("nan")}, {})
    with pytest.raises(MarcError, match="no finished run"):
        Stored.numbers(tmp_path / "a", "run")


def test_nothing_that_is_written_is_pickled(tmp_path):
    folder = begun(tmp_path / "a", CONFIG)
    folder.keep_part("first", {"x": np.arange(50) * 10.0, "ids": np.array(["é", "b"])})
    assert set(arrays_in(tmp_path / "a.partial" / "first.part.npz")) == {"x", "ids", "seal"}
    attempt(tmp_path / "a")
    assert set(arrays_in(tmp_path / "a" / "predictions.npz")) == {"first", "second"}


def test_an_unfinished_result_is_refused_with_the_way_to_finish_it(tmp_path):
    begun(tmp_path / "a", CONFIG).keep_part("first", {"x": np.zeros(3)})
    for place in (tmp_path / "a", tmp_path / "a.partial"):
        with pytest.raises(MarcError, match="call marc run again to finish it"):
            Stored.numbers(place, "run")


@pytest.mark.parametrize("text", ["{", "[1]", "3"])
def test_a_configuration_that_is_not_a_json_object_is_refused(tmp_path, text):
    attempt(tmp_path / "a")
    (tmp_path / "a" / "config.json").write_text(text)
    with pytest.raises(MarcError, match=r"(?s)this run is damaged.*config\.json.*--force"):
        Stored.numbers(tmp_path / "a", "run")


def test_a_damaged_part_is_computed_again(tmp_path):
    folder = begun(tmp_path / "a", CONFIG)
    for name in ("first", "second"):
        folder.keep_part(name, {"x": np.arange(50) * 10.0})
    (folder.work / "first.part.npz").write_bytes(b"PK\x03\x04 half")
    sound = arrays_in(folder.work / "second.part.npz")
    np.savez(folder.work / "second.part.npz", **{**sound, "x": sound["x"] + 1000})
    assert attempt(tmp_path / "a") == ["first", "second"]
    assert_whole(tmp_path / "a")


def test_a_part_of_another_result_or_name_is_no_part(tmp_path):
    folder = begun(tmp_path / "a", CONFIG)
    folder.keep_part("first", {"x": np.zeros(3)})
    whole = (folder.work / "first.part.npz").read_bytes()
    (folder.work / "second.part.npz").write_bytes(whole)
    assert folder.part("second") is None
    other = begun(tmp_path / "b", OTHER)
    (other.work / "first.part.npz").write_bytes(whole)
    assert other.part("first") is None
    assert folder.part("first") is not None


def test_parts_computed_by_other_libraries_are_computed_again(tmp_path, monkeypatch):
    begun(tmp_path / "a", CONFIG).keep_part("first", {"x": np.zeros(50)})
    monkeypatch.setattr(folder, "versions", lambda: {"numpy": "9.9"})
    assert attempt(tmp_path / "a") == ["first", "second"]


def test_the_path_of_a_pack_is_not_part_of_what_a_result_is(tmp_path):
    attempt(tmp_path / "a", {**CONFIG, "source": "arrays/a.npz"})
    assert Folder.open(tmp_path / "a", {**CONFIG, "source": "arrays/./a.npz"}).done
