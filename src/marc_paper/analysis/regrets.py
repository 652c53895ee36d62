"""How good a rule for choosing a space is: what its choice loses in gain.

A rule is a measure of geometry at one kappa, written `purity@5`; the space of the highest value is
chosen, or of the lowest for skewness and anti-hubs. Gains are oracle gains of stored sweeps, so
labels judge the rule here, and a rule without labels stays one.

`Regret` judges a rule over many streams, `BatchRegret` over small batches of one: how many images
does it need? Batches are those of `marc.select`; what they measure does not depend on the outcome
they are judged by, so `BatchValues` measures it once for every outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, one_of
from marc.replay.sweep import Sweep
from marc.scores import Int
from marc.spaces.calibration import Calibration
from marc.spaces.geometry import Geometry, agreement, antihub_fraction, hub_skewness, pseudo_labels
from marc.spaces.neighbors import check_kappas, wide_table
from marc.spaces.selection import rank_correlation, zero_regret
from marc.stats import Interval, spearman
from marc.stream import Stream


class Rule:
    """A measure of geometry at one kappa, written `purity@10`, by which a space is chosen."""

    SIGNS: ClassVar = {"purity": 1, "pseudo_purity": 1, "hub_skewness": -1, "antihub_fraction": -1}
    """Measures to choose by, and the sign that makes the highest value the best."""
    PURITY, PSEUDO_PURITY, ANTIHUB = "purity@10", "pseudo_purity@10", "antihub_fraction@10"

    @staticmethod
    def parse(rule: str) -> tuple[str, int]:
        """The measure and the kappa of a rule.

        >>> Rule.parse("purity@10")
        ('purity', 10)
        """
        name, _, kappa = rule.partition("@")
        one_of("rule", name, Rule.SIGNS, "purity@10")
        if not kappa.isdecimal() or int(kappa) == 0:
            raise MarcError(
                "a rule needs a kappa", got=rule, allowed="NAME@KAPPA", hint=f"{name}@10"
            )
        return name, int(kappa)

    @staticmethod
    def score(geometry: Mapping[str, Geometry], space: str, rule: str) -> float:
        """A rule's value of a space, turned so that higher is better."""
        name, kappa = Rule.parse(rule)
        if space not in geometry:
            raise MarcError(
                "the geometry of a swept space is missing", got=space, allowed=[*geometry]
            )
        measures = geometry[space].measures
        if kappa not in measures:
            raise MarcError(
                "the geometry was not measured at that kappa",
                got=rule,
                allowed=", ".join(f"{name}@{each}" for each in measures),
            )
        value = getattr(measures[kappa], name)
        if value is None:
            raise MarcError("purity needs labels", got=space, hint=f"pseudo_purity@{kappa}")
        return Rule.SIGNS[name] * float(value.estimate if name.endswith("purity") else value)


@dataclass(frozen=True)
class Choice:
    """What a rule chose on one stream."""

    stream: str
    chosen: str
    best: str
    """The space of the highest gain."""
    regret: float
    """The highest gain minus that of the chosen space, as a fraction of the images."""
    is_tied: bool
    """Whether several spaces had the highest value; the first in the sweep's order is chosen."""
    rank_correlation: float
    """Spearman's, with midranks, of rule and gains; not a number where one of them is constant."""

    @property
    def hit(self) -> bool:
        """Whether nothing was lost."""
        return self.regret == 0

    @classmethod
    def of(cls, stream: str, scores: Mapping[str, float], gains: Mapping[str, float]) -> Choice:
        """What the highest score chooses, judged by the gains.

        >>> Choice.of("a", {"x": 0.9, "y": 0.5, "z": 0.5}, {"x": 0.03, "y": 0.04, "z": 0.01})
        Choice(stream='a', chosen='x', best='y', regret=0.01..., is_tied=False, ...)
        """
        spaces = list(scores)
        chosen = max(spaces, key=lambda space: scores[space])
        best = max(spaces, key=lambda space: gains[space])
        return Choice(
            stream=stream,
            chosen=chosen,
            best=best,
            regret=gains[best] - gains[chosen],
            is_tied=sum(scores[space] == scores[chosen] for space in spaces) > 1,
            rank_correlation=spearman([scores[s] for s in spaces], [gains[s] for s in spaces]),
        )


