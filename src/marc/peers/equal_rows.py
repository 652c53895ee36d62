"""Rows that are the same: classes with one text must tie to the bit, and so must copies of images.

A product over distinct rows alone gives equal rows equal bits, whatever its blocking.
"""

from __future__ import annotations

import numpy as np

from marc.scores import Float, Int


def distinct_rows(rows: Float) -> tuple[Int, Int]:
    """Where each distinct row (N, ...) comes first, and which of those each row is.

    Bytes are compared: sorting wide rows takes ten times as long.

    >>> first, place = distinct_rows(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]]))
    >>> first.tolist(), place.tolist()
    ([0, 1], [0, 1, 0])
    """
    known: dict[bytes, int] = {}
    plain = np.ascontiguousarray(rows + rows.dtype.type(0))  # -0.0 becomes 0.0
    place = np.array([known.setdefault(row.tobytes(), len(known)) for row in plain])
    return np.unique(place, return_index=True)[1], place


def first_equal(rows: Float) -> Int:
    """For each row (N, ...) the first row that is the same: its own number where there is none.

    >>> first_equal(np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])).tolist()
    [0, 1, 0]
    """
    first, place = distinct_rows(rows)
    return first[place]
