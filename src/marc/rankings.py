"""What a label-free selection gives: a ranking of spaces, and whether its first place is certain.

There are two tests of a lead:

- `radii`, the paper's: it exceeds the sum of the simultaneous error radii of both spaces;
- `paired`: it exceeds its own simultaneous error. All spaces see the same images, so much of their
  error is shared and cancels in the difference. Sharper; `benchmarks/lab/leads.py` compares them.

A lead is one of pseudo-purity. That its space also gains most is another matter, and needs labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from marc.calibration import central, error_size, simultaneous_radii
from marc.errors import MarcError
from marc.stats import Interval, spearman

Test = Literal["radii", "paired"]
TESTS: tuple[Test, ...] = get_args(Test)
TEST: Test = "paired"
"""The test of a lead unless another is asked for; docs/results/leads.md compares them."""
HINTED_NEIGHBORS = 10
"""The kappa for which `capacity_hint` holds."""
Draws = Mapping[int, NDArray[np.float64]]
"""A measure on calibration batches, by their size: (replicates, spaces), higher is better."""


@dataclass(frozen=True)
class Candidate:
    """One space of a ranking."""

    space: str
    pseudo_purity: float
    """On all images."""
    radius: float
    """Error of `pseudo_purity`, for all spaces at once."""
    antihub_fraction: float
    batches: Mapping[int, Interval]
    """By size: the mean and the central 95 % of what batches of so many images measure."""
    recall: float = 1.0
    """Share of the true neighbours that were found, measured on a sample; 1 where all were."""
    n_duplicates: int = 0
    """Images whose features equal those of an earlier image: each other's neighbours."""

    @property
    def capacity_hint(self) -> tuple[int, int]:
        """Capacities that are worth trying first; see `capacity_hint`."""
        return capacity_hint(self.antihub_fraction)


@dataclass(frozen=True)
class Selection:
    """A ranking of spaces by pseudo-purity, and whether its first place is certain."""

    ranking: tuple[Candidate, ...]
    """Best first; equal ones in the order of the stream's spaces."""
    n_images: int
    n_neighbors: int
    n_replicates: int
    test: Test
    """How a lead is told from error, see `marc.rankings`."""
    chance: float
    """Pseudo-purity of neighbours drawn at random."""
    draws: Draws = field(repr=False, compare=False)
    """Pseudo-purity of batches; columns in the order of `ranking`."""

    @property
    def tied(self) -> tuple[str, ...]:
        """The leader and every space from which its lead is not resolved."""
        return tuple(
            [self.ranking[0].space]
            + [other.space for other in self.ranking[1:] if not self.resolved(other)]
        )

    @property
    def space(self) -> str | None:
        """The chosen space; None when it is too close to call."""
        return self.ranking[0].space if len(self.tied) == 1 else None

    @cached_property
    def leads(self) -> dict[str, Interval]:
        """The leader's pseudo-purity minus that of each other space, paired.

        Their intervals hold together in 95 of 100 cases.
        """
        batches = self.draws[error_size(self.n_images)]
        radii = simultaneous_radii(batches[:, :1] - batches[:, 1:], self.n_images)
        return {
            other.space: Interval(lead, lead - float(radius), lead + float(radius))
            for other, radius in zip(self.ranking[1:], radii, strict=True)
            for lead in [self.ranking[0].pseudo_purity - other.pseudo_purity]
        }

    def resolved(self, other: Candidate) -> bool:
        """Whether the leader stands apart from another space."""
        if self.test == "paired":
            return self.leads[other.space].low > 0
        leader = self.ranking[0]
        return leader.pseudo_purity - other.pseudo_purity > leader.radius + other.radius

    @property
    def agreement(self) -> dict[int, float]:
        """By size: how often a batch of so many images has the same leader as all images."""
        return zero_regret(self.draws, [1.0] + [0.0] * (len(self.ranking) - 1))

    def zero_regret(self, gains: Mapping[str, float]) -> dict[int, float]:
        """By size: how often a batch chooses a space of the highest gain.

        Gains are measured with labels, for example by a sweep: this judges the rule afterwards.
        """
        return zero_regret(self.draws, gains_of(gains, [each.space for each in self.ranking]))

    def rank_correlation(self, gains: Mapping[str, float]) -> dict[int, Interval]:
        """By size: Spearman's correlation of a batch's pseudo-purity with gains over the spaces.

        The mean over batches and their central 95 %; gains as in `zero_regret`. `marc.regrets`
        has the same for purity and anti-hubs.
        """
        return rank_correlation(self.draws, gains_of(gains, [each.space for each in self.ranking]))

    def __str__(self) -> str:
        return self.space or f"too close to call: {', '.join(self.tied)}"


def capacity_hint(antihubs: float) -> tuple[int, int]:
    """A range of capacities to try first, from the anti-hub fraction at kappa 10; only a hint.

    From one table of the paper (7,500 images): 0.7 to 2 % of anti-hubs went with a best capacity
    of 8 to 16, 3.4 % and more with 1 or 2. Another of its tables has a space with 1.9 % and a best
    capacity of 1. The fraction itself depends on the number of images.

    >>> capacity_hint(0.012), capacity_hint(0.063)
    ((8, 16), (1, 2))
    """
    if antihubs <= 0.02:
        return 8, 16
    return (2, 8) if antihubs < 0.034 else (1, 2)


def zero_regret(draws: Draws, gains: Sequence[float]) -> dict[int, float]:
    """By size: how often the space that a batch puts first, or one of those, has the most gain.

    Of several first places the first column counts.
    """
    best = np.asarray(gains) == max(gains)
    return {size: float(best[rows.argmax(axis=1)].mean()) for size, rows in draws.items()}


def rank_correlation(draws: Draws, gains: Sequence[float]) -> dict[int, Interval]:
    """By size: Spearman's correlation of batches with gains, the mean and the central 95 %.

    A batch on which all spaces are equal has none and is left out; not a number if all are.

    >>> rank_correlation({250: np.array([[0.9, 0.5, 0.1], [0.5, 0.9, 0.1]])}, [3, 2, 1])
    {250: Interval(estimate=0.75, low=0.5125, high=0.9875)}
    """
    found = {}
    for size, rows in draws.items():
        values = np.array([spearman(row, gains) for row in rows])
        defined = values[~np.isnan(values)]
        nan = float("nan")
        found[size] = central(defined) if len(defined) else Interval(nan, nan, nan)
    return found


def gains_of(gains: Mapping[str, float], spaces: Sequence[str]) -> list[float]:
    """The gains of some spaces, in their order."""
    missing = [space for space in spaces if space not in gains]
    if missing:
        raise MarcError(
            "there is no gain for a space of the ranking",
            got=", ".join(missing),
            allowed=", ".join(gains) or "none",
            hint="gains of every space, for example from a sweep of them",
        )
    return [float(gains[space]) for space in spaces]
