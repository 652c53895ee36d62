"""The strongest key of every query, for every capacity at once.

The kernel grows with the cosine, so the key of the largest weight is the nearest one that the
memory held when the query came. Queries are taken block by block: a block is multiplied with the
items alive in it, and each capacity looks at those that it keeps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marc.lifetimes import History
from marc.scores import Int

_BLOCK = 2**22  # cosines of one block: 16 MiB
_MOST = 1024  # queries of a block


def strongest_keys(keys: NDArray[np.float32], history: History) -> Int:
    """The nearest readable item of every query at every capacity, (capacities, N) by stored row.

    -1 where the memory held nothing; equal cosines keep the lower row.

    Args:
        keys: unit features (N, D) of the space that is read.
        history: what the memory held along one order, at some capacities.
    """
    strongest = np.full((len(history.last), len(keys)), -1)
    by_time = np.argsort(history.time)
    size = max(1, min(_MOST, _BLOCK // max(1, len(history.items))))
    for start in range(0, len(by_time), size):
        queries = by_time[start : start + size]
        alive = history.between(start, start + len(queries))
        if len(alive.items):
            strongest[:, queries] = _of_block(keys, alive, queries, start)
    return strongest


def _of_block(keys: NDArray[np.float32], alive: History, queries: Int, start: int) -> Int:
    """The same for the queries at positions from `start` on, (capacities, queries)."""
    ascending = np.argsort(alive.items)  # the first of equal values is then the lower row
    items, arrivals = alive.items[ascending], alive.arrivals[ascending]
    cosines = keys[queries] @ keys[items].T
    times = alive.time[queries][:, np.newaxis]
    found = np.full((len(alive.last), len(queries)), -1)
    for place, last in enumerate(alive.last[:, ascending]):
        kept = np.flatnonzero((last > arrivals) & (last >= start))
        if not len(kept):
            continue
        readable = (arrivals[kept] < times) & (times <= last[kept])
        masked = np.where(readable, cosines[:, kept], -np.inf)
        best = masked.argmax(axis=1)
        found[place] = np.where(readable.any(axis=1), items[kept][best], -1)
    return found
