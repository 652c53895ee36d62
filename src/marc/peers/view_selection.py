"""Which views count: the fraction of them with the lowest entropy, by the released rules.

Most released codes keep int(fraction x M) views, which is none for few views, and go on with the
mean of nothing. Here that is refused. One view alone is always kept: there is nothing to select.
"""

from __future__ import annotations

import math

import numpy as np

from marc.errors import MarcError, number
from marc.scores import Float, Int, softmax, softmax_entropy


def select_views(
    view_logits: Float,
    fraction: float,
    *,
    method: str,
    at_least: int = 0,
    ridge: float = 0.0,
    setting: str = "fraction",
) -> Int:
    """Indices (..., r) of the int(fraction M) views of lowest entropy; equal ones keep the lower.

    Args:
        view_logits: (..., M, C).
        fraction: of the views that is kept.
        method: who asks, for the error.
        at_least: views that are kept however small the fraction is.
        ridge: added to each probability inside the logarithm, as some released codes do.
        setting: what the method calls the fraction, for the error.
    """
    n_views = view_logits.shape[-2]
    kept = 1 if n_views == 1 else max(at_least, int(fraction * n_views))
    if not kept:
        raise MarcError(
            f"{method} keeps the fraction {fraction:g} of the views, which is none of {n_views}",
            got=f"{n_views} views",
            allowed=_enough_views(fraction),
            hint=f"--views 1, or --set {setting}={fraction_of_one(n_views):g} to keep one",
        )
    exact = not ridge
    entropies = (
        softmax_entropy(view_logits) if exact else ridged_entropy(softmax(view_logits), ridge)
    )
    return np.argsort(entropies, axis=-1, kind="stable")[..., :kept]


def check_fraction(fraction: float, name: str = "fraction") -> float:
    """A fraction of the views, between 0 and 1."""
    if number(name, fraction) > 1:
        raise MarcError(f"{name} is a fraction of the views", got=fraction, allowed="0 to 1")
    return float(fraction)


def _enough_views(fraction: float) -> str:
    """How many views make the fraction one view or more."""
    if fraction < 1e-9:  # of no number of views that there is
        return f"1 view, or a fraction above {fraction:g}"
    return f"1 view, or at least {math.ceil(1 / fraction)}"


def fraction_of_one(count: int) -> float:
    """A fraction, short enough to type, that keeps one of `count`: rounded up, never down."""
    return math.ceil(10_000 / count) / 10_000


def ridged_entropy(posteriors: Float, ridge: float) -> Float:
    """-sum p ln(p + ridge) over classes, as some released codes have it: may be just below 0."""
    return -(posteriors * np.log(posteriors + ridge)).sum(axis=-1)
