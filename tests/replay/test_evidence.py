import numpy as np
import pytest

from marc.replay import evidence
from marc.replay.lifetimes import History
from marc.types import Trajectory

N_ITEMS, N_CLASSES, DIM, CAPACITIES = 700, 4, 6, (1, 3, 10)


def two_orders(seed=0):
    draw = np.random.default_rng(seed)
    keys = draw.standard_normal((N_ITEMS, DIM)).astype(np.float32)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    histories = []
    for _ in range(2):
        order = draw.permutation(N_ITEMS)
        labels, priorities = draw.integers(N_CLASSES, size=N_ITEMS), draw.random(N_ITEMS)
        trajectory = Trajectory(order, labels, priorities)
        histories.append((History.trace(trajectory, CAPACITIES, N_CLASSES), labels))
    return keys, histories


def plain(keys, history, labels):
    """The masked kernel matrix, whole: what the blocks must add up to."""
    values = 2.0 * np.exp(5.0 * (keys.astype(np.float64) @ keys.T - 1.0))
    total = np.zeros((len(CAPACITIES), N_CLASSES, N_ITEMS))
    for place, item in enumerate(history.items):
        for k in range(len(CAPACITIES)):
            readers = (history.time > history.time[item]) & (history.time <= history.last[k, place])
            total[k, labels[history.time[item]]] += values[item] * readers
    return total


@pytest.mark.parametrize("plan", ["_shared", "_apart", "either"])
@pytest.mark.parametrize(("window", "strip"), [(64, 16), (1024, 128), (7, 3)])
def test_blocks_add_up_to_the_whole_masked_matrix(monkeypatch, plan, window, strip):
    keys, histories = two_orders()
    monkeypatch.setattr(evidence, "_WINDOW", window)
    monkeypatch.setattr(evidence, "_STRIP", strip)
    monkeypatch.setattr(evidence, "_BLOCK", 40_000)
    if plan == "_shared":
        monkeypatch.setattr(evidence, "_cost_apart", lambda history: 10**18)
    if plan == "_apart":
        monkeypatch.setattr(evidence, "_cost_apart", lambda history: 0)
    found = np.full((2, len(CAPACITIES), N_CLASSES, N_ITEMS), np.nan)

    def keep(order, items, sums):
        assert np.isnan(found[order][:, :, items]).all()  # each query once
        found[order][:, :, items] = sums

    values = evidence.KernelValues(keys, 2.0, 5.0)
    evidence.read_all(values, [history for history, _ in histories], keep)
    for order, (history, labels) in enumerate(histories):
        np.testing.assert_allclose(found[order], plain(keys, history, labels), rtol=1e-5, atol=1e-6)


def test_what_is_alive_is_cheaper_once_the_stream_is_long():
    draw = np.random.default_rng(0)
    n_items = 40_000
    priorities = np.arange(n_items, dtype=float)  # first in, first out: everything is admitted
    trajectory = Trajectory(np.arange(n_items), draw.integers(2, size=n_items), priorities)
    history = History.trace(trajectory, (4,), 2)
    assert evidence._cost_apart(history) < n_items * len(history.items) / 10


def test_a_long_stream_counts_exactly_the_items_alive_in_each_window(monkeypatch):
    monkeypatch.setattr(evidence, "_WINDOW", 50)
    _, [(history, _), _] = two_orders()
    alive = [len(history.between(start, start + 50).items) for start in range(0, N_ITEMS, 50)]
    assert evidence._cost_apart(history) == 50 * sum(alive)


def test_an_error_in_a_thread_reaches_the_caller():
    keys, [(history, _), _] = two_orders()

    def fail(order, items, sums):
        raise RuntimeError("not this block")

    with pytest.raises(RuntimeError, match="not this block"):
        evidence.read_all(evidence.KernelValues(keys, 2.0, 5.0), [history], fail)
