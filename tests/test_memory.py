import numpy as np
import pytest
from helpers import reference
from hypothesis import given
from hypothesis import strategies as st

from marc.errors import MarcError
from marc.memory import Memory, NegativeMemory

N_CLASSES, DIM = 4, 3

arrivals = st.lists(
    st.tuples(st.integers(0, N_CLASSES - 1), st.sampled_from([0.0, 0.25, 0.5, 0.5, 1.0])),
    max_size=60,
)


def keys_for(count):
    return reference.unit(np.random.default_rng(3).standard_normal((max(count, 1), DIM)))


def fill(memory, pairs):
    keys = keys_for(len(pairs)).astype(np.float32)
    return [
        memory.write(keys[item], label, priority, item)
        for item, (label, priority) in enumerate(pairs)
    ]


@given(arrivals, st.integers(0, 6))
def test_tied_priorities_are_kept_as_in_the_reference(pairs, capacity):
    memory, slow = Memory(N_CLASSES, capacity, DIM), {}
    keys = keys_for(len(pairs))
    query = keys_for(1)[0]
    for item, (label, priority) in enumerate(pairs):
        expected = reference.read(slow, query, N_CLASSES, 2.0, 5.0)
        np.testing.assert_allclose(memory.read(query.astype(np.float32)), expected, rtol=1e-5)
        entry = {"item": item, "key": keys[item], "priority": priority, "arrival": item}
        reference.write(slow, label, entry, capacity)
        stored = memory.write(keys[item].astype(np.float32), label, priority, item)
        held = {c: [e["item"] for e in entries] for c, entries in slow.items() if entries}
        assert memory.items == dict(sorted(held.items()))
        assert stored == (item in held.get(label, []))


@given(arrivals, st.integers(1, 6))
def test_reading_changes_nothing(pairs, capacity):
    memory = Memory(N_CLASSES, capacity, DIM)
    fill(memory, pairs)
    before = memory.state()
    first = memory.read(keys_for(1)[0].astype(np.float32))
    memory.neighbors(keys_for(1)[0].astype(np.float32), 5)
    assert np.array_equal(first, memory.read(keys_for(1)[0].astype(np.float32)))
    for name, array in memory.state().items():
        assert np.array_equal(array, before[name]), name


@given(arrivals, st.integers(0, 5))
def test_the_memory_is_bounded(pairs, capacity):
    memory = Memory(N_CLASSES, capacity, DIM)
    fill(memory, pairs)
    assert len(memory) <= N_CLASSES * capacity
    assert all(len(items) <= capacity for items in memory.items.values())
    assert len(memory.state()["keys"]) == len(memory)


@given(arrivals, arrivals, st.integers(1, 4))
def test_restoring_and_going_on_equals_never_stopping(first, second, capacity):
    whole, stopped = (Memory(N_CLASSES, capacity, DIM) for _ in range(2))
    fill(whole, first)
    fill(stopped, first)
    restored = Memory.from_state(stopped.state(), N_CLASSES, capacity)
    assert fill(whole, second) == fill(restored, second)
    query = keys_for(2)[1].astype(np.float32)
    assert np.array_equal(whole.read(query), restored.read(query))
    assert whole.items == restored.items


def test_an_empty_class_has_exactly_no_evidence():
    memory = Memory(3, 2, DIM)
    key = np.array([1, 0, 0], dtype=np.float32)
    assert np.array_equal(memory.read(key), np.zeros(3))
    memory.write(key, 1, 0.0, 7)
    assert np.array_equal(memory.read(key), [0.0, 2.0, 0.0])


def test_a_newcomer_that_ties_the_worst_is_rejected():
    memory = Memory(1, 2, DIM)
    assert fill(memory, [(0, 0.5), (0, 0.5), (0, 0.5)]) == [True, True, False]
    assert memory.items == {0: [0, 1]}


def test_of_equal_worst_items_the_later_arrival_goes():
    memory = Memory(1, 2, DIM)
    fill(memory, [(0, 0.5), (0, 0.5), (0, 1.0)])
    assert memory.items == {0: [2, 0]}


def test_neighbors_are_sorted_and_carry_their_votes():
    memory = Memory(N_CLASSES, 8, DIM)
    fill(memory, [(item % N_CLASSES, float(item)) for item in range(12)])
    query = keys_for(12)[4].astype(np.float32)
    found = memory.neighbors(query, 5)
    assert [n.similarity for n in found] == sorted((n.similarity for n in found), reverse=True)
    assert found[0].item == 4
    assert found[0].weight == pytest.approx(2.0, rel=1e-5)
    everyone = memory.neighbors(query, 100)
    votes = np.bincount([n.label for n in everyone], [n.weight for n in everyone], N_CLASSES)
    np.testing.assert_allclose(votes, memory.read(query), rtol=1e-5)


def test_the_memory_does_not_alias_the_key_it_was_given():
    memory = Memory(1, 1, DIM)
    key = np.array([1, 0, 0], dtype=np.float32)
    memory.write(key, 0, 0.0, 0)
    key[:] = 0
    assert memory.read(np.array([1, 0, 0], dtype=np.float32))[0] == pytest.approx(2.0)


def test_a_priority_that_is_no_number_is_refused_and_nothing_is_stored():
    memory = Memory(1, 1, DIM)
    with pytest.raises(MarcError, match="priority of item 9 is not a number"):
        memory.write(np.ones(DIM, np.float32), 0, float("nan"), 9)
    assert len(memory) == 0


def test_a_state_that_does_not_fit_is_refused():
    large = Memory(2, 3, DIM)
    fill(large, [(0, 1.0), (0, 2.0)])
    with pytest.raises(MarcError, match="does not fit"):
        Memory.from_state(large.state(), n_classes=2, capacity=1)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("keys", lambda keys: 2 * keys),
        ("keys", lambda keys: np.where(np.arange(DIM) == 1, np.nan, keys)),
        ("keys", lambda keys: keys[..., np.newaxis]),
        ("labels", lambda labels: labels - 1),
        ("labels", lambda labels: labels + 2**40),
        ("priorities", lambda priorities: priorities[::-1]),
        ("priorities", lambda priorities: priorities[:, np.newaxis]),
        ("items", lambda items: items[:-1]),
    ],
)
def test_a_state_that_no_memory_gave_is_refused(name, change):
    memory = Memory(2, 3, DIM)
    fill(memory, [(0, 1.0), (0, 2.0), (0, 3.0)])
    state = memory.state()
    with pytest.raises(ValueError, match=r"damaged|subscripts"):
        Memory.from_state({**state, name: change(state[name])}, n_classes=2, capacity=3)


@pytest.mark.parametrize(("n_classes", "dim"), [(10**9, 4), (2, 10**9)])
def test_a_size_that_no_memory_has_is_refused_unallocated(n_classes, dim):
    for kind in (lambda: Memory(n_classes, 3, dim), lambda: NegativeMemory(n_classes, dim)):
        with pytest.raises(MarcError, match="must be an integer <="):
            kind()
