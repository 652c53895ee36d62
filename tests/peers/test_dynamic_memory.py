"""The dynamic memory: what it keeps, and that its shortcut equals the vectors it does not form."""

import numpy as np
import pytest

from marc.errors import MarcError
from marc.peers.dynamic_memory import DynamicMemory, Slots
from marc.scores import unit


def direct(text, stored, query, beta):
    """Cosines and unit class vectors, formed one by one in float64."""
    cosines, vectors = [], []
    for label in range(len(text)):
        total = np.zeros(text.shape[1])
        for entry in [*stored[label], text[label]]:
            entry = np.array(entry, dtype=np.float64)
            entry = entry / np.sqrt((entry * entry).sum())
            total = total + np.exp(-beta * (1 - (query.astype(np.float64) * entry).sum())) * entry
        vectors.append(total / np.sqrt((total * total).sum()))
        cosines.append((vectors[-1] * query).sum())
    return np.array(cosines), np.array(vectors)


def filled(seed, n_classes=6, capacity=4, dim=12, n_images=60, beta=5.5, scale=1.0):
    """A memory after `n_images` offers, and what the released rule stored, class by class."""
    draw = np.random.default_rng(seed)
    text = unit(draw.standard_normal((n_classes, dim)))
    memory = DynamicMemory(text, capacity, beta=beta)
    stored, entropies = [[] for _ in text], [[] for _ in text]
    for item in range(n_images):
        feature = scale * draw.standard_normal(dim).astype(np.float32)
        label = int(draw.integers(n_classes - 1))  # the last class stays empty
        entropy = float(draw.integers(5))  # many ties
        kept = memory.write(feature, label, entropy, item)
        if len(stored[label]) < capacity:
            stored[label].append(feature)
            entropies[label].append(entropy)
        elif any(other > entropy for other in entropies[label]):
            slot = entropies[label].index(max(entropies[label]))
            stored[label][slot], entropies[label][slot] = feature, entropy
        else:
            assert not kept
    return memory, stored, entropies


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beta", [0.0, 5.5, 60.0])
def test_the_shortcut_equals_the_vectors_formed_directly(seed, beta):
    memory, stored, _ = filled(seed, beta=beta, scale=(1.0, 0.1, 30.0, 1.0)[seed])
    draw = np.random.default_rng(seed + 100)
    for _ in range(10):
        query = unit(draw.standard_normal(12))
        attention = memory.read(query, memory.text @ query)
        cosines, vectors = direct(memory.text, stored, query, beta)
        assert np.abs(attention.cosines - cosines).max() < 3e-6
        assert np.abs(memory.vectors(attention) - vectors).max() < 3e-6


def test_a_large_beta_neither_overflows_nor_vanishes():
    memory, stored, _ = filled(0, beta=5000.0)
    query = memory.slots.of_class("keys", 2)[1]
    attention = memory.read(query, memory.text @ query)
    assert attention.cosines[2] == pytest.approx(1, abs=1e-6)  # the stored image itself
    nearest = [max([*(unit(v) @ query for v in stored[c]), memory.text[c] @ query]) for c in (0, 1)]
    assert attention.cosines[:2] == pytest.approx(nearest, abs=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_the_slot_of_highest_entropy_goes_and_the_first_among_equals(seed):
    memory, stored, entropies = filled(seed)
    for label, features in enumerate(stored):
        keys = memory.slots.of_class("keys", label)
        assert memory.slots.of_class("entropies", label).tolist() == entropies[label]
        assert len(keys) == len(features)
        assert all(np.array_equal(k, unit(f)) for k, f in zip(keys, features, strict=True))


def test_a_tie_keeps_the_earlier_image():
    memory = DynamicMemory(np.eye(2, dtype=np.float32), 2)
    feature = np.array([0.6, 0.8], dtype=np.float32)
    assert [memory.write(feature, 0, 1.0, item) for item in range(3)] == [True, True, False]
    assert memory.write(feature, 0, 0.5, 3)
    assert memory.slots.of_class("items", 0).tolist() == [3, 1]
    assert memory.write(feature, 0, 0.75, 4)  # not the lowest, but below the highest
    assert memory.slots.of_class("items", 0).tolist() == [3, 4]


def test_a_class_without_images_is_its_text_to_the_bit():
    memory, _, _ = filled(1)
    query = unit(np.random.default_rng(0).standard_normal(12))
    attention = memory.read(query, memory.text @ query)
    assert memory.holds_images.tolist() == [True] * 5 + [False]
    assert np.array_equal(memory.vectors(attention)[-1], memory.text[-1])
    assert attention.cosines[-1] == pytest.approx(memory.text[-1] @ query, abs=1e-6)


def test_entries_that_cancel_out_have_no_direction():
    memory = DynamicMemory(np.array([[1, 0], [0, 1]], dtype=np.float32), 1)
    memory.write(np.array([-1, 0], dtype=np.float32), 0, 0.0, 0)
    query = np.array([0, 1], dtype=np.float32)
    assert memory.read(query, memory.text @ query).cosines.tolist() == [0, 1]


def test_rows_grow_with_what_is_filled_and_not_past_the_capacity():
    memory = DynamicMemory(unit(np.random.default_rng(0).standard_normal((1000, 8))), 50)
    assert sum(array.nbytes for array in memory.state().values()) < 50_000
    draw = np.random.default_rng(1)
    for item in range(200):
        memory.write(draw.standard_normal(8).astype(np.float32), 7, -float(item), item)
    state = memory.state()
    assert len(state["keys"]) == len(memory.slots) == 50
    assert state["inner"].shape == (1000, 51, 51)


def test_reading_changes_nothing_and_a_state_goes_on():
    memory, _, _ = filled(2)
    before = memory.state()
    query = unit(np.random.default_rng(0).standard_normal(12))
    read = memory.read(query, memory.text @ query)
    memory.vectors(read)
    again = DynamicMemory.from_state(before, 4, beta=5.5)
    for other in (memory, again):
        other.write(query, 3, -1.0, 99)
    assert all(np.array_equal(memory.state()[name], again.state()[name]) for name in before)
    assert any(not np.array_equal(memory.state()[name], before[name]) for name in before)
    first, second = memory.read(query, read.cosines), again.read(query, read.cosines)
    assert np.array_equal(first.cosines, second.cosines)


def test_a_state_that_does_not_fit_is_refused():
    memory, _, _ = filled(2)
    with pytest.raises(MarcError, match="does not fit"):
        Slots.from_state(memory.slots.state(), 6, 2)
    with pytest.raises(MarcError, match="capacity"):
        DynamicMemory(memory.text, 0)
