"""Evidence for whole streams: masked kernel matrices, computed in blocks.

After the lifetimes are known nothing depends on the order of computation. A block of queries
against all items ever held is one matrix product; which of its entries count, for each stream
order and each capacity, is a comparison of times. So one product serves every order and every
capacity, and nothing of size T x T is ever held. `Plan` chooses among three ways:

- halved: a product of two images serves both, each as the other's item. The sums of all queries
  are held, which only pays for streams of thousands.
- shared: each block of queries against all items; its sums are done when it is.
- apart: order by order, the queries of a window of time against the items alive in it, whose
  number is bounded, so that time grows linearly with the stream.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from marc.replay.halves import read_halved
from marc.replay.lifetimes import History
from marc.scores import Float, Int

_BLOCK = 2**24  # numbers in one block of similarities: 64 MiB
_STRIP = 128  # queries that one thread takes at a time, so that their sums stay in its cache
_WINDOW = 1024  # queries of a block when every order has its own
_HELD = 2**27  # numbers of sums that may be held at a time: 512 MiB
_MANY = 2**11  # queries for which half of the products saves more than to hold all sums costs
_PIECE = 2**41  # multiplications in a piece of a plan: half a minute on two cores

_Sums = NDArray[np.float32]
_Consumer = Callable[[int, Int, _Sums], None]
"""Takes (order, queries (Q,), evidence (capacities, C, Q)); called from several threads."""


class Keys(Protocol):
    """Unit features (N, D): an array, or what reads rows of one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, D)."""

    def __getitem__(self, rows: Any, /) -> NDArray[np.float32]: ...


class PairValues(Protocol):
    """A value for each pair of item and query: a product of their rows, then something elementwise.

    The value of two images is the same whichever of them is the item.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, D) of the rows that are multiplied."""

    def rows(self, images: Int) -> _Sums:
        """What of some images is multiplied, (n, D)."""

    def multiply(self, items: _Sums, queries: _Sums) -> _Sums:
        """The products (items, queries) of their rows."""

    def finish(self, products: Float) -> None:
        """From products to values, in place."""


@dataclass(frozen=True)
class KernelValues:
    """alpha phi_beta(u) between items and queries: the summands of equation 3."""

    keys: Keys
    alpha: float
    beta: float

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, D)."""
        return self.keys.shape

    def rows(self, images: Int) -> _Sums:
        """The keys of some images."""
        return self.keys[images]

    def multiply(self, items: _Sums, queries: _Sums) -> _Sums:
        """Cosines."""
        return items @ queries.T

    def finish(self, products: Float) -> None:
        """The kernel of equation 3, as exp(beta u + (ln alpha - beta))."""
        if self.alpha == 0:
            products[:] = 0
            return
        products *= np.float32(self.beta)
        products += np.float32(math.log(self.alpha) - self.beta)
        np.exp(products, out=products)


def read_all(
    values: PairValues,
    histories: Sequence[History],
    consume: _Consumer,
    piece: int | None = None,
) -> None:
    """Give queries of every order the evidence of all their capacities, block by block.

    Of all queries, or of one `piece` of the plan: pieces can be computed anywhere, in any order.
    """
    plan = Plan.of(values.shape[1], histories)
    with ThreadPoolExecutor(n_threads()) as threads:
        if plan.way == "halved":
            items = by_class(histories)
            read_halved(values, histories, items, consume, threads)
            return
        tasks = _shared if plan.way == "shared" else _apart
        for task in tasks(values, histories, plan, piece):
            products = task.products()
            starts = range(0, len(task.queries), _STRIP)
            list(threads.map(partial(_read_strip, values, consume, task, products), starts))


