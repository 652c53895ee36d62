"""`weight="auto"`: how far to trust a memory, learned from the unlabelled stream; down to 0.

Three things are learned while images pass. None of them looks at a label or at a later image.

- What the memory says of every image: its mean evidence. Only what it says of an image beyond that
  is used. In a poor space most of the evidence is how full each class is.
- How loud the memory should speak. On the images that the predictor is surer of than on average,
  its answer is taken for the label, and the weight on the paper's grid is taken at which
  softmax(w L') predicts it best. The score is the quadratic one: an answer that was wrong after
  all cannot cost more than 2, whatever the weight.
- How far the memory can be trusted where it is needed. Weighted by the predictor's doubt: how often
  the two give the same answer beyond chance (Cohen's kappa), less one standard error.

The weight is the product of the last two. docs/results/auto-weight.md has what it gains and loses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.scores import Float, softmax
from marc.types import WEIGHTS

_GRID = np.array(WEIGHTS)


@dataclass(eq=False)
class AutoWeight:
    """Running sums over the stream so far."""

    evidence: NDArray[np.float64]
    """Sum of L, (C,)."""
    scores: NDArray[np.float64]
    """Sum of `_quadratic_scores` over the images that the predictor is sure of, (weights,)."""
    base_votes: NDArray[np.float64]
    """Doubt by the predictor's answer, (C,)."""
    memory_votes: NDArray[np.float64]
    """Doubt by the memory's answer, (C,)."""
    totals: NDArray[np.float64]
    """Images, confidence, doubt, squared doubt, and doubt where both gave the same answer, (5,)."""

    @classmethod
    def fresh(cls, n_classes: int) -> AutoWeight:
        """Before the first image: the weight is 0."""
        votes = np.zeros((3, n_classes))
        return cls(votes[0], np.zeros(len(_GRID)), votes[1], votes[2], np.zeros(5))

    @property
    def weight(self) -> float:
        """W for the next image."""
        _, _, doubt, squared, agreed = self.totals
        if not doubt > 0:
            return 0.0
        chance = float(self.base_votes @ self.memory_votes) / doubt**2
        trust = beyond_chance(agreed / doubt, chance, doubt**2 / squared)
        return float(_GRID[self.scores.argmax()]) * trust

    def mean(self, evidence: Float) -> NDArray[np.float64]:
        """Count the evidence L of the next image, and give the mean so far, (C,)."""
        self.evidence += evidence
        self.totals[0] += 1
        return self.evidence / self.totals[0]

    def learn(self, base: Float, beyond: Float) -> None:
        """Compare the base logits of the image with its evidence beyond the mean, (C,) each."""
        label, answer = int(base.argmax()), int(beyond.argmax())
        confidence = float(softmax(base)[label])
        doubt = 1 - confidence
        self.totals[1:] += confidence, doubt, doubt**2, doubt * (label == answer)
        self.base_votes[label] += doubt
        self.memory_votes[answer] += doubt
        if confidence >= self.totals[1] / self.totals[0]:
            self.scores += _quadratic_scores(beyond, label)

    @classmethod
    def follow(
        cls, base: Float, evidence: Float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The weight (T,) and the evidence beyond its mean (T, C) along a stream, of (T, C)."""
        auto = cls.fresh(base.shape[1])
        weights, beyond = np.empty(len(base)), np.empty(base.shape)
        for position, row in enumerate(evidence):
            beyond[position] = row - auto.mean(row)
            weights[position] = auto.weight
            auto.learn(base[position], beyond[position])
        return weights, beyond

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Everything, as arrays."""
        return {field.name: getattr(self, field.name).copy() for field in fields(self)}

    @classmethod
    def from_state(cls, state: dict[str, NDArray[Any]], n_classes: int) -> AutoWeight:
        """Sums that go on from what `state` gave."""
        fresh = cls.fresh(n_classes)
        if {k: v.shape for k, v in state.items()} != {k: v.shape for k, v in fresh.state().items()}:
            raise MarcError("the stored sums of weight='auto' are damaged or of another grid")
        return cls(**{name: array.astype(np.float64) for name, array in state.items()})


def _quadratic_scores(evidence: Float, label: int) -> NDArray[np.float64]:
    """How well softmax(w L') predicts a label, 2 p_label - sum p^2, at each weight of the grid.

    >>> _quadratic_scores(np.array([1.0, 0.0]), 0)[[0, -1]]  # from knowing nothing to certainty
    array([0.5, 1. ])
    """
    posterior = softmax(_GRID[:, np.newaxis] * evidence)
    return 2 * posterior[:, label] - (posterior * posterior).sum(axis=1)


def beyond_chance(rate: float, chance: float, n_images: float) -> float:
    """Cohen's kappa of a rate of equal answers, less one standard error; 0 to 1.

    >>> beyond_chance(0.7, 0.1, 2100.0)
    0.6555...
    """
    if chance >= 1:  # both gave one answer only
        return 0.0
    variance = max(rate * (1 - rate), 1 / n_images)  # a rate of 1 may be luck as well
    return max(0.0, (rate - math.sqrt(variance / n_images) - chance) / (1 - chance))
