"""Numbers as text, and small tables of them: what stands under every figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Cells as they are printed; the first column names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @classmethod
    def of(cls, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
        """A table from any sequences."""
        return cls(tuple(columns), tuple(tuple(row) for row in rows))


def points(value: float | None) -> str:
    """A difference of shares in points, with a minus sign that is as wide as a plus.

    >>> points(0.3147), points(-0.02), points(-1e-9)
    ('+31.47', '−2.00', '+0.00')
    """
    if value is None or math.isnan(value):
        return "–"
    return f"{_hundredfold(value):+.2f}".replace("-", "−")


def short_points(value: float) -> str:
    """The size of a difference with one digit, for a sentence.

    >>> short_points(-0.3556)
    '35.6'
    """
    return f"{abs(100 * value):.1f}"


def percent(value: float | None) -> str:
    """A share in percent.

    >>> percent(0.51951)
    '51.95'
    """
    return "–" if value is None or math.isnan(value) else f"{_hundredfold(value):.2f}"


def _hundredfold(value: float) -> float:
    """Percent with two digits; zero has no sign."""
    return round(100 * value, 2) + 0.0


def weight_text(weight: float) -> str:
    """A weight as short as it stays itself.

    >>> weight_text(10.0), weight_text(0.1)
    ('10', '0.1')
    """
    return f"{weight:.4g}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun.

    >>> count(1, "order"), count(2000, "class", "classes")
    ('1 order', '2,000 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
