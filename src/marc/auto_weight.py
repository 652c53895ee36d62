"""What an unlabelled stream tells of a memory: how far to trust it, and how much it should weigh.

None of it looks at a label or at a later image. Each function follows a block of images, or one,
and gives what was known at each of them before it was counted.

- `Agreement`: how far a memory can be trusted where it is needed. Weighted by the predictor's
  doubt: how often the two give the same answer beyond chance (Cohen's kappa), less one standard
  error.
- `best_weights`: on the images that the predictor is surer of than on average, its answer is taken
  for the label, and the weight on the paper's grid is taken at which softmax(w L) predicts it best.
  The score is the quadratic one: an answer that was wrong after all cannot cost more than 2.

`weight="auto"` of MARC is the product of the two, and uses the evidence beyond its running mean: in
a poor space most of the evidence is how full each class is. docs/results/auto-weight.md has what it
gains and loses. `class_means.py` uses the same two in a way of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.scores import Float, Int, softmax
from marc.types import WEIGHTS

GRID = np.array(WEIGHTS)
_BLOCK = 64  # images that a replay follows together


class _Agreed(NamedTuple):
    """What was known at each image of a block, before it was counted; all are (B,)."""

    label: Int
    """The predictor's answer."""
    sure: NDArray[np.bool_]
    """Whether the predictor was surer of it than it is on average, this image included."""
    low: NDArray[np.float64]
    """Kappa in doubt, less one standard error, 0 to 1: how far the memory is trusted."""
    high: NDArray[np.float64]
    """The same, plus one standard error: what the agreement may be at most."""


@dataclass(eq=False)
class Agreement:
    """How far the predictor and a memory agree where the predictor doubts: sums over the stream."""

    base_votes: NDArray[np.float64]
    """Doubt by the predictor's answer, (C,)."""
    memory_votes: NDArray[np.float64]
    """Doubt by the memory's answer, (C,)."""
    totals: NDArray[np.float64]
    """Images, confidence, doubt, squared doubt, and doubt where both gave the same answer, (5,)."""

    @classmethod
    def fresh(cls, n_classes: int) -> Agreement:
        """Before the first image: nothing agrees."""
        return cls(np.zeros(n_classes), np.zeros(n_classes), np.zeros(5))

    def follow(self, base: Float, evidence: Float) -> _Agreed:
        """Compare base logits and evidence of the next images, (B, C) each."""
        rows, label, answer = np.arange(len(base)), base.argmax(axis=1), evidence.argmax(axis=1)
        confidence = softmax(base)[rows, label]
        doubt = 1 - confidence
        counted = [np.ones(len(base)), confidence, doubt, doubt**2, doubt * (label == answer)]
        votes = np.zeros((2, *base.shape))
        votes[0, rows, label] = votes[1, rows, answer] = doubt

        totals = running(self.totals, np.stack(counted, axis=1))
        base_votes = running(self.base_votes, votes[0])
        memory_votes = running(self.memory_votes, votes[1])
        _, _, sums, squares, agreed = totals[:-1].T
        known = sums > 0
        sums, squares = np.where(known, sums, 1.0), np.where(known, squares, 1.0)
        chance = np.einsum("bc,bc->b", base_votes[:-1], memory_votes[:-1]) / sums**2
        low, high = (
            np.where(known, beyond_chance(agreed / sums, chance, sums**2 / squares, errors), 0.0)
            for errors in (-1.0, 1.0)
        )
        self.totals, self.base_votes = totals[-1], base_votes[-1]
        self.memory_votes = memory_votes[-1]
        return _Agreed(label, confidence >= totals[1:, 1] / totals[1:, 0], low, high)

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Everything, as arrays."""
        return {each.name: getattr(self, each.name).copy() for each in fields(self)}


@dataclass(eq=False)
class AutoWeight:
    """`weight="auto"` of MARC."""

    evidence: NDArray[np.float64]
    """Sum of L, (C,)."""
    scores: NDArray[np.float64]
    """Sum of `_quadratic_scores` over the images that the predictor is sure of, (weights,)."""
    agreement: Agreement

    @classmethod
    def fresh(cls, n_classes: int) -> AutoWeight:
        """Before the first image: the weight is 0."""
        return cls(np.zeros(n_classes), np.zeros(len(GRID)), Agreement.fresh(n_classes))

    def follow(
        self, base: Float, evidence: Float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """W (B,) of the next images, and their evidence beyond its mean so far, of (B, C)."""
        sums = running(self.evidence, evidence)
        counts = self.agreement.totals[0] + np.arange(1, len(sums))
        beyond = np.asarray(evidence - sums[1:] / counts[:, np.newaxis])
        agreed = self.agreement.follow(base, beyond)
        weights, self.scores = best_weights(self.scores, beyond, agreed)
        self.evidence = sums[-1]
        return agreed.low * weights, beyond

    @classmethod
    def replay(
        cls, base: Float, evidence: Float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What `follow` gives along a whole stream, (T,) and (T, C)."""
        auto = cls.fresh(base.shape[1])
        weights, beyond = np.empty(len(base)), np.empty(base.shape)
        for start in range(0, len(base), _BLOCK):
            block = slice(start, start + _BLOCK)
            weights[block], beyond[block] = auto.follow(base[block], evidence[block])
        return weights, beyond

    def state(self) -> dict[str, NDArray[np.float64]]:
        """Everything, as arrays."""
        own = {"evidence": self.evidence.copy(), "scores": self.scores.copy()}
        return {**own, **self.agreement.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, NDArray[Any]], n_classes: int) -> AutoWeight:
        """Sums that go on from what `state` gave."""
        fresh = cls.fresh(n_classes).state()
        shapes = [{k: v.shape for k, v in each.items()} for each in (state, fresh)]
        if shapes[0] != shapes[1] or not all(np.isfinite(array).all() for array in state.values()):
            raise MarcError("the stored sums of a learned weight are damaged or of another grid")
        arrays = {name: array.astype(np.float64) for name, array in state.items()}
        return cls(arrays.pop("evidence"), arrays.pop("scores"), Agreement(**arrays))


