"""Numbers as text: all that a terminal, a table or a page prints."""

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
    return f"{100 * value:z.2f}"


def page_points(value: float | None) -> str:
    """`points` with a minus sign that is as wide as a plus, and a dash for what is not known.

    >>> page_points(0.3147), page_points(-0.02), page_points(-1e-9)
    ('+31.47', '−2.00', '+0.00')
    """
    return "–" if value is None or math.isnan(value) else points(value).replace("-", "−")


def page_percent(value: float | None) -> str:
    """`percent`, with a dash for what is not known.

    >>> page_percent(0.51951)
    '51.95'
    """
    return "–" if value is None or math.isnan(value) else percent(value)


def short_points(value: float) -> str:
    """The size of a difference with one digit, for a sentence.

    >>> short_points(-0.3556)
    '35.6'
    """
    return f"{abs(100 * value):.1f}"


def weight_text(weight: float) -> str:
    """A weight as short as it stays itself.

    >>> weight_text(10.0), weight_text(0.1)
    ('10', '0.1')
    """
    return f"{weight:.4g}"


def p_value(log10: float) -> str:
    """A p-value with two digits from its logarithm, so that none is too small to be printed.

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


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> count(1, "order"), count(2000, "class", "classes")
    ('1 order', '2,000 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
