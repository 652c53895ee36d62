"""TransCLIP: Gaussians over the whole stream, fitted to labels that the text holds back.

Labels of all images and one Gaussian for each class, with variances that all classes share, are
fitted in turn; the zero-shot logits and the labels of near images count in every label. It sees
all images before it answers the first one, so its numbers do not compare with those of methods
that answer as images arrive. In batches that lack most classes it falls apart: nothing holds the
mean of a class that is not there, which is what StatA mends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import integer
from marc.peers._transduction import (
    GAUSSIAN_WEIGHT,
    LEAST_VARIANCE,
    Transduction,
    answer_together,
    products,
    unit_or,
)
from marc.scores import Float
from marc.types import Query, Step


@dataclass(eq=False)
class TransCLIP(Transduction):
    """Transduction over the whole stream, or over batches, from the text alone.

    >>> TransCLIP().batch_size is None  # the whole stream
    True
    """

    name: ClassVar[str] = "transclip"

    n_confident: int = 8
    """Images from which the mean of a class starts: those surest of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.n_confident = integer("n_confident", self.n_confident, 1)

    def step_batch(self, queries: Sequence[Query]) -> list[Step]:
        """Answer the queries of a batch, or of the whole stream, together."""
        return answer_together(queries, self, self._start)

    def _start(
        self, features: Float, labels: Float, prototypes: Float
    ) -> tuple[NDArray[np.float64], Callable[[Float], NDArray[np.float64]]]:
        """Scores (N, C) of means of the surest images, and the fit of the rounds that follow."""
        centers = surest_means(features, labels, self.n_confident)
        squares = np.einsum("nd,nd->d", features, features)
        width = np.full(features.shape[1], 1 / features.shape[1])

        def fitted(labels: Float) -> NDArray[np.float64]:
            nonlocal centers
            mass, sums = labels.sum(axis=0), products(labels.T, features)
            centers = unit_or(sums, centers)  # a class without any mass keeps its mean
            around = squares - 2 * (centers * sums).sum(axis=0) + mass @ centers**2
            return _scores(features, centers, np.maximum(around / len(features), LEAST_VARIANCE))

        return _scores(features, centers, width), fitted


def surest_means(features: Float, labels: Float, n: int) -> NDArray[np.float64]:
    """Unit means (C, D) of the n images surest of each class, weighted by how sure they are."""
    surest = np.argsort(-labels, axis=0, kind="stable")[:n]  # (n, C), equal ones in their order
    weights = np.take_along_axis(labels, surest, axis=0)
    sums = np.stack([w @ features[rows] for w, rows in zip(weights.T, surest.T, strict=True)])
    return unit_or(sums, sums)


def _scores(features: Float, centers: Float, variances: Float) -> NDArray[np.float64]:
    """Weighted log-likelihoods (N, C) without what is the same for all classes."""
    sharp = centers / variances
    constants = (centers * sharp).sum(axis=1)
    return GAUSSIAN_WEIGHT / 2 * (2 * products(sharp, features.T).T - constants)
