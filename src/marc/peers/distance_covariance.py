"""Brownian distance covariance: how far two sets of paired vectors depend on each other.

It is zero only where nothing depends, linearly or otherwise. These are the V-statistics in the
form that the methods of this field use: what statisticians call the squared distance covariance
and the squared distance correlation.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.errors import MarcError


def distance_covariance(x: ArrayLike, y: ArrayLike) -> float:
    """Mean product of the centred distances of x (n, d) and y (n, e); never below 0.

    Row k of x and row k of y belong together. One row has no distances: the result is 0.
    """
    return _mean_product(*_centred_pair(x, y))


def distance_correlation(x: ArrayLike, y: ArrayLike) -> float:
    """`distance_covariance` over the root of both variances, 0 to 1.

    Where x or y does not vary at all it is 0: nothing can be said to depend on a constant.

    >>> distance_correlation([[0.0], [1.0], [3.0]], [[5.0], [3.0], [-1.0]])
    1.0
    """
    a, b = _centred_pair(x, y)
    scale = math.sqrt(_mean_product(a, a)) * math.sqrt(_mean_product(b, b))
    return min(1.0, _mean_product(a, b) / scale) if scale > 0 else 0.0


def _mean_product(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    return max(0.0, float((a * b).mean()))  # a sum near 0 may round to just below it


def _centred_pair(x: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    first, second = _checked("x", x), _checked("y", y)
    if len(first) != len(second):
        raise MarcError(
            "x and y must have one row for each pair",
            got=f"{len(first)} and {len(second)} rows",
            allowed="as many of the one as of the other",
        )
    return _centred_distances(first), _centred_distances(second)


def _centred_distances(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Euclidean distances (n, n) less the means of row and column, plus the mean of all."""
    from scipy.spatial.distance import cdist

    distances = cdist(rows, rows)
    means = distances.mean(axis=0)
    return distances - means[:, np.newaxis] - means + means.mean()


def _checked(name: str, given: ArrayLike) -> NDArray[np.float64]:
    rows = np.asarray(given)
    if rows.ndim != 2 or 0 in rows.shape or rows.dtype.kind not in "fiu":
        raise MarcError(
            f"{name} must be rows of numbers", got=f"{rows.dtype} {rows.shape}", allowed="(n, d)"
        )
    rows = rows.astype(np.float64)
    if not np.isfinite(rows).all():
        raise MarcError(
            f"{name} must be finite",
            got=f"{int((~np.isfinite(rows)).sum())} numbers that are not",
            hint="leave those rows out",
        )
    return rows
