"""The pictures a stream remembers at each moment, to show beside an answer.

What a method holds may be sums that nobody can look at. This is a record of pictures: of each class
that the predictor answers, the 16 earlier ones that it was surest of. It is the memory of the
paper's admission by the predictor's entropy, so lifetimes tell who is in it when.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marc.replay.lifetimes import History
from marc.scores import BaseScores, Int
from marc.stream import Stream
from marc.types import Trajectory

CAPACITY = 16
"""Pictures of each class."""
_BLOCK = 256  # queries whose similarities are held together


def certainty_rank(base: BaseScores) -> NDArray[np.float64]:
    """What decides who stays, (...): minus the entropy of the predictor's answer."""
    return -base.entropy_as("posterior")


@dataclass(frozen=True)
class Remembered:
    """Who is remembered when, along one order of a stream."""

    stream: Stream
    history: History

    @classmethod
    def of(cls, stream: Stream) -> Remembered:
        """Along the order that the stream has."""
        base = stream.features.base.at(stream.order)
        trajectory = Trajectory(stream.order, base.label, certainty_rank(base))
        return cls(stream, History.trace(trajectory, [CAPACITY], stream.n_classes))

    def nearest(self, space: str, positions: Int, count: int) -> tuple[Int, NDArray[np.float32]]:
        """Rows of the `count` nearest earlier pictures (n, count) and their similarities.

        Nearest first; equal similarities keep the lower row, and -1 stands where there are fewer.
        """
        keys = self.stream.features.keys(space)
        rows = np.full((len(positions), count), -1, dtype=np.int64)
        similarity = np.full((len(positions), count), np.nan, dtype=np.float32)
        for block in self._blocks(positions):
            at = positions[block]
            alive = self.history.between(int(at.min()), int(at.max()) + 1)
            order = np.argsort(alive.items)  # the lower row first, among equals
            items = alive.items[order]
            found = keys[self.stream.order[at]] @ keys[items].T
            late = at[:, np.newaxis] <= alive.arrivals[order]
            gone = at[:, np.newaxis] > alive.last[0][order]
            found[late | gone] = -np.inf
            best = np.argsort(-found, axis=1, kind="stable")[:, :count]
            values = np.take_along_axis(found, best, axis=1)
            there = np.isfinite(values)
            width = slice(best.shape[1])
            rows[block, width] = np.where(there, items[best], -1)
            similarity[block, width] = np.where(there, values, np.nan)
        return rows, similarity

    @staticmethod
    def _blocks(positions: Int) -> Iterator[Int]:
        """Places in `positions` of queries that come together."""
        in_time = np.argsort(positions, kind="stable")
        for start in range(0, len(in_time), _BLOCK):
            yield in_time[start : start + _BLOCK]
