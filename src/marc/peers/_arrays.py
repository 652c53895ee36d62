"""Arrays: queries that are answered together, equal rows, and what a stored one must be."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.memory import check_stored
from marc.scores import Float, Int
from marc.stream.predictor import Predictor
from marc.types import Query

MOST_SLOTS = 100_000
"""Items of a class, where memory for all of them is taken at once."""
MOST_SEEN = 2**53
"""No stored number of images is larger: beyond it not every integer is a float64."""


@dataclass(frozen=True)
class Batch:
    """The plain images of a batch, in their order."""

    items: list[int]
    logits: NDArray[np.float32]
    """Zero-shot logits of view 0, (N, C)."""
    keys: NDArray[np.float32]
    """Unit features of one space, (N, D)."""
    predictor: Predictor


def gather(queries: Sequence[Query], space: str = "predictor") -> Batch:
    """One pass over at least one query.

    The logits are made image by image, so they hold the same bits in every batch. Rows are copied:
    a view of a row would keep all views of its query.
    """
    items: list[int] = []
    for row, query in enumerate(queries):
        plain, key = query.predictor.logits(query.views[:1])[0], query.key(space)
        if not items:
            logits = np.empty((len(queries), len(plain)), dtype=np.float32)
            keys = np.empty((len(queries), len(key)), dtype=np.float32)
        items.append(query.item)
        logits[row], keys[row] = plain, key
    return Batch(items, logits, keys, query.predictor)


def distinct_rows(rows: Float) -> tuple[Int, Int]:
    """Where each distinct row (N, ...) comes first, and which of those each row is.

    Bytes are compared: sorting wide rows takes ten times as long.

    >>> first, which = distinct_rows(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))
    >>> first.tolist(), which.tolist()
    ([0, 1], [0, 1, 0])
    """
    known: dict[bytes, int] = {}
    plain = np.ascontiguousarray(rows + rows.dtype.type(0))  # -0.0 becomes 0.0
    which = np.array([known.setdefault(row.tobytes(), len(known)) for row in plain])
    return np.unique(which, return_index=True)[1], which


@dataclass(frozen=True)
class Texts:
    """The distinct texts of a predictor: classes with one text share what is learned of it."""

    source: NDArray[np.float32]
    """The prototypes (C, D)."""
    rows: NDArray[np.float32]
    """(U, D)."""
    first: Int
    """The first class with each, (U,)."""
    which: Int
    """Which of them each class has, (C,)."""
    n_classes: Int
    """How many classes have each, (U,)."""

    @classmethod
    def of(cls, prototypes: NDArray[np.float32], known: Texts | None = None) -> Texts:
        """Those of prototypes (C, D): the known ones, if they are of the very same."""
        if known is not None and known.source is prototypes:
            return known
        first, which = distinct_rows(prototypes)
        return cls(prototypes, prototypes[first], first, which, np.bincount(which))


def first_equal(rows: Float) -> Int:
    """For each row (N, ...) the first row that is the same: its own number where there is none.

    >>> first_equal(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])).tolist()
    [0, 1, 0]
    """
    first, which = distinct_rows(rows)
    return first[which]


def largest(values: Float, n: int) -> Int:
    """Places of the n largest of values (m,), best first; equal ones keep the lower place.

    >>> largest(np.array([1.0, 3.0, 2.0, 3.0]), 3).tolist()
    [1, 3, 2]
    """
    enough = np.arange(len(values))
    if n < len(values):
        enough = np.flatnonzero(values >= np.partition(values, -n)[-n])
    return enough[np.argsort(-values[enough], kind="stable")][:n]


def check_arrays(arrays: Mapping[str, NDArray[Any]], wanted: Mapping[str, tuple[Any, ...]]) -> None:
    """Refuse stored arrays that are not finite, or of another name, type or shape than is told.

    >>> check_arrays({"sums": np.zeros(5)}, {"sums": ("f8", 5)})
    """
    found = {name: (array.dtype.str[1:], *array.shape) for name, array in arrays.items()}
    check_stored(found == dict(wanted), "its arrays do not fit each other")
    for name, array in arrays.items():
        check_stored(np.isfinite(array).all(), f"{name} is not finite")


def coded(text: str) -> NDArray[np.int64]:
    """A text as an array of code points."""
    return np.array([ord(letter) for letter in text], dtype=np.int64)


def decoded(codes: NDArray[Any]) -> str:
    """The text that was `coded`; anything else is refused as damaged."""
    whole = (
        codes.dtype == np.int64
        and codes.ndim == 1
        and ((codes > 0) & (codes <= sys.maxunicode)).all()
    )
    check_stored(bool(whole), "what should be a text in it is none")
    return "".join(map(chr, codes.tolist()))
