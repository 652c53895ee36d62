"""Sweep: every space, capacity, weight and order of one stream, exactly.

What is kept is not a grid of accuracies but, for each image, the interval of weights at which it
is right. Accuracy at any weight, the best weight, and every paired statistic follow from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, one_of
from marc.evidence import kernel_values, read_all
from marc.lifetimes import History, check_capacities
from marc.method import MARC
from marc.replay import admit, history_of
from marc.scores import Int
from marc.stream import Stream
from marc.weights import WEIGHTS, WeightPath, accuracy_at, check_weights, weight_path

CAPACITIES = (1, 2, 3, 4, 8, 16, 32, 64)
"""The paper's grid."""

Intervals = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Lower and upper ends of the right weights, each (seeds, capacities, N), by stored row."""


@dataclass(frozen=True)
class Score:
    """An accuracy that says how its settings were chosen, with its matched baseline."""

    selection: Literal["fixed", "oracle", "held_out"]
    """fixed: before seeing the stream. oracle: with its labels. held_out: on other streams."""
    space: str
    capacity: int
    weights: tuple[float, ...]
    """One per order; they differ only where an oracle chose for each order."""
    accuracies: tuple[float, ...]
    """One per order."""
    base_accuracies: tuple[float, ...]
    """Without memory: same images, views, prompts and order."""
    chosen_on: str | None = None
    """The streams a held-out choice was made on."""

    @property
    def accuracy(self) -> float:
        """Mean over orders."""
        return float(np.mean(self.accuracies))

    @property
    def gain(self) -> float:
        """Mean over orders of accuracy minus the baseline's."""
        return float(np.mean(np.subtract(self.accuracies, self.base_accuracies)))

    @property
    def spread(self) -> float:
        """Standard deviation of the gain over orders (n - 1); not a number for one order."""
        gains = np.subtract(self.accuracies, self.base_accuracies)
        return float(np.std(gains, ddof=1)) if len(gains) > 1 else float("nan")

    def __str__(self) -> str:
        weights = "/".join(f"{w:.3g}" for w in dict.fromkeys(self.weights))
        on = f" (chosen on {self.chosen_on})" if self.chosen_on else ""
        return (
            f"{100 * self.accuracy:.2f} % ({100 * self.gain:+.2f} points) {self.selection}{on}: "
            f"{self.space}, K={self.capacity}, w={weights}, {len(self.accuracies)} order(s)"
        )


