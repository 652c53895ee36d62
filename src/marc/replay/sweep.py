"""A sweep: accuracy over every space, capacity, weight and order of one stream.

What it holds is not a grid of accuracies but, for each image, the interval of weights at which it
is right. Accuracy at any weight, the best weight, and every paired statistic follow from that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.errors import MarcError, number, one_of
from marc.replay.weights import WeightPath, accuracy_at
from marc.stream import Stream
from marc.types import Shown

_Chosen = Literal["fixed", "oracle", "held_out"]
Intervals = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Lower and upper ends of the right weights, each (seeds, capacities, N), by stored row."""


def _exact(means: ArrayLike) -> NDArray[np.float64]:
    """Means of fractions without their last bits, so that means of equal counts are equal.

    >>> bool(np.mean([69 / 90, 70 / 90, 68 / 90]) == np.mean([69 / 90] * 3))
    False
    >>> bool(_exact(np.mean([69 / 90, 70 / 90, 68 / 90])) == _exact(np.mean([69 / 90] * 3)))
    True
    """
    return np.asarray(means, dtype=np.float64).round(12) + 0.0  # and no minus zero


@dataclass(frozen=True)
class Score:
    """An accuracy that says how its settings were chosen, with its matched baseline."""

    selection: _Chosen
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
        return float(_exact(np.mean(self.accuracies)))

    @property
    def gain(self) -> float:
        """Mean over orders of accuracy minus the baseline's."""
        return float(_exact(np.mean(np.subtract(self.accuracies, self.base_accuracies))))

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


