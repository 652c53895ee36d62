"""Evidence from half of the products: the cosine of two images serves each as the other's item.

Which of two images arrived first differs from order to order, so a product of all images with all
is used from both sides. Items lie class by class, in panels. A panel is multiplied with everything
behind its start, once; its items are then added to the sums of the images behind, and the items
behind to the sums of its own images, from the transposed product.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from marc.replay.lifetimes import History
from marc.scores import Float, Int

if TYPE_CHECKING:
    from marc.replay.evidence import PairValues

_STRIP = 128  # queries that one thread takes at a time
_PANEL = 4 * _STRIP  # items of one product
_COLUMNS = 4 * _STRIP  # images of a product that one thread makes

_Sums = NDArray[np.float32]


def read_halved(
    values: PairValues,
    histories: Sequence[History],
    items: Int,
    consume: Callable[[int, Int, _Sums], None],
    threads: ThreadPoolExecutor,
) -> None:
    """Give every query of every order its evidence, as `marc.replay.evidence.read_all` does.

    `items` (n,) are all that are ever held.
    """
    from threadpoolctl import threadpool_limits

    from marc.replay._kernels import sum_over_capacities

    held = np.zeros(len(histories[0].time), dtype=bool)
    held[items] = True
    rows = np.concatenate([items, np.flatnonzero(~held)])
    own = values.rows(rows)
    orders = [_Order.of(history, rows, len(items)) for history in histories]
    # these threads take the cores; those of BLAS would wait for their turn at full speed
    with threadpool_limits(1, "blas"):
        for start, stop in pairwise([*range(0, len(items), _PANEL), len(items)]):
            panel = np.empty((stop - start, len(rows) - start), dtype=np.float32)
            behind = _behind(values, own, panel, orders, start)
            list(threads.map(behind, range(start, len(rows), _COLUMNS)))
            if stop < len(items):
                list(threads.map(_within(panel, orders, start), range(start, stop, _STRIP)))

    def done(strip: int) -> None:
        images = rows[strip * _STRIP :][:_STRIP]
        for order, each in enumerate(orders):
            sum_over_capacities(each.sums[strip])
            consume(order, images, each.sums[strip])

    list(threads.map(done, range(len(orders[0].sums))))


@dataclass(frozen=True)
class _Order:
    """A history by rows, items first, and the sums of all queries so far."""

    time: NDArray[np.int32]
    """Of each row, (N,); of an item also its arrival."""
    labels: Int
    """Classes of the items, (n,)."""
    last: NDArray[np.int32]
    """Last readers of the items, (capacities, n); of one that is never held its arrival."""
    sums: list[_Sums]
    """(capacities, C, queries) of each strip of rows."""

    @classmethod
    def of(cls, history: History, rows: Int, n_items: int) -> _Order:
        labels, last = history.over(rows[:n_items])
        n_sums = len(history.last), len(history.starts) - 1
        # in one piece: the system gives large arrays large pages, and each is touched often
        room = np.zeros(math.prod(n_sums) * len(rows), dtype=np.float32)
        widths = [min(_STRIP, len(rows) - start) for start in range(0, len(rows), _STRIP)]
        ends = math.prod(n_sums) * np.cumsum(widths)
        parts = zip(np.split(room, ends[:-1]), widths, strict=True)
        return cls(
            history.time[rows],
            labels,
            last,
            [part.reshape(*n_sums, width) for part, width in parts],
        )

    def add(self, values: Float, items: slice, queries: slice) -> None:
        """Add values (items, queries) of some items to the sums of a strip of queries."""
        from marc.replay._kernels import add_readable

        last = np.ascontiguousarray(self.last[:, items])
        own = np.arange(len(values))
        sums = self.sums[queries.start // _STRIP]
        add_readable(
            values, self.time[queries], own, self.labels[items], self.time[items], last, sums
        )


def _behind(
    values: PairValues, own: _Sums, panel: _Sums, orders: Sequence[_Order], start: int
) -> Callable[[int], None]:
    """Fills columns of the panel that starts there, and adds its items to the rows of these."""
    items = slice(start, start + len(panel))

    def add(first: int) -> None:
        block = values.multiply(own[items], own[first : first + _COLUMNS])
        values.finish(block)
        panel[:, first - start :][:, : block.shape[1]] = block
        for left in range(0, block.shape[1], _STRIP):
            strip = block[:, left : left + _STRIP].copy()
            for order in orders:
                order.add(strip, items, slice(first + left, first + left + _STRIP))

    return add


def _within(panel: _Sums, orders: Sequence[_Order], start: int) -> Callable[[int], None]:
    """Adds all items behind a panel to a strip of its own rows."""
    n_items = len(orders[0].labels)
    stop = start + len(panel)

    def add(first: int) -> None:
        part = panel[first - start : first - start + _STRIP, stop - start : n_items - start]
        values = np.ascontiguousarray(part.T)
        for order in orders:
            order.add(values, slice(stop, n_items), slice(first, first + _STRIP))

    return add