@dataclass(frozen=True)
class Sweep:
    """Accuracy over space x capacity x weight x order, from per-image intervals of weights."""

    capacities: tuple[int, ...]
    weights: tuple[float, ...]
    seeds: tuple[int | None, ...]
    """Stream orders; None is the stream's own order."""
    intervals: Mapping[str, Intervals]
    """By space, see `Intervals`."""
    base_correct: NDArray[np.bool_]
    """Whether the predictor alone is right, by stored row (N,); the order does not matter."""
    stream: str
    settings: Mapping[str, Any]

    @property
    def spaces(self) -> tuple[str, ...]:
        """Names, in the order of the first axis of `accuracy`."""
        return tuple(self.intervals)

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """Accuracy [space, capacity, weight, seed], every cell fixed in advance."""
        cells = [accuracy_at(*ends, self.weights) for ends in self.intervals.values()]
        return np.stack(cells).transpose(0, 2, 3, 1)

    @property
    def base_accuracy(self) -> NDArray[np.float64]:
        """Accuracy without memory [seed]."""
        return np.full(len(self.seeds), self.base_correct.mean())

    def weight_path(self, space: str, capacity: int, seed: int | None = 0) -> WeightPath:
        """Accuracy at every weight w >= 0 for one space, capacity and order."""
        return weight_path(*self._ends(space, capacity, seed))

    def correct(
        self, space: str, capacity: int, weight: float, seed: int | None = 0
    ) -> NDArray[np.bool_]:
        """Whether each image is right at one setting, by stored row (N,)."""
        lower, upper = self._ends(space, capacity, seed)
        return (lower <= weight) & (weight <= upper)

    def fixed(self, space: str, capacity: int, weight: float) -> Score:
        """The score of settings that were fixed in advance."""
        return self._score("fixed", space, capacity, [weight] * len(self.seeds))

    def oracle(
        self, space: str, capacity: int | None = None, *, over: Literal["grid", "all"] = "grid"
    ) -> Score:
        """The best over the grid, or over all w >= 0, chosen for each order with the labels.

        Without a capacity the best one is chosen too, by the mean over orders; equal scores go to
        the smaller capacity and the smaller weight.
        """
        one_of("set of weights", over, ("grid", "all"))
        candidates = self.capacities if capacity is None else (capacity,)
        scores = [
            self._score("oracle", space, each, [self._best(space, each, s, over) for s in self.seeds])
            for each in candidates
        ]
        return max(scores, key=lambda score: (score.accuracy, -score.capacity))

    def held_out(
        self, space: str, sources: Sweep | Sequence[Sweep], capacity: int | None = None
    ) -> Score:
        """Settings chosen on the mean curve of other streams, applied to this one unchanged.

        Chooses the weight, and the capacity too if none is given, on the sources' common grid.
        """
        sources = [sources] if isinstance(sources, Sweep) else list(sources)
        if not sources or any(source is self for source in sources):
            raise MarcError("a held-out choice needs sweeps of other streams", got=len(sources))
        for source in sources:
            if (source.capacities, source.weights) != (self.capacities, self.weights):
                raise MarcError(
                    "a held-out choice needs the same grid of capacities and weights",
                    got=f"{source.stream}: K {source.capacities}, w {source.weights}",
                    allowed=f"K {self.capacities}, w {self.weights}",
                )
        curve = np.mean([source._curve(space) for source in sources], axis=0)  # (K, w)
        rows = range(len(self.capacities)) if capacity is None else [self._place(capacity)]
        row, column = max(
            ((k, w) for k in rows for w in range(len(self.weights))),
            key=lambda cell: (curve[cell], -cell[0], -cell[1]),
        )
        weights = [self.weights[column]] * len(self.seeds)
        names = ", ".join(source.stream for source in sources)
        return self._score("held_out", space, self.capacities[row], weights, names)

    def _curve(self, space: str) -> NDArray[np.float64]:
        """Gain over capacity x weight, mean over orders."""
        self._known(space)
        mean = accuracy_at(*self.intervals[space], self.weights).mean(axis=0)
        return mean - self.base_correct.mean()

    def _best(self, space: str, capacity: int, seed: int | None, over: str) -> float:
        if over == "all":
            return self.weight_path(space, capacity, seed).best()[0]
        accuracies = accuracy_at(*self._ends(space, capacity, seed), self.weights)
        return self.weights[int(accuracies.argmax())]

    def _score(
        self,
        selection: Literal["fixed", "oracle", "held_out"],
        space: str,
        capacity: int,
        weights: Sequence[float],
        chosen_on: str | None = None,
    ) -> Score:
        accuracies = tuple(
            float(self.correct(space, capacity, weight, seed).mean())
            for weight, seed in zip(weights, self.seeds, strict=True)
        )
        base = tuple(float(a) for a in self.base_accuracy)
        return Score(selection, space, capacity, tuple(weights), accuracies, base, chosen_on)

    def _ends(
        self, space: str, capacity: int, seed: int | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        self._known(space)
        if seed not in self.seeds:
            raise MarcError("this sweep has no such order", got=f"seed {seed}", allowed=self.seeds)
        place = self.seeds.index(seed), self._place(capacity)
        lower, upper = self.intervals[space]
        return lower[place], upper[place]

    def _place(self, capacity: int) -> int:
        if capacity not in self.capacities:
            raise MarcError(
                "this sweep has no such capacity", got=capacity, allowed=self.capacities
            )
        return self.capacities.index(capacity)

    def _known(self, space: str) -> None:
        one_of("space of this sweep", space, self.intervals)


def sweep(
    stream: Stream,
    spaces: Sequence[str] | None = None,
    capacities: Sequence[int] = CAPACITIES,
    weights: Sequence[float] = WEIGHTS,
    seeds: Sequence[int] | None = (0, 1, 2),
    policy: str = "entropy",
    *,
    on_space: Callable[[str, Intervals], None] | None = None,
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
        on_space: called with a space and its intervals when they are ready.
        settings: further settings of `MARC` that decide what is stored or how it is read:
            admission_capacity, alpha, beta, view_entropy, refine_labels.
    """
    spaces = stream.spaces if spaces is None else tuple(spaces)
    job = plan_sweep(stream, capacities, weights, seeds, policy, **settings)
    intervals = {}
    for space in spaces:
        intervals[space] = job.space(space)
        if on_space is not None:
            on_space(space, intervals[space])
    return job.result(intervals)


def plan_sweep(
    stream: Stream,
    capacities: Sequence[int] = CAPACITIES,
    weights: Sequence[float] = WEIGHTS,
    seeds: Sequence[int] | None = (0, 1, 2),
    policy: str = "entropy",
    **settings: Any,
) -> SweepJob:
    """Check everything and compute the trajectories: the part that all spaces share."""
    allowed = {"admission_capacity", "alpha", "beta", "view_entropy", "refine_labels"}
    for name in settings:
        one_of("setting of a sweep", name, allowed, "marc.replay(MARC(...), stream) for the others")
    if stream.features.labels is None:
        raise MarcError(
            "a sweep measures accuracy, and this stream has no labels",
            hint="marc run SOURCE for predictions, or add 'labels' to the pack",
        )
    method = MARC("predictor", policy=policy, **settings)
    orders = [stream] if seeds is None else [stream.shuffled(seed) for seed in seeds]
    if not orders:
        raise MarcError("a sweep needs at least one order", got="no seeds", hint="seeds=(0, 1, 2)")
    checked = check_capacities(capacities)
    grid = check_weights(tuple(weights))
    trajectories = [a.trajectory for a in admit(method, orders, [*(seeds or [method.seed])])]
    histories = [history_of(trajectory, checked, stream) for trajectory in trajectories]
    names = (None,) if seeds is None else tuple(seeds)
    return SweepJob(stream, method, checked, grid, names, histories)


@dataclass(frozen=True)
class SweepJob:
    """A sweep whose trajectories are known: each space is now one independent piece of work."""

    stream: Stream
    method: MARC
    capacities: tuple[int, ...]
    weights: tuple[float, ...]
    seeds: tuple[int | None, ...]
    histories: Sequence[History]

    def space(self, space: str) -> Intervals:
        """The right weights of every image, for every capacity and order, in one space."""
        from marc._kernels import correct_weights

        features = self.stream.features
        labels = features.labels
        assert labels is not None  # plan_sweep has checked
        shape = (len(self.seeds), len(self.capacities), len(labels))
        lower, upper = np.empty(shape), np.empty(shape)

        def judge(order: int, items: Int, evidence: NDArray[np.float32]) -> None:
            base = np.ascontiguousarray(features.base.logits[items].T)
            ends = np.empty((2, len(self.capacities), len(items)))
            correct_weights(base, evidence, labels[items], *ends)
            lower[order][:, items], upper[order][:, items] = ends

        values = kernel_values(features.keys(space), self.method.alpha, self.method.beta)
        read_all(values, self.histories, judge)
        return lower, upper

    def result(self, intervals: Mapping[str, Intervals]) -> Sweep:
        """The sweep over the spaces that are done."""
        features = self.stream.features
        config = self.method.config()
        shared = {"policy", "admission_capacity", "alpha", "beta", "view_entropy", "refine_labels"}
        return Sweep(
            capacities=self.capacities,
            weights=self.weights,
            seeds=self.seeds,
            intervals=dict(intervals),
            base_correct=features.base.label == features.labels,
            stream=self.stream.name,
            settings={name: config[name] for name in config if name in shared},
        )
