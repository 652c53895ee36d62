"""The nearest pictures that a stream had shown before: what an answer can be compared with.

A bounded record of single pictures, of any method, also of one that keeps none: of each class that
the predictor answered, the most confident so far. What a query finds follows from the lifetimes of
the entries (`replay/lifetimes.py`), so nothing is run, and no query sees what came after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.errors import integer
from marc.replay.lifetimes import History
from marc.scores import Float, Int
from marc.stream import Stream
from marc.types import Trajectory

_WINDOW = 512  # queries of one block of similarities


@dataclass(frozen=True)
class Remembered:
    """Pictures of a stream in its order, and until when each of them is remembered."""

    stream: Stream
    history: History

    @classmethod
    def of(cls, stream: Stream, n: int = 16) -> Remembered:
        """Remember the `n` most confident pictures of each class that the predictor answered."""
        base, order = stream.features.base, stream.order
        confident = -base.entropy_as("posterior")[order]
        trajectory = Trajectory(order, base.label[order], confident)
        return cls(stream, History.trace(trajectory, (integer("n", n, 1),), stream.n_classes))

    def nearest(
        self, space: str, positions: ArrayLike | None = None, count: int = 3
    ) -> tuple[Int, NDArray[np.float32]]:
        """The remembered pictures that are nearest to the queries at some positions, or at all.

        Returns:
            Their stored rows and cosines, (queries, count), the nearest first and of equals the
            lower row; -1 and -inf where fewer are remembered.
        """
        keys, stream = self.stream.features.keys(space), self.stream
        asked = np.arange(len(stream)) if positions is None else np.asarray(positions, np.int64)
        rows = np.full((len(asked), integer("count", count, 1)), -1)
        cosines = np.full(rows.shape, -np.inf, dtype=np.float32)
        by_time = np.argsort(asked, kind="stable")
        for start in range(0, len(asked), _WINDOW):
            places = by_time[start : start + _WINDOW]
            times = asked[places]
            alive = self.history.between(int(times[0]), int(times[-1]) + 1)
            if len(alive.items):
                similarity = keys[stream.order[times]] @ keys[alive.items].T
                similarity[~readable(alive, times)] = -np.inf
                rows[places], cosines[places] = _largest(similarity, alive.items, count)
        return rows, cosines


def readable(history: History, times: Int) -> NDArray[np.bool_]:
    """Which listed items each query can read, (queries, items), at the largest capacity."""
    times = times[:, np.newaxis]
    return (history.arrivals < times) & (times <= history.last[-1])


def _largest(similarity: Float, items: Int, n: int) -> tuple[Int, NDArray[np.float32]]:
    """Items of the n largest finite values of each row, and these; ties to the lower item."""
    top = np.full((len(similarity), n), -1)
    values = np.full(top.shape, -np.inf, dtype=np.float32)
    last = similarity.shape[1] - min(n, similarity.shape[1])
    bound = np.partition(similarity, last, axis=1)[:, last]
    rows, columns = np.nonzero((similarity >= bound[:, np.newaxis]) & np.isfinite(similarity))
    order = np.lexsort((items[columns], -similarity[rows, columns], rows))
    rows, columns = rows[order], columns[order]
    place = np.arange(len(rows)) - np.searchsorted(rows, rows)
    kept = place < n
    found = rows[kept], place[kept]
    top[found] = items[columns[kept]]
    values[found] = similarity[rows[kept], columns[kept]]
    return top, values
