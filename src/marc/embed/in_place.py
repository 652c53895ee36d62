"""Rows of an array that is too large to be held, read where they lie in its chunks.

A chunk is checked as a whole when one of its rows is first read: its digests, and that its features
are finite and of length one. From then on its file is known by what the system says of it, and is
checked again if that changes. So what is replaced meanwhile is an error, or the same numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from marc.embed.sealed import SealedArray
from marc.errors import MarcError
from marc.files import open_plain
from marc.scores import Int

_TOGETHER = 2**20  # numbers that are read at once where rows lie close to each other
_GAP = 2**12  # numbers between two rows that are rather read than jumped over

_Facts = tuple[int, ...]


@dataclass(frozen=True)
class InPlace:
    """The rows of an array, by their places in it. Several threads may read."""

    array: SealedArray
    places: Int
    """The stored row of each row that is given, (N,)."""
    check: Callable[[NDArray[Any]], None]
    """Refuses features that are none."""
    n_views: int | None = None
    """Only the first views of each row."""
    _known: dict[int, _Facts] = field(default_factory=dict)
    """Of each chunk that was checked, what the system said of its file."""

    def read(self, index: Int) -> NDArray[Any]:
        """Some rows (n, ...), in the order of `index` (n,)."""
        places = self.places[index]
        by_place = np.argsort(places, kind="stable")
        chunks, rows = np.divmod(places[by_place], self.array.rows)
        dims = self.array.shape[1:] if self.n_views is None else (self.n_views, self.array.shape[2])
        found = np.empty((len(index), *dims), dtype=self.array.dtype)
        starts = np.flatnonzero(np.diff(chunks, prepend=-1))
        for start, end in pairwise([*starts, len(index)]):
            part = slice(start, end)
            found[by_place[part]] = self._of_chunk(int(chunks[start]), rows[part])
        return found

    def _of_chunk(self, chunk: int, rows: Int) -> NDArray[Any]:
        """Some rows of a chunk, ascending."""
        with open_plain(self.array.path(chunk)) as file:
            facts = _facts(file)
            if self._known.get(chunk) != facts:
                self._check_chunk(chunk, file)
            found = np.concatenate([self._run(file, run) for run in self._runs(rows)])
            if _facts(file) != facts:
                raise MarcError("a chunk was changed while it was read", got=file.name)
        self._known[chunk] = facts
        return found

    def _check_chunk(self, chunk: int, file: BinaryIO) -> None:
        first = chunk * self.array.rows
        ends = np.searchsorted(self.places, (first, first + self.array.rows))
        kept = self.places[slice(*ends)] - first

        def take(start: int, values: NDArray[Any]) -> None:
            low, high = np.searchsorted(kept, (start, start + len(values)))
            features = values[kept[low:high] - start]
            self.check(features if self.n_views is None else features[:, : self.n_views])

        self.array.check(chunk, file, take, self.n_views)

    def _runs(self, rows: Int) -> list[Int]:
        """Rows that are read at once: they lie close to each other, and are not too many."""
        far = np.diff(rows) > self.array.rows_of(_GAP)
        far |= np.diff(rows // self.array.rows_of(_TOGETHER)) > 0
        return np.split(rows, np.flatnonzero(far) + 1)

    def _run(self, file: BinaryIO, rows: Int) -> NDArray[Any]:
        first = int(rows[0])
        values = self.array.numbers(file, first, int(rows[-1]) - first + 1)[rows - first]
        return values if self.n_views is None else values[:, : self.n_views]


def _facts(file: BinaryIO) -> _Facts:
    """What tells a file from every other, and from itself before it was written to."""
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