@dataclass(frozen=True)
class Regret:
    """A rule judged on several streams."""

    rule: str
    choices: tuple[Choice, ...]

    @property
    def hits(self) -> int:
        """Streams on which the rule chose a best space."""
        return sum(choice.hit for choice in self.choices)

    @property
    def mean(self) -> float:
        """Mean regret."""
        return float(np.mean([choice.regret for choice in self.choices]))

    @property
    def worst(self) -> float:
        """Largest regret."""
        return max(choice.regret for choice in self.choices)

    @classmethod
    def of(
        cls,
        sweeps: Sequence[Sweep],
        geometries: Sequence[Mapping[str, Geometry]],
        rule: str = "pseudo_purity@10",
        *,
        capacity: int | None = None,
    ) -> Regret:
        """Judge a rule by what it would have chosen on each swept stream.

        Args:
            sweeps: one per stream.
            geometries: for each sweep, what `marc.spaces.geometry.measure` gives of each space.
            rule: one of `Rule.SIGNS`, an @, and a kappa at which the geometries were measured.
            capacity: compare gains at one capacity; each space has its own best one by default.
        """
        if len(sweeps) != len(geometries) or not sweeps:
            raise MarcError(
                "every sweep needs the geometry of its spaces",
                got=f"{len(sweeps)} sweep(s), {len(geometries)} geometries",
            )
        choices = []
        for sweep, geometry in zip(sweeps, geometries, strict=True):
            scores = {space: Rule.score(geometry, space, rule) for space in sweep.spaces}
            gains = {space: sweep.oracle(space, capacity).gain for space in sweep.spaces}
            choices.append(Choice.of(sweep.stream, scores, gains))
        return Regret(rule, tuple(choices))


@dataclass(frozen=True)
class BatchRegret:
    """A rule judged on calibration batches of one stream."""

    choice: Choice
    """On all images."""
    zero_regret: Mapping[int, float]
    """By size: how often a batch chooses a space of the highest gain."""
    rank_correlation: Mapping[int, Interval]
    """By size: Spearman's of rule and gains over the spaces, mean and central 95 % of batches."""

    @classmethod
    def by_rule(
        cls,
        stream: Stream,
        gains: Sweep | Mapping[str, float],
        rules: Sequence[str] = ("purity@10", "antihub_fraction@10"),
        *,
        sizes: Sequence[int] = Calibration.SIZES,
        n_replicates: int = Calibration.REPLICATES,
        seed: int = 0,
    ) -> dict[str, BatchRegret]:
        """Judge rules on small batches of a stream, with the gains of its spaces held fixed.

        Args:
            stream: labelled if a rule is.
            gains: by space, or a sweep of the stream, whose oracle gains are taken. Any other
                outcome of the spaces will do, for example their best capacities.
            rules: see `Rule`; all are measured on the same neighbours.
            sizes: images in a batch; those that the stream is too small for are left out.
            n_replicates: batches of each size.
            seed: of the batches, which are those of `marc.select`.

        >>> import marc
        >>> gains = {"classes": 0.2, "both": 0.1, "noise": 0.0, "styles": 0.0}
        >>> stream = marc.synthetic_stream(n_images=300)
        >>> judged = BatchRegret.by_rule(stream, gains, ["purity@10"], sizes=(100,))
        >>> judged["purity@10"].zero_regret
        {100: 1.0}
        """
        gains = _gains(gains, stream)
        values = BatchValues.measure(
            stream, list(gains), rules, sizes=sizes, n_replicates=n_replicates, seed=seed
        )
        return {rule: values.judged(rule, gains, stream.name) for rule in rules}


