"""How sure a measure of geometry is: the same measure on many smaller calibration batches.

A batch of m of the n images is drawn without replacement: a copy of an image would be its own
nearest neighbour and inflate purity. The batches of one replicate are nested in m, and every space
sees the same batches. The neighbour table of a batch is thinned out of the table of all images.

Batches of m show what a user with m images would have measured. The error of the measure on all n
images comes from batches of four fifths of them: without replacement a batch's variance is
1/m - 1/n of what one image contributes, and that of all n is 1/n of it, m / (n - m) times as much.
(Half of the images would need no factor, but leave half of each class. Where a class then has no
more images than neighbours are looked at, spaces look alike, and the error of a lead came out a
third too small.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.errors import MarcError, integer
from marc.replay.evidence import n_threads
from marc.scores import Float, Int
from marc.spaces.neighbors import agreement, nearest
from marc.stats import Z_95, Interval
from marc.types import OnProgress

_WIDEST = 512  # columns of a table to thin; a batch that needs more is measured directly
_NUMBERS = 2**24  # in such a table, unless the error needs more: 64 MiB

_Statistic = Callable[[Int, Int], ArrayLike]
"""Takes the neighbour table (m, k) of a batch and its images (m,), ascending; gives numbers."""


@dataclass(frozen=True)
class Calibration:
    """What batches of some images say, at one number of neighbours."""

    SIZES: ClassVar[tuple[int, ...]] = (250, 500, 1000, 2000)
    """The paper's calibration sizes."""
    REPLICATES: ClassVar[int] = 300
    """The paper's number of batches of each size."""
    MOST_REPLICATES: ClassVar[int] = 100_000

    n_images: int
    n_neighbors: int

    @property
    def error_size(self) -> int:
        """Images in the batches that show the error of a measure on all images."""
        return 4 * self.n_images // 5

    def table_width(self, sizes: Sequence[int] = ()) -> int:
        """Columns that a table needs so that nearly all rows can be thinned to batches.

        To those of `error_size` always, and to those of `sizes` for which the table does not get
        too large: what is much smaller than the stream is measured directly in less time.
        """
        enough = self.n_neighbors + 4 * math.sqrt(self.n_neighbors) + 4

        def columns(size: int) -> int:
            return math.ceil(enough * self.n_images / size)

        affordable = min(_WIDEST, _NUMBERS // self.n_images)
        # a little short will do: four standard deviations are generous
        useful = [columns(size) for size in sizes if columns(size) < 1.25 * affordable]
        widest = min(max(useful, default=0), affordable)
        return min(self.n_images - 1, max(widest, columns(self.error_size)))

    def usable_sizes(self, sizes: Sequence[int]) -> list[int]:
        """Distinct sizes, ascending, that are above the neighbours and below all images."""
        distinct = {integer("size", size, 1) for size in sizes}
        return sorted(size for size in distinct if self.n_neighbors < size < self.n_images)

    @staticmethod
    def check_replicates(n_replicates: int) -> int:
        """A number of batches: none, or so many that they have a spread."""
        if integer("n_replicates", n_replicates, 0, Calibration.MOST_REPLICATES) == 1:
            raise MarcError(
                "one of the replicates has no spread", got=1, allowed="0, or 2 and more"
            )
        return n_replicates

    def measure(
        self,
        keys: Float,
        table: Int,
        statistic: _Statistic,
        sizes: Sequence[int],
        n_replicates: int = REPLICATES,
        seed: int = 0,
        on_progress: OnProgress | None = None,
    ) -> NDArray[np.float64]:
        """A statistic of the neighbour tables of many batches, (replicates, sizes, ...).

        Args:
            keys: unit features (n, D).
            table: their neighbours, (n, at least n_neighbors).
            statistic: what to measure on a batch.
            sizes: images in a batch, below n.
            n_replicates: batches of each size.
            seed: of the batches; they do not depend on the space.
            on_progress: called with how many are done.
        """

        def of_batch(images: Int) -> ArrayLike:
            chosen = np.sort(images)
            return statistic(_thinned(keys, table, chosen, self.n_neighbors), chosen)

        with ThreadPoolExecutor(n_threads()) as threads:
            return self._replicates(of_batch, threads.map, sizes, n_replicates, seed, on_progress)

    def purities(
        self,
        keys: Float,
        table: Int,
        kinds: Sequence[Int],
        kappas: Sequence[int],
        sizes: Sequence[int],
        n_replicates: int = REPLICATES,
        seed: int = 0,
        on_progress: OnProgress | None = None,
        gpu: str | None = None,
    ) -> NDArray[np.float64]:
        """Purity by several kinds of labels (n,) at several kappa, on batches as in `measure`.

        (replicates, sizes, kinds, kappas); also on a GPU, as torch names it.
        """
        if gpu is not None:
            of_batch = _on_card(keys, table, kinds, kappas, self.n_neighbors, gpu)
            return self._replicates(of_batch, map, sizes, n_replicates, seed, on_progress)

        def statistic(part: Int, chosen: Int) -> ArrayLike:
            return purities(part, [labels[chosen] for labels in kinds], kappas)

        return self.measure(keys, table, statistic, sizes, n_replicates, seed, on_progress)

    def _replicates(
        self,
        of_batch: Callable[[Int], ArrayLike],
        each: Callable[..., Iterator[list[ArrayLike]]],
        sizes: Sequence[int],
        n_replicates: int,
        seed: int,
        on_progress: OnProgress | None,
    ) -> NDArray[np.float64]:
        """What `of_batch` says of the images of each batch, in any order; `each` is a `map`."""
        n_images = self.n_images
        integer("n_replicates", n_replicates, 2, Calibration.MOST_REPLICATES)
        integer("seed", seed, 0)
        for size in sizes:
            if not self.n_neighbors < size < n_images:
                raise MarcError(
                    "a calibration batch must have more images than neighbours, and not all images",
                    got=size,
                    allowed=f"{self.n_neighbors + 1} to {n_images - 1}",
                )

        def replicate(number: int) -> list[ArrayLike]:
            order = np.random.default_rng([seed, number]).permutation(n_images)
            return [of_batch(order[:size]) for size in sizes]

        report = on_progress or (lambda *_: None)
        report("batches", 0, n_replicates)
        values = []
        for value in each(replicate, range(n_replicates)):
            values.append(value)
            report("batches", len(values), n_replicates)
        return np.array(values, dtype=np.float64)

    def interval(self, estimate: float, batches: NDArray[np.float64]) -> Interval:
        """A fraction with its 95 % interval from batches of `error_size` (B,)."""
        error = Z_95 * float(self._standard_errors(batches))
        return Interval(estimate, max(0.0, estimate - error), min(1.0, estimate + error))

    def radii(self, batches: NDArray[np.float64]) -> NDArray[np.float64]:
        """Radii (S,) that hold for all S measures at once in 95 of 100 batches, from (B, S).

        Each is a multiple of its own standard error. The multiple is the 95 % quantile of the
        largest standardised deviation over the measures, which vary together, so it is below
        Bonferroni's.
        """
        deviations = np.abs(batches - batches.mean(axis=0))
        spread = batches.std(axis=0, ddof=1)
        scaled = np.divide(deviations, spread, out=np.zeros_like(deviations), where=spread > 0)
        largest = np.quantile(scaled.max(axis=1, initial=0.0), 0.95)
        return largest * self._standard_errors(batches)

    def _standard_errors(self, batches: NDArray[np.float64]) -> NDArray[np.float64]:
        """The standard error of a measure on all images from batches of `error_size` (B, ...)."""
        scale = math.sqrt(self.error_size / (self.n_images - self.error_size))
        return batches.std(axis=0, ddof=1) * scale


def purities(table: Int, kinds: Sequence[Int], kappas: Sequence[int]) -> list[list[float]]:
    """Purity of a table by each kind of labels at each kappa; of arrays or torch's tensors."""
    agree = [agreement(table[:, : max(kappas)], labels) for labels in kinds]
    return [[int(each[:, :k].sum()) / (len(each) * k) for k in kappas] for each in agree]


def central(values: NDArray[np.float64]) -> Interval:
    """The mean of what batches measure (B,), and their central 95 %."""
    low, high = np.quantile(values, (0.025, 0.975))
    return Interval(float(values.mean()), float(low), float(high))


def _thinned(keys: Float, table: Int, chosen: Int, n_neighbors: int) -> Int:
    """The neighbour table (m, k) of a subsample, from that of all points; exactly.

    `chosen` (m,) are ascending points, and the answer counts in positions among them. A point's
    neighbours among the chosen are in its list in the same order; where `table` is too short
    for that, similarities within the subsample are computed.
    """
    from marc.spaces._nearest import thin

    position = np.full(len(table), -1, dtype=np.int32)
    position[chosen] = np.arange(len(chosen))
    result = np.empty((len(chosen), n_neighbors), dtype=np.int32)
    thin(table, position, chosen, result)
    short = np.flatnonzero(result[:, 0] < 0)
    if len(short):
        result[short] = nearest(keys[chosen], short, n_neighbors)
    return result


def _on_card(
    keys: Float, table: Int, kinds: Sequence[Int], kappas: Sequence[int], n_neighbors: int, gpu: str
) -> Callable[[Int], ArrayLike]:
    """What gives the purities of a batch; its table is thinned on the GPU as in `_thinned`."""
    from marc.replay.device import place
    from marc.spaces import _gpu

    whole = place(table, gpu)
    labels = [place(each.astype(np.int64), gpu) for each in kinds]

    def of_batch(images: Int) -> ArrayLike:
        chosen = place(images, gpu).sort().values
        part, short = _gpu.thin(whole, chosen, n_neighbors)
        if len(short):
            found = nearest(keys[chosen.cpu().numpy()], short, n_neighbors, gpu=gpu)
            part[short] = place(found, gpu)
        return purities(part, [each[chosen] for each in labels], kappas)

    return of_batch
