"""From view logits to base logits, entropies and evidence: equations 1 to 4 as pure functions.

The last ones measure probabilities: how sure answers are, and how far that is from the truth.

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

BINS = 15
"""Equal-width bins of the confidence in an expected calibration error, unless one says others."""


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
    """b_t, shape (..., C). Of a large stream computed when they are asked for, a product for each
    image as the first time, so with the same bits."""
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


def base_logits(view_logits: Float, kept: Int | None = None) -> NDArray[np.float32]:
    """Equation 1 (..., C) from view logits (..., M, C): the mean of the views that are kept."""
    if view_logits.shape[-2] == 1:
        return np.asarray(view_logits[..., 0, :], dtype=np.float32)
    kept = _keep_confident_views(view_logits)[..., np.newaxis] if kept is None else kept
    mean = np.take_along_axis(view_logits, kept, axis=-2).mean(axis=-2, dtype=np.float64)
    return mean.astype(np.float32)


def score_views(view_logits: Float) -> BaseScores:
    """Equation 1, and e_t of equation 2, from view logits (..., M, C)."""
    posteriors = softmax(view_logits)
    if view_logits.shape[-2] == 1:
        logits = base_logits(view_logits)
        posterior = kept_posterior = entropy(posteriors[..., 0, :])
        double = softmax_entropy(posteriors[..., 0, :])
    else:
        kept = _keep_confident_views(view_logits)[..., np.newaxis]
        logits = base_logits(view_logits, kept)
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


SHARPEST = 1e6
"""The largest beta: of a cosine that rounding puts above 1 the kernel is still a number."""


def kernel(similarity: Float, beta: float) -> Float:
    """phi_beta(u) = exp(-beta (1 - u)) of equation 3, in the dtype that comes."""
    weights = similarity - similarity.dtype.type(1)
    weights *= similarity.dtype.type(beta)
    return np.exp(weights, out=weights)


def fuse(base: Float, evidence: Float, weight: float | Float) -> NDArray[np.float64]:
    """Scores b + w L of equation 4, in float64 so that the sum adds no rounding of its own."""
    return np.asarray(base, dtype=np.float64) + weight * np.asarray(evidence, dtype=np.float64)


def share(scores: Float) -> NDArray[np.float64]:
    """Sums of probabilities as probabilities again: each score over the sum of all classes."""
    total = np.asarray(scores, dtype=np.float64)
    return total / total.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class Certainty:
    """What is kept of the probabilities of answers: three numbers an image, (T,) each."""

    confidence: NDArray[np.float32]
    """The probability of the answer: the largest."""
    log_loss: NDArray[np.float32] | None = None
    """-ln p of the true class in nats, at most 87.3: p counts as 1.2e-38, the smallest normal
    float32, where it is less. None where labels are not known, as the next."""
    brier: NDArray[np.float32] | None = None
    """Sum over classes of (p - 1 for the true class, p - 0 for others) squared: 0 to 2."""

    @classmethod
    def of(cls, probabilities: Float, labels: Int | None) -> Certainty:
        """Of probabilities (..., C) and, where they are known, true labels (...)."""
        p = np.asarray(probabilities, dtype=np.float64)
        confidence = p.max(axis=-1).astype(np.float32)
        if labels is None:
            return cls(confidence)
        true = np.take_along_axis(p, np.asarray(labels)[..., np.newaxis], axis=-1)[..., 0]
        others = np.maximum((p * p).sum(axis=-1) - true * true, 0)  # a sum of squares
        log_loss = -np.log(np.maximum(true, np.finfo(np.float32).tiny))
        brier = others + (1 - true) ** 2
        return cls(confidence, log_loss.astype(np.float32), brier.astype(np.float32))

    @classmethod
    def room(cls, size: int, labels: Int | None) -> Certainty:
        """Room for so many images, to be filled by `put`."""
        return cls(*np.full((1 if labels is None else 3, size), np.nan, dtype=np.float32))

    def put(self, rows: int | Int, probabilities: Float, labels: Int | None) -> None:
        """Fill in some rows from their probabilities (..., C)."""
        found = Certainty.of(probabilities, None if labels is None else labels[rows])
        for name, values in found.known().items():
            getattr(self, name)[rows] = values

    def at(self, rows: Int) -> Certainty:
        """The numbers of some images."""
        return Certainty(**{name: values[rows] for name, values in self.known().items()})

    def known(self) -> dict[str, NDArray[np.float32]]:
        """What there is, by name."""
        return {name: values for name, values in vars(self).items() if values is not None}

    def measures(self, correct: NDArray[np.bool_], bins: int = BINS) -> dict[str, float]:
        """Expected calibration error in `bins` bins, mean Brier score and mean log-loss."""
        assert self.brier is not None  # whoever knows what is correct has labels
        assert self.log_loss is not None
        return {
            "ece": calibration_error(self.confidence, correct, bins),
            "brier": float(self.brier.mean(dtype=np.float64)),
            "log_loss": float(self.log_loss.mean(dtype=np.float64)),
        }


def reliability(
    confidence: Float, correct: NDArray[np.bool_], bins: int = BINS
) -> tuple[Int, NDArray[np.float64], NDArray[np.float64]]:
    """How many answers fall into each bin of the confidence, how sure and how right they are.

    Bin i of equal width holds confidences in (i / bins, (i + 1) / bins], and the first also 0. Mean
    confidence and accuracy of an empty bin are not a number.
    """
    place = np.clip(np.ceil(np.asarray(confidence, np.float64) * bins) - 1, 0, bins - 1).astype(int)
    count = np.bincount(place, minlength=bins)
    filled = np.where(count > 0, count, np.nan)
    sure, right = (np.bincount(place, each, minlength=bins) for each in (confidence, correct))
    return count, sure / filled, right / filled


def calibration_error(confidence: Float, correct: NDArray[np.bool_], bins: int = BINS) -> float:
    """Expected calibration error: the mean distance of confidence and accuracy over bins.

    A bin of `reliability` counts by its answers. Of several orders (orders, T), the mean over them.

    >>> calibration_error(np.array([0.9, 0.9, 0.6, 0.6]), np.array([1, 1, 1, 0]) == 1).__round__(3)
    0.1
    """
    errors = []
    for each in zip(np.atleast_2d(confidence), np.atleast_2d(correct), strict=True):
        count, sure, right = reliability(*each, bins)
        errors.append(np.nansum(count * np.abs(sure - right)) / count.sum())
    return float(np.mean(errors))
