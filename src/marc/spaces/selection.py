"""Which memory to read, without labels: whether any, and which space is the best by itself.

A space whose nearest neighbours share the predictor's answer has neighbours of one class. The
leader is chosen only if its lead is more than measurement error; otherwise the answer is the set
of spaces that cannot be told apart. There are two tests of a lead: `radii`, the paper's, asks
whether it is above the sum of both errors, `paired` looks at the error of the difference itself.
Whether any memory is worth it is another question, which `marc.spaces.trust` answers.

No label of the stream is read here. Pseudo-purity rewards a space for sharing the predictor's
mistakes too, so the predictor's own space ranks higher than it should.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, instance, integer, one_of
from marc.replay.device import choose_gpu
from marc.scores import Int
from marc.spaces.calibration import Calibration, central, purities
from marc.spaces.geometry import antihub_fraction, chance, looked_at, pseudo_labels
from marc.spaces.neighbors import count_duplicates, wide_table
from marc.spaces.trust import ALL, LEAST_TRUST, trust
from marc.stats import Interval, spearman
from marc.stream import Features, Stream
from marc.types import OnProgress, Shown

_FEWEST = 4  # images for each neighbour: with fewer, batches of all spaces look alike

_Draws = Mapping[int, NDArray[np.float64]]
"""A measure on calibration batches, by their size: (replicates, spaces), higher is better."""


@dataclass(frozen=True)
class Candidate:
    """One space of a ranking."""

    HINTED_NEIGHBORS: ClassVar[int] = 10
    """The kappa for which `capacity_hint` holds."""

    space: str
    pseudo_purity: float
    """On all images."""
    radius: float
    """Error of `pseudo_purity`, for all spaces at once."""
    antihub_fraction: float
    batches: Mapping[int, Interval]
    """By size: the mean and the central 95 % of what batches of so many images measure."""
    recall: float = 1.0
    """Fraction of the true neighbours that were found, measured on a sample; 1 where all were."""
    n_duplicates: int = 0
    """Images whose features equal those of an earlier image: each other's neighbours."""
    trust: float = math.nan
    """How far class means in this space are trusted, 0 to 1; not a number if not measured."""

    @property
    def capacity_hint(self) -> tuple[int, int]:
        """Capacities that are worth trying first; see `_capacity_hint`."""
        return _capacity_hint(self.antihub_fraction)


@dataclass(frozen=True, repr=False)
class Selection(Shown):
    """A ranking of spaces by pseudo-purity, and whether its leader is certain."""

    TESTS: ClassVar[tuple[str, ...]] = ("paired", "radii")
    """Tests of a lead, the default first; docs/results/leads.md compares them."""

    ranking: tuple[Candidate, ...]
    """Best first; equal ones in the order of the stream's spaces."""
    n_images: int
    n_neighbors: int
    n_replicates: int
    test: str
    """How a lead is told from error: one of `TESTS`."""
    chance: float
    """Pseudo-purity of neighbours drawn at random."""
    draws: _Draws = field(repr=False, compare=False)
    """Pseudo-purity of batches; columns in the order of `ranking`."""
    trust: float = math.nan
    """How far class means are trusted that read all these spaces and the predictor's own."""

    @property
    def method(self) -> str:
        """How to read a memory: `class-means`, or `none` where no space is worth it."""
        none = all(each.trust <= LEAST_TRUST for each in self.ranking)  # not if never measured
        return "none" if none else "class-means"

    @property
    def reason(self) -> str:
        """Why `method` is what it is."""
        best = max(self.ranking, key=lambda each: each.trust)
        if self.method == "none":
            why = "no space agrees with the predictor beyond chance where it doubts"
            return f"{why}: trust {best.trust:.3f} at most, more than {LEAST_TRUST:g} is needed"
        return f"{best.space} agrees with the predictor where it doubts: trust {best.trust:.2f}"

    @property
    def tied(self) -> tuple[str, ...]:
        """The leader and every space from which its lead is not resolved."""
        first, *others = self.ranking
        return first.space, *(other.space for other in others if not self.resolved(other))

    @property
    def space(self) -> str | None:
        """The purest space, whatever its `trust`; None when it is too close to call."""
        return self.ranking[0].space if len(self.tied) == 1 else None

    @cached_property
    def leads(self) -> dict[str, Interval]:
        """The leader's pseudo-purity minus that of each other space, paired.

        Their intervals hold together in 95 of 100 cases.
        """
        calibration = Calibration(self.n_images, self.n_neighbors)
        batches = self.draws[calibration.error_size]
        radii = calibration.radii(batches[:, :1] - batches[:, 1:])
        return {
            other.space: Interval(lead, lead - float(radius), lead + float(radius))
            for other, radius in zip(self.ranking[1:], radii, strict=True)
            for lead in [self.ranking[0].pseudo_purity - other.pseudo_purity]
        }

    def resolved(self, other: Candidate) -> bool:
        """Whether the leader's lead over another space is more than error."""
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
        return zero_regret(self.draws, _gains_of(gains, [each.space for each in self.ranking]))

    def rank_correlation(self, gains: Mapping[str, float]) -> dict[int, Interval]:
        """By size: Spearman's correlation of a batch's pseudo-purity with gains over the spaces.

        The mean over batches and their central 95 %; gains as in `zero_regret`.
        `marc_paper.analysis.regrets` has the same for purity and anti-hubs.
        """
        return rank_correlation(self.draws, _gains_of(gains, [each.space for each in self.ranking]))

    def to_dict(self) -> dict[str, Any]:
        """The choice, and the pseudo-purity of each space, best first."""
        purity = {each.space: each.pseudo_purity for each in self.ranking}
        worth: dict[str, Any] = {"method": self.method}
        chosen = {**worth, "space": self.space, "tied": list(self.tied), "test": self.test}
        trust = {each.space: each.trust for each in self.ranking}
        sizes = {"n_images": self.n_images, "n_neighbors": self.n_neighbors}
        return {**chosen, "pseudo_purity": purity, "trust": trust, "chance": self.chance, **sizes}

    def _columns(self) -> dict[str, Any]:
        """One row per space, best first."""
        names = ["space", "pseudo_purity", "radius", "antihub_fraction", "recall"]
        names += ["n_duplicates", "trust"]
        return {name: [getattr(each, name) for each in self.ranking] for name in names}

    def __str__(self) -> str:
        if self.method == "none":
            return f"no memory: {self.reason}"
        return self.space or f"too close to call: {', '.join(self.tied)}"


