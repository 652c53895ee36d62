"""Numbers as people read them, on a terminal and on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence


def points(value: float) -> str:
    """A difference of accuracies in points; what rounds to zero has no minus."""
    return f"{100 * value:+z.2f}"


def interval(ends: Sequence[float]) -> str:
    """The two ends of an interval of a difference, in points.

    >>> interval([-0.0123, 0.5])
    '[-1.23, +50.00]'
    """
    low, high = map(points, ends)
    return f"[{low}, {high}]"


def percent(value: float) -> str:
    """An accuracy in percent."""
    return f"{100 * value:.2f}"


def p_value(log10: float) -> str:
    """A p-value with two digits from its logarithm, so that none is too small to be told.

    >>> p_value(-1.5), p_value(-815.3421)
    ('0.032', '4.5e-816')
    """
    if log10 > -300:  # a float holds it with all its digits
        return f"{10**log10:.2g}"
    exponent = math.floor(log10)
    digits = f"{10 ** (log10 - exponent):.2g}"
    return f"1e{exponent + 1}" if digits == "10" else f"{digits}e{exponent}"


def duration(seconds: float) -> str:
    """Seconds, minutes or hours, as a person says them.

    >>> duration(0.04), duration(95), duration(5000), duration(5400)
    ('0.0 s', '2 min', '83 min', '1.5 h')
    """
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