@dataclass(frozen=True)
class BatchValues:
    """Rules measured on all images of a stream and on calibration batches, higher is better."""

    spaces: tuple[str, ...]
    rules: tuple[str, ...]
    sizes: tuple[int, ...]
    on_all: NDArray[np.float64]
    """(spaces, rules)."""
    on_batches: NDArray[np.float64]
    """(spaces, replicates, sizes, rules)."""

    def draws(self, rule: str) -> dict[int, NDArray[np.float64]]:
        """By size: what batches measure, (replicates, spaces)."""
        column = self.on_batches[..., self._index(rule)]
        return {size: column[:, :, i].T for i, size in enumerate(self.sizes)}

    def scores(self, rule: str) -> dict[str, float]:
        """By space: the rule on all images."""
        return dict(zip(self.spaces, self.on_all[:, self._index(rule)].tolist(), strict=True))

    def _index(self, rule: str) -> int:
        return self.rules.index(one_of("rule that was measured", rule, self.rules))

    def judged(self, rule: str, gains: Mapping[str, float], stream: str) -> BatchRegret:
        """A rule judged by the gains, or any other outcome, of the spaces."""
        draws, outcome = self.draws(rule), [gains[space] for space in self.spaces]
        return BatchRegret(
            Choice.of(stream, self.scores(rule), gains),
            zero_regret(draws, outcome),
            rank_correlation(draws, outcome),
        )

    def as_arrays(self) -> dict[str, NDArray[Any]]:
        """The numbers, to be stored."""
        sizes = np.array(self.sizes)
        return {"sizes": sizes, "on_all": self.on_all, "on_batches": self.on_batches}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], spaces: tuple[str, ...], rules: tuple[str, ...]
    ) -> BatchValues:
        """From what `as_arrays` gave."""
        sizes = tuple(arrays["sizes"].tolist())
        return cls(spaces, rules, sizes, arrays["on_all"], arrays["on_batches"])

    @classmethod
    def joined(cls, parts: Sequence[BatchValues]) -> BatchValues:
        """Spaces that were measured one by one on the same batches."""
        return cls(
            tuple(space for part in parts for space in part.spaces),
            parts[0].rules,
            parts[0].sizes,
            np.concatenate([part.on_all for part in parts]),
            np.concatenate([part.on_batches for part in parts]),
        )

    @classmethod
    def measure(
        cls,
        stream: Stream,
        spaces: Sequence[str],
        rules: Sequence[str],
        *,
        sizes: Sequence[int] = Calibration.SIZES,
        n_replicates: int = Calibration.REPLICATES,
        seed: int = 0,
    ) -> BatchValues:
        """Measure rules on small batches of a stream; arguments as in `BatchRegret.by_rule`."""
        n_images = len(stream.features.ids)
        kappa = check_kappas([Rule.parse(rule)[1] for rule in rules], n_images)[-1]
        calibration = Calibration(n_images, kappa)
        usable = calibration.usable_sizes(sizes)
        if not usable or not spaces:
            raise MarcError(
                "a rule is judged on batches of a stream, over its spaces",
                got=f"batches of {', '.join(map(str, sizes)) or 'no'} images, "
                f"{len(spaces)} space(s)",
                allowed=f"batches of {kappa + 1} to {n_images - 1} images",
            )
        measure = _measure(stream, rules)
        on_all, on_batches = [], []
        for space in spaces:
            keys = stream.features.keys(space)
            table = wide_table(keys, calibration.table_width(usable)).table
            on_all.append(measure(table, np.arange(n_images)))
            batches = calibration.measure(keys, table, measure, usable, n_replicates, seed)
            on_batches.append(batches)
        return BatchValues(
            tuple(spaces), tuple(rules), tuple(usable), np.array(on_all), np.array(on_batches)
        )

    def notes(self, stream: str, asked: Sequence[int]) -> list[str]:
        """Sizes of batches that a stream is too small for, and what is drawn where all are."""
        left_out = [str(size) for size in asked if size not in self.sizes]
        instead = [str(size) for size in self.sizes if size not in asked]
        if not left_out:
            return []
        text = f"{stream} is too small for batches of {', '.join(left_out)}"
        return [f"{text}; batches of {', '.join(instead)} are drawn." if instead else f"{text}."]


def _gains(gains: Sweep | Mapping[str, float], stream: Stream) -> dict[str, float]:
    """Gains by space, of a sweep its oracle gains."""
    if not isinstance(gains, Sweep):
        return {space: float(gain) for space, gain in gains.items()}
    if not gains.images & stream.features.images:
        raise MarcError(
            "gains must be measured on the images of the stream",
            got=f"a sweep of {gains.stream} for {stream.name}",
            hint="marc.sweep(stream)",
        )
    return {space: gains.oracle(space).gain for space in gains.spaces}


def _measure(stream: Stream, rules: Sequence[str]) -> Callable[[Int, Int], list[float]]:
    """A function of a neighbour table and its images: the value of each rule, higher is better."""
    answers, labels = pseudo_labels(stream), stream.row_labels
    parsed = [Rule.parse(rule) for rule in rules]
    if labels is None and any(name == "purity" for name, _ in parsed):
        raise MarcError("purity needs labels", got=stream.name, hint="pseudo_purity@10")

    def value(name: str, table: Int, chosen: Int) -> float:
        if name.endswith("purity"):
            kind = labels if name == "purity" else answers
            assert kind is not None
            return float(agreement(table, kind[chosen]).mean())
        of_table = {"hub_skewness": hub_skewness, "antihub_fraction": antihub_fraction}[name]
        return of_table(None, table.shape[1], table=table)

    def values(table: Int, chosen: Int) -> list[float]:
        return [Rule.SIGNS[name] * value(name, table[:, :kappa], chosen) for name, kappa in parsed]

    return values
