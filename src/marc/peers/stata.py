"""StatA: Gaussians of a batch, held near what the text says of each class.

Labels of a batch and one Gaussian for each class are fitted in turn. A class with n images gives
its own data the weight n / (n + alpha), and the rest to its anchor: the text prototype, and how
far images lie from their texts. So a class that the batch lacks stays where the text puts it.

Nothing is kept: every batch is answered on its own, also in what the authors call online.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import number, switch
from marc.peers._arrays import distinct_rows
from marc.peers._transduction import (
    GAUSSIAN_WEIGHT,
    LEAST_VARIANCE,
    Transduction,
    answer_together,
    products,
    unit_or,
)
from marc.scores import Float, Int
from marc.types import Query, Step


@dataclass(eq=False)
class StatA(Transduction):
    """Statistical anchors: transduction within a batch that few classes do not break.

    >>> StatA().batch_size, StatA(batch_size=None).batch_size  # the second is the whole stream
    (64, None)
    """

    name: ClassVar[str] = "stata"

    anchor: float = 1.0
    """alpha: as many images as the text counts for in every class."""
    soft_counts: bool = False
    """Whether n_k is the sum of the labels z_k instead of the number of images whose best is k."""
    neighbor_weight: float = 1.0
    """lambda of the Laplacian term: how much the labels of near images count."""
    batch_size: int | None = 64
    """Images that are answered together; None is the whole stream."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.anchor = number("anchor", self.anchor, 1e-9)
        self.soft_counts = switch("soft_counts", self.soft_counts)

    def step_batch(self, queries: Sequence[Query]) -> list[Step]:
        """Answer the queries of a batch together."""
        return answer_together(queries, self, self._start)

    def _start(
        self, features: Float, labels: Float, prototypes: Float
    ) -> tuple[NDArray[np.float64], Callable[[Float], NDArray[np.float64]]]:
        """Scores (N, C) of the anchors, and the fit of the rounds that follow."""
        anchors = prototypes.astype(np.float64)
        squares, same = features * features, distinct_rows(prototypes)[1]
        spread = np.maximum(_spread_around(anchors, features, squares, labels), LEAST_VARIANCE)

        def fitted(labels: Float) -> NDArray[np.float64]:
            counts = labels.sum(axis=0) if self.soft_counts else _best_counts(labels, same)
            share = (counts / (counts + self.anchor))[:, np.newaxis]
            gaussians = _anchored(features, squares, labels, share, anchors, spread)
            return _scores(features, squares, *gaussians)

        return _scores(features, squares, anchors, np.tile(spread, (len(anchors), 1))), fitted


def _spread_around(
    anchors: Float, features: Float, squares: Float, labels: Float
) -> NDArray[np.float64]:
    """Sigma' (D,): mean square distance of images to the texts, weighted by zero-shot labels."""
    total = squares.sum(axis=0) - 2 * (anchors * (labels.T @ features)).sum(axis=0)
    return np.asarray(total + labels.sum(axis=0) @ anchors**2) / len(features)


def _best_counts(labels: Float, same: Int) -> NDArray[np.float64]:
    """n_k, (C,): images whose best class is k.

    Classes with one text, which `same` numbers, share theirs evenly: else the lowest had them all.
    """
    n_best = np.bincount(same[labels.argmax(axis=1)], minlength=same.max() + 1)
    return np.asarray((n_best / np.bincount(same))[same])


def _anchored(
    features: Float, squares: Float, labels: Float, share: Float, anchors: Float, spread: Float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means and the diagonals of Sigma, (C, D) each: beta of the data, 1 - beta of the anchor.

    Sigma = beta T + (1 - beta) (Sigma' + (mu' - mu)^2), and T is the data around the new mu.
    """
    mass, sums = labels.sum(axis=0)[:, np.newaxis], products(labels.T, features)
    centers = unit_or(share * unit_or(sums, anchors) + (1 - share) * anchors, anchors)
    around = products(labels.T, squares) - 2 * centers * sums + mass * centers**2
    data = around / np.where(mass > 0, mass, 1)
    variances = share * data + (1 - share) * (spread + (anchors - centers) ** 2)
    return centers, np.maximum(variances, LEAST_VARIANCE)


def _scores(
    features: Float, squares: Float, centers: Float, variances: Float
) -> NDArray[np.float64]:
    """Weighted log-likelihoods (N, C) of Gaussians with diagonals of their own."""
    sharp = 1 / variances
    constants = (centers**2 * sharp + np.log(variances)).sum(axis=1)
    distances = products(sharp, squares.T) - 2 * products(centers * sharp, features.T)
    return -GAUSSIAN_WEIGHT / 2 * (distances.T + constants)
