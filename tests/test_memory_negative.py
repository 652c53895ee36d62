"""The negative memory on its own, against lists."""

import numpy as np
import pytest

from marc.memory import NegativeMemory, NegativeRule


def offers(seed, n_images=60, n_classes=6, dim=4):
    """Keys, labels, posteriors, and entropies that often repeat."""
    draw = np.random.default_rng(seed)
    keys = draw.standard_normal((n_images, dim)).astype(np.float32)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    entropies = np.round(draw.uniform(0, 2, n_images), 1)
    posteriors = draw.dirichlet(np.full(n_classes, 0.3), n_images)
    return list(zip(keys, draw.integers(n_classes, size=n_images), entropies, posteriors))  # noqa: B905


def keep(entries, entry, rule):
    if rule.eviction == "age":
        entries.append(entry)
        del entries[: max(0, len(entries) - rule.capacity)]
    elif len(entries) < rule.capacity:
        entries.append(entry)
    elif entries and entry[2] < entries[-1][2]:
        entries[-1] = entry
    if rule.eviction == "entropy":
        entries.sort(key=lambda held: held[2])


RULES = [
    NegativeRule(),
    NegativeRule(eviction="age"),
    NegativeRule(capacity=1, beta=3.0),
    NegativeRule(capacity=4, band=(0.0, 1.0), mask=(0.0, 0.5), eviction="age"),
    NegativeRule(capacity=0),
    NegativeRule(capacity=0, eviction="age"),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_it_keeps_and_votes_like_plain_lists(rule):
    memory, lists = NegativeMemory(6, 4, rule), [[] for _ in range(6)]
    for seen, (key, label, entropy, posterior) in enumerate(offers(0)):
        memory.write(key, label, entropy, posterior)
        if rule.admits(entropy, 6):
            keep(lists[label], (key, label, entropy, posterior), rule)
        expected = np.zeros(6)
        for entries in lists:
            for held, _, _, plausible in entries:
                voted = (rule.mask[0] < plausible) & (plausible < rule.mask[1])
                expected += voted * np.exp(-rule.beta * (1 - float(held @ key)))
        np.testing.assert_allclose(memory.read(key), expected, rtol=1e-5, atol=1e-6)
        if seen == 30:
            memory = NegativeMemory.from_state(memory.state(), rule)
    assert sum(map(len, lists)) == np.count_nonzero(memory.state()["arrival"])
    assert bool(rule.capacity) == bool(memory.read(key).any())


def test_a_restored_memory_reads_to_the_bit_what_it_read():
    """Also where a forgotten item had voted against more classes than any that is left."""
    rule = NegativeRule(capacity=1, band=(0.0, 1.0), eviction="age")
    memory = NegativeMemory(6, 4, rule)
    memory.write(np.full(4, 0.5, dtype=np.float32), 0, 0.5, np.full(6, 1 / 6))
    assert memory.read(np.full(4, 0.5, dtype=np.float32)).all()
    narrow = np.array([0.9, 0.1, 0, 0, 0, 0])
    memory.write(np.full(4, 0.5, dtype=np.float32), 0, 0.5, narrow)
    restored = NegativeMemory.from_state(memory.state(), rule)
    for key, *_ in offers(1):
        assert np.array_equal(memory.read(key), restored.read(key))
        assert np.flatnonzero(memory.read(key)).tolist() == [0, 1]


def test_classes_with_the_same_voters_tie_exactly():
    draw = np.random.default_rng(2)
    memory = NegativeMemory(37, 4, NegativeRule(band=(0.0, 1.0)))
    for key, label, entropy, posterior in offers(3, 400, 37):
        posterior[[1, 36]] = draw.choice([0.0, 0.2])
        memory.write(key, label, entropy, posterior)
        read = memory.read(key)
        assert read[1] == read[36]
    assert read[1] > 0
