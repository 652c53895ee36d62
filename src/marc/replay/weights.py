"""The exact weight path: accuracy at every weight w >= 0, not only on a grid.

The fused score of a class is a line b_c + w L_c in w, and the maximum of lines is convex, so each
class wins on at most one interval of w. The weights at which an image is classified correctly are
one interval, found in one pass over the classes. Sorting the ends of these intervals over all
images gives the accuracy at every weight and the exact best one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, number
from marc.scores import Float, Int


def check_weights(weights: tuple[float, ...] | list[float]) -> tuple[float, ...]:
    """Weights as an ascending tuple without repeats."""
    checked = tuple(number("weight", weight) for weight in weights)
    if not checked or list(checked) != sorted(set(checked)):
        raise MarcError("weights must be ascending numbers", got=checked, hint="--weight 0 1 10")
    return checked


def right_weights(
    base: Float, evidence: Float, labels: Int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The closed interval [lower, upper] of weights at which each image is right.

    `base` and `evidence` are (T, C), `labels` (T,). An image that no weight gets right has an
    upper end below its lower end. Equal scores go to the lower class.
    """
    from marc.replay._kernels import correct_weights

    lower, upper = np.empty((2, 1, len(labels)))
    correct_weights(
        np.ascontiguousarray(base.T),
        np.ascontiguousarray(evidence.T)[np.newaxis],
        np.asarray(labels),
        lower,
        upper,
    )
    return lower[0], upper[0]


@dataclass(frozen=True)
class WeightPath:
    """Accuracy as a function of the weight: constant between break points."""

    starts: NDArray[np.float64]
    """Where each piece starts, ascending from 0; a piece reaches to the next start."""
    accuracy: NDArray[np.float64]
    """Accuracy on each piece."""

    @classmethod
    def of(cls, lower: Float, upper: Float) -> WeightPath:
        """Add up the intervals of all images, (T,) each."""
        ever = lower <= upper
        opens = np.sort(lower[ever])
        closes = np.sort(np.nextafter(upper[ever], np.inf))  # the first weight that is wrong again
        starts = np.unique(np.concatenate([[0.0], opens, closes[np.isfinite(closes)]]))
        opened = np.searchsorted(opens, starts, side="right")
        closed = np.searchsorted(closes, starts, side="right")
        return cls(starts, (opened - closed) / len(lower))

    def at(self, weight: float) -> float:
        """Accuracy at one weight."""
        number("weight", weight)
        return float(self.accuracy[np.searchsorted(self.starts, weight, side="right") - 1])

    def best(self) -> tuple[float, float]:
        """The smallest of the best weights, and its accuracy: an oracle, chosen with labels."""
        piece = int(self.accuracy.argmax())
        return float(self.starts[piece]), float(self.accuracy[piece])


def accuracy_at(lower: Float, upper: Float, weights: tuple[float, ...]) -> NDArray[np.float64]:
    """Accuracy at each of some weights from intervals (..., T): shape (..., weights)."""
    right = [((lower <= weight) & (weight <= upper)).mean(axis=-1) for weight in weights]
    return np.stack(right, axis=-1)


def winning_segments(base: Float, evidence: Float) -> list[tuple[float, int]]:
    """For one image, without labels: (weight from which it wins, class), ascending.

    >>> winning_segments(np.array([3.0, 1.0, 0.0]), np.array([0.0, 1.0, 2.0]))
    [(0.0, 0), (1.5, 2)]
    """
    base, evidence = np.asarray(base, np.float64), np.asarray(evidence, np.float64)
    winner = int(base.argmax())
    segments = [(0.0, winner)]
    while True:
        rivals = np.flatnonzero(evidence > evidence[winner])
        if not len(rivals):
            return segments
        crossing = (base[winner] - base[rivals]) / (evidence[rivals] - evidence[winner])
        # the first to cross; of several at once the steepest, which stays in front
        chosen = np.lexsort((rivals, -evidence[rivals], crossing))[0]
        winner = int(rivals[chosen])
        segments.append((float(crossing[chosen]), winner))
