"""How sure a measure of geometry is: the same measure on many smaller calibration batches.

A batch of m of the n images is drawn without replacement: a copy of an image would be its own
nearest neighbour and inflate purity. The batches of one replicate are nested in m, and every space
sees the same batches. The neighbour table of a batch is thinned out of the table of all images.

Batches of m show what a user with m images would have measured. The error of the measure on all n
images comes from half-samples: without replacement, a batch's variance is (1/m - 1/n) of what one
image contributes, and that of all n is 1/n of it, so the two are equal at m = n/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.errors import MarcError, whole_number
from marc.neighbors import Keys, Table, n_threads, thinned
from marc.scores import Int
from marc.stats import Z_95, Interval

SIZES = (250, 500, 1000, 2000)
"""The paper's calibration sizes."""
REPLICATES = 300
"""The paper's number of batches of each size."""

_WIDEST = 512  # columns of a table to thin; a batch that needs more is measured directly
_NUMBERS = 2**26  # in such a table: 256 MiB

Statistic = Callable[[Table, Int], ArrayLike]
"""Takes the neighbour table (m, k) of a batch and its images (m,), ascending; gives numbers."""


def table_width(n_images: int, n_neighbors: int, sizes: Sequence[int]) -> int:
    """Columns that a table needs so that nearly all rows can be thinned to batches of `sizes`."""
    needed = n_neighbors + 4 * math.sqrt(n_neighbors) + 4
    wanted = math.ceil(needed * n_images / min(sizes)) if sizes else n_neighbors
    affordable = min(_WIDEST, _NUMBERS // n_images)
    return min(n_images - 1, max(n_neighbors, min(wanted, affordable)))


def calibrate(
    keys: Keys,
    table: Table,
    statistic: Statistic,
    n_neighbors: int,
    sizes: Sequence[int],
    n_replicates: int = REPLICATES,
    seed: int = 0,
) -> NDArray[np.float64]:
    """A statistic of the neighbour tables of many batches, (replicates, sizes, ...).

    Args:
        keys: unit features (n, D).
        table: their neighbours, (n, at least n_neighbors).
        statistic: what to measure on a batch.
        n_neighbors: columns of a batch's table.
        sizes: images in a batch, below n.
        n_replicates: batches of each size.
        seed: of the batches; they do not depend on the space.
    """
    n_images = len(keys)
    whole_number("n_replicates", n_replicates, 2)
    whole_number("seed", seed, 0)
    for size in sizes:
        if not n_neighbors < size < n_images:
            raise MarcError(
                "a calibration batch must have more images than neighbours, and not all images",
                got=size,
                allowed=f"{n_neighbors + 1} to {n_images - 1}",
            )

    def replicate(number: int) -> list[ArrayLike]:
        order = np.random.default_rng([seed, number]).permutation(n_images)
        batches = [np.sort(order[:size]) for size in sizes]
        return [statistic(thinned(keys, table, b, n_neighbors), b) for b in batches]

    with ThreadPoolExecutor(n_threads()) as threads:
        return np.array(list(threads.map(replicate, range(n_replicates))), dtype=np.float64)


def standard_errors(halves: NDArray[np.float64], n_images: int) -> NDArray[np.float64]:
    """The standard error of a measure on all images from its values on half-samples (B, ...)."""
    half = n_images // 2
    return halves.std(axis=0, ddof=1) * math.sqrt(half / (n_images - half))


def interval_of(estimate: float, halves: NDArray[np.float64], n_images: int) -> Interval:
    """A share with its 95 % interval from half-samples (B,)."""
    error = Z_95 * float(standard_errors(halves, n_images))
    return Interval(estimate, max(0.0, estimate - error), min(1.0, estimate + error))


def simultaneous_radii(halves: NDArray[np.float64], n_images: int) -> NDArray[np.float64]:
    """Radii (S,) that hold for all S measures at once in 95 of 100 batches, from (B, S).

    Each is a multiple of its own standard error. The multiple is the 95 % quantile of the largest
    standardised deviation over the measures, which vary together, so it is below Bonferroni's.
    """
    errors = standard_errors(halves, n_images)
    deviations = np.abs(halves - halves.mean(axis=0))
    spread = halves.std(axis=0, ddof=1)
    standardised = np.divide(deviations, spread, out=np.zeros_like(deviations), where=spread > 0)
    return np.quantile(standardised.max(axis=1, initial=0.0), 0.95) * errors
