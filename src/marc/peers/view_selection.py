"""Which views count: the share of them with the lowest entropy, by the released rules.

Most released codes keep int(fraction x M) views, which is none for few views, and go on with the
mean of nothing. Here that is refused. One view alone is always kept: there is nothing to select.
"""

from __future__ import annotations

import math

import numpy as np

from marc.errors import MarcError, number
from marc.scores import Float, Int, softmax, softmax_entropy


def select_views(
    view_logits: Float, fraction: float, *, method: str, at_least: int = 0, ridge: float = 0.0
) -> Int:
    """Indices of the int(fraction M) views of lowest entropy; equal entropies keep the lower.

    Args:
        view_logits: (M, C).
        fraction: the share of the views that is kept.
        method: who asks, for the error.
        at_least: views that are kept however small the share is.
        ridge: added to each probability inside the logarithm, as some released codes do.
    """
    n_views = len(view_logits)
    kept = 1 if n_views == 1 else max(at_least, int(fraction * n_views))
    if not kept:
        raise MarcError(
            f"{method} keeps the share {fraction:g} of the views, which is none of {n_views}",
            got=f"{n_views} views",
            allowed=f"1 view, or at least {math.ceil(1 / fraction) if fraction else 'any share'}",
            hint=f"--views 1, or --set fraction={1 / n_views:g} to keep one",
        )
    return np.argsort(_entropies(view_logits, ridge), kind="stable")[:kept]


def check_fraction(fraction: float) -> float:
    """A share of the views, between 0 and 1."""
    if number("fraction", fraction) > 1:
        raise MarcError("fraction is a share of the views", got=fraction, allowed="0 to 1")
    return float(fraction)


def _entropies(view_logits: Float, ridge: float) -> Float:
    if not ridge:
        return softmax_entropy(view_logits)
    posteriors = softmax(view_logits)
    return -(posteriors * np.log(posteriors + ridge)).sum(axis=-1)
