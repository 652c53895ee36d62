import json
import os
import time

import pytest
from helpers.durable import (
    create,
    label,
    lived,
    opened,
    remembered_of,
    request,
    state_of,
    step,
)
from helpers.snapshots import header_of, rewritten

from marc.errors import MarcError
from marc.serve.memory import operations, snapshots
from marc.serve.memory.served import Served, Unwritten

FIRST = "000000000004.safetensors"


def grown(folder, method="marc", n=8, snapshot_at=(4,), **limits):
    """A closed memory, and what it remembered after each step."""
    states = {}
    with opened(create(folder, method, **limits)) as served:
        for number in range(1, n + 1):
            step(served, number)
            states[number] = remembered_of(served)
            if number in snapshot_at:
                operations.snapshot(served)
    return folder, states


@pytest.mark.parametrize("method", ["marc", "marc-auto", "marc-negative", "class-means", "tda"])
def test_a_snapshot_and_the_log_since_then_are_the_memory(tmp_path, method):
    folder, states = grown(tmp_path / "m", method)
    with opened(folder) as served:
        assert remembered_of(served) == states[8]
        assert served.head["snapshot"]["file"] == FIRST
        assert [row.seq for row in served.log.effects(after=4)] == [5, 6, 7, 8]
        assert [*served.log.effects(after=4)] == [*served.log.effects(after=4)]
        operations.snapshot(served)
        assert not [*served.log.effects(after=8)]
    with opened(folder) as served:
        assert remembered_of(served) == states[8]


@pytest.mark.parametrize("method", ["marc", "marc-auto", "class-means"])
def test_a_restore_goes_back_and_on_as_the_first_time(tmp_path, method):
    folder, states = grown(tmp_path / "m", method)
    for _ in range(2):
        snapshot = snapshots.restorable(folder, FIRST, None)
        assert (snapshot.seq, snapshot.is_new) == (4, False)
        snapshots.restore(folder, snapshot)
        with opened(folder) as served:
            assert remembered_of(served) == states[4]
            assert [step(served, number) for number in (5, 6)]
            assert remembered_of(served) == states[6]
    with opened(folder) as served:
        assert remembered_of(served) == states[6]
        assert served.head["since"] == 5


def test_a_memory_that_saw_nothing_has_a_snapshot_too(tmp_path):
    with opened(create(tmp_path / "m")) as served:
        file = operations.snapshot(served)["file"]
        step(served, 1)
    snapshots.restore(tmp_path / "m", snapshots.restorable(tmp_path / "m", file, None))
    with opened(tmp_path / "m") as served:
        assert (served.seq, served.head["n_seen"]) == (0, 0)
        step(served, 1)


def test_a_snapshot_of_elsewhere_is_restored_under_a_name_of_its_own(tmp_path):
    folder, states = grown(tmp_path / "m")
    other = create(tmp_path / "other")
    with opened(other) as served:
        for number in range(11, 15):
            step(served, number)
        operations.snapshot(served)
        remembered = remembered_of(served)
    content = (other / "snapshots" / FIRST).read_bytes()
    assert content != (folder / "snapshots" / FIRST).read_bytes()
    snapshots.restore(folder, snapshots.restorable(folder, None, content))
    with opened(folder) as served:
        assert remembered_of(served) == remembered
    assert len(snapshots.kept(folder)) == 2
    snapshots.restore(folder, snapshots.restorable(folder, FIRST, None))
    with opened(folder) as served:
        assert remembered_of(served) == states[4]


def test_snapshots_of_before_a_restore_are_not_replaced_by_those_after_it(tmp_path):
    folder, states = grown(tmp_path / "m", n=8, snapshot_at=(4, 6))
    before = (folder / "snapshots" / "000000000006.safetensors").read_bytes()
    snapshots.restore(folder, snapshots.restorable(folder, FIRST, None))
    with opened(folder) as served:
        step(served, 15)
        step(served, 16)
        file = operations.snapshot(served)["file"]
        assert file.startswith("000000000006-")
        changed = remembered_of(served)
    assert (folder / "snapshots" / "000000000006.safetensors").read_bytes() == before
    with opened(folder) as served:
        assert remembered_of(served) == changed != states[6]


