"""The nearest of a set of images, found by every one of them or by a feature from elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marc.peers._arrays import distinct_rows, largest
from marc.scores import Float, Int

_QUERIES = 256  # rows of similarities that are held at a time


class Images:
    """Unit features (N, D) to search; copies have the same similarity to the last bit."""

    def __init__(self, features: NDArray[np.float32]) -> None:
        first, which = distinct_rows(features)
        self._distinct, self._which = features[first], which
        self._copies = len(first) < len(which)

    def __len__(self) -> int:
        return len(self._which)

    def nearest(self, feature: Float, n: int) -> tuple[Int, Float]:
        """The n images nearest to a unit feature (D,), nearest first, and their cosines."""
        return self._first(self._distinct @ feature, n)

    def nearest_to_each(self, n: int) -> tuple[Int, Float]:
        """The n images nearest to each, (N, n), and their cosines; of equals the lower image."""
        near = np.empty((len(self._distinct), n), dtype=np.int64)
        cosines = np.empty((len(self._distinct), n), dtype=np.float32)
        for start in range(0, len(near), _QUERIES):
            block = self._distinct[start : start + _QUERIES] @ self._distinct.T
            for row, similar in enumerate(block, start):
                near[row], cosines[row] = self._first(similar, n)
        return near[self._which], cosines[self._which]

    def _first(self, similar: Float, n: int) -> tuple[Int, Float]:
        if self._copies:
            similar = similar[self._which]
        near = largest(similar, n)
        return near, similar[near]