@dataclass(frozen=True)
class Plan:
    """How the evidence of some histories is computed; decided by their sizes alone."""

    way: str
    """`halved`, `shared` or `apart`."""
    task: int
    """Queries of a task: all, a block of them, or a window of time of one order."""
    n_tasks: int
    n_pieces: int
    """Parts of the work that do not depend on each other, about as large each."""

    @classmethod
    def of(cls, dim: int, histories: Sequence[History]) -> Plan:
        """The way of the fewest products that the memory allows."""
        n_queries, n_items = len(histories[0].time), len(by_class(histories))
        together = n_queries * n_items
        apart = sum(_cost_apart(history) for history in histories)
        sums = sum(history.last.shape[0] * (len(history.starts) - 1) for history in histories)
        if together > apart:
            windows = len(histories) * math.ceil(n_queries / _WINDOW)
            return cls("apart", _WINDOW, windows, _n_pieces(apart * dim, windows))
        if n_queries >= _MANY and n_queries * sums <= _HELD:
            return cls("halved", n_queries, 1, 1)
        size = max(1, _BLOCK // max(1, n_items) // _STRIP) * _STRIP
        blocks = math.ceil(n_queries / size)
        return cls("shared", size, blocks, _n_pieces(together * dim, blocks))

    def tasks(self, piece: int | None) -> range:
        """The tasks of a piece, or all."""
        if piece is None:
            return range(self.n_tasks)
        return range(*(self.n_tasks * each // self.n_pieces for each in (piece, piece + 1)))

    def windows(self, piece: int | None, n_orders: int) -> Iterator[tuple[int, range]]:
        """Where the windows of a piece start, order by order; of work that is done apart."""
        tasks, per_order = self.tasks(piece), self.n_tasks // n_orders
        for order in range(n_orders):
            first, stop = order * per_order, (order + 1) * per_order
            own = range(max(tasks.start, first) - first, min(tasks.stop, stop) - first)
            yield order, range(own.start * self.task, own.stop * self.task, self.task)


def _n_pieces(multiplications: int, n_tasks: int) -> int:
    return max(1, min(n_tasks, multiplications // _PIECE))


@dataclass(frozen=True)
class _Task:
    """A block of queries, their products with items, and whom it serves."""

    queries: Int
    products: Callable[[], _Sums]
    """Cosines (items, queries)."""
    orders: Sequence[tuple[int, History, Int, Int]]
    """(order, history, row of each of its items among those of `products`, their classes)."""


def _read_strip(
    values: PairValues, consume: _Consumer, task: _Task, products: _Sums, start: int
) -> None:
    """Sums of some queries of a block, for every order that it serves."""
    from marc.replay._kernels import add_readable, sum_over_capacities

    queries = task.queries[start : start + _STRIP]
    value = products[:, start : start + _STRIP].copy()
    values.finish(value)
    for order, history, rows, labels in task.orders:
        sums = np.zeros((len(history.last), len(history.starts) - 1, len(queries)), np.float32)
        times = history.time[queries]
        add_readable(value, times, rows, labels, history.arrivals, history.last, sums)
        sum_over_capacities(sums)
        consume(order, queries, sums)


def _shared(
    values: PairValues, histories: Sequence[History], plan: Plan, piece: int | None
) -> Iterator[_Task]:
    union = by_class(histories)
    items = values.rows(union)
    by_time = np.argsort(histories[0].time)  # in one order at least, a strip is a short time
    rows = np.empty(len(by_time), dtype=np.int64)
    rows[union] = np.arange(len(union))
    orders = [
        (order, history, rows[history.items], history.labels)
        for order, history in enumerate(histories)
    ]
    for block in plan.tasks(piece):
        queries = by_time[block * plan.task :][: plan.task]
        yield _Task(queries, partial(_multiplied, values, items, queries), orders)


def _multiplied(values: PairValues, items: _Sums, queries: Int) -> _Sums:
    return values.multiply(items, values.rows(queries))


def _apart(
    values: PairValues, histories: Sequence[History], plan: Plan, piece: int | None
) -> Iterator[_Task]:
    for order, starts in plan.windows(piece, len(histories)):
        history, alive_keys = histories[order], _AliveKeys(values)
        by_time = np.argsort(history.time)
        for start in starts:
            alive = history.between(start, start + plan.task)
            queries = by_time[start : start + plan.task]
            alive_keys.keep(alive.items)
            rows, products = np.arange(len(alive.items)), partial(alive_keys.products, queries)
            yield _Task(queries, products, [(order, alive, rows, alive.labels)])


class _AliveKeys:
    """Keys of the items alive in a window of time: those that stay are not read again."""

    def __init__(self, values: PairValues) -> None:
        n_items, dim = values.shape
        self._values = values
        self._row = np.full(n_items, -1)  # of each item among `_rows`, -1 if it is not there
        self._items: Int = np.empty(0, dtype=np.int64)
        self._rows = np.empty((0, dim), dtype=np.float32)

    def keep(self, items: Int) -> None:
        """Hold the rows of these items (n,) and of no others, in their order.

        Products then depend on the window alone: not even their last bits on windows before it.
        """
        rows = np.empty((len(items), self._rows.shape[1]), dtype=np.float32)
        there = self._row[items]
        stays = there >= 0
        rows[stays] = self._rows[there[stays]]
        rows[~stays] = self._values.rows(items[~stays])
        self._row[self._items] = -1
        self._row[items] = np.arange(len(items))
        self._items, self._rows = items, rows

    def products(self, queries: Int) -> _Sums:
        """Cosines (items, queries)."""
        return _multiplied(self._values, self._rows, queries)


def by_class(histories: Sequence[History]) -> Int:
    """The items of all histories, class by class, so that the rows of a class lie together."""
    label = np.full(len(histories[0].time), -1)
    for history in histories:
        label[history.items] = history.labels
    held = np.flatnonzero(label >= 0)
    return held[np.argsort(label[held], kind="stable")]


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
