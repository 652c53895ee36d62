"""Lifetimes: when each arrival can be read, for every capacity at once.

Order class-mates by (priority descending, arrival ascending). An item's rank when query t reads is
the number of class-mates that arrived before t and are above it. Rank never falls as t grows, so

    item i is readable by query t at capacity K  <=>  i < t <= last_K(i)

where last_K(i) is the arrival that pushed i to rank K: T if none did, i itself if i was never
admitted. Capacities are nested: last_K(i) <= last_{K+1}(i). No features are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, integer
from marc.scores import Float, Int
from marc.types import Trajectory


def lifetimes(
    labels: Int, priorities: Float, capacities: Sequence[int], n_classes: int
) -> NDArray[np.int32]:
    """last_K(i) for arrivals in stream order: shape (capacities, T)."""
    from marc.replay._kernels import trace_lifetimes

    priorities = np.asarray(priorities, dtype=np.float64)
    if np.isnan(priorities).any():
        raise MarcError(
            "a priority is not a number", got=f"position {np.isnan(priorities).argmax()}"
        )
    last = np.empty((len(capacities), len(labels)), dtype=np.int32)
    trace_lifetimes(
        np.asarray(labels, dtype=np.int64),
        priorities,
        np.asarray(capacities, dtype=np.int64),
        n_classes,
        last,
    )
    return last


def check_capacities(capacities: Sequence[int]) -> tuple[int, ...]:
    """Capacities as an ascending tuple without repeats."""
    checked = tuple(integer("capacity", capacity, 1) for capacity in capacities)
    if not checked or list(checked) != sorted(set(checked)):
        raise MarcError(
            "capacities must be ascending integers", got=checked, hint="--capacity 1 2 4 8 16"
        )
    return checked


@dataclass(frozen=True)
class History:
    """All that one memory holds along one stream order, ready to be read by blocks of queries.

    Only items that some capacity admits are listed; they are grouped by class.
    """

    time: NDArray[np.int32]
    """Position of every stored row in the order, (N,)."""
    items: Int
    """Rows that are ever held, (n,), class by class."""
    last: NDArray[np.int32]
    """Last reader of each, (capacities, n)."""
    starts: Int
    """Items of class c are starts[c] to starts[c + 1] - 1, (C + 1,)."""

    @classmethod
    def trace(cls, trajectory: Trajectory, capacities: Sequence[int], n_classes: int) -> History:
        """From what arrived, position by position."""
        order, labels = trajectory.order, trajectory.label
        last = lifetimes(labels, trajectory.priority, capacities, n_classes)
        held = np.flatnonzero(last[-1] > np.arange(len(order)))
        held = held[np.argsort(labels[held], kind="stable")]
        return cls(
            time=np.argsort(order).astype(np.int32),
            items=order[held],
            last=np.ascontiguousarray(last[:, held]),
            starts=np.searchsorted(labels[held], np.arange(n_classes + 1)),
        )

    @cached_property
    def labels(self) -> Int:
        """The class of each listed item, (n,)."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @cached_property
    def arrivals(self) -> NDArray[np.int32]:
        """When each listed item arrived, (n,)."""
        return self.time[self.items]

    def over(self, rows: Int) -> tuple[Int, NDArray[np.int32]]:
        """Classes (n,) and last readers (capacities, n) of some rows, in their order.

        Of those that are never held: class 0, and their own arrival.
        """
        place = np.full(len(self.time), -1)
        place[self.items] = np.arange(len(self.items))
        held = np.flatnonzero(place[rows] >= 0)
        labels = np.zeros(len(rows), dtype=np.int64)
        last = np.tile(self.time[rows], (len(self.last), 1))
        labels[held] = self.labels[place[rows[held]]]
        last[:, held] = self.last[:, place[rows[held]]]
        return labels, last

    def between(self, first: int, stop: int) -> History:
        """The same history with only the items that queries first..stop-1 can read."""
        readable = (self.arrivals < stop - 1) & (self.last[-1] >= first)
        counts = np.concatenate([[0], np.cumsum(readable)])
        return History(self.time, self.items[readable], self.last[:, readable], counts[self.starts])