def test_a_snapshot_of_before_a_restore_never_stands_for_steps_after_it(tmp_path):
    folder, _ = grown(tmp_path / "m")
    with opened(folder) as served:
        made = served.snapshot()  # it is written while the memory is restored
    snapshots.restore(folder, snapshots.restorable(folder, FIRST, None))
    made.write(folder)
    with opened(folder) as served:
        served.start_from(made)
        assert served.head["snapshot"]["file"] == FIRST
        for number in range(5, 10):
            step(served, number)
        state = state_of(served)
    with opened(folder) as served:
        assert state_of(served) == state


def test_an_older_snapshot_never_takes_the_place_of_a_newer_one(tmp_path):
    folder, _ = grown(tmp_path / "m")
    with opened(folder) as served:
        made = served.snapshot()
        step(served, 9)
        operations.snapshot(served)
        step(served, 10)
        made.write(folder)
        served.start_from(made)
        state = state_of(served)
    with opened(folder) as served:
        assert state_of(served) == state
        assert served.head["snapshot"]["seq"] == 9


def test_a_snapshot_stands_for_steps_that_were_taken_while_it_was_written(tmp_path):
    with opened(create(tmp_path / "m", "marc-auto")) as served:
        for number in range(1, 9):
            step(served, number)
            if number == 5:
                made = served.snapshot()
        made.write(served.folder)
        served.start_from(made)
        state = state_of(served)
    with opened(tmp_path / "m") as served:
        assert state_of(served) == state
        assert served.head["snapshot"]["seq"] == 5


def test_the_last_few_snapshots_are_kept_and_the_current_one(tmp_path):
    folder, _ = grown(tmp_path / "m", n=7, snapshot_at=range(1, 8))
    assert [each["seq"] for each in snapshots.kept(folder)] == [5, 6, 7]
    snapshots.restore(folder, snapshots.restorable(folder, "000000000005.safetensors", None))
    with opened(folder) as served:
        for number in range(6, 9):
            step(served, number)
            operations.snapshot(served)
    kept = snapshots.kept(folder)
    assert [each["seq"] for each in kept] == [6, 7, 8]
    assert all("-" in each["file"] for each in kept)
    assert all(each["bytes"] > 1000 for each in kept)


def test_the_window_of_answers_may_be_shorter_than_the_log(tmp_path):
    with opened(create(tmp_path / "m", window=2)) as served:
        for number in range(1, 9):
            step(served, number)
            if number == 3:
                made = served.snapshot()
        made.write(served.folder)
        served.start_from(made)
        state = remembered_of(served)
    with opened(tmp_path / "m") as served:
        assert remembered_of(served) == state
        assert served.log.step(3) is None
        operations.snapshot(served)
        assert [served.log.step(seq) is None for seq in (6, 7)] == [True, False]
    with opened(tmp_path / "m") as served:
        assert served.seq == 8


@pytest.mark.parametrize(
    "name",
    [
        "",
        "x",
        "../made.safetensors",
        "/etc/passwd",
        ".upload-1",
        f"{FIRST}/",
        FIRST.replace("4", "5"),
    ],
)
def test_a_name_leads_to_a_snapshot_or_nowhere(tmp_path, name):
    folder, _ = grown(tmp_path / "m")
    with pytest.raises(MarcError, match="no such snapshot") as error:
        snapshots.restore(folder, snapshots.restorable(folder, name, None))
    assert error.value.allowed == FIRST


