"""Nearest neighbours by cosine: one table that every measure of a space's geometry shares.

A neighbour table (n, k) holds, for each point, its k nearest others, nearest first. The point
itself is left out by its index, so a copy of it is a neighbour like any other. Cosines are
compared as float32 numbers, and equal ones go to the lower index. Each is a dot product of its
own pair in float64, rounded: blocks of matrix products only find the candidates, so the table
does not depend on the size of the blocks nor on the library that multiplies them.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc import checks
from marc.errors import MarcError, whole_number
from marc.scores import unit

Keys = NDArray[np.float32]
Table = NDArray[np.int32]

EXACT_UP_TO = 200_000
"""Points up to which whole streams are measured exactly; beyond, by faiss if it is installed."""

_BLOCK = 2**23  # numbers in one block of similarities: 32 MiB
_STRIP = 64  # rows that one thread takes at a time
_ROUNDING = 2.0**-24  # of one float32 operation


def neighbors(features: ArrayLike, n_neighbors: int = 10) -> Table:
    """The table (n, k) of nearest others by cosine, exact; ties go to the lower index.

    >>> angles = np.array([0.0, 0.1, 0.3, 3.0])
    >>> neighbors(np.stack([np.cos(angles), np.sin(angles)], axis=1), 2)
    array([[1, 2],
           [0, 2],
           [1, 0],
           [2, 1]], dtype=int32)
    """
    keys = as_keys(features)
    check_n_neighbors(n_neighbors, len(keys))
    return nearest(keys, np.arange(len(keys)), n_neighbors)


def as_keys(features: ArrayLike) -> Keys:
    """Features (n, D), checked and of unit length."""
    features = np.asarray(features)
    checks.features("features", features, ndim=2)
    return unit(features)


def check_n_neighbors(n_neighbors: int, n_points: int) -> int:
    """`n_neighbors`, refused unless every point has that many others."""
    if whole_number("n_neighbors", n_neighbors, 1) >= n_points:
        raise MarcError(
            "there are too few images for that many neighbours",
            got=f"{n_neighbors} neighbours of {n_points} image(s)",
            allowed=f"1 to {n_points - 1}" if n_points > 1 else "two images or more",
            hint="fewer neighbours, or more images",
        )
    return n_neighbors


def as_table(features: ArrayLike | None, n_neighbors: int, table: ArrayLike | None) -> Table:
    """The table (n, n_neighbors) of the features, or the first columns of a given one."""
    if table is None:
        if features is None:
            raise MarcError("a measure needs features or a neighbour table", hint="table=...")
        return neighbors(features, n_neighbors)
    given = np.asarray(table)
    if given.ndim != 2 or given.dtype.kind not in "iu" or 0 in given.shape:
        raise MarcError(
            "a neighbour table must hold whole numbers, a row per point",
            got=f"{given.dtype} {given.shape}",
            allowed="(n, k) as marc.geometry.neighbors gives",
        )
    if features is not None and len(np.asarray(features)) != len(given):
        raise MarcError("the neighbour table is of other features", got=f"{len(given)} rows")
    if whole_number("n_neighbors", n_neighbors, 1) > given.shape[1]:
        width = given.shape[1]
        raise MarcError(
            "the neighbour table is too narrow", got=n_neighbors, allowed=f"1 to {width}"
        )
    own = np.arange(len(given))[:, np.newaxis]
    if given.min() < 0 or given.max() >= len(given) or (given == own).any():
        raise MarcError(
            "a neighbour table must name other points",
            got=f"{given.min()} to {given.max()}",
            allowed=f"0 to {len(given) - 1}, and no point in its own row",
        )
    return given[:, :n_neighbors].astype(np.int32, copy=False)


def nearest(keys: Keys, rows: NDArray[np.integer], n_neighbors: int) -> Table:
    """The rows of the table of unit `keys` (n, D) for some of its points."""
    table = np.empty((len(rows), n_neighbors), dtype=np.int32)
    block = max(1, _BLOCK // len(keys))
    with ThreadPoolExecutor(n_threads()) as threads:
        for start in range(0, len(rows), block):
            own = rows[start : start + block]
            queries = keys[own]
            _rank(queries, keys, own, table[start : start + block], threads)
    return table


def _rank(
    queries: Keys, keys: Keys, own: NDArray[np.integer], table: Table, threads: ThreadPoolExecutor
) -> None:
    """Fill the rows of a table for one block of queries."""
    from marc._nearest import nearest_rows

    products = queries @ keys.T
    dim = keys.shape[1]
    # any order of summing D products of two unit vectors, and a norm that is one to rounding
    tolerance = (dim + 16) * _ROUNDING

    def strip(start: int) -> None:
        part = slice(start, start + _STRIP)
        nearest_rows(products[part], queries[part], keys, own[part], tolerance, table[part])

    list(threads.map(strip, range(0, len(queries), _STRIP)))


def n_threads() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not every system can tell
        return os.cpu_count() or 1


def thinned(keys: Keys, table: Table, chosen: NDArray[np.integer], n_neighbors: int) -> Table:
    """The neighbour table (m, k) of a subsample, from that of all points; exactly.

    `chosen` (m,) are ascending points, and the answer counts in positions among them. A point's
    neighbours among the chosen stand in its list in the same order; where `table` is too short
    for that, similarities within the subsample are computed.
    """
    from marc._nearest import thin

    place = np.full(len(table), -1, dtype=np.int32)
    place[chosen] = np.arange(len(chosen))
    result = np.empty((len(chosen), n_neighbors), dtype=np.int32)
    thin(table, place, chosen, result)
    short = np.flatnonzero(result[:, 0] < 0)
    if len(short):
        result[short] = nearest(keys[chosen], short, n_neighbors)
    return result


class Found(NamedTuple):
    """A table, and the share of the true neighbours that is in it."""

    table: Table
    recall: float
    """1 for an exact table; for an index, measured on a sample of the points."""


def has_index() -> bool:
    """Whether faiss is installed."""
    return importlib.util.find_spec("faiss") is not None


def approximate_neighbors(
    features: ArrayLike, n_neighbors: int = 10, *, n_measured: int = 1000, seed: int = 0
) -> Found:
    """A table from a graph index (faiss, HNSW) for millions of points, with its measured recall."""
    keys = as_keys(features)
    check_n_neighbors(n_neighbors, len(keys))
    if not has_index():
        raise MarcError(
            "approximate neighbours need faiss, which is not installed",
            hint="pip install faiss-cpu, or marc.geometry.neighbors for the exact table",
        )
    faiss = importlib.import_module("faiss")
    index = faiss.IndexHNSWFlat(keys.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction, index.hnsw.efSearch = 80, max(256, 8 * n_neighbors)
    index.add(keys)
    _, found = index.search(keys, n_neighbors + 1)
    table = _without_self(found, n_neighbors)
    draw = np.random.default_rng(seed)
    rows = np.sort(draw.choice(len(keys), min(n_measured, len(keys)), replace=False))
    exact = nearest(keys, rows, n_neighbors)
    hits = (exact[:, :, np.newaxis] == table[rows][:, np.newaxis, :]).any(axis=2)
    return Found(table, float(hits.mean()))


def wide_table(keys: Keys, width: int) -> Found:
    """The table of unit keys: exact, unless there are very many and faiss is installed."""
    if len(keys) > EXACT_UP_TO and has_index():
        return approximate_neighbors(keys, width)
    return Found(nearest(keys, np.arange(len(keys)), width), 1.0)


def _without_self(found: NDArray[np.integer], n_neighbors: int) -> Table:
    """The first k of k + 1 hits once each point itself is left out; it may be missing."""
    if (found < 0).any():
        raise MarcError(
            "the index did not find enough neighbours",
            got=f"{int((found < 0).sum())} places left empty",
            hint="marc.geometry.neighbors for the exact table",
        )
    own = found == np.arange(len(found))[:, np.newaxis]
    own[~own.any(axis=1), -1] = True  # itself was not found: the last hit goes
    return found[~own].reshape(len(found), n_neighbors).astype(np.int32)
