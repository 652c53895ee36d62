"""The strongest keys against the memory as it was at each position, looked through one by one."""

import numpy as np
import pytest
from helpers.studies import tiny_stream

from marc.method import MARC
from marc.replay.lifetimes import History
from marc.replay.replay import admit
from marc.scores import kernel
from marc.types import Trajectory
from marc_paper.study.figures import dominant_keys
from marc_paper.study.figures.dominant_keys import _strongest_keys

CAPACITIES = (1, 2, 4, 16)


def slow(keys, trajectory, capacities):
    found = np.full((len(capacities), len(keys)), -1)
    for position, row in enumerate(trajectory.order):
        for place, capacity in enumerate(capacities):
            held = sorted(
                i for items in trajectory.retained(position, capacity).values() for i in items
            )
            if held:
                weights = [2 * kernel(np.float64([keys[i] @ keys[row]]), 5)[0] for i in held]
                found[place, row] = held[int(np.argmax(weights))]
    return found


@pytest.fixture(scope="module")
def stream():
    return tiny_stream("first", 0, n_views=1, n_images=150).shuffled(3)


@pytest.fixture(scope="module")
def trajectory(stream):
    [admitted] = admit(MARC("own"), [stream], [0])
    return admitted.trajectory


@pytest.mark.parametrize("block", [1, 700, 2**22])
@pytest.mark.parametrize("space", ["own", "best"])
def test_they_are_those_of_the_memory_at_each_position(
    stream, trajectory, space, block, monkeypatch
):
    monkeypatch.setattr(dominant_keys, "_BLOCK", block)
    keys = stream.features.keys(space)
    found = _strongest_keys(keys, History.trace(trajectory, CAPACITIES, stream.n_classes))
    np.testing.assert_array_equal(found, slow(keys, trajectory, CAPACITIES))
    assert (found[:, stream.order[0]] == -1).all()
    assert (found[:, stream.order[1:]] >= 0).all()
    assert (found[0] != found[-1]).any()


def test_equal_cosines_keep_the_lower_row(stream):
    keys = np.tile(np.float32([1, 0]), (len(stream), 1))
    labels = stream.row_labels[stream.order]
    trajectory = Trajectory(stream.order, labels, np.linspace(0, 1, len(stream)))
    history = History.trace(trajectory, CAPACITIES, stream.n_classes)
    expected = slow(keys, trajectory, CAPACITIES)
    np.testing.assert_array_equal(_strongest_keys(keys, history), expected)