def _capacity_hint(antihubs: float) -> tuple[int, int]:
    """A range of capacities to try first, from the anti-hub fraction at kappa 10; only a hint.

    From one table of the paper (7,500 images): 0.7 to 2 % of anti-hubs went with a best capacity
    of 8 to 16, 3.4 % and more with 1 or 2. Another of its tables has a space with 1.9 % and a best
    capacity of 1. The fraction itself depends on the number of images.

    >>> _capacity_hint(0.012), _capacity_hint(0.063)
    ((8, 16), (1, 2))
    """
    few = (8, 16) if antihubs <= 0.02 else (2, 8)
    return few if antihubs < 0.034 else (1, 2)


def zero_regret(draws: _Draws, gains: Sequence[float]) -> dict[int, float]:
    """By size: how often the space that a batch puts first has the highest gain.

    Of several highest values the first column counts.
    """
    best = np.asarray(gains) == max(gains)
    return {size: float(best[rows.argmax(axis=1)].mean()) for size, rows in draws.items()}


def rank_correlation(draws: _Draws, gains: Sequence[float]) -> dict[int, Interval]:
    """By size: Spearman's correlation of batches with gains, the mean and the central 95 %.

    A batch on which all spaces are equal has none and is left out; not a number if all are.

    >>> rank_correlation({250: np.array([[0.9, 0.5, 0.1], [0.5, 0.9, 0.1]])}, [3, 2, 1])
    {250: Interval(estimate=0.75, low=0.5125, high=0.9875)}
    """
    correlations = {}
    for size, rows in draws.items():
        values = np.array([spearman(row, gains) for row in rows])
        defined = values[~np.isnan(values)]
        correlations[size] = central(defined) if len(defined) else Interval(*[math.nan] * 3)
    return correlations


