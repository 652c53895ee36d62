"""One memory: exactly once, windows, blocks, failures, snapshots, and no growth."""

import json
import sys

import numpy as np
import pytest
from helpers.serving import MARC, N_CLASSES, contested, remembered, request, served, step

import marc
from marc.errors import MarcError
from marc.serve.memory import operations
from marc.serve.memory.effects import Learner
from marc.serve.memory.served import Served, Unwritten, as_refusal
from marc.serve.refused import Refused


@pytest.fixture
def memory(tmp_path):
    with_close = served(tmp_path / "m")
    yield with_close
    with_close.close()


def test_an_id_is_taken_once_whatever_comes_with_it(memory):
    first = memory.steps([request(1, "a"), request(2, "b"), request(3, "a")])
    assert first[0] == first[2] != first[1]
    assert memory.seq == 2
    operations.mode(memory, "live")
    assert memory.steps([request(4, "a", neighbours=2)]) == [first[0]]
    assert memory.seq == 2


def test_an_id_in_error_may_come_again(memory):
    bad = request(1, "a")
    bad.keys["s"][:] = np.nan
    errors = memory.steps([bad, bad, request(2, "b")])
    assert isinstance(errors[0], MarcError)
    assert str(errors[0]) == str(errors[1])
    assert json.loads(errors[2])["seq"] == 1
    assert step(memory, 1, name="a")["seq"] == 2


def test_a_dry_run_sees_what_came_before_it_in_its_block(memory):
    answers = memory.steps([request(1), request(1, "dry", dry_run=True, neighbours=1), request(2)])
    dry = json.loads(answers[1])
    assert dry["seq"] is None
    assert dry["neighbours"][0]["id"] == "1"
    assert dry["neighbours"][0]["similarity"] == pytest.approx(1)
    assert dry["stored"] == {"admitted": False, "class": None, "evicted": None}
    assert memory.steps([request(9, "dry")]) != answers[1:2]  # it took no id


def test_off_learns_nothing_and_shadow_goes_on_from_there(memory):
    for image in range(6):
        step(memory, image)
    before = operations.info(memory)
    operations.mode(memory, "off")
    answers = [step(memory, image) for image in range(6, 12)]
    assert [each["seq"] for each in answers] == list(range(7, 13))
    assert not any(each["disagree"] or each["stored"]["admitted"] for each in answers)
    assert {each["answered_by"] for each in answers} == {"base"}
    after = operations.info(memory)
    assert (after["n_seen"], after["sizes"]) == (before["n_seen"], before["sizes"])
    assert after["shadow"] == before["shadow"]
    operations.mode(memory, "shadow")
    assert step(memory, 13, neighbours=1)["neighbours"][0]["age"] <= 6
    assert memory.head["n_seen"] == 7


@pytest.mark.parametrize(("fraction", "expected"), [(0.0, 0.0), (1.0, 1.0), (0.3, 0.3)])
def test_a_canary_answers_its_fraction(tmp_path, fraction, expected):
    memory = served(tmp_path / "m", mode="canary", fraction=fraction)
    assert memory.head["fraction"] == fraction
    answers = memory.steps([request(image) for image in range(400)])
    by_memory = [json.loads(each)["answered_by"] == "memory" for each in answers]
    assert np.mean(by_memory) == pytest.approx(expected, abs=0.08)
    again = [json.loads(memory.steps([request(image, dry_run=True)])[0]) for image in range(9)]
    assert [each["answered_by"] == "memory" for each in again] == by_memory[:9]
    memory.close()


def test_neighbours_are_as_many_of_each_space(tmp_path):
    memory = served(tmp_path / "m", "class-means")
    for image in range(20):
        answer = step(memory, image, neighbours=2)
    spaces = [each["space"] for each in answer["neighbours"]]
    assert spaces == ["predictor"] * 2 + ["s"] * 2
    memory.samples._taken = -1e9  # a sample has more of them, and its client does not
    answer = step(memory, 20, neighbours=1)
    assert [each["space"] for each in answer["neighbours"]] == ["predictor", "s"]
    [shown] = memory.samples.last(1, memory.seq)
    assert {space: len(near) for space, near in shown["neighbours"].items()} == {
        "predictor": 5, "s": 5,
    }  # fmt: skip
    memory.close()


