"""Residuals on prototypes and the one step of AdamW that moves them, with gradients by hand.

Methods that learn such residuals reset them at every image and take one step. The first step of
AdamW from a residual of zero is -rate g / (|g| + epsilon) in every coordinate: both moments are
those of g alone, and there is nothing yet that could decay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from marc.peers._arrays import first_equal
from marc.scores import Float, Int
from marc.stream.predictor import Predictor

_SHORTEST = 1e-12  # a row of zeros, as the mean of two opposite features, stays one


def marginal_entropy(logits: Float) -> tuple[float, NDArray[np.float64]]:
    """H(m) of the mean m of the softmaxes of logits (r, C), and its gradient (r, C).

    dH / dz_jc = p_jc (sum_k p_jk ln m_k - ln m_c) / r. Logarithms are taken of no probability, so
    that one which is too small for its type does no harm.
    """
    z = np.asarray(logits, dtype=np.float64)
    z = z - z.max(axis=1, keepdims=True)
    log_p = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    p, top = np.exp(log_p), log_p.max(axis=0)
    log_m = top + np.log(np.exp(log_p - top).mean(axis=0))
    pull = p * ((p @ log_m)[:, np.newaxis] - log_m) / len(p)
    return float(-(np.exp(log_m) * log_m).sum()), pull


@dataclass(frozen=True)
class Rows:
    """Prototypes (n, D) as they are kept, and their directions, which are what is read."""

    raw: NDArray[Any]
    norms: NDArray[Any]
    """(n,)."""
    unit: NDArray[Any]

    @classmethod
    def of(cls, raw: Float) -> Self:
        norms = lengths(raw)
        return cls(raw, norms, raw / norms[:, np.newaxis])

    def after_step(self, gradient: NDArray[Any], rate: float, epsilon: float) -> NDArray[Any]:
        """Raw rows and the residual that one step gives them, for a gradient by unit rows.

        `gradient` is overwritten.
        """
        return self.raw + adamw_step(self.by_raw(gradient), rate, epsilon)

    def by_raw(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """The gradient by raw rows for one by unit rows, in its place.

        With w = u / |u| the gradient by u is (I - w w^T) g / |u|.
        """
        along = np.einsum("nd,nd->n", gradient, self.unit)
        gradient -= self.unit * along[:, np.newaxis]
        gradient /= self.norms[:, np.newaxis]
        return gradient


def adamw_step(gradient: NDArray[Any], rate: float, epsilon: float) -> NDArray[Any]:
    """The first step of AdamW from zero: almost -rate sign(g) where epsilon is small."""
    step = np.abs(gradient)
    step += epsilon
    np.divide(gradient, step, out=step)
    step *= -rate
    return step


def lengths(rows: Float) -> NDArray[Any]:
    """The norms (n,) of rows (n, D), but no less than what torch divides by."""
    return np.sqrt(np.maximum(np.einsum("nd,nd->n", rows, rows), _SHORTEST**2))


@dataclass(frozen=True)
class SameTexts:
    """Classes with the prototype of an earlier class: their scores are tied, to the last bit.

    A matrix product may round equal rows in two ways.
    """

    source: Predictor
    later: Int
    earlier: Int
    """For each of `later` the first class with the same prototype."""

    @classmethod
    def of(cls, predictor: Predictor) -> Self:
        first = first_equal(predictor.prototypes)
        later = np.flatnonzero(first != np.arange(len(first)))
        return cls(predictor, later, first[later])

    def tie(self, scores: Float, rows: Float | None = None) -> None:
        """Change scores (..., C) in place where classes have the same rows (C, D) until now."""
        later, earlier = self.later, self.earlier
        if len(later) and rows is not None:
            same = (rows[later] == rows[earlier]).all(axis=1)
            later, earlier = later[same], earlier[same]
        scores[..., later] = scores[..., earlier]
