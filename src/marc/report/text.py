"""Numbers as text: all that a terminal, a table or a page prints."""

from __future__ import annotations

import math
from collections.abc import Sequence


def points(value: float | None, *, page: bool = False) -> str:
    """A difference of accuracies in points; what rounds to zero has no minus.

    On a page a minus is as wide as a plus, and what is not known is a dash.

    >>> points(-1e-9), points(-0.02, page=True), points(None, page=True)
    ('+0.00', '−2.00', '–')
    """
    if value is None or (page and math.isnan(value)):
        return "–"
    return f"{100 * value:+z.2f}".replace("-", "−" if page else "-")


def percent(value: float | None, *, page: bool = False) -> str:
    """An accuracy in percent; on a page, what is not known is a dash."""
    return "–" if value is None or (page and math.isnan(value)) else f"{100 * value:z.2f}"


def interval(ends: Sequence[float]) -> str:
    """The two ends of an interval of a difference, in points.

    >>> interval([-0.0123, 0.5])
    '[-1.23, +50.00]'
    """
    low, high = map(points, ends)
    return f"[{low}, {high}]"


def score(value: float | None) -> str:
    """An ECE, Brier score or log-loss, which are no percentages; a dash where it is not known."""
    return "–" if value is None else f"{value:z.4f}"


def score_change(difference: float | None, ends: Sequence[float] | None = None) -> str:
    """A difference of two such scores, with its interval where there is one.

    >>> score_change(-0.01234, [-0.02, 0.01]), score_change(None)
    ('-0.0123 [-0.0200, +0.0100]', '–')
    """
    if difference is None:
        return "–"
    interval = f" [{ends[0]:+z.4f}, {ends[1]:+z.4f}]" if ends else ""
    return f"{difference:+z.4f}{interval}"


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


def worst(n_orders: int) -> str:
    """Which orders `stats.worst_tenth` is of.

    >>> worst(3), worst(50)
    ('the worst order', 'the worst 5 of 50 orders')
    """
    few = n_orders // 10
    return "the worst order" if few < 2 else f"the worst {few} of {n_orders} orders"
