"""Arrays that are too large to be held: rows are read, or computed, when they are asked for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.scores import Int
from marc.types import OnProgress

_LARGE = 2**28
"""Numbers of an array that is still held whole: 1 GiB of float32."""
_BLOCK = 2**22  # numbers that are made at a time where only a part of each row is asked for


def is_large(*shape: int) -> bool:
    """Whether an array of this shape is not held whole."""
    return math.prod(shape) > _LARGE


class LazyRows:
    """Stands for an array (N, ...) of which only the rows that are asked for are ever there.

    Rows by an integer, a slice or an array of integers are those that the whole array would give;
    whoever needs the whole array is refused, unless by the slice of all rows.
    """

    def __init__(
        self, read: Callable[[Int], NDArray[Any]], shape: tuple[int, ...], dtype: Any
    ) -> None:
        self.shape, self.dtype, self.ndim = shape, np.dtype(dtype), len(shape)
        self._read = read

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, index: Any, /) -> Any:
        first, *rest = index if isinstance(index, tuple) else (index,)
        places = self._places(first)
        rows, part = places.reshape(-1), (slice(None), *rest)
        size = max(1, _BLOCK // math.prod(self.shape[1:])) if rest else max(1, len(rows))
        starts = range(0, max(1, len(rows)), size)
        found = [self._read(rows[start : start + size])[part] for start in starts]
        whole = found[0] if len(found) == 1 else np.concatenate(found)
        return whole.reshape((*places.shape, *whole.shape[1:]))

    def _places(self, index: Any) -> Int:
        """The rows that an index means, in its shape."""
        if isinstance(index, slice):
            return np.arange(*index.indices(len(self)))
        places = np.asarray(index)
        if places.dtype == bool:
            return np.flatnonzero(places)
        places = places.astype(np.int64)
        if ((places < -len(self)) | (places >= len(self))).any():
            raise IndexError(f"rows {places.min()} to {places.max()} of {len(self)}")
        return np.where(places < 0, places + len(self), places)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        size = math.prod(self.shape) * self.dtype.itemsize / 2**30
        shape = " x ".join(f"{length:,}" for length in self.shape)
        raise MarcError(
            "this needs all features of a large stream at once, and they are not held",
            got=f"{shape} numbers, {size:.1f} GiB",
            allowed=f"{_LARGE:,} numbers",
            hint="a sample (--images 20000, or stream.sample(20000)), a space as it is stored, or "
            "another method",
        )

    def first(self, n_views: int) -> LazyRows:
        """Of views (N, M, D), the first of every image."""
        n_images, _, dim = self.shape
        return LazyRows(lambda rows: self[rows, :n_views], (n_images, n_views, dim), self.dtype)

    def read_through(self, what: str, on_progress: OnProgress) -> None:
        """Read every row once, so that damage is found before work begins."""
        size = max(1, _BLOCK // math.prod(self.shape[1:]))
        for start in range(0, len(self), size):
            on_progress(what, start, len(self))
            self[start : start + size]
        on_progress(what, len(self), len(self))


def lazy_rows(
    read: Callable[[Int], NDArray[Any]], shape: tuple[int, ...], dtype: Any
) -> NDArray[Any]:
    """`LazyRows`, with the type of what they stand for: who reads rows need not know."""
    return cast("NDArray[Any]", LazyRows(read, shape, dtype))


def each_row(function: Callable[[Any], NDArray[Any]], rows: NDArray[Any]) -> NDArray[Any]:
    """A function of single rows, from (N, D) to float32 (N, D), now or whenever they are read."""
    if not isinstance(rows, LazyRows):
        return function(rows)
    return lazy_rows(lambda index: function(rows[index]), rows.shape, np.float32)


def some_rows(rows: Any, index: Int) -> NDArray[Any]:
    """Some rows, read unless they are a large array again."""
    if not is_large(len(index), *rows.shape[1:]):
        return np.asarray(rows[index])
    return lazy_rows(lambda chosen: rows[index[chosen]], (len(index), *rows.shape[1:]), rows.dtype)
