"""Samples are few, bounded, and each is sent once."""

import pytest
from helpers.serving import request, served, step

from marc.serve.memory.samples import MOST


@pytest.fixture
def memory(tmp_path):
    with_close = served(tmp_path / "m")
    yield with_close
    with_close.close()


def test_steps_that_follow_closely_are_no_samples(memory):
    for image in range(5):
        step(memory, image)
    assert [each["id"] for each in memory.samples.unsent()] == ["0"]
    assert memory.samples.unsent() == []
    memory.samples._taken -= 1
    memory.steps([request(image) for image in (10, 11, 12)])
    assert [each["id"] for each in memory.samples.unsent()] == ["10"]


def test_samples_are_bounded_and_newest_first(memory):
    for image in range(MOST + 9):
        memory.samples._taken = -1.0
        step(memory, image)
    latest = memory.samples.last(MOST, memory.seq)
    assert [each["seq"] for each in latest] == list(range(MOST + 9, 9, -1))
    assert [each["seq"] for each in memory.samples.unsent()] == list(range(10, MOST + 10))


def test_a_sample_knows_which_neighbours_have_a_picture(memory):
    step(memory, 1, thumbnail=b"small")
    memory.samples._taken = -1.0
    step(memory, 2)
    memory.samples._taken = -1.0
    step(memory, 1, name="again")
    last, before, first = memory.samples.last(3, memory.seq)
    assert (first["picture"], before["picture"]) == (True, False)
    pictures = {each["id"]: each["picture"] for each in last["neighbours"]["s"]}
    assert pictures["1"] is True


def test_without_samples_there_are_the_last_steps(memory):
    assert memory.samples.last(3, 0) == []
    for image in range(4):
        step(memory, image)
    memory.samples._latest.clear()
    assert [each["id"] for each in memory.samples.last(2, memory.seq)] == ["3", "2"]
