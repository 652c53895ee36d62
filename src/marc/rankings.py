"""What a label-free selection gives: a ranking of spaces, and whether its first place is certain.

There are two tests of a lead:

- `radii`, the paper's: it exceeds the sum of the simultaneous error radii of both spaces;
- `paired`: it exceeds its own simultaneous error. All spaces see the same images, so much of their
  error is shared and cancels in the difference. Sharper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from marc.calibration import simultaneous_radii
from marc.errors import MarcError
from marc.stats import Interval

HINTED_NEIGHBORS = 10
"""The kappa for which `capacity_hint` holds."""
Draws = Mapping[int, NDArray[np.float64]]
"""Pseudo-purity on calibration batches, by their size: (replicates, spaces)."""


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
    test: Literal["radii", "paired"]
    """How a lead is told from error, see `marc.rankings`."""
    chance: float
    """Pseudo-purity of neighbours drawn at random."""
    draws: Draws = field(repr=False, compare=False)
    """Columns in the order of `ranking`."""

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
        halves = self.draws[self.n_images // 2]
        radii = simultaneous_radii(halves[:, :1] - halves[:, 1:], self.n_images)
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
        return {size: float((rows.argmax(axis=1) == 0).mean()) for size, rows in self.draws.items()}

    def zero_regret(self, gains: Mapping[str, float]) -> dict[int, float]:
        """By size: how often a batch chooses a space of the highest gain.

        Gains are measured with labels, for example by a sweep: this judges the rule afterwards.
        """
        values = np.array([_gain(gains, each.space) for each in self.ranking])
        best = values == values.max()
        return {size: float(best[rows.argmax(axis=1)].mean()) for size, rows in self.draws.items()}

    def __str__(self) -> str:
        return self.space or f"too close to call: {', '.join(self.tied)}"


def capacity_hint(antihubs: float) -> tuple[int, int]:
    """A range of capacities to try first, from the anti-hub fraction at kappa 10; only a hint.

    From one table of the paper (7,500 images): 0.7 to 2 % of anti-hubs went with a best capacity
    of 8 to 16, 3.4 % and more with 1 or 2. The fraction itself depends on the number of images.

    >>> capacity_hint(0.012), capacity_hint(0.063)
    ((8, 16), (1, 2))
    """
    if antihubs <= 0.02:
        return 8, 16
    return (2, 8) if antihubs < 0.034 else (1, 2)


def _gain(gains: Mapping[str, float], space: str) -> float:
    if space not in gains:
        raise MarcError("there is no gain for a space of the ranking", got=space, allowed=[*gains])
    return gains[space]
