"""Numbers as text, for the documents; tables and lists come from `marc_paper.markdown`."""

from __future__ import annotations

import math
from collections.abc import Sequence

from marc.stats import Interval
from marc_paper.markdown import numbered, table, wrapped

__all__ = ["numbered", "table", "wrapped"]


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.1f}"


def points(share: float) -> str:
    """A difference of shares in points, with its sign."""
    return f"{round(100 * share, 1) + 0.0:+.1f}"


def with_ends(gain: Interval) -> str:
    """A gain and its interval."""
    return f"{points(gain.estimate)} [{points(gain.low)}, {points(gain.high)}]"


def with_half(gain: Interval) -> str:
    """A gain and half the width of its interval, which is symmetric."""
    return f"{points(gain.estimate)} ({percent(gain.high - gain.estimate)})"


def decimal(value: float) -> str:
    """A correlation."""
    return "-" if math.isnan(value) else f"{round(value, 2) + 0.0:.2f}"


def names(spaces: Sequence[str]) -> str:
    """A list of spaces."""
    return ", ".join(f"`{space}`" for space in spaces) or "none"


def span(values: Sequence[float], form: str) -> str:
    """The lowest and the highest of some numbers, or the one that they all are."""
    return " to ".join(dict.fromkeys(form.format(value) for value in (min(values), max(values))))
