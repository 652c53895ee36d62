"""The inner loop of the envelope bootstrap: the best weight of each draw of the images.

Each image is right on one interval of weights. The number of right answers grows only where an
interval opens, so the best of all weights w >= 0 is one of the openings: all weights are a grid
like any other, only a longer one. On a grid an interval is two places, the first weight inside it
and the first one after it, and the right answers are a running sum of openings minus closings.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from marc.scores import Float, Int

Places = tuple[int, Int, Int]
"""The length of the grid, and for each image its first weight inside and the first one after."""

_BLOCK = 2**18  # images drawn at a time: a block fits the cache of a processor


def replicate_gains(
    lower: Float,
    upper: Float,
    base_correct: NDArray[np.bool_],
    weights: Sequence[float] | None,
    n_replicates: int,
    draws: np.random.Generator,
) -> tuple[float, NDArray[np.float64]]:
    """The oracle gain on all images, and on each of `n_replicates` draws of them.

    `lower` and `upper` are (orders, T), `base_correct` (T,); each order has the gain at its own
    best weight, and the mean over orders is taken.
    """
    n_images = len(base_correct)
    orders = [places(*ends, weights) for ends in zip(lower, upper, strict=True)]
    base = base_correct.astype(np.int64)

    def gains(drawn: Int) -> Float:
        best = np.mean([most_right(drawn, order) for order in orders], axis=0)
        return (best - base[drawn].sum(axis=1)) / n_images

    estimate = float(gains(np.arange(n_images)[np.newaxis])[0])
    size = max(1, _BLOCK // n_images)
    blocks = [min(size, n_replicates - start) for start in range(0, n_replicates, size)]
    found = [gains(draws.integers(n_images, size=(block, n_images))) for block in blocks]
    return estimate, np.concatenate(found)


def places(lower: Float, upper: Float, weights: Sequence[float] | None) -> Places:
    """Where the intervals (T,) of one order lie on a grid; of all w >= 0 on that of its openings.

    >>> places(np.array([0.0, 2.0, 0.0]), np.array([1.0, np.inf, -np.inf]), (0, 1, 2, 3))
    (4, array([0, 2, 4]), array([2, 4, 4]))
    """
    opens = np.maximum(lower, 0.0)
    inside = (opens <= upper) & (opens < np.inf)
    grid = np.unique(opens[inside]) if weights is None else np.array(weights)
    first = np.searchsorted(grid, opens, side="left")
    after = np.searchsorted(grid, upper, side="right")
    never = first >= after  # opens and closes behind the end, where nobody looks
    return len(grid), np.where(never, len(grid), first), np.where(never, len(grid), after)


def most_right(drawn: Int, order: Places) -> Int:
    """Right answers at the best weight of each draw (replicates, T) of the images."""
    size, first, after = order
    changes = _tally(first[drawn], size) - _tally(after[drawn], size)
    return changes.cumsum(axis=1).max(axis=1, initial=0)


def _tally(found: Int, size: int) -> Int:
    """How often each of the places 0 to size - 1 is found in each row; `found` is overwritten."""
    found += np.arange(len(found))[:, np.newaxis] * (size + 1)
    counts = np.bincount(found.ravel(), minlength=len(found) * (size + 1))
    return counts.reshape(len(found), size + 1)[:, :size]
