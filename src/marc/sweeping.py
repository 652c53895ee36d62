"""Sweep: every space, capacity, weight and order of one stream, exactly and at once.

The trajectories of all orders come from one pass in the predictor's space; each retrieval space is
then one pass of matrix products that serves every order, every capacity and every weight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, one_of, whole_number
from marc.evidence import KernelValues, read_all
from marc.lifetimes import History, check_capacities
from marc.method import MARC
from marc.offline import admit, history_of, refuse_unless_replayable
from marc.scores import Int
from marc.stream import Stream
from marc.sweeps import CAPACITIES, Intervals, Sweep
from marc.weights import WEIGHTS, check_weights

SETTINGS = ("admission_capacity", "alpha", "beta", "view_entropy", "refine_labels")
"""Settings of `MARC` that a sweep can hold at other values; the others change its output."""


def sweep(
    stream: Stream,
    spaces: Sequence[str] | None = None,
    capacities: Sequence[int] = CAPACITIES,
    weights: Sequence[float] = WEIGHTS,
    seeds: Sequence[int | None] | None = (0, 1, 2),
    policy: str = "entropy",
    **settings: Any,
) -> Sweep:
    """Score MARC at every space x capacity x weight x order, as if each had been run online.

    Args:
        stream: a labelled stream.
        spaces: names, all stored ones by default; see `Features.keys` for transforms.
        capacities: ascending; all come from one pass.
        weights: the grid for tables; the intervals that are kept hold every w >= 0.
        seeds: one shuffled order each, which also seed a reservoir; None keeps the stream's order.
        policy: an admission policy that can be replayed.
        settings: further settings of `MARC` that decide what is stored or how it is read:
            those named in `SETTINGS`.
    """
    spaces = stream.spaces if spaces is None else tuple(spaces)
    if not spaces or len(set(spaces)) < len(spaces):
        raise MarcError("a sweep needs distinct spaces", got=spaces, allowed=stream.spaces)
    job = plan_sweep(stream, capacities, weights, seeds, policy, **settings)
    return job.result({space: job.space(space) for space in spaces})


def plan_sweep(
    stream: Stream,
    capacities: Sequence[int] = CAPACITIES,
    weights: Sequence[float] = WEIGHTS,
    seeds: Sequence[int | None] | None = (0, 1, 2),
    policy: str = "entropy",
    **settings: Any,
) -> SweepJob:
    """Check everything about a sweep; nothing is computed yet."""
    for name in settings:
        hint = "marc.replay(MARC(...), stream) for the others"
        one_of("setting of a sweep", name, SETTINGS, hint)
    if stream.row_labels is None:
        raise MarcError(
            "a sweep measures accuracy, and this stream has no labels",
            hint="marc run SOURCE for predictions, or add 'labels' to the pack",
        )
    method = MARC("predictor", policy=policy, **settings)
    refuse_unless_replayable(method)
    if seeds is not None and not len(seeds):
        raise MarcError("a sweep needs at least one order", got="no seeds", hint="seeds=(0, 1, 2)")
    return SweepJob(
        stream=stream,
        method=method,
        capacities=check_capacities(capacities),
        weights=check_weights(tuple(weights)),
        seeds=(None,) if seeds is None else tuple(map(_checked_seed, seeds)),
    )


@dataclass(frozen=True)
class SweepJob:
    """A sweep that was checked; each of its spaces is one independent piece of work."""

    stream: Stream
    method: MARC
    capacities: tuple[int, ...]
    weights: tuple[float, ...]
    seeds: tuple[int | None, ...]

    @cached_property
    def histories(self) -> list[History]:
        """What each order's memory holds and when: the part that all spaces share."""
        orders = [self.stream if s is None else self.stream.shuffled(s) for s in self.seeds]
        draws = [self.method.seed if seed is None else seed for seed in self.seeds]
        return [
            history_of(admitted.trajectory, self.capacities, self.stream)
            for admitted in admit(self.method, orders, draws)
        ]

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the trajectories and the kernel, by name."""
        config = self.method.config()
        return {"policy": self.method.policy, **{name: config[name] for name in SETTINGS}}

    def space(self, space: str) -> Intervals:
        """The right weights of every image, for every capacity and order, in one space."""
        from marc._kernels import correct_weights

        features = self.stream.features
        labels = self.stream.row_labels
        assert labels is not None  # plan_sweep has checked
        shape = (len(self.seeds), len(self.capacities), len(labels))
        lower, upper = np.empty(shape), np.empty(shape)

        def judge(order: int, items: Int, evidence: NDArray[np.float32]) -> None:
            base = np.ascontiguousarray(features.base.logits[items].T)
            ends = np.empty((2, len(self.capacities), len(items)))
            correct_weights(base, evidence, labels[items], *ends)
            lower[order][:, items], upper[order][:, items] = ends

        values = KernelValues(features.keys(space), self.method.alpha, self.method.beta)
        read_all(values, self.histories, judge)
        return lower, upper

    def result(self, intervals: Mapping[str, Intervals]) -> Sweep:
        """The sweep over the spaces that are done."""
        features = self.stream.features
        return Sweep(
            capacities=self.capacities,
            weights=self.weights,
            seeds=self.seeds,
            intervals=dict(intervals),
            base_correct=features.base.label == self.stream.row_labels,
            stream=self.stream.name,
            images=features.images,
            settings=self.settings,
        )


def _checked_seed(seed: int | None) -> int | None:
    return None if seed is None else whole_number("seed", seed, 0)
