"""MTA: mean shift over the views of an image, each weighed by a score of how well it fits in.

Two things are found together: inlierness scores of the views, large for a view that is near the
mode and whose posterior other views of high score share; and the mode, which is the plain image at
first and then moves to where views of high score are dense. The mode is read in place of the image.
No prompt is learned, no view is thrown away, and nothing outlives the image.

A mode is a sum of views, so all of it is arithmetic on the cosines between views, (M, M), and on
their logits, (M, C); the features themselves are multiplied once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, integer, number
from marc.memory import Resumable
from marc.peers.view_selection import check_fraction, fraction_of_one
from marc.scores import Float, softmax
from marc.types import Query, Step

_ENOUGH = 1e-6  # a step that is shorter ends the steps of its kind
_NARROWEST = 1e-12  # of squared bandwidths: views that are copies would have 0, and divide by it


@dataclass(eq=False)
class MTA(Resumable):
    """Robust mean shift over the views, one mode per image.

    >>> MTA().config()["entropic"], MTA().config()["quadratic"]
    (0.2, 4.0)
    """

    name: ClassVar[str] = "mta"

    quadratic: float = 4.0
    """lambda: the weight of shared posteriors in the inlierness of a view."""
    entropic: float = 0.2
    """lambda_y: the larger, the more alike the views' scores."""
    neighbors: float = 0.3
    """The bandwidth of a view comes from this fraction of the others, the nearest ones."""
    iterations: int = 5
    """Rounds of both kinds of steps, and the most steps of one kind in a round."""

    def __post_init__(self) -> None:
        self.quadratic = number("quadratic", self.quadratic)
        self.entropic = number("entropic", self.entropic, 1e-6)
        self.neighbors = check_fraction(self.neighbors, "neighbors")
        self.iterations = integer("iterations", self.iterations, 1, 10_000)

    def step(self, query: Query) -> Step:
        """Find the mode of the views of this image, and answer it."""
        logits = query.view_logits
        weights = self._mode(query.views, logits) if len(logits) > 1 else np.ones(1)
        scores = (weights[:, np.newaxis] * logits).sum(axis=0)  # column by column: ties stay ties
        return Step(
            query.item,
            logits[0],
            {"mode": scores},
            {"mode": 1.0},
            int(logits[0].argmax()),
            0.0,
            base_weight=0.0,
        )

    def _mode(self, views: Float, logits: Float) -> NDArray[np.float64]:
        """Weights (M,) of the views whose sum is the mode, of unit length."""
        features = views.astype(np.float64)
        cosines = features @ features.T
        bandwidths = _squared_bandwidths(cosines, self._n_near(len(views)))
        posteriors = softmax(logits)
        shared = self.quadratic * (posteriors @ posteriors.T)
        scores = np.full(len(views), 1 / len(views))
        mode = np.zeros(len(views))
        mode[0] = 1.0
        for _ in range(self.iterations):
            density = np.exp(_exponents(mode, cosines, bandwidths))
            scores = self._scored(scores, density, shared)
            mode = self._shifted(mode, scores, cosines, bandwidths)
        return mode

    def _scored(self, scores: Float, density: Float, shared: Float) -> NDArray[np.float64]:
        """Inlierness scores: y = softmax((density + lambda W y) / lambda_y), until y rests."""
        for _ in range(self.iterations):
            before, scores = scores, softmax((density + shared @ scores) / self.entropic)
            if np.linalg.norm(scores - before) < _ENOUGH:
                break
        return np.asarray(scores)

    def _shifted(
        self, mode: Float, scores: Float, cosines: Float, bandwidths: Float
    ) -> NDArray[np.float64]:
        """Mean shift: the mode goes to the mean of the views by score and density, until it rests.

        Densities are shifted so that the largest is 1: a common factor does nothing to a mean.
        """
        for _ in range(self.iterations):
            exponents = _exponents(mode, cosines, bandwidths)
            weights = scores * np.exp(exponents - exponents.max())
            before, mode = mode, weights / math.sqrt(weights @ cosines @ weights)
            moved = mode - before
            if moved @ cosines @ moved < _ENOUGH**2:
                break
        return np.asarray(mode, dtype=np.float64)

    def _n_near(self, n_views: int) -> int:
        """How many others are near, int(neighbors (M - 1)), which is refused where it is none."""
        near = int(self.neighbors * (n_views - 1))
        if not near:
            raise MarcError(
                f"mta takes bandwidths from the fraction {self.neighbors:g} of the other views, "
                f"which is none of {n_views - 1}",
                got=f"{n_views} views",
                allowed="1 view, or more of them",
                hint=f"--views 1, or --set neighbors={fraction_of_one(n_views - 1):g} for one",
            )
        return near


def _squared_bandwidths(cosines: Float, near: int) -> NDArray[np.float64]:
    """h_j^2 (M,): half the mean squared distance of a view to the `near` nearest others."""
    squares = np.diagonal(cosines)
    distances = np.sort(squares[:, np.newaxis] + squares - 2 * cosines, axis=1)
    return np.maximum(0.5 * distances[:, 1 : near + 1].mean(axis=1), _NARROWEST)


def _exponents(mode: Float, cosines: Float, bandwidths: Float) -> NDArray[np.float64]:
    """-|f_j - m|^2 / (2 h_j^2) for a mode of unit length, given as weights of the views."""
    squares = np.diagonal(cosines) + 1 - 2 * (cosines @ mode)
    return np.asarray(-np.maximum(squares, 0) / (2 * bandwidths))