@pytest.mark.parametrize("window", [1, 7, 100])
def test_a_window_shorter_than_the_steps_since_the_snapshot(tmp_path, window):
    """What a recovery replays is not forgotten, and whatever is in the window is known."""
    memory = served(tmp_path / "m", limits={"window": window, "snapshot_every": 10})
    first = [step(memory, image) for image in range(10)]
    snapshot = memory.snapshot()
    later = [step(memory, image) for image in range(10, 30)]
    snapshot.write(memory.folder)
    memory.start_from(snapshot)
    before = remembered(memory)
    memory.close()
    memory = Served(tmp_path / "m")
    assert remembered(memory) == before
    inside = [each for each in first + later if each["seq"] > 30 - window]
    for each in inside:
        assert step(memory, int(each["id"])) == each
    assert memory.seq == 30
    assert memory.log.step(max(1, 30 - max(window, 20))) is None or window == 100
    memory.close()


def test_an_id_outside_the_window_is_new_and_its_label_unknown(tmp_path):
    memory = served(tmp_path / "m", limits={"window": 5})
    for image in range(12):
        step(memory, image)
    assert operations.label(memory, [{"id": "2", "label": 0}])["accepted"] == 1
    before = memory.trial.tally
    operations.snapshot(memory)
    late = operations.label(memory, [{"id": "2", "label": 1}, {"id": "11", "label": 0}])
    assert (late["unknown"], late["accepted"]) == (["2"], 1)
    assert sum(memory.trial.tally) == sum(before) + 1  # the label of a forgotten step counts
    with pytest.raises(Refused) as refused:
        operations.stored(memory, "2")
    assert refused.value.status == 404
    assert step(memory, 2)["seq"] == 13
    # the same id is another step now: its label is no correction
    relabelled = operations.label(memory, [{"id": "2", "label": 1}])
    assert (relabelled["accepted"], relabelled["changed"]) == (1, 0)
    tally = memory.trial.tally
    assert sum(tally) == sum(before) + 2
    memory.close()
    memory = Served(tmp_path / "m")
    assert memory.trial.tally == tally
    memory.close()


def test_an_older_snapshot_never_replaces_a_newer_one(memory):
    for image in range(5):
        step(memory, image)
    old = memory.snapshot()
    step(memory, 5)
    newer = operations.snapshot(memory)
    old.write(memory.folder)
    memory.start_from(old)
    assert memory.head["snapshot"]["file"] == newer["file"]
    before, folder = remembered(memory), memory.folder
    memory.close()
    again = Served(folder)
    assert remembered(again) == before
    again.close()


def _failing_at(image):
    """A step that fails at one image."""
    own, bad = marc.MARC.step, request(image).views

    def fails(method, query):
        if np.allclose(query.views, bad / np.linalg.norm(bad)):
            raise ZeroDivisionError("at this image")
        return own(method, query)

    return fails


def test_a_method_that_fails_at_one_image(memory, monkeypatch):
    monkeypatch.setattr(marc.MARC, "step", _failing_at(3))
    results = memory.steps([request(image) for image in range(6)])
    failed = [isinstance(each, MarcError) for each in results]
    assert failed == [False, False, False, True, False, False]
    assert results[3].status == 500
    assert "ZeroDivisionError" in results[3].got
    monkeypatch.undo()
    assert step(memory, 3)["seq"] == 6


