"""Evidence for whole streams: masked kernel matrices, computed in blocks of queries.

After the lifetimes are known nothing depends on the order of computation. A block of queries
against all items ever held is one matrix product; which of its entries count, for each stream
order and each capacity, is a comparison of times. So one product per block serves every order and
every capacity, and nothing of size T x T or T x C x K is ever held.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from marc.replay.lifetimes import History
from marc.scores import Float, Int

_BLOCK = 2**24  # numbers in one block of similarities: 64 MiB
_STRIP = 128  # queries that one thread takes at a time, so that their sums stay in its cache
_WINDOW = 1024  # queries of a block when every order has its own

_Consumer = Callable[[int, Int, NDArray[np.float32]], None]
"""Takes (order, queries (Q,), evidence (capacities, C, Q)); called from several threads."""


class _PairValues(Protocol):
    """A value for each pair of item and query: matrix products, then something elementwise."""

    def to(self, items: Int) -> Callable[[Int], Float]:
        """The products (items, queries) as a function of the queries."""
        ...

    def finish(self, products: Float, values: Float) -> None:
        """From products to values, on a strip of queries."""
        ...


@dataclass(frozen=True)
class KernelValues:
    """alpha phi_beta(u) between items and queries: the summands of equation 3."""

    keys: NDArray[np.float32]
    """Unit features (N, D)."""
    alpha: float
    beta: float

    def to(self, items: Int) -> Callable[[Int], Float]:
        """Cosines; the items are gathered once for all queries."""
        gathered = self.keys[items]
        return lambda queries: gathered @ self.keys[queries].T

    def finish(self, products: Float, values: Float) -> None:
        """The kernel of equation 3 in three passes, as exp(beta u + (ln alpha - beta))."""
        if self.alpha == 0:
            values[:] = 0
            return
        np.multiply(products, np.float32(self.beta), out=values)
        values += np.float32(math.log(self.alpha) - self.beta)
        np.exp(values, out=values)


def read_all(values: _PairValues, histories: Sequence[History], consume: _Consumer) -> None:
    """Give every query of every order the evidence of all its capacities, block by block."""
    from marc.replay._kernels import sum_readable

    n_capacities, n_classes = len(histories[0].last), len(histories[0].starts) - 1

    def strip(task: _Task, products: Float, start: int) -> None:
        queries = task.queries[start : start + _STRIP]
        value = np.empty((len(products), len(queries)), dtype=np.float32)
        values.finish(products[:, start : start + _STRIP], value)
        sums = np.empty((n_capacities, n_classes, len(queries)), dtype=np.float32)
        for order, rows, history in task.orders:
            times = history.time[queries]
            sum_readable(value, times, rows, history.arrivals, history.last, history.starts, sums)
            consume(order, queries, sums)

    with ThreadPoolExecutor(n_threads()) as threads:
        for task in _plan(values, histories):
            products = task.products(task.queries)
            starts = range(0, len(task.queries), _STRIP)
            list(threads.map(lambda start: strip(task, products, start), starts))  # noqa: B023


@dataclass(frozen=True)
class _Task:
    """A block of queries, their products with the items they can read, and whom it serves."""

    queries: Int
    products: Callable[[Int], Float]
    orders: Sequence[tuple[int, Int, History]]
    """(order, row of each item of the history among the items of `products`, history)."""


def _plan(values: _PairValues, histories: Sequence[History]) -> Iterator[_Task]:
    """Share blocks between the orders, unless what is alive at a time is much less than all.

    Shared: every query against the union of all items ever held. Apart: the queries of a window of
    time against the items alive in it, order by order, whose number is bounded by C x K_max plus
    the window, so that the cost grows linearly with the stream.
    """
    n_queries = len(histories[0].time)
    union = _by_class(histories)
    apart = sum(_cost_apart(history) for history in histories)
    return (
        _shared(values, histories, union)
        if n_queries * len(union) <= apart
        else _apart(values, histories)
    )


def _by_class(histories: Sequence[History]) -> Int:
    """The items of all histories, class by class, so that the rows of a class lie together."""
    label = np.full(len(histories[0].time), -1)
    for history in histories:
        label[history.items] = np.repeat(
            np.arange(len(history.starts) - 1), np.diff(history.starts)
        )
    held = np.flatnonzero(label >= 0)
    return held[np.argsort(label[held], kind="stable")]


def _shared(values: _PairValues, histories: Sequence[History], union: Int) -> Iterator[_Task]:
    products = values.to(union)
    by_time = np.argsort(histories[0].time)  # in one order at least, a strip is a short time
    row = np.empty(len(by_time), dtype=np.int64)
    row[union] = np.arange(len(union))
    orders = [(order, row[history.items], history) for order, history in enumerate(histories)]
    size = max(1, _BLOCK // max(1, len(union)) // _STRIP) * _STRIP
    for start in range(0, len(by_time), size):
        yield _Task(by_time[start : start + size], products, orders)


def _apart(values: _PairValues, histories: Sequence[History]) -> Iterator[_Task]:
    for order, history in enumerate(histories):
        by_time = np.argsort(history.time)
        for start in range(0, len(by_time), _WINDOW):
            alive = history.between(start, start + _WINDOW)
            rows = np.arange(len(alive.items))
            queries = by_time[start : start + _WINDOW]
            yield _Task(queries, values.to(alive.items), [(order, rows, alive)])


def _cost_apart(history: History) -> int:
    """Products of `_apart`: for each window, its queries times the items alive in it."""
    starts = np.arange(0, len(history.time), _WINDOW)
    born = np.searchsorted(np.sort(history.arrivals), starts + _WINDOW - 1)
    gone = np.searchsorted(np.sort(history.last[-1]), starts)
    return int((born - gone).sum()) * _WINDOW


def n_threads() -> int:
    """Cores that this process may use, which may be fewer than the computer has."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system knows
        return os.cpu_count() or 1