@dataclass(frozen=True, repr=False)
class Sweep(Shown):
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
    images: frozenset[str]
    """Digests of the images, see `Features.images`."""
    settings: Mapping[str, Any]
    ordering: str = "shuffled"
    """The kind of the orders, as `marc sweep --order` takes it."""
    device: str = "cpu"
    """Where it was computed; `cuda` may have decided near-ties in another way."""

    @property
    def spaces(self) -> tuple[str, ...]:
        """Names, in the order of the first axis of `accuracy`."""
        return tuple(self.intervals)

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """Accuracy [space, capacity, weight, seed], every cell fixed in advance."""
        cells = [accuracy_at(*ends, self.weights) for ends in self.intervals.values()]
        return np.stack(cells).transpose(0, 2, 3, 1)

    def to_dict(self) -> dict[str, Any]:
        """What was swept, and the best of each space with the labels of the stream."""
        axes = {n: list(getattr(self, n)) for n in ("capacities", "weights", "seeds")}
        best = {space: self.oracle(space).gain for space in self.spaces}
        base, order = float(self.base_correct.mean()), {"ordering": self.ordering}
        return {"stream": self.stream, **axes, **order, "base_accuracy": base, "oracle_gain": best}

    def _columns(self) -> dict[str, Any]:
        cells = product(self.spaces, self.capacities, self.weights, self.seeds)
        names = ("space", "capacity", "weight", "seed")
        columns = dict(zip(names, map(list, zip(*cells, strict=True)), strict=True))
        return {**columns, "accuracy": self.accuracy.ravel()}

    def of_orders(self, seeds: Sequence[int | None]) -> Sweep:
        """The same sweep with some of its orders."""
        missing = [seed for seed in seeds if seed not in self.seeds]
        if missing:
            raise MarcError("this sweep has no such order", got=missing, allowed=self.seeds)
        rows = [self.seeds.index(seed) for seed in seeds]
        intervals = {
            space: (lower[rows], upper[rows]) for space, (lower, upper) in self.intervals.items()
        }
        return replace(self, seeds=tuple(seeds), intervals=intervals)

    @property
    def base_accuracy(self) -> NDArray[np.float64]:
        """Accuracy without memory [seed]."""
        return np.full(len(self.seeds), self.base_correct.mean())

    def weight_path(self, space: str, capacity: int, seed: int | None = 0) -> WeightPath:
        """Accuracy at every weight w >= 0 in one order."""
        return WeightPath.of(*self._ends(space, capacity, seed))

    def correct(
        self, space: str, capacity: int, weight: float, seed: int | None = 0
    ) -> NDArray[np.bool_]:
        """Whether each image is right at one setting, by stored row (N,)."""
        lower, upper = self._ends(space, capacity, seed)
        return (lower <= number("weight", weight, at_most=np.inf)) & (weight <= upper)

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
        best = {each: [self._best(space, each, s, over) for s in self.seeds] for each in candidates}
        scores = [self._score("oracle", space, each, weights) for each, weights in best.items()]
        return max(scores, key=lambda score: (score.accuracy, -score.capacity))

    def held_out(
        self, space: str, sources: Sweep | Sequence[Sweep], capacity: int | None = None
    ) -> Score:
        """Settings chosen on the mean curve of other streams, applied to this one unchanged.

        Chooses the weight, and the capacity too if none is given, on the sources' common grid.
        """
        sources = [sources] if isinstance(sources, Sweep) else list(sources)
        self.check_sources(sources, self.images, self.capacities, self.weights, [space])
        mean = _exact(np.mean([source.curve(space) for source in sources], axis=0))
        capacity, weight = self._highest(mean, capacity)
        names = ", ".join(source.stream for source in sources)
        return self._score("held_out", space, capacity, [weight] * len(self.seeds), names)

    def best_setting(self, space: str, capacity: int | None = None) -> tuple[int, float]:
        """Capacity and weight of the highest gain, mean over orders, on the grid.

        Equal gains go to the smaller capacity, then to the smaller weight.
        """
        return self._highest(self.curve(space), capacity)

    def transferred(self, space: str, stream: Stream) -> tuple[int, float]:
        """`best_setting`, to be used on a stream of other images."""
        images = stream.features.images
        self.check_sources([self], images, self.capacities, self.weights, [space])
        return self.best_setting(space)

    def curve(self, space: str) -> NDArray[np.float64]:
        """Gain over capacity x weight, mean over orders."""
        one_of("space of this sweep", space, self.intervals)
        mean = accuracy_at(*self.intervals[space], self.weights).mean(axis=0)
        return _exact(mean - self.base_correct.mean())

    @staticmethod
    def check_sources(
        sources: Sequence[Sweep],
        images: frozenset[str],
        capacities: tuple[int, ...],
        weights: tuple[float, ...],
        spaces: Sequence[str],
    ) -> None:
        """Refuse what is no held-out choice: same images, another grid, or a missing space."""
        if not sources:
            raise MarcError("a held-out choice needs sweeps of other streams", got="none")
        for source in sources:
            if source.images & images:
                raise MarcError(
                    "a held-out choice must be made on other images",
                    got=f"{source.stream}: a sweep of the same images",
                    hint="a sweep of another stream",
                )
            if (source.capacities, source.weights) != (capacities, weights):
                raise MarcError(
                    "a held-out choice needs the same grid of capacities and weights",
                    got=f"{source.stream}: K {source.capacities}, w {source.weights}",
                    allowed=f"K {capacities}, w {weights}",
                )
            missing = [space for space in spaces if space not in source.spaces]
            if missing:
                raise MarcError(
                    "a held-out choice needs a sweep of the same spaces",
                    got=f"{source.stream} without {', '.join(missing)}",
                    allowed=", ".join(source.spaces),
                )

    def _highest(self, curve: NDArray[np.float64], capacity: int | None) -> tuple[int, float]:
        """The cell (K, w) of the highest value; of equal ones the first."""
        capacities = self.capacities if capacity is None else (capacity,)
        rows = curve[[self._capacity_index(each) for each in capacities]]
        row, column = np.unravel_index(rows.argmax(), rows.shape)
        return capacities[row], self.weights[column]

    def _best(self, space: str, capacity: int, seed: int | None, over: str) -> float:
        if over == "all":
            return self.weight_path(space, capacity, seed).best()[0]
        accuracies = accuracy_at(*self._ends(space, capacity, seed), self.weights)
        return self.weights[int(accuracies.argmax())]

    def _score(
        self, selection: _Chosen, space: str, capacity: int, weights: Sequence[float], on: str = ""
    ) -> Score:
        accuracies = tuple(
            float(self.correct(space, capacity, weight, seed).mean())
            for weight, seed in zip(weights, self.seeds, strict=True)
        )
        base = tuple(float(a) for a in self.base_accuracy)
        return Score(selection, space, capacity, tuple(weights), accuracies, base, on or None)

    def _ends(self, space: str, capacity: int, seed: int | None) -> Intervals:
        one_of("space of this sweep", space, self.intervals)
        if seed not in self.seeds:
            raise MarcError("this sweep has no such order", got=f"seed {seed}", allowed=self.seeds)
        cell = self.seeds.index(seed), self._capacity_index(capacity)
        lower, upper = self.intervals[space]
        return lower[cell], upper[cell]

    def _capacity_index(self, capacity: int) -> int:
        if capacity not in self.capacities:
            raise MarcError(
                "this sweep has no such capacity", got=capacity, allowed=self.capacities
            )
        return self.capacities.index(capacity)