def _gains_of(gains: Mapping[str, float], spaces: Sequence[str]) -> list[float]:
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

    @property
    def _calibration(self) -> Calibration:
        return Calibration(self.n_images, self.n_neighbors)

    def space(
        self, space: str, on_progress: OnProgress | None = None, gpu: str | None = None
    ) -> Measured:
        """Measure one space, on a GPU as torch names it if there is one."""
        keys, calibration = self.features.keys(space)[:], self._calibration
        table, recall = wide_table(keys, calibration.table_width(self.sizes), on_progress, gpu)
        batches = [self.pseudo_labels], [self.n_neighbors], self.sizes, self.n_replicates, self.seed
        draws = calibration.purities(keys, table, *batches, on_progress, gpu)
        return Measured(
            space=space,
            pseudo_purity=purities(table, *batches[:2])[0][0],
            antihub_fraction=antihub_fraction(None, self.n_neighbors, table=table),
            recall=recall,
            n_duplicates=count_duplicates(keys),
            draws=draws[..., 0, 0],
        )

    def trust_of(self, space: str) -> float:
        """How far class means in one space are trusted; `ALL`: in all, and the predictor's own.

        In the order of the seed: that of the stream changes nothing.
        """
        names = [*self.spaces, "predictor"] if space == ALL else [space]
        return trust(self.features, names, self.seed)

    def result(
        self,
        measured: Sequence[Measured],
        test: str = Selection.TESTS[0],
        trusts: Mapping[str, float] | None = None,
    ) -> Selection:
        """Rank the spaces that are measured; `trusts` are those of `trust_of`, by space."""
        trusts = trusts or {}
        one_of("test of a lead", test, Selection.TESTS)
        ranked = sorted(measured, key=lambda each: -each.pseudo_purity)  # stable
        by_size = np.stack([each.draws for each in ranked]).T  # (sizes, replicates, spaces)
        draws = dict(zip(self.sizes, by_size, strict=True))
        radii = self._calibration.radii(draws[self._calibration.error_size])
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
                    trust=trusts.get(each.space, math.nan),
                )
                for each, radius in zip(ranked, radii, strict=True)
            ),
            n_images=self.n_images,
            n_neighbors=self.n_neighbors,
            n_replicates=self.n_replicates,
            test=test,
            chance=chance(self.pseudo_labels),
            draws=draws,
            trust=trusts.get(ALL, math.nan),
        )


def plan_selection(
    stream: Stream,
    spaces: Sequence[str] | None = None,
    n_neighbors: int = 10,
    sizes: Sequence[int] = Calibration.SIZES,
    n_replicates: int = Calibration.REPLICATES,
    seed: int = 0,
) -> SelectionJob:
    """Check all settings of a selection; nothing is computed yet."""
    instance("stream", stream, Stream)
    spaces = [spaces] if isinstance(spaces, str) else spaces
    names = stream.spaces if spaces is None else tuple(spaces)
    if not names or len(set(names)) < len(names):
        raise MarcError("a selection needs distinct spaces", got=names, allowed=stream.spaces)
    for name in names:
        stream.features.dim(name)
    n_images = len(stream.features.ids)
    if _FEWEST * integer("n_neighbors", n_neighbors, 1) > n_images:
        raise MarcError(
            "there are too few images to tell spaces apart by that many neighbours",
            got=f"{n_images} image(s), {n_neighbors} neighbours",
            allowed=f"{_FEWEST * n_neighbors} images or more",
            hint=f"{n_images // _FEWEST} neighbours or fewer" if n_images >= _FEWEST else None,
        )
    calibration = Calibration(n_images, n_neighbors)
    return SelectionJob(
        features=stream.features,
        pseudo_labels=pseudo_labels(stream),
        spaces=names,
        n_neighbors=n_neighbors,
        sizes=tuple(calibration.usable_sizes([calibration.error_size, *sizes])),
        n_replicates=integer("n_replicates", n_replicates, 2, Calibration.MOST_REPLICATES),
        seed=integer("seed", seed, 0),
    )


def select(
    stream: Stream,
    spaces: Sequence[str] | None = None,
    *,
    n_neighbors: int = 10,
    sizes: Sequence[int] = Calibration.SIZES,
    n_replicates: int = Calibration.REPLICATES,
    seed: int = 0,
    test: str = Selection.TESTS[0],
    device: str = "cpu",
    n_images: int | None = None,
) -> Selection:
    """Say whether any memory is worth it, and rank the spaces by pseudo-purity, without labels.

    Args:
        stream: any stream; its labels, if it has some, are not read.
        spaces: names, all stored ones by default; see `Features.keys` for transforms.
        n_neighbors: kappa.
        sizes: calibration batches to look at; those that are not below the stream's size are
            left out, and four fifths of it are always added, for the error radii.
        n_replicates: batches of each size.
        seed: of the batches.
        test: how a lead is told from error: `paired`, or `radii`, the paper's, which is blunter.
        device: what looks for neighbours: `cpu`, `auto`, `cuda` or `cuda:N`.
        n_images: images to look at, see `marc.spaces.geometry.looked_at`; 0 for all.

    >>> import marc
    >>> choice = marc.select(marc.synthetic_stream(n_images=400), n_replicates=50)
    >>> choice.space, [each.space for each in choice.ranking]
    ('classes', ['classes', 'both', 'noise', 'styles'])
    >>> choice.method, [round(each.trust, 2) for each in choice.ranking]
    ('class-means', [0.74, 0.2, 0.0, 0.0])
    """
    looked, gpu = looked_at(stream, n_images), choose_gpu(device)
    job = plan_selection(looked, spaces, n_neighbors, sizes, n_replicates, seed)
    measured = [job.space(name, gpu=gpu) for name in job.spaces]
    return job.result(measured, test, {name: job.trust_of(name) for name in (*job.spaces, ALL)})
