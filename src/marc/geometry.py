"""The geometry of a retrieval space: who is whose neighbour, and do neighbours share a class.

All measures are functions of one neighbour table (n, k), see `marc.neighbors`. Each takes either
features, from which it makes the table, or a `table` that is as wide as needed or wider: the first
kappa columns are the neighbours at kappa. A table of n points has n kappa edges, of which
n kappa (1 - purity) join two classes, and n (1 - anti-hub fraction) points receive one.

The anti-hub fraction and the skewness depend on the number of images: compare them only between
spaces of the same images.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc import checks
from marc.calibration import REPLICATES, calibrate, interval_of, table_width
from marc.errors import MarcError, whole_number
from marc.neighbors import Keys, Table, as_table, check_n_neighbors, wide_table
from marc.neighbors import approximate_neighbors as approximate_neighbors
from marc.neighbors import neighbors as neighbors
from marc.scores import Int
from marc.stats import Interval
from marc.stream import Stream


def purity(
    features: ArrayLike | None,
    labels: ArrayLike,
    n_neighbors: int = 10,
    *,
    table: ArrayLike | None = None,
) -> float:
    """P(kappa): the share of neighbours that have the class of the point they are neighbours of.

    >>> table = [[1, 2], [0, 2], [1, 0]]
    >>> purity(None, [7, 7, 8], 1, table=table)
    0.6666666666666666
    """
    found = as_table(features, n_neighbors, table)
    return float(agreement(found, checks.whole_numbers(labels, len(found))).mean())


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
    found = as_table(features, n_neighbors, table)
    classes = checks.whole_numbers(labels, len(found))
    if classes.min() < 0:
        raise MarcError("a purity per class needs classes from 0", got=int(classes.min()))
    return _by_class(found, classes, int(classes.max()) + 1)


def in_degrees(
    features: ArrayLike | None, n_neighbors: int = 10, *, table: ArrayLike | None = None
) -> NDArray[np.int64]:
    """d(kappa): of how many points each point is a neighbour, (n,)."""
    return _degrees(as_table(features, n_neighbors, table))


def antihub_fraction(
    features: ArrayLike | None, n_neighbors: int = 10, *, table: ArrayLike | None = None
) -> float:
    """A(kappa): the share of points that are a neighbour of no other point."""
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
    first = np.argsort(-degrees, kind="stable")[: whole_number("n_hubs", n_hubs, 0)]
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
    """Share of the true neighbours in the table, measured on a sample; 1 where it is exact."""
    measures: Mapping[int, Measures]
    """By kappa, ascending."""
    per_class_purity: NDArray[np.float64] | None
    """(C,) at the largest kappa; not a number for a class without images."""
    hubs: tuple[Hub, ...]
    """The ten highest in-degrees at the largest kappa; items are stored rows."""


def measure(
    stream: Stream,
    space: str,
    n_neighbors: Sequence[int] = (5, 10),
    *,
    n_replicates: int = REPLICATES,
    seed: int = 0,
) -> Geometry:
    """Measure one space of a stream at several kappa, from one neighbour table.

    Intervals come from half-samples of the images, see `marc.calibration`; with no replicates, or
    too few images for any, their ends are not a number.
    """
    keys = stream.features.keys(space)
    kappas = check_kappas(n_neighbors, len(keys))
    table, recall = wide_table(keys, table_width(len(keys), kappas[-1], (len(keys) // 2,)))
    labels = stream.row_labels
    pseudo = _intervals(keys, table, pseudo_labels(stream), kappas, n_replicates, seed)
    real = None if labels is None else _intervals(keys, table, labels, kappas, n_replicates, seed)
    measures = {}
    for kappa in kappas:
        degrees = _degrees(table[:, :kappa])
        measures[kappa] = Measures(
            n_neighbors=kappa,
            purity=None if real is None else real[kappa],
            pseudo_purity=pseudo[kappa],
            antihub_fraction=float((degrees == 0).mean()),
            hub_skewness=_skewness(degrees),
        )
    return Geometry(
        space=space,
        n_images=len(keys),
        n_duplicates=_n_duplicates(keys),
        recall=recall,
        measures=measures,
        per_class_purity=(
            None if labels is None else _by_class(table[:, : kappas[-1]], labels, stream.n_classes)
        ),
        hubs=top_hubs(None, kappas[-1], table=table),
    )


def pseudo_labels(stream: Stream) -> Int:
    """The predictor's answers to the plain images, by stored row (N,): labels for those without."""
    return stream.with_views(1).features.base.label


def check_kappas(n_neighbors: Sequence[int], n_images: int) -> tuple[int, ...]:
    """Several kappa, ascending and distinct."""
    kappas = sorted({check_n_neighbors(kappa, n_images) for kappa in n_neighbors})
    if not kappas:
        raise MarcError("geometry needs a number of neighbours", got="none", hint="n_neighbors=10")
    return tuple(kappas)


def agreement(table: Table, labels: Int) -> NDArray[np.bool_]:
    """Whether each neighbour of a table has the class of its point, (n, k)."""
    return labels[table] == labels[:, np.newaxis]


def _intervals(
    keys: Keys, table: Table, labels: Int, kappas: tuple[int, ...], n_replicates: int, seed: int
) -> dict[int, Interval]:
    """Purity at each kappa on all images, with its interval over half-samples."""

    def purities(part: Table, chosen: Int) -> list[float]:
        agree = agreement(part, labels[chosen])
        return [agree[:, :kappa].mean() for kappa in kappas]

    estimates = purities(table[:, : kappas[-1]], np.arange(len(keys)))
    half = len(keys) // 2
    if n_replicates == 0 or half <= kappas[-1]:
        nan = float("nan")
        return {k: Interval(float(p), nan, nan) for k, p in zip(kappas, estimates, strict=True)}
    halves = calibrate(keys, table, purities, kappas[-1], (half,), n_replicates, seed)[:, 0]
    return {
        kappa: interval_of(float(estimates[place]), halves[:, place], len(keys))
        for place, kappa in enumerate(kappas)
    }


def _by_class(table: Table, labels: Int, n_classes: int) -> NDArray[np.float64]:
    counts = np.bincount(labels, minlength=n_classes)
    sums = np.bincount(labels, agreement(table, labels).mean(axis=1), minlength=n_classes)
    return np.where(counts, sums / np.maximum(counts, 1), np.nan)


def _degrees(table: Table) -> NDArray[np.int64]:
    return np.bincount(table.ravel(), minlength=len(table))


def _skewness(degrees: NDArray[np.int64]) -> float:
    deviations = degrees - degrees.mean()
    variance = float((deviations**2).mean())
    return float((deviations**3).mean()) / variance**1.5 if variance > 0 else 0.0


def _n_duplicates(keys: Keys) -> int:
    """Rows that equal an earlier row."""
    return len(keys) - len({hashlib.sha256(row.tobytes()).digest() for row in keys})