def forged(folder, target, **state):
    """A snapshot with another state in it, sealed as if it were right."""
    path = folder / "snapshots" / FIRST
    target.write_bytes(path.read_bytes())
    known = header_of(target)["state"]
    for name, value in state.items():
        known[name] = value(known[name]) if callable(value) else value
    return rewritten(target, state=known).read_bytes()


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ({"config": "other"}, "another configuration"),
        ({"method": None}, "damaged"),
        ({"method": lambda m: {**m, "config": {**m["config"], "capacity": 9}}}, "another method"),
        ({"method": lambda m: {**m, "config": {"method": "shot-labels"}}}, "another method"),
        ({"method": lambda m: {**m, "n_seen": 3}}, "damaged"),
        ({"seq": -1}, "integer"),
        ({"seq": "x"}, "integer"),
        ({"seq": 3}, "damaged"),
        ({"n_seen": 2**60}, "integer"),
        ({"n_seen": 3}, "damaged"),
        ({"n_seen": 0}, "damaged"),
        ({"record": {"spaces": [], "names": []}}, "damaged"),
        ({"items": [[0]]}, "damaged"),
        ({"history": {"width": 1}}, None),
        ({"history": {"wide": 1}}, "damaged"),
        ({"record": {"spaces": ["s"]}}, "damaged"),
    ],
)
def test_a_forged_snapshot_costs_nothing(tmp_path, state, problem):
    folder, states = grown(tmp_path / "m")
    content = forged(folder, tmp_path / "forged", **state)
    if problem is None:
        snapshots.restore(folder, snapshots.restorable(folder, None, content))
        return
    with pytest.raises(MarcError, match=problem):
        snapshots.restore(folder, snapshots.restorable(folder, None, content))
    assert [each["file"] for each in snapshots.kept(folder)] == [FIRST]
    (folder / "snapshots" / "000000000005.safetensors").write_bytes(content)
    with pytest.raises(MarcError, match=problem):
        snapshots.restore(folder, snapshots.restorable(folder, "000000000005.safetensors", None))
    with opened(folder) as served:
        assert remembered_of(served) == states[8]


@pytest.mark.parametrize("content", [b"", b"x" * 100, bytes(1000), b"\xff" * 8 + b"{}"])
def test_an_upload_that_is_no_snapshot_leaves_nothing(tmp_path, content):
    folder, _ = grown(tmp_path / "m")
    before = {path.name for path in folder.rglob("*")}
    with pytest.raises(MarcError, match="snapshot"):
        snapshots.restore(folder, snapshots.restorable(folder, None, content))
    assert {path.name for path in folder.rglob("*")} == before


def test_what_killed_writers_left_is_cleared_when_a_memory_is_opened(tmp_path):
    folder, _ = grown(tmp_path / "m")
    left = [f"{FIRST}.0123456789ab.new", ".upload-00000000", "000000000007.safetensors.a.new"]
    for name in left:
        (folder / "snapshots" / name).write_bytes(b"x")
    (folder / "restored.sqlite.part").write_bytes(b"x")
    with opened(folder):
        assert [path.name for path in (folder / "snapshots").iterdir()] == [FIRST]
    snapshots.restore(folder, snapshots.restorable(folder, FIRST, None))
    assert not (folder / "restored.sqlite.part").exists()


def test_labels_and_answers_of_before_a_restore_are_gone(tmp_path):
    served, _, _ = lived(tmp_path / "m", n=12, snapshot_at=5, labelled=(4, 8))
    served.close()
    snapshots.restore(
        tmp_path / "m", snapshots.restorable(tmp_path / "m", "000000000005.safetensors", None)
    )
    with opened(tmp_path / "m") as served:
        assert served.log.n_labels() == 0
        assert not [*served.log.labels()]
        assert operations.label(served, [{"id": "id-3", "label": 1}])["unknown"] == ["id-3"]
        step(served, 6)
        assert label(served, 6)["accepted"] == 1
        assert json.loads(operations_stored(served, "id-6"))["seq"] == 6


def operations_stored(served, name):
    return served.stored(name).answer


def test_a_memory_of_another_configuration_takes_no_snapshot(tmp_path):
    folder, _ = grown(tmp_path / "m")
    content = (folder / "snapshots" / FIRST).read_bytes()
    other = create(tmp_path / "other", {"name": "marc", "space": "s", "capacity": 2})
    with pytest.raises(MarcError, match="another configuration"):
        snapshots.restore(other, snapshots.restorable(other, None, content))


def test_a_folder_that_could_not_be_filled_is_not_there(tmp_path):
    with pytest.raises(RuntimeError), snapshots.whole_folder(tmp_path / "m"):
        raise RuntimeError
    assert not [*tmp_path.iterdir()]


