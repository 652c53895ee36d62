"""The geometry of a retrieval space: who is whose neighbour, and do neighbours share a class.

All measures are functions of one neighbour table (n, k), see `neighbors.py`. Each takes either
features, from which it makes the table, or a `table` that is as wide as needed or wider: the first
kappa columns are the neighbours at kappa. A table of n points has n kappa edges, of which
n kappa (1 - purity) join two classes, and n (1 - anti-hub fraction) points receive one.

The anti-hub fraction and the skewness depend on the number of images: compare them only between
spaces of the same images.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.errors import MarcError, check_integers, instance, integer
from marc.replay.device import choose_gpu
from marc.scores import Float, Int, unit
from marc.spaces.calibration import Calibration, purities
from marc.spaces.neighbors import (
    EXACT_UP_TO,
    as_table,
    check_kappas,
    count_duplicates,
    known_table,
    wide_table,
)
from marc.spaces.neighbors import agreement as agreement
from marc.spaces.neighbors import approximate_neighbors as approximate_neighbors
from marc.spaces.neighbors import neighbors as neighbors
from marc.stats import Interval
from marc.stream import Stream
from marc.types import OnProgress

ENOUGH = 20_000
"""Images of a sample: the error of a fraction is below one point."""
_HELD = 2**27  # logits that may be held, 512 MiB; of more, some rows at a time
_ROWS = 4096


def purity(
    features: ArrayLike | None,
    labels: ArrayLike,
    n_neighbors: int = 10,
    *,
    table: ArrayLike | None = None,
) -> float:
    """P(kappa): the fraction of neighbours that have the class of the point they are neighbours of.

    >>> table = [[1, 2], [0, 2], [1, 0]]
    >>> purity(None, [7, 7, 8], 1, table=table)
    0.6666666666666666
    """
    neighbours = as_table(features, n_neighbors, table)
    return float(agreement(neighbours, check_integers(labels, len(neighbours))).mean())


def pseudo_purity(
    features: ArrayLike | None,
    pseudo_labels: ArrayLike,
    n_neighbors: int = 10,
    *,
    table: ArrayLike | None = None,
) -> float:
    """Purity with predictions in place of labels: the same number, another claim.

    It rewards a space for sharing the predictor's mistakes too, most of all the predictor's own.
    """
    return purity(features, pseudo_labels, n_neighbors, table=table)


def per_class_purity(
    features: ArrayLike | None,
    labels: ArrayLike,
    n_neighbors: int = 10,
    *,
    table: ArrayLike | None = None,
) -> NDArray[np.float64]:
    """Purity over the points of each class 0..C-1; not a number for a class without points."""
    neighbours = as_table(features, n_neighbors, table)
    classes = check_integers(labels, len(neighbours))
    if classes.min() < 0:
        raise MarcError("a purity per class needs classes from 0", got=int(classes.min()))
    return _by_class(neighbours, classes, int(classes.max()) + 1)


def in_degrees(
    features: ArrayLike | None, n_neighbors: int = 10, *, table: ArrayLike | None = None
) -> NDArray[np.int64]:
    """d(kappa): of how many points each point is a neighbour, (n,)."""
    return _degrees(as_table(features, n_neighbors, table))


def antihub_fraction(
    features: ArrayLike | None, n_neighbors: int = 10, *, table: ArrayLike | None = None
) -> float:
    """A(kappa): the fraction of points that are a neighbour of no other point."""
    return float((in_degrees(features, n_neighbors, table=table) == 0).mean())


def hub_skewness(
    features: ArrayLike | None, n_neighbors: int = 10, *, table: ArrayLike | None = None
) -> float:
    """The third standardised moment of the in-degrees; 0 where all points have the same."""
    return _skewness(in_degrees(features, n_neighbors, table=table))


class Hub(NamedTuple):
    """A point and how many others have it among their neighbours."""

    item: int
    in_degree: int


def top_hubs(
    features: ArrayLike | None,
    n_neighbors: int = 10,
    *,
    n_hubs: int = 10,
    table: ArrayLike | None = None,
) -> tuple[Hub, ...]:
    """The points of highest in-degree, highest first; equal ones by index."""
    degrees = in_degrees(features, n_neighbors, table=table)
    first = np.argsort(-degrees, kind="stable")[: integer("n_hubs", n_hubs, 0)]
    return tuple(Hub(int(item), int(degrees[item])) for item in first)


@dataclass(frozen=True)
class Measures:
    """What is measured at one kappa: estimates on all images, with 95 % intervals."""

    n_neighbors: int
    purity: Interval | None
    """None without labels."""
    pseudo_purity: Interval
    antihub_fraction: float
    hub_skewness: float


@dataclass(frozen=True)
class Geometry:
    """The geometry of one space of a stream, before anything is adapted."""

    space: str
    n_images: int
    n_duplicates: int
    """Images whose features equal those of an earlier image; they stay in."""
    recall: float
    """Fraction of the true neighbours in the table, measured on a sample; 1 where it is exact."""
    measures: Mapping[int, Measures]
    """By kappa, ascending."""
    per_class_purity: NDArray[np.float64] | None
    """(C,) at the largest kappa; not a number for a class without images."""
    hubs: tuple[Hub, ...]
    """The ten highest in-degrees at the largest kappa; items are stored rows."""


def looked_at(stream: Stream, n_images: int | None = None) -> Stream:
    """The images whose neighbours are looked at: so many, drawn at random, or 0 for all.

    By default all, but of more than `EXACT_UP_TO`, whose table takes hours, a sample of `ENOUGH`.
    """
    instance("stream", stream, Stream)
    size = len(stream.features.ids)
    if n_images is None and size > EXACT_UP_TO:
        every = "all of them: --images 0, or n_images=0"
        warnings.warn(
            f"a random sample of {ENOUGH:,} of {size:,} images is looked at; {every}", stacklevel=3
        )
        n_images = ENOUGH
    return stream.sample(n_images) if n_images else stream


def measure(
    stream: Stream,
    space: str,
    n_neighbors: Sequence[int] = (5, 10),
    *,
    n_replicates: int = Calibration.REPLICATES,
    seed: int = 0,
    table: ArrayLike | None = None,
    device: str = "cpu",
    on_progress: OnProgress | None = None,
) -> Geometry:
    """Measure one space of a stream at several kappa, from one neighbour table.

    Args:
        stream: any stream; without labels there is no purity.
        space: a name, see `Features.keys`.
        n_neighbors: kappa.
        n_replicates: batches behind the intervals, see `calibration.py`; with none, or with too
            few images for any, the ends of the intervals are not a number.
        seed: of the batches.
        table: neighbours that are known already, (n, at least the largest kappa); its recall is
            measured. The wider it is, the fewer have to be found again for the intervals.
        device: `cpu`, `auto`, `cuda` or `cuda:N`; all give the same numbers.
        on_progress: called with what is being done.
    """
    gpu = choose_gpu(device)
    keys = stream.features.keys(space)[:]  # of a large stream, all that were asked for
    kappas = check_kappas(n_neighbors, len(keys))
    if table is None:
        # intervals need a wider table than the measures themselves
        spread = Calibration.check_replicates(n_replicates)
        width = Calibration(len(keys), kappas[-1]).table_width() if spread else kappas[-1]
        whole, recall = wide_table(keys, width, on_progress, gpu)
    else:
        whole, recall = known_table(keys, kappas[-1], table)
    labels = stream.row_labels
    kinds = [pseudo_labels(stream)] if labels is None else [pseudo_labels(stream), labels]
    pseudo, *real = _intervals(keys, whole, kinds, kappas, n_replicates, seed, on_progress, gpu)
    measures = {}
    for index, kappa in enumerate(kappas):
        degrees = _degrees(whole[:, :kappa])
        measures[kappa] = Measures(
            n_neighbors=kappa,
            purity=real[0][index] if real else None,
            pseudo_purity=pseudo[index],
            antihub_fraction=float((degrees == 0).mean()),
            hub_skewness=_skewness(degrees),
        )
    return Geometry(
        space=space,
        n_images=len(keys),
        n_duplicates=count_duplicates(keys),
        recall=recall,
        measures=measures,
        per_class_purity=(
            None if labels is None else _by_class(whole[:, : kappas[-1]], labels, stream.n_classes)
        ),
        hubs=top_hubs(None, kappas[-1], table=whole),
    )


def geometry_of(
    stream: Stream,
    spaces: Sequence[str] | None = None,
    *,
    n_neighbors: Sequence[int] = (5, 10),
    n_replicates: int = Calibration.REPLICATES,
    seed: int = 0,
    device: str = "cpu",
    n_images: int | None = None,
) -> dict[str, Geometry]:
    """Measure several spaces of a stream, as `marc geometry` does; see `measure`.

    Args:
        stream: any stream; without labels there is no purity.
        spaces: names, all stored ones by default; see `Features.keys` for transforms.
        n_neighbors: kappa.
        n_replicates: batches behind the intervals; 0 for no intervals.
        seed: of the batches.
        device: what computes, see `measure`.
        n_images: images to look at, see `looked_at`; 0 for all.

    >>> import marc
    >>> spaces = marc.geometry_of(marc.synthetic_stream(n_images=100), n_replicates=0)
    >>> [name for name in spaces if spaces[name].measures[10].pseudo_purity.estimate > 0.1]
    ['classes', 'both']
    """
    # pseudo-labels are of plain images, and are computed once
    plain = looked_at(stream, n_images).with_views(1)
    spaces = [spaces] if isinstance(spaces, str) else spaces
    return {
        name: measure(plain, name, n_neighbors, n_replicates=n_replicates, seed=seed, device=device)
        for name in (stream.spaces if spaces is None else spaces)
    }


def pseudo_labels(stream: Stream) -> Int:
    """The predictor's answers to the plain images, by stored row (N,): labels for those without."""
    features = stream.features
    if len(features.ids) * stream.n_classes <= _HELD:
        return stream.with_views(1).features.base.label  # kept where there is one view
    labels = np.empty(len(features.ids), dtype=np.int64)
    for start in range(0, len(labels), _ROWS):
        plain = unit(features.views[start : start + _ROWS, :1])
        labels[start : start + _ROWS] = features.predictor.logits(plain)[:, 0].argmax(axis=-1)
    return labels


