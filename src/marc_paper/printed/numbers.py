"""Numbers and tables as a paper prints them: text, whose digits say how it was rounded."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import final

from marc.errors import MarcError

_NUMBER = re.compile(
    r"(?<![\w.-])(?<![A-Za-z]/)"  # not inside a name such as DINOv2-L, ViT-B/16 or EVA-02
    r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e-?\d+)?"
    r"(?![\w]|\.\d)"
)


@final
@dataclass(frozen=True)
class Printed:
    """One number as printed."""

    text: str

    @property
    def value(self) -> Fraction:
        """What is printed, exactly."""
        return Fraction(self.text.replace(",", ""))

    @property
    def unit(self) -> Fraction:
        """One of the last printed digit."""
        exponent = self.text.partition("e")[2]
        return Fraction(10) ** (int(exponent or 0) - self.decimals)

    @property
    def decimals(self) -> int:
        """Digits after the point."""
        return len(self.text.partition("e")[0].partition(".")[2])

    @property
    def low(self) -> Fraction:
        """The lowest number that is printed so, a half rounded either way."""
        return self.value - self.unit / 2

    @property
    def high(self) -> Fraction:
        """The highest number that is printed so, a half rounded either way."""
        return self.value + self.unit / 2

    @property
    def log10(self) -> float:
        """The logarithm of a p-value, however small.

        >>> round(Printed("2e-285").log10, 3)
        -284.699
        """
        return math.log10(self.value.numerator) - math.log10(self.value.denominator)

    def __float__(self) -> float:
        return float(self.value)

    def image_counts(self, n_images: int) -> list[int]:
        """The numbers of images whose fraction, in percent, is printed so."""
        low, high = self.low * n_images / 100, self.high * n_images / 100
        return [n for n in range(int(low) - 1, int(high) + 2) if low <= n <= high]


@final
@dataclass(frozen=True)
class Table:
    """A table of the paper: rows of cells, and the LaTeX label under which they stand."""

    label: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]

    def cell(self, row: str, column: str) -> str:
        """A cell as printed; `-` is an empty one."""
        return self.rows[row][self.columns.index(column)]

    def numbers(self, row: str, column: str) -> list[Printed]:
        """All numbers of a cell: a value, then its deviation or the ends of its interval."""
        return numbers(self.cell(row, column))

    def at(self, row: str, column: str) -> Printed:
        """The first number of a cell."""
        found = self.numbers(row, column)
        if not found:
            raise MarcError(f"no number at {row}, {column} of {self.label}")
        return found[0]

    def column(self, column: str, rows: Iterable[str] | None = None) -> dict[str, Printed]:
        """The first number of every cell of a column that has one, by row."""
        names = self.rows if rows is None else rows
        return {row: self.at(row, column) for row in names if self.numbers(row, column)}


def numbers(text: str) -> list[Printed]:
    """All numbers of a text; digits inside names are none.

    >>> [number.text for number in numbers("DINOv2-L: +1.12 [-0.62, +2.86], 1,586 keys")]
    ['+1.12', '-0.62', '+2.86', '1,586']
    """
    return [Printed(match) for match in _NUMBER.findall(text)]


def parse_table(label: str, text: str) -> Table:
    """Read a table whose first line names the columns; a dash is an empty cell."""
    found = [[cell.strip() for cell in line.split("|")] for line in text.strip().split("\n")]
    header, *lines = found
    for line in lines:
        if len(line) != len(header):
            raise MarcError(f"{label}: {line[0]} has {len(line)} cells instead of {len(header)}")
    twice = [name for name, n in Counter(line[0] for line in lines).items() if n > 1]
    if twice:
        raise MarcError(f"{label}: more than one row has the same name", got=", ".join(twice))
    return Table(label, tuple(header[1:]), {name: tuple(cells) for name, *cells in lines})
