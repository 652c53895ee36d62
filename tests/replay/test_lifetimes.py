import numpy as np
import pytest
from helpers import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from marc.errors import MarcError
from marc.replay.lifetimes import History, check_capacities, lifetimes
from marc.types import Trajectory

N_CLASSES = 3
streams = st.lists(
    st.tuples(st.integers(0, N_CLASSES - 1), st.sampled_from([0.0, 0.5, 0.5, 0.75, 1.0])),
    min_size=1,
    max_size=80,
)


def arrays(pairs):
    return np.array([label for label, _ in pairs]), np.array([priority for _, priority in pairs])


@given(streams, st.sets(st.integers(1, 64), min_size=1, max_size=8))
def test_lifetimes_equal_those_of_a_simulated_memory(pairs, chosen):
    labels, priorities = arrays(pairs)
    capacities = sorted(chosen)
    last = lifetimes(labels, priorities, capacities, N_CLASSES)
    for row, capacity in zip(last, capacities, strict=True):
        assert row.tolist() == list(reference.lifetimes(labels, priorities, capacity))


@given(streams)
def test_capacities_are_nested(pairs):
    last = lifetimes(*arrays(pairs), range(1, 65), N_CLASSES)
    assert (np.diff(last, axis=0) >= 0).all()


@given(streams, st.integers(1, 8))
def test_what_is_readable_is_what_the_trajectory_retains(pairs, capacity):
    labels, priorities = arrays(pairs)
    order = np.random.default_rng(0).permutation(len(labels))
    trajectory = Trajectory(order, labels, priorities)
    last = lifetimes(labels, priorities, [capacity], N_CLASSES)[0]
    for t in range(len(labels) + 1):
        arrivals = np.arange(len(labels))
        readable = order[(arrivals < t) & (t <= last)]
        retained = trajectory.retained(t, capacity)
        assert sorted(readable) == sorted(item for items in retained.values() for item in items)
        larger = trajectory.retained(t, capacity + 1)
        assert all(set(items) <= set(larger[label]) for label, items in retained.items())


@settings(max_examples=30)
@given(streams, st.integers(1, 5), st.integers(0, 79), st.integers(1, 40))
def test_a_window_keeps_all_that_its_queries_can_read(pairs, capacity, first, length):
    labels, priorities = arrays(pairs)
    order = np.random.default_rng(1).permutation(len(labels))
    history = History.trace(Trajectory(order, labels, priorities), [1, capacity + 1], N_CLASSES)
    window = history.between(first, first + length)
    for t in range(first, min(first + length, len(labels))):
        for k in range(2):
            whole = history.items[(history.arrivals < t) & (t <= history.last[k])]
            part = window.items[(window.arrivals < t) & (t <= window.last[k])]
            assert np.array_equal(whole, part)
    for c in range(N_CLASSES):
        items = window.items[window.starts[c] : window.starts[c + 1]]
        assert (labels[window.time[items]] == c).all()


def test_items_that_no_capacity_admits_are_dropped():
    trajectory = Trajectory(np.arange(4), np.zeros(4, int), np.array([3.0, 2.0, 1.0, 4.0]))
    history = History.trace(trajectory, [1], 1)
    assert history.items.tolist() == [0, 3]


def test_a_priority_that_is_no_number_is_refused():
    with pytest.raises(MarcError, match="priority is not a number"):
        lifetimes(np.array([0, 0]), np.array([1.0, np.nan]), [1], 1)


@pytest.mark.parametrize("bad", [(), (0,), (2, 1), (1, 1), (1.5,), (True,), ("8",)])
def test_odd_capacities_are_refused(bad):
    with pytest.raises(MarcError, match=r"capacit"):
        check_capacities(bad)
