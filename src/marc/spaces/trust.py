"""Whether any memory is worth it, without labels: the trust that class means reach on a stream.

A memory that means nothing agrees with the predictor by chance alone, so its trust (equation 4 of
`marc.class_means`) stays near 0. docs/results/select-none.md has what thresholds of it are worth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from marc.class_means import ClassMeans
from marc.stream import Features, Stream

LEAST_TRUST = 0.1
"""Above what spaces reach that mean nothing; in none below it did class means gain 0.2 points."""

ALL = "all"
"""All spaces together, where a space is named."""
_OWN = "predictor"
_ROWS = 4096  # compared at a time


def trust(features: Features, spaces: Sequence[str], seed: int = 0) -> float:
    """The mean trust, 0 to 1, of class means in some spaces over the second half of one order.

    A space that holds the predictor's own features is read as such: held against itself it would
    be trusted nearly fully, whatever it is worth.
    """
    names = list(dict.fromkeys(_OWN if is_own(features, space) else space for space in spaces))
    stream = Stream(features, np.arange(len(features.ids))).shuffled(seed)
    path = ClassMeans(names).replay(stream).trajectory.priority
    return float(path[len(path) // 2 :].mean())


def is_own(features: Features, space: str) -> bool:
    """Whether a space is the predictor's own, by name or by content, transformed or not."""
    name = space.partition("+")[0]
    if name == _OWN or name not in features.spaces:
        return name == _OWN
    keys, own = features.spaces[name], features.clip_keys
    return keys.shape == own.shape and all(
        np.array_equal(keys[start : start + _ROWS], own[start : start + _ROWS])
        for start in range(0, len(own), _ROWS)
    )
