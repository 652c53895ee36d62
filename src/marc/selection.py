"""Which space to retrieve in, without labels: rank by pseudo-purity, or say that it is too close.

A space whose nearest neighbours share the predictor's answer has neighbours of one class. The
leader is chosen only if its lead is more than measurement error; otherwise the answer is the set
of spaces that cannot be told apart. `marc.rankings` has the two tests of a lead.

No label of the stream is read here. Pseudo-purity rewards a space for sharing the predictor's
mistakes too, so the predictor's own space stands higher than it should.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marc.calibration import (
    REPLICATES,
    SIZES,
    calibrate,
    central,
    error_size,
    simultaneous_radii,
    table_width,
    usable_sizes,
)
from marc.errors import MarcError, one_of, whole_number
from marc.features import Features
from marc.geometry import agreement, antihub_fraction, chance, pseudo_labels
from marc.neighbors import Table, count_duplicates, wide_table
from marc.progress import OnProgress
from marc.rankings import TEST, TESTS, Candidate, Selection, Test
from marc.scores import Int
from marc.stream import Stream
from marc.sweeps import Sweep, best_setting, check_sources

_FEWEST = 4  # images for each neighbour: with fewer, batches of all spaces look alike


def select(
    stream: Stream,
    spaces: Sequence[str] | None = None,
    *,
    n_neighbors: int = 10,
    sizes: Sequence[int] = SIZES,
    n_replicates: int = REPLICATES,
    seed: int = 0,
    test: Test = TEST,
) -> Selection:
    """Rank the spaces of a stream by pseudo-purity, without labels.

    Args:
        stream: any stream; its labels, if it has some, are not read.
        spaces: names, all stored ones by default; see `Features.keys` for transforms.
        n_neighbors: kappa.
        sizes: calibration batches to look at; those that are not below the stream's size are
            left out, and four fifths of it are always added, for the error radii.
        n_replicates: batches of each size.
        seed: of the batches.
        test: how a lead is told from error: `paired`, or `radii`, the paper's, which is blunter.

    >>> import marc
    >>> choice = marc.select(marc.synthetic_stream(n_images=400), n_replicates=50)
    >>> choice.space, [each.space for each in choice.ranking]
    ('classes', ['classes', 'both', 'noise', 'styles'])
    """
    job = plan_selection(stream, spaces, n_neighbors, sizes, n_replicates, seed)
    return job.result([job.space(name) for name in job.spaces], test)


def plan_selection(
    stream: Stream,
    spaces: Sequence[str] | None = None,
    n_neighbors: int = 10,
    sizes: Sequence[int] = SIZES,
    n_replicates: int = REPLICATES,
    seed: int = 0,
) -> SelectionJob:
    """Check everything about a selection; nothing is computed yet."""
    names = stream.spaces if spaces is None else tuple(spaces)
    if not names or len(set(names)) < len(names):
        raise MarcError("a selection needs distinct spaces", got=names, allowed=stream.spaces)
    for name in names:
        stream.features.dim(name)
    n_images = len(stream.features.ids)
    if _FEWEST * whole_number("n_neighbors", n_neighbors, 1) > n_images:
        raise MarcError(
            "there are too few images to tell spaces apart by that many neighbours",
            got=f"{n_images} image(s), {n_neighbors} neighbours",
            allowed=f"{_FEWEST * n_neighbors} images or more",
            hint=f"{n_images // _FEWEST} neighbours or fewer" if n_images >= _FEWEST else None,
        )
    return SelectionJob(
        features=stream.features,
        pseudo_labels=pseudo_labels(stream),
        spaces=names,
        n_neighbors=n_neighbors,
        sizes=tuple(usable_sizes([error_size(n_images), *sizes], n_neighbors, n_images)),
        n_replicates=whole_number("n_replicates", n_replicates, 2),
        seed=whole_number("seed", seed, 0),
    )


@dataclass(frozen=True)
class Measured:
    """Pseudo-purity of one space, on all images and on batches."""

    space: str
    pseudo_purity: float
    antihub_fraction: float
    recall: float
    n_duplicates: int
    draws: NDArray[np.float64]
    """(replicates, sizes)."""


@dataclass(frozen=True)
class SelectionJob:
    """A selection that was checked; it holds no labels. Each space is one piece of work."""

    features: Features
    pseudo_labels: Int
    spaces: tuple[str, ...]
    n_neighbors: int
    sizes: tuple[int, ...]
    n_replicates: int
    seed: int

    @property
    def n_images(self) -> int:
        """T."""
        return len(self.pseudo_labels)

    def space(self, space: str, on_progress: OnProgress | None = None) -> Measured:
        """Measure one space."""
        keys = self.features.keys(space)
        width = table_width(self.n_images, self.n_neighbors, self.sizes)
        table, recall = wide_table(keys, width, on_progress)
        near = table[:, : self.n_neighbors]

        def pseudo_purity(part: Table, chosen: Int) -> float:
            return float(agreement(part, self.pseudo_labels[chosen]).mean())

        return Measured(
            space=space,
            pseudo_purity=pseudo_purity(near, np.arange(self.n_images)),
            antihub_fraction=antihub_fraction(None, self.n_neighbors, table=near),
            recall=recall,
            n_duplicates=count_duplicates(keys),
            draws=calibrate(
                *(keys, table, pseudo_purity, self.n_neighbors),
                *(self.sizes, self.n_replicates, self.seed, on_progress),
            ),
        )

    def result(self, measured: Sequence[Measured], test: Test = TEST) -> Selection:
        """Rank the spaces that are measured."""
        one_of("test of a lead", test, TESTS)
        ranked = sorted(measured, key=lambda each: -each.pseudo_purity)  # stable
        by_size = np.stack([each.draws for each in ranked]).T  # (sizes, replicates, spaces)
        draws = dict(zip(self.sizes, by_size, strict=True))
        radii = simultaneous_radii(draws[error_size(self.n_images)], self.n_images)
        return Selection(
            ranking=tuple(
                Candidate(
                    space=each.space,
                    pseudo_purity=each.pseudo_purity,
                    radius=float(radius),
                    antihub_fraction=each.antihub_fraction,
                    batches={n: central(each.draws[:, i]) for i, n in enumerate(self.sizes)},
                    recall=each.recall,
                    n_duplicates=each.n_duplicates,
                )
                for each, radius in zip(ranked, radii, strict=True)
            ),
            n_images=self.n_images,
            n_neighbors=self.n_neighbors,
            n_replicates=self.n_replicates,
            test=test,
            chance=chance(self.pseudo_labels),
            draws=draws,
        )


def transferred(stream: Stream, source: Sweep, space: str) -> tuple[int, float]:
    """The capacity and weight that are best on a labelled stream, to be used on this one.

    By the mean over its orders, on its grid; equal ones go to the smaller capacity and weight.
    """
    check_sources([source], stream.features.images, source.capacities, source.weights, [space])
    return best_setting([source], space)


def own_spaces(features: Features, spaces: Sequence[str]) -> tuple[str, ...]:
    """Those that are the predictor's own features, by name or by content, transformed or not."""

    def is_own(space: str) -> bool:
        name = space.partition("+")[0]
        return name == "predictor" or np.array_equal(features.spaces[name], features.clip_keys)

    return tuple(space for space in spaces if is_own(space))
