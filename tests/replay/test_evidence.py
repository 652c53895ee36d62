from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from marc.replay import evidence, halves
from marc.replay.lifetimes import History
from marc.types import Trajectory

N_ITEMS, N_CLASSES, DIM, CAPACITIES = 700, 4, 6, (1, 3, 10)


def two_orders(seed=0, dim=DIM):
    draw = np.random.default_rng(seed)
    keys = draw.standard_normal((N_ITEMS, dim)).astype(np.float32)
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


def choose(monkeypatch, way, window=1024, strip=128):
    monkeypatch.setattr(evidence, "_WINDOW", window)
    monkeypatch.setattr(evidence, "_STRIP", strip)
    monkeypatch.setattr(halves, "_STRIP", strip)
    monkeypatch.setattr(halves, "_PANEL", 3 * strip)
    monkeypatch.setattr(halves, "_COLUMNS", 2 * strip)
    monkeypatch.setattr(evidence, "_BLOCK", 40_000)
    monkeypatch.setattr(evidence, "_MANY", 0)
    monkeypatch.setattr(evidence, "_PIECE", 1)
    monkeypatch.setattr(evidence, "_cost_apart", lambda history: 1 if way == "apart" else 10**9)
    if way == "shared":
        monkeypatch.setattr(evidence, "_HELD", 0)


@pytest.mark.parametrize("way", ["halved", "shared", "apart"])
@pytest.mark.parametrize(("window", "strip"), [(64, 16), (1024, 128), (7, 3)])
def test_blocks_add_up_to_the_whole_masked_matrix(monkeypatch, way, window, strip):
    keys, histories = two_orders()
    choose(monkeypatch, way, window, strip)
    assert evidence.Plan.of(DIM, [history for history, _ in histories]).way == way
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


@pytest.mark.parametrize("way", ["shared", "apart"])
def test_pieces_in_any_order_are_the_whole_to_the_bit(monkeypatch, way):
    keys, histories = two_orders(dim=129)  # long sums: their last bits differ if anything does
    histories = [history for history, _ in histories]
    choose(monkeypatch, way, window=100, strip=32)
    values = evidence.KernelValues(keys, 2.0, 5.0)
    n_pieces = evidence.Plan.of(129, histories).n_pieces
    assert n_pieces > 3
    sums = np.full((3, 2, len(CAPACITIES), N_CLASSES, N_ITEMS), np.nan, dtype=np.float32)

    def keep(into, order, items, evidence):
        assert np.isnan(into[order][:, :, items]).all()
        into[order][:, :, items] = evidence

    for piece in range(n_pieces):
        evidence.read_all(values, histories, partial(keep, sums[0]), piece)
    for piece in reversed(range(n_pieces)):
        evidence.read_all(values, histories, partial(keep, sums[1]), piece)
    evidence.read_all(values, histories, partial(keep, sums[2]))
    assert not np.isnan(sums).any()
    np.testing.assert_array_equal(sums[0], sums[1])
    np.testing.assert_array_equal(sums[0], sums[2])


def test_small_streams_do_not_hold_the_sums_of_all_queries(monkeypatch):
    _, histories = two_orders()
    [small, _] = [history for history, _ in histories]
    assert evidence.Plan.of(DIM, [small]).way == "shared"
    monkeypatch.setattr(evidence, "_MANY", N_ITEMS)
    assert evidence.Plan.of(DIM, [small]).way == "halved"


@pytest.mark.parametrize("way", ["halved", "shared", "apart"])
def test_orders_may_differ_in_the_classes_of_their_items(monkeypatch, way):
    """As with refined labels; an order may also hold nothing at all."""
    keys, [(history, labels), _] = two_orders()
    nothing = Trajectory(np.arange(N_ITEMS), np.zeros(N_ITEMS, int), np.full(N_ITEMS, -np.inf))
    empty = History.trace(nothing, CAPACITIES, N_CLASSES)
    empty = replace(empty, items=empty.items[:0], last=empty.last[:, :0], starts=0 * empty.starts)
    choose(monkeypatch, way, window=100, strip=32)
    found = np.full((2, len(CAPACITIES), N_CLASSES, N_ITEMS), np.nan)

    def keep(order, items, sums):
        found[order][:, :, items] = sums

    evidence.read_all(evidence.KernelValues(keys, 2.0, 5.0), [empty, history], keep)
    assert (found[0] == 0).all()
    np.testing.assert_allclose(found[1], plain(keys, history, labels), rtol=1e-5, atol=1e-6)


def test_the_keys_of_items_that_stay_are_read_once(monkeypatch):
    keys, [(history, _), _] = two_orders()
    choose(monkeypatch, "apart", window=50)
    read = []

    class Rows:
        shape = keys.shape

        def __getitem__(self, rows):
            read.append(len(rows))
            return keys[rows]

    drop = lambda order, items, sums: None  # noqa: E731
    evidence.read_all(evidence.KernelValues(Rows(), 2.0, 5.0), [history], drop)
    assert sum(read) == N_ITEMS + len(history.items)  # each once as a query, and once as an item
