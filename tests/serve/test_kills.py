"""`marc serve` killed at random moments under clients: everything it promised is there."""

import copy

import pytest

from benchmarks.serving.clients import MEMORIES
from benchmarks.serving.twin import compare
from benchmarks.serving_kills import SNAPSHOT_EVERY, kill_often

_SEED = 5


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A folder of memories whose server was killed nine times, and what came out."""
    scratch = tmp_path_factory.mktemp("killed")
    return scratch, kill_often(scratch, 9, 8, _SEED, "process")


def test_everything_acknowledged_survives_kills_and_equals_an_uninterrupted_twin(killed):
    _, outcome = killed
    assert outcome.problems == []
    assert outcome.kinds == {"running": 6, "starting": 2, "draining": 1}
    assert outcome.book.counts["cut off"] > 8  # the kills came while clients waited
    assert all(len(steps) > 10 for steps in outcome.book.steps.values())
    assert all(outcome.book.labels.values())
    assert sum(each.steps for each in outcome.compared) > 2 * SNAPSHOT_EVERY
    assert sum(each.near_ties for each in outcome.compared) == 0


def test_the_same_with_every_commit_synced(tmp_path):
    outcome = kill_often(tmp_path, 3, 8, _SEED, "power")
    assert outcome.problems == []
    assert outcome.kinds == {"running": 1, "starting": 1, "draining": 1}
    assert all(outcome.book.steps.values())


def lose_a_step(book, memory):
    book.steps[memory]["9-1"] = b"an answer that was acknowledged"


def change_an_answer(book, memory):
    name = next(iter(book.steps[memory]))
    book.steps[memory][name] += b" "


def lose_a_label(book, memory):
    book.labels[memory]["9-1"] = 0


def change_a_label(book, memory):
    name = next(iter(book.labels[memory]))
    book.labels[memory][name] += 1


def change_the_mode(book, memory):
    book.modes[memory] = "none of them"


@pytest.mark.parametrize(
    "spoil", [lose_a_step, change_an_answer, lose_a_label, change_a_label, change_the_mode]
)
def test_a_broken_promise_is_noticed(killed, tmp_path, spoil):
    scratch, outcome = killed
    book = copy.copy(outcome.book)
    for name in ("steps", "labels", "modes"):
        setattr(book, name, copy.deepcopy(getattr(book, name)))
    memory = "fixed"
    spoil(book, memory)
    found = compare(scratch / "data" / "memories" / memory, tmp_path / "twin", _SEED, book,
                    SNAPSHOT_EVERY)  # fmt: skip
    assert len(found.problems) == 1


@pytest.mark.parametrize("memory", MEMORIES)
def test_a_twin_that_saw_other_images_is_noticed(killed, tmp_path, memory):
    scratch, outcome = killed
    found = compare(scratch / "data" / "memories" / memory, tmp_path / "twin", _SEED + 1,
                    outcome.book, SNAPSHOT_EVERY)  # fmt: skip
    assert len(found.problems) > 10
    assert any("twin" in problem for problem in found.problems)