def test_a_memory_is_not_made_where_there_is_one(tmp_path):
    folder, states = grown(tmp_path / "m")
    with pytest.raises(OSError, match="m"):
        create(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]
    with opened(folder) as served:
        assert remembered_of(served) == states[8]


def test_old_snapshots_that_cannot_be_removed_do_no_harm(tmp_path, monkeypatch):
    folder, _ = grown(tmp_path / "m", n=4, snapshot_at=(1, 2, 3))

    def refuse(*_arguments, **_options):
        raise OSError("read-only")

    with opened(folder) as served:
        monkeypatch.setattr("pathlib.Path.unlink", refuse)
        snapshots.remove_old(folder, "000000000003.safetensors")
        monkeypatch.undo()
        assert operations.snapshot(served)["seq"] == 4


def test_the_current_snapshot_is_kept_whatever_the_clock_said(tmp_path):
    folder, _ = grown(tmp_path / "m", n=4, snapshot_at=(1, 2))
    for name in ("000000000003.safetensors", "000000000004.safetensors"):
        (folder / "snapshots" / name).write_bytes(b"x")
    current = "000000000002.safetensors"
    os.utime(folder / "snapshots" / current, (0, 0))
    snapshots.remove_old(folder, current)
    assert {each["seq"] for each in snapshots.kept(folder)} == {1, 2, 3, 4}
    snapshots.remove_old(folder, "000000000001.safetensors")
    assert {each["seq"] for each in snapshots.kept(folder)} == {1, 3, 4}


def test_snapshots_are_ordered_by_when_they_were_written(tmp_path):
    folder, _ = grown(tmp_path / "m", n=4, snapshot_at=(2, 3, 4))
    now = time.time()
    os.utime(folder / "snapshots" / "000000000002.safetensors", (now + 9, now + 9))
    assert [each["seq"] for each in snapshots.kept(folder)] == [3, 4, 2]


def test_a_snapshot_is_a_copy_that_steps_do_not_change(tmp_path):
    with opened(create(tmp_path / "m")) as served:
        step(served, 1)
        made = served.snapshot()
        arrays = {name: array.copy() for name, array in made.state["arrays"].items()}
        for number in range(2, 30):
            step(served, number)
        for name, array in made.state["arrays"].items():
            assert (array == arrays[name]).all()


def test_a_snapshot_that_cannot_be_committed_changes_nothing(tmp_path, monkeypatch):
    folder, states = grown(tmp_path / "m")
    served = Served(folder)

    def fail(*_arguments, **_options):
        raise OSError("full")

    monkeypatch.setattr(served.log, "commit", fail)
    with pytest.raises(Unwritten):
        operations.snapshot(served)
    served.close()
    with opened(folder) as served:
        assert served.head["snapshot"]["seq"] == 4
        assert remembered_of(served) == states[8]


def test_the_answer_after_a_restore_is_that_of_a_memory_that_never_went_on(tmp_path):
    folder, _ = grown(tmp_path / "m", n=8)
    twin, _ = grown(tmp_path / "twin", n=4)
    snapshots.restore(folder, snapshots.restorable(folder, FIRST, None))
    with opened(folder) as served, opened(twin) as other:
        for number in (20, 21, 22):
            one, two = (
                json.loads(each.steps([request(number, neighbours=3)])[0])
                for each in (served, other)
            )
            assert one == two


@pytest.mark.parametrize("name", ["log.sqlite", "snapshots/000000000006.safetensors"])
def test_a_damaged_memory_is_restored_from_an_older_snapshot(tmp_path, name):
    folder, states = grown(tmp_path / "m", snapshot_at=(4, 6))
    (folder / name).write_bytes(b"x" * 10_000)
    with pytest.raises(MarcError), opened(folder):
        pass
    snapshots.restore(folder, snapshots.restorable(folder, FIRST, None))
    with opened(folder) as served:
        assert remembered_of(served) == states[4]
        step(served, 5)
        assert remembered_of(served) == states[5]
