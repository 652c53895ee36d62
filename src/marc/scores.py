"""From view logits to base logits, entropies and evidence: equations 1 to 4 as pure functions.

Every function works on one image or on a block of images: the last axis is classes (C), the one
before it, where there is one, is views (M). Logits are float32 products; entropies, softmaxes and
priorities are float64, because the double softmax of equation 2 spans only 0.001 nats at C = 1,000.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Float = NDArray[np.floating]
Int = NDArray[np.integer]

VIEW_ENTROPIES = ("double_softmax", "posterior", "tda")
"""The three readings of e_t: the paper's, its control, and the released TDA's."""


def unit(rows: Float) -> NDArray[np.float32]:
    """L2-normalise along the last axis, in float32.

    A row gives the same bits alone, in any batch and in any memory layout; a row that is of unit
    length already, to rounding, stays as it is, so that normalising twice changes nothing.
    """
    rows = np.ascontiguousarray(rows, dtype=np.float32)
    squares = (rows * rows).sum(axis=-1, keepdims=True)
    norms = np.sqrt(squares)
    norms[np.abs(squares - 1) < 2e-6] = 1
    return rows / norms


def softmax(logits: Float) -> NDArray[np.float64]:
    """Softmax over classes, stable and in float64."""
    powers = np.exp(_from_the_top(logits))
    return powers / powers.sum(axis=-1, keepdims=True)


def entropy(probabilities: Float) -> NDArray[np.float64]:
    """h(p) = -sum p ln p in nats, with 0 ln 0 = 0."""
    p = np.asarray(probabilities, dtype=np.float64)
    return -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)


def softmax_entropy(logits: Float) -> NDArray[np.float64]:
    """h(softmax(logits)) without a logarithm per class: ln Z - E[logit], shifted to be exact."""
    shifted = _from_the_top(logits)
    powers = np.exp(shifted)
    total = powers.sum(axis=-1)
    return np.log(total) - (powers * shifted).sum(axis=-1) / total


def _from_the_top(logits: Float) -> NDArray[np.float64]:
    shifted = np.asarray(logits, dtype=np.float64)
    return shifted - shifted.max(axis=-1, keepdims=True)


def _n_kept(n_views: int) -> int:
    """r_M = max(1, floor(0.1 M)) in integers: one view is kept up to M = 19."""
    return max(1, n_views // 10)


def _keep_confident_views(view_logits: Float) -> Int:
    """J_t: indices (..., r) of the r_M views of lowest entropy; equal entropies keep the lower."""
    entropies = softmax_entropy(view_logits)
    return np.argsort(entropies, axis=-1, kind="stable")[..., : _n_kept(view_logits.shape[-2])]


@dataclass(frozen=True)
class BaseScores:
    """What the frozen predictor says of one image, or of a block of them, before any memory."""

    logits: NDArray[np.float32]
    """b_t, shape (..., C)."""
    label: Int
    """Pseudo-label: argmax of b_t, the lowest class on ties. Shape (...)."""
    view_entropy: NDArray[np.float64]
    """e_t in the three readings of `VIEW_ENTROPIES`. Shape (..., 3)."""

    def entropy_as(self, reading: str) -> NDArray[np.float64]:
        """e_t in one of the readings named in `VIEW_ENTROPIES`, shape (...)."""
        return self.view_entropy[..., VIEW_ENTROPIES.index(reading)]

    def at(self, index: int | Int) -> BaseScores:
        """The scores of some images of a block."""
        return BaseScores(self.logits[index], self.label[index], self.view_entropy[index])


def score_views(view_logits: Float) -> BaseScores:
    """Equation 1, and e_t of equation 2, from view logits (..., M, C)."""
    posteriors = softmax(view_logits)
    if view_logits.shape[-2] == 1:
        logits = np.asarray(view_logits[..., 0, :], dtype=np.float32)
        posterior = kept_posterior = entropy(posteriors[..., 0, :])
        double = softmax_entropy(posteriors[..., 0, :])
    else:
        kept = _keep_confident_views(view_logits)[..., np.newaxis]
        logits = np.take_along_axis(view_logits, kept, axis=-2).mean(axis=-2, dtype=np.float64)
        logits = logits.astype(np.float32)
        posterior = entropy(posteriors.mean(axis=-2))
        kept_posterior = entropy(np.take_along_axis(posteriors, kept, axis=-2).mean(axis=-2))
        double = entropy(softmax(posteriors).mean(axis=-2))
    return BaseScores(
        logits=logits,
        label=logits.argmax(axis=-1),
        view_entropy=np.stack([double, posterior, kept_posterior], axis=-1),
    )


def kept_posterior(view_logits: Float) -> NDArray[np.float64]:
    """Mean posterior (..., C) of the kept views: what a negative memory stores."""
    kept = _keep_confident_views(view_logits)[..., np.newaxis]
    return np.take_along_axis(softmax(view_logits), kept, axis=-2).mean(axis=-2)


def kernel(similarity: Float, beta: float) -> Float:
    """phi_beta(u) = exp(-beta (1 - u)) of equation 3, in the dtype that comes."""
    weights = similarity - similarity.dtype.type(1)
    weights *= similarity.dtype.type(beta)
    return np.exp(weights, out=weights)


def fuse(base: Float, evidence: Float, weight: float | Float) -> NDArray[np.float64]:
    """Scores b + w L of equation 4, in float64 so that the sum adds no rounding of its own."""
    return np.asarray(base, dtype=np.float64) + weight * np.asarray(evidence, dtype=np.float64)
