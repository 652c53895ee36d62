"""Numbers as text and tables as Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from textwrap import fill

from marc.stats import Interval


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose columns are aligned in the source too."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    widths[-1] = 20 if widths[-1] > 40 else widths[-1]  # a long last column may be ragged
    lines.insert(1, ["-" * width for width in widths])
    texts = (
        "| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )
    return "\n".join(texts)


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


def numbered(texts: Iterable[str]) -> str:
    """A numbered list."""
    items = [f"{number}. {text}" for number, text in enumerate(texts, 1)]
    return "\n".join(_filled(item, " " * (item.index(" ") + 1)) for item in items)


def wrapped(part: str) -> str:
    """A paragraph in lines; headings, tables and lists stay as they are."""
    return part if "\n" in part or part[0] in "#|" else _filled(part)


def _filled(text: str, indent: str = "") -> str:
    return fill(text, 100, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