def test_a_dry_run_that_fails_harms_nobody(memory, monkeypatch):
    def failing(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(Learner, "peek", failing)
    results = memory.steps([request(1), request(2, dry_run=True), request(3)])
    assert [isinstance(each, MarcError) for each in results] == [False, True, False]


def test_an_answer_that_cannot_be_written_is_not_acknowledged(memory, monkeypatch):
    step(memory, 0)

    def failing(*_):
        raise TypeError("no JSON")

    monkeypatch.setattr("marc.serve.memory.served.orjson.dumps", failing)
    with pytest.raises(Unwritten):
        memory.steps([request(1)])
    monkeypatch.undo()
    folder = memory.folder
    memory.close()
    again = Served(folder)
    assert (again.seq, again.head["n_seen"]) == (1, 1)
    again.close()


def test_names_of_evicted_images_are_known_within_a_block(tmp_path):
    memory = served(tmp_path / "m", {**MARC, "capacity": 1})
    memory._most_items = 0  # forgets at the first chance
    answers = [json.loads(each) for each in memory.steps([request(n) for n in range(60)])]
    held = {}
    for answer in answers:
        if answer["stored"]["admitted"]:
            name = answer["stored"]["class"]
            assert answer["stored"]["evicted"] == held.get(name)
            held[name] = answer["id"]
    assert len(held) == N_CLASSES
    assert {at[1] for at in memory._items.values()} == {*held.values()}
    memory.close()


def test_memory_does_not_grow_with_the_stream(tmp_path):
    """Beside the method, everything that a memory holds is bounded."""
    limits = {"window": 100, "snapshot_every": 200}
    memory = served(tmp_path / "m", limits=limits)
    sizes = []
    for start in range(0, 6000, 50):
        memory.steps([request(n) for n in range(start, start + 50)])
        operations.label(memory, [{"id": str(n), "label": 0} for n in range(start, start + 50)])
        if memory.snapshot_due:
            operations.snapshot(memory)
        sizes.append(len(remembered(memory)) + len(memory._items) + _deep(vars(memory.samples)))
    assert max(sizes[60:]) <= 1.25 * max(sizes[:60])
    assert memory.log.step(6000 - 320) is None
    assert len(memory._items) <= memory._most_items <= 2 * 2 * N_CLASSES + 1000 + 50
    memory.close()


def _deep(value):
    if isinstance(value, dict):
        return sum(map(_deep, value.values()))
    if isinstance(value, (list, tuple)) or hasattr(value, "maxlen"):
        return sum(map(_deep, value))
    return sys.getsizeof(value)


def test_snapshots_are_due_by_steps_and_sooner_for_methods_that_see_again(tmp_path):
    memory = served(tmp_path / "m", limits={"snapshot_every": 3})
    due = []
    for image in range(7):
        step(memory, image)
        due.append(memory.snapshot_due)
        if due[-1]:
            operations.snapshot(memory)
    assert due == [False, False, True, False, False, True, False]
    memory.close()
    memory = served(tmp_path / "sums", "class-means")
    memory.head = {**memory.head, "seq": 499}
    assert not memory.snapshot_due
    memory.head = {**memory.head, "seq": 500}
    assert memory.snapshot_due
    memory.close()


def test_a_folder_is_open_once(memory):
    with pytest.raises(MarcError, match="another server"):
        Served(memory.folder)


def test_errors_of_methods_become_refusals():
    own = MarcError("no")
    assert as_refusal(own) is own
    assert as_refusal(KeyError("x")).status == 500


def test_features_may_be_of_any_length(memory):
    """Directions are what counts: huge and tiny vectors answer as those of unit length."""
    plain = step(memory, 1, dry_run=True)
    for factor in (1e-6, 1e6, 1e10):
        asked = request(1, dry_run=True)
        asked.views[:] *= np.float32(factor)
        asked.keys["s"][:] *= np.float32(factor)
        answer = json.loads(memory.steps([asked])[0])
        assert answer["prediction"] == plain["prediction"]


def test_the_most_contested_stream_counts_right(memory):
    names = contested(memory, 40)
    assert memory.head["disagreements"] == len(names) > 5
    assert memory.head["steps"] == 40


def test_an_id_in_error_is_taken_where_it_comes_right_in_the_same_block(memory):
    bad = request(1, "a")
    bad.keys["s"][:] = np.nan
    errors = memory.steps([bad, request(2, "b"), request(1, "a"), request(1, "a")])
    assert isinstance(errors[0], MarcError)
    assert json.loads(errors[1])["seq"] == 1
    assert json.loads(errors[2])["seq"] == 2
    assert errors[3] == errors[2]


def test_an_id_that_comes_right_steps_in_its_place(memory):
    bad = request(1, "a")
    bad.keys["s"][:] = np.nan
    answers = memory.steps([bad, request(1, "a"), request(2, "b"), request(3, "dry", dry_run=True)])
    assert [json.loads(each)["seq"] for each in answers[1:3]] == [1, 2]