def best_weights(
    scores: Float, evidence: Float, agreed: _Agreed
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The weight (B,) that predicts sure answers best, and the scores (weights,) afterwards."""
    added = np.zeros((len(evidence), len(GRID)))
    added[agreed.sure] = _quadratic_scores(evidence[agreed.sure], agreed.label[agreed.sure])
    sums = running(scores, added)
    return GRID[sums[:-1].argmax(axis=1)], sums[-1]


def running(start: Float | float, added: Float) -> NDArray[np.float64]:
    """Sums (B + 1, ...) before the first of B additions (B, ...), after it, and so on.

    One addition after the other: no sum is found by taking away, which would cancel digits.

    >>> running(1.0, np.array([2.0, 3.0]))
    array([1., 3., 6.])
    """
    sums = np.empty((len(added) + 1, *added.shape[1:]))
    sums[0], sums[1:] = start, added
    return sums.cumsum(axis=0, out=sums)


def _quadratic_scores(evidence: Float, label: Int) -> NDArray[np.float64]:
    """How well softmax(w L) predicts labels (B,), 2 p_label - sum p^2, at each weight.

    >>> _quadratic_scores(np.array([[1.0, 0.0]]), np.array([0]))[0, [0, -1]]  # 0, then certainty
    array([0.5, 1. ])
    """
    posterior = softmax(GRID[:, np.newaxis] * evidence[:, np.newaxis])  # (B, weights, C)
    squares = np.einsum("bwc,bwc->bw", posterior, posterior)
    return np.asarray(2 * posterior[np.arange(len(label)), :, label] - squares)


def beyond_chance(
    rate: Float, chance: Float, n_images: Float, errors: float = -1.0
) -> NDArray[np.float64]:
    """Cohen's kappa of a rate of equal answers, plus some standard errors; 0 to 1.

    >>> beyond_chance(np.array(0.7), np.array(0.1), np.array(2100.0)).round(4)
    np.float64(0.6556)
    """
    variance = np.maximum(rate * (1 - rate), 1 / n_images)  # a rate of 1 may be luck as well
    only_one = chance >= 1  # both gave one answer only
    beyond = rate + errors * np.sqrt(variance / n_images) - chance
    kappa = np.where(only_one, 0.0, beyond / np.where(only_one, 1.0, 1 - chance))
    return np.asarray(kappa.clip(0, 1))
