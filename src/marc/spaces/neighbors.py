"""Nearest neighbours by cosine: one table that every measure of a space's geometry shares.

A neighbour table (n, k) holds, for each point, its k nearest others, nearest first. The point
itself is left out by its index, so a copy of it is a neighbour like any other. Cosines are
compared as float32 numbers, and equal ones go to the lower index. Each is a dot product of its
own pair in float64, rounded: tiles of matrix products only find the candidates, so the table does
not depend on the size of the tiles nor on the library that multiplies them.

An exact table takes n^2 D multiplications: minutes for hundreds of thousands of points. Beyond
`EXACT_UP_TO` points an index takes over where faiss is installed; the fraction of the true
neighbours that it finds is then measured.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.errors import MarcError, check_features, integer
from marc.replay.device import choose_gpu
from marc.replay.evidence import n_threads
from marc.scores import Int, unit
from marc.types import OnProgress

_Keys = NDArray[np.float32]
_Table = NDArray[np.int32]

EXACT_UP_TO = 200_000
"""Points up to which whole streams are measured exactly; beyond, by faiss if it is installed.

There an index of 64 to 768 dimensions is about as fast as the exact table, and then faster."""

_ROWS, _COLUMNS = 2048, 2048  # of one tile of cosines: 16 MiB, and a good size for a product
_STRIP = 64  # rows that one thread takes at a time
_INDEXED = 10_000  # points that an index takes at a time
_ROUNDING = 2.0**-24  # of one float32 operation


def neighbors(features: ArrayLike, n_neighbors: int = 10, *, device: str = "cpu") -> _Table:
    """The table (n, k) of nearest others by cosine, exact; ties go to the lower index.

    The same on every `device`: `cpu`, `auto`, `cuda` or `cuda:N`.

    >>> angles = np.array([0.0, 0.1, 0.3, 3.0])
    >>> neighbors(np.stack([np.cos(angles), np.sin(angles)], axis=1), 2)
    array([[1, 2],
           [0, 2],
           [1, 0],
           [2, 1]], dtype=int32)
    """
    keys = _as_keys(features)
    _check_n_neighbors(n_neighbors, len(keys))
    return nearest(keys, np.arange(len(keys)), n_neighbors, gpu=choose_gpu(device))


def _as_keys(features: ArrayLike) -> _Keys:
    """Features (n, D), checked and of unit length."""
    features = np.asarray(features)
    check_features("features", features, ndim=2)
    return unit(features)


def count_duplicates(keys: _Keys) -> int:
    """Rows that equal an earlier row."""
    return len(keys) - len({hashlib.sha256(row.tobytes()).digest() for row in keys})


def _check_n_neighbors(n_neighbors: int, n_points: int) -> int:
    """`n_neighbors`, refused unless every point has that many others."""
    if integer("n_neighbors", n_neighbors, 1) >= n_points:
        raise MarcError(
            "there are too few images for that many neighbours",
            got=f"{n_neighbors} neighbours of {n_points} image(s)",
            allowed=f"1 to {n_points - 1}" if n_points > 1 else "two images or more",
            hint="fewer neighbours, or more images",
        )
    return n_neighbors


def check_kappas(n_neighbors: Sequence[int], n_images: int) -> tuple[int, ...]:
    """Several kappa, ascending and distinct."""
    kappas = sorted({_check_n_neighbors(kappa, n_images) for kappa in n_neighbors})
    if not kappas:
        raise MarcError("geometry needs a number of neighbours", got="none", hint="n_neighbors=10")
    return tuple(kappas)


def as_table(features: ArrayLike | None, n_neighbors: int, table: ArrayLike | None) -> _Table:
    """The table (n, n_neighbors) of the features, or the first columns of a given one."""
    if table is None:
        if features is None:
            raise MarcError("a measure needs features or a neighbour table", hint="table=...")
        return neighbors(features, n_neighbors)
    given = np.asarray(table)
    if given.ndim != 2 or given.dtype.kind not in "iu" or 0 in given.shape:
        raise MarcError(
            "a neighbour table must hold integers, a row per point",
            got=f"{given.dtype} {given.shape}",
            allowed="(n, k) as marc.spaces.geometry.neighbors gives",
        )
    if features is not None and len(np.asarray(features)) != len(given):
        raise MarcError("the neighbour table is of other features", got=f"{len(given)} rows")
    if integer("n_neighbors", n_neighbors, 1) > (width := given.shape[1]):
        problem = "the neighbour table is too narrow"
        raise MarcError(problem, got=n_neighbors, allowed=f"1 to {width}")
    own = np.arange(len(given))[:, np.newaxis]
    if given.min() < 0 or given.max() >= len(given) or (given == own).any():
        raise MarcError(
            "a neighbour table must name other points",
            got=f"{given.min()} to {given.max()}",
            allowed=f"0 to {len(given) - 1}, and no point in its own row",
        )
    return given[:, :n_neighbors].astype(np.int32, copy=False)


def agreement(table: Int, labels: Int) -> NDArray[np.bool_]:
    """Whether each neighbour of a table has the class of its point, (n, k)."""
    return labels[table] == labels[:, np.newaxis]


def nearest(
    keys: _Keys,
    rows: Int,
    n_neighbors: int,
    on_progress: OnProgress | None = None,
    gpu: str | None = None,
) -> _Table:
    """The rows of the table of unit `keys` (n, D) for some of its points."""
    table = np.empty((len(rows), n_neighbors), dtype=np.int32)
    report = on_progress or (lambda *_: None)
    report("neighbours", 0, len(rows))
    if gpu is not None:
        from marc.spaces import _gpu

        table, left = _gpu.find(gpu, keys, rows, n_neighbors, _margin(keys), report)
        if len(left):
            table[left] = nearest(keys, rows[left], n_neighbors)
        return table
    with ThreadPoolExecutor(n_threads()) as threads:
        for start in range(0, len(rows), _ROWS):
            own = rows[start : start + _ROWS]
            _fill(table[start : start + _ROWS], keys[own], keys, own, threads)
            report("neighbours", start + len(own), len(rows))
    return table


def _margin(keys: _Keys) -> float:
    """How far apart the computed cosines of two pairs are if their order is known.

    Any order of summing D products of two unit vectors, and a norm that is one to rounding.
    """
    return 2 * (keys.shape[1] + 16) * _ROUNDING


def _fill(
    table: _Table,
    queries: _Keys,
    keys: _Keys,
    own: Int,
    threads: ThreadPoolExecutor,
) -> None:
    """Fill the rows of a table for one block of queries, a tile of keys at a time."""
    from marc.spaces._nearest import finish, scan

    n_queries, n_neighbors = table.shape
    margin = np.float32(_margin(keys))
    room = 2 * n_neighbors + 64  # candidates of a query, weeded out when there are more
    heaps = np.full((n_queries, n_neighbors), -np.inf, dtype=np.float32)
    candidates = np.empty((n_queries, room), dtype=np.int32)
    cosines = np.empty((n_queries, room), dtype=np.float32)
    counts = np.zeros(n_queries, dtype=np.int64)

    def state(strip: slice) -> list[NDArray[Any]]:
        return [array[strip] for array in (heaps, candidates, cosines, counts)]

    def note(strip: slice, tile: _Keys, start: int) -> None:
        scan(tile[strip], queries[strip], keys, own[strip], start, margin, *state(strip))

    def rank(strip: slice) -> None:
        finish(table[strip], queries[strip], keys, margin, *state(strip))

    strips = [slice(start, start + _STRIP) for start in range(0, n_queries, _STRIP)]
    for start in range(0, len(keys), _COLUMNS):
        tile = queries @ keys[start : start + _COLUMNS].T
        list(threads.map(note, strips, repeat(tile), repeat(start)))
    list(threads.map(rank, strips))


class _Measured(NamedTuple):
    """A table, and the fraction of the true neighbours that is in it."""

    table: _Table
    recall: float
    """1 for an exact table; for any other, measured on a sample of the points."""


def wide_table(
    keys: _Keys, width: int, on_progress: OnProgress | None = None, gpu: str | None = None
) -> _Measured:
    """The table of unit keys: exact, unless there are very many, faiss is installed and no GPU."""
    if len(keys) > EXACT_UP_TO and has_index() and gpu is None:
        return _indexed(keys, width, on_progress)
    return _Measured(nearest(keys, np.arange(len(keys)), width, on_progress, gpu), 1.0)


def known_table(keys: _Keys, n_neighbors: int, table: ArrayLike) -> _Measured:
    """A given table of unit keys, whole, with the recall of its first columns."""
    whole = as_table(keys, np.shape(table)[-1] or 1, table)
    return _Measured(whole, _measured_recall(keys, as_table(keys, n_neighbors, whole)))


def has_index() -> bool:
    """Whether faiss is installed."""
    return importlib.util.find_spec("faiss") is not None


def approximate_neighbors(
    features: ArrayLike, n_neighbors: int = 10, *, on_progress: OnProgress | None = None
) -> _Measured:
    """A table from a graph index (faiss, HNSW) for millions of points, with its measured recall.

    The index is built by several threads, so it differs a little from one time to the next.
    """
    keys = _as_keys(features)
    _check_n_neighbors(n_neighbors, len(keys))
    if not has_index():
        raise MarcError(
            "approximate neighbours need faiss, which is not installed",
            hint="pip install faiss-cpu, or marc.spaces.geometry.neighbors for the exact table",
        )
    return _indexed(keys, n_neighbors, on_progress)


def _indexed(keys: _Keys, n_neighbors: int, on_progress: OnProgress | None) -> _Measured:
    faiss = importlib.import_module("faiss")
    index = faiss.IndexHNSWFlat(keys.shape[1], 32, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction, index.hnsw.efSearch = 80, max(256, 8 * n_neighbors)
    table = np.empty((len(keys), n_neighbors), dtype=np.int32)
    report = on_progress or (lambda *_: None)
    parts = [slice(start, start + _INDEXED) for start in range(0, len(keys), _INDEXED)]
    report("index", 0, len(parts))
    for number, part in enumerate(parts, 1):
        index.add(keys[part])
        report("index", number, len(parts))
    report("neighbours", 0, len(parts))
    for number, part in enumerate(parts, 1):
        _, hits = index.search(keys[part], n_neighbors + 1)
        table[part] = _without_self(hits, part.start)
        report("neighbours", number, len(parts))
    lost = np.flatnonzero((table < 0).any(axis=1))  # the index left some empty
    table[lost] = nearest(keys, lost, n_neighbors)
    return _Measured(table, _measured_recall(keys, table))


def _measured_recall(keys: _Keys, table: _Table, n_measured: int = 1000, seed: int = 0) -> float:
    """The fraction of the true neighbours in a table of unit keys, on a sample of its rows."""
    draw = np.random.default_rng(seed)
    rows = np.sort(draw.choice(len(keys), min(n_measured, len(keys)), replace=False))
    exact = nearest(keys, rows, table.shape[1])
    hits = [np.isin(own, true).sum() for own, true in zip(table[rows], exact, strict=True)]
    return float(np.sum(hits) / exact.size)


def _without_self(hits: Int, first: int) -> Int:
    """All hits but one of the points first, first + 1, ...: themselves, or the last hit."""
    own = hits == np.arange(first, first + len(hits))[:, np.newaxis]
    own[~own.any(axis=1), -1] = True  # itself was not found: the last hit goes
    return hits[~own].reshape(len(hits), -1)
