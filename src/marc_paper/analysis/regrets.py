"""How good a rule for choosing a space is: what its choice loses in gain.

A rule is a measure of geometry at one kappa, written `purity@5`; the space of the highest value is
chosen, or of the lowest for skewness and anti-hubs. Gains are oracle gains of stored sweeps, so
labels judge the rule here, and a rule without labels stays one.

`_regret` judges a rule over many streams, `batch_regrets.py` over small batches of one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from marc.errors import MarcError, one_of
from marc.replay.sweep import Sweep
from marc.spaces.geometry import Geometry
from marc.stats import spearman

RULES = {"purity": 1, "pseudo_purity": 1, "hub_skewness": -1, "antihub_fraction": -1}
"""Measures to choose by, and the sign that makes the highest value the best."""


@dataclass(frozen=True)
class Choice:
    """What a rule chose on one stream."""

    stream: str
    chosen: str
    best: str
    """The space of the highest gain."""
    regret: float
    """The highest gain minus that of the chosen space, as a share of the images."""
    is_tied: bool
    """Whether the rule's first place was shared; the first space in the sweep's order is chosen."""
    rank_correlation: float
    """Spearman's, with midranks, of rule and gains; not a number where one of them is constant."""

    @property
    def hit(self) -> bool:
        """Whether nothing was lost."""
        return self.regret == 0


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


def regret(
    sweeps: Sequence[Sweep],
    geometries: Sequence[Mapping[str, Geometry]],
    rule: str = "pseudo_purity@10",
    *,
    capacity: int | None = None,
) -> Regret:
    """Judge a rule by what it would have chosen on each swept stream.

    Args:
        sweeps: one per stream.
        geometries: for each sweep, the geometry of its spaces by name, see `marc.geometry.measure`.
        rule: one of `RULES`, an @, and a kappa at which the geometries were measured.
        capacity: compare gains at one capacity; each space has its own best one by default.
    """
    if len(sweeps) != len(geometries) or not sweeps:
        raise MarcError(
            "every sweep needs the geometry of its spaces",
            got=f"{len(sweeps)} sweep(s), {len(geometries)} geometries",
        )
    choices = []
    for sweep, geometry in zip(sweeps, geometries, strict=True):
        scores = {space: score(geometry, space, rule) for space in sweep.spaces}
        gains = {space: sweep.oracle(space, capacity).gain for space in sweep.spaces}
        choices.append(choice_of(sweep.stream, scores, gains))
    return Regret(rule, tuple(choices))


def parse_rule(rule: str) -> tuple[str, int]:
    """The measure and the kappa of a rule.

    >>> parse_rule("purity@10")
    ('purity', 10)
    """
    name, _, kappa = rule.partition("@")
    one_of("rule", name, RULES, "purity@10")
    if not kappa.isdecimal() or int(kappa) == 0:
        raise MarcError("a rule needs a kappa", got=rule, allowed="NAME@KAPPA", hint=f"{name}@10")
    return name, int(kappa)


def score(geometry: Mapping[str, Geometry], space: str, rule: str) -> float:
    """A rule's value of a space, turned so that higher is better."""
    name, kappa = parse_rule(rule)
    if space not in geometry:
        raise MarcError("the geometry of a swept space is missing", got=space, allowed=[*geometry])
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
    return RULES[name] * float(value.estimate if name.endswith("purity") else value)


def choice_of(stream: str, scores: Mapping[str, float], gains: Mapping[str, float]) -> Choice:
    """What the highest score chooses, judged by the gains.

    >>> choice_of("a", {"x": 0.9, "y": 0.5, "z": 0.5}, {"x": 0.03, "y": 0.04, "z": 0.01})
    Choice(stream='a', chosen='x', best='y', regret=0.01..., is_tied=False, rank_correlation=0.0)
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
