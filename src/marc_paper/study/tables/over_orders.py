"""What tables of systems share: runs over every order, paired differences, views and averages."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from marc.errors import one_of
from marc.peers.cards import MethodCard
from marc.peers.registry import METHODS
from marc.stats import paired_difference
from marc.types import Answers
from marc_paper.study.artifacts import Estimate
from marc_paper.study.plan import Plan
from marc_paper.study.work import Work

_FEWEST_VIEWS = {"tda": 10, "boostadapter": 10, "dmn-zs": 10, "dota": 10, "etta": 10, "zero": 4}
"""Fewest views, beside one, of methods that refuse a share of the views which is none of them."""

_IN_DISTRIBUTION = frozenset({"imagenet-val"})

_Right = NDArray[np.bool_]
"""Whether each answer is right, (orders, N) with the same images in the same columns."""


@final
@dataclass(frozen=True)
class Runs:
    """The answers of one method to one stream, an order after the other."""

    answers: tuple[Answers, ...]

    @classmethod
    def of(cls, work: Work, stream: str, method: str, views: int = 1, **settings: Any) -> Runs:
        """A method over every order of the plan."""
        seeds = work.plan.seeds.orders
        return cls(tuple(work.run(stream, method, seed, views, **settings) for seed in seeds))

    @property
    def correct(self) -> _Right:
        """Whether each answer is right."""
        return np.stack([each.correct for each in self.answers])

    @property
    def base_correct(self) -> _Right:
        """Whether each answer of the same pipeline without memory is right."""
        return np.stack([each.base_correct for each in self.answers])

    @property
    def accuracy(self) -> Estimate:
        """Mean over orders, with their deviation."""
        return Estimate.over_orders([each.accuracy for each in self.answers])

    @property
    def no_memory(self) -> float:
        """Accuracy of the same pipeline without memory, mean over orders."""
        return float(self.base_correct.mean())

    @property
    def gain(self) -> Estimate:
        """Accuracy minus that without memory."""
        return Estimate.paired(self.correct, self.base_correct)

    def against(self, reference: Runs) -> Estimate:
        """Accuracy minus that of another method over the same orders."""
        return Estimate.paired(self.correct, reference.correct)


def difference(pairs: Sequence[tuple[_Right, _Right]]) -> Estimate:
    """How much more often the first of a pair is right than the second, mean over streams.

    There is a pair for each stream. Of one stream this is `Estimate.paired`; several count as
    independent. The deviation is that of the mean over streams, from order to order.
    """
    intervals = [paired_difference(correct, reference) for correct, reference in pairs]
    by_order = [a.mean(axis=1) - b.mean(axis=1) for a, b in pairs]
    mean = Estimate.over_orders(np.mean(by_order, axis=0).tolist())
    half = math.hypot(*(each.high - each.estimate for each in intervals)) / len(pairs)
    return Estimate(mean.value, mean.value - half, mean.value + half, mean.sd)


@final
@dataclass(frozen=True)
class Mean:
    """The same method on several streams, which all count alike."""

    runs: Sequence[Runs]

    @property
    def no_memory(self) -> float:
        """Accuracy without memory, mean over streams and orders."""
        return sum(each.no_memory for each in self.runs) / len(self.runs)

    @property
    def accuracy(self) -> Estimate:
        """Mean over streams, with the deviation of that mean from order to order."""
        by_stream = [[each.accuracy for each in runs.answers] for runs in self.runs]
        return Estimate.over_orders(np.mean(by_stream, axis=0).tolist())

    @property
    def gain(self) -> Estimate:
        """Accuracy minus that without memory."""
        return difference([(each.correct, each.base_correct) for each in self.runs])

    def against(self, reference: Mean) -> Estimate:
        """Accuracy minus that of another method on the same streams."""
        pairs = zip(self.runs, reference.runs, strict=True)
        return difference([(ours.correct, theirs.correct) for ours, theirs in pairs])


def averages(plan: Plan, streams: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Streams by the average that they enter; none where there is one stream only."""
    entries = plan.streams
    found = {
        "mean": tuple(streams),
        "mean, shifts": tuple(s for s in streams if entries[s].dataset not in _IN_DISTRIBUTION),
        "mean, without extra": tuple(s for s in streams if entries[s].group != "extra"),
    }
    found = {
        name: several
        for name, several in found.items()
        if name == "mean" or len(several) < len(streams)
    }
    return {name: several for name, several in found.items() if len(several) > 1}


def span(views: Sequence[int]) -> str:
    """Views for a row: one number, or the range over the streams of an average.

    >>> span([4, 4]), span([1, 8, 4])
    ('4', '1 to 8')
    """
    low, high = min(views), max(views)
    return str(low) if low == high else f"{low} to {high}"


def views_of(plan: Plan, stream: str, method: str) -> int:
    """The views at which a method is compared: few if it takes them, else many, else one.

    COSMIC has a view budget of its own in a plan.
    """
    if card_of(method).views == MethodCard.views:
        return 1
    fewest = _FEWEST_VIEWS.get(method, 1)
    few = plan.graph_views if method == "cosmic" else plan.few_views
    asked = (few(stream), plan.most_views(stream))
    return next((views for views in asked if views >= fewest), 1)


def card_of(method: str) -> MethodCard:
    """What is known of a method; an error that lists all of them if it is not known."""
    return METHODS[one_of("method", method, METHODS, "marc list methods")]


def marc_settings(plan: Plan, space: str, capacity: int) -> dict[str, Any]:
    """The settings of MARC in tables of systems."""
    return {"space": space, "capacity": capacity, "weight": plan.grids.weight}


def peer_settings(plan: Plan, method: str) -> dict[str, Any]:
    """The settings of another method: its own, or published ones if the plan names any it has."""
    card, settings = card_of(method), {}
    if "space" in card.needs:
        settings["space"] = plan.spaces.deployed
    if plan.benchmark.published in card.published:
        settings["published"] = plan.benchmark.published
    return settings
