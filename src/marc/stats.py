"""Paired statistics: two answers to the same images are compared image by image."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.errors import MarcError

Z_95 = 1.959963984540054  # two-sided 95 % of a normal


class Interval(NamedTuple):
    """An estimate with its 95 % interval."""

    estimate: float
    low: float
    high: float


def paired_difference(correct: ArrayLike, reference: ArrayLike) -> Interval:
    """Accuracy of one method minus that of a reference, with a Wald interval over images.

    Both are 0/1 arrays (T,), or (orders, T) with the same images in the same columns: an image's
    differences are then averaged over orders before the interval over images is formed.

    >>> correct = np.r_[np.ones(1511), np.zeros(147), np.zeros(5842)]
    >>> reference = np.r_[np.zeros(1511), np.ones(147), np.zeros(5842)]
    >>> [round(100 * value, 2) for value in paired_difference(correct, reference)]
    [18.19, 17.21, 19.17]
    """
    a, b = _same_images(correct, reference)
    difference = np.atleast_2d(a - b).mean(axis=0)
    estimate = float(difference.mean())
    half = Z_95 * float(difference.std()) / math.sqrt(len(difference))
    return Interval(estimate, estimate - half, estimate + half)


def mcnemar_exact(correct: ArrayLike, reference: ArrayLike) -> float:
    """Two-sided exact p-value that the two methods are right equally often, for one order (T,)."""
    from scipy.stats import binomtest

    a, b = _same_images(correct, reference)
    if a.ndim != 1:
        raise MarcError("an exact test compares one order", got=a.shape, allowed="(T,)")
    gained, lost = int((a > b).sum()), int((a < b).sum())
    return 1.0 if gained + lost == 0 else float(binomtest(gained, gained + lost).pvalue)


def wilson(n_correct: int, n_images: int) -> Interval:
    """An accuracy with its Wilson interval."""
    from scipy.stats import binomtest

    interval = binomtest(n_correct, n_images).proportion_ci(method="wilson")
    return Interval(n_correct / n_images, float(interval.low), float(interval.high))


def _same_images(
    correct: ArrayLike, reference: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    a, b = np.asarray(correct, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if a.shape != b.shape or a.size == 0:
        raise MarcError(
            "a paired comparison needs the same images on both sides", got=f"{a.shape}, {b.shape}"
        )
    return a, b
