"""SHOT's label step: every image goes to the nearest centroid of its class, over the whole stream.

SHOT itself trains an encoder, in `shot_training.py`. Here are its pseudo-labels alone, so this is
"SHOT-PL (labels only)": a feature-only baseline. It sees all images before it answers the first
one, so it is transductive, and its numbers do not compare with those of methods that answer as
images arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, check_space_name, integer
from marc.memory import Resumable
from marc.peers._arrays import gather
from marc.scores import Float, softmax
from marc.types import Query, Step

_NO_CENTROID = -2.0
"""The score of a class that is left out: below every cosine."""
_MOST_ROUNDS = 1000  # labels stand still, or go in a circle, long before


@dataclass(eq=False)
class ShotLabels(Resumable):
    """Nearest centroid by cosine, first from the posteriors, then from the labels themselves.

    >>> ShotLabels().batch_size is None  # the whole stream
    True
    """

    name: ClassVar[str] = "shot-pl"

    space: str = "predictor"
    """Where centroids and images are compared."""
    threshold: int = 0
    """A class takes part if it has more members than this."""
    rounds: int = 2
    """How often every image is assigned; the first round uses the posteriors."""

    def __post_init__(self) -> None:
        self.space = check_space_name(self.space)
        self.threshold = integer("threshold", self.threshold, 0)
        self.rounds = integer("rounds", self.rounds, 1, _MOST_ROUNDS)

    def step_batch(self, queries: Sequence[Query]) -> list[Step]:
        """Answer all queries together; the answer is the class of the highest cosine."""
        if not len(queries):
            return []
        batch = gather(queries, self.space)
        cosines = centroid_cosines(batch.keys, batch.logits, self.threshold, self.rounds)
        labels = batch.logits.argmax(axis=1)
        return [
            Step(
                item,
                batch.logits[row],
                {"centroids": cosines[row]},
                {"centroids": 1.0},
                int(label),
                0.0,
                base_weight=0.0,
                to_probabilities=None,  # cosines to centroids
            )
            for row, (item, label) in enumerate(zip(batch.items, labels, strict=True))
        ]

    @property
    def batch_size(self) -> int | None:
        """The whole stream."""
        return None


def centroid_cosines(
    keys: Float, logits: Float, threshold: int, rounds: int
) -> NDArray[np.float64]:
    """Cosine of each image to each centroid of the last round, (T, C).

    Members are counted again in each round, so a class that has lost its last one is left out.
    """
    features = _with_one(keys)
    memberships, labels = softmax(logits), logits.argmax(axis=1)
    for _ in range(rounds):
        members = np.bincount(labels, minlength=logits.shape[1])
        if members.max() <= threshold:
            raise MarcError(
                "no class has enough members",
                got=f"at most {members.max()} members",
                allowed=f"more than the threshold {threshold}",
                hint="threshold=0",
            )
        cosines = features @ _centroids(features, memberships).T
        cosines[:, members <= threshold] = _NO_CENTROID
        labels = cosines.argmax(axis=1)
        memberships.fill(0)
        np.put_along_axis(memberships, labels[:, np.newaxis], 1, axis=1)
    return cosines


def _with_one(keys: Float) -> NDArray[np.float64]:
    """A constant 1 appended to each feature, then unit length: (T, D + 1)."""
    features = np.ones((len(keys), keys.shape[1] + 1))
    features[:, :-1] = keys
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return features


def _centroids(features: Float, memberships: Float) -> NDArray[np.float64]:
    """Means of the features weighted by memberships (T, C), then of unit length, (C, D + 1)."""
    means = memberships.T @ features / (1e-8 + memberships.sum(axis=0)[:, np.newaxis])
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    return means / np.where(lengths > 0, lengths, 1)  # an empty class is left out anyway