def chance(labels: Int) -> float:
    """The purity of neighbours drawn at random: what a space without any structure has.

    >>> chance(np.array([0, 0, 1, 1]))
    0.3333333333333333
    """
    _, counts = np.unique(labels, return_counts=True)
    return float((counts * (counts - 1)).sum() / (len(labels) * (len(labels) - 1)))


def _intervals(
    keys: Float,
    table: Int,
    kinds: Sequence[Int],
    kappas: tuple[int, ...],
    n_replicates: int,
    seed: int,
    on_progress: OnProgress | None,
    gpu: str | None,
) -> list[list[Interval]]:
    """Purity of each kind of labels at each kappa on all images, with its interval."""
    estimates = purities(table, kinds, kappas)
    calibration = Calibration(len(keys), kappas[-1])
    size = calibration.error_size
    if n_replicates == 0 or size <= kappas[-1]:
        nan = float("nan")
        return [[Interval(value, nan, nan) for value in row] for row in estimates]
    of_sizes = calibration.purities(
        keys, table, kinds, kappas, (size,), n_replicates, seed, on_progress, gpu
    )
    batches = of_sizes[:, 0]
    return [
        [calibration.interval(value, batches[:, kind, i]) for i, value in enumerate(row)]
        for kind, row in enumerate(estimates)
    ]


def _by_class(table: Int, labels: Int, n_classes: int) -> NDArray[np.float64]:
    counts = np.bincount(labels, minlength=n_classes)
    sums = np.bincount(labels, agreement(table, labels).mean(axis=1), minlength=n_classes)
    return np.where(counts, sums / np.maximum(counts, 1), np.nan)


def _degrees(table: Int) -> NDArray[np.int64]:
    return np.bincount(table.ravel(), minlength=len(table))


def _skewness(degrees: NDArray[np.int64]) -> float:
    deviations = degrees - degrees.mean()
    variance = float((deviations**2).mean())
    return float((deviations**3).mean()) / variance**1.5 if variance > 0 else 0.0
