"""Numbers as a paper prints them: what they say, and what they may have been before rounding."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import stdev

_NUMBER = re.compile(r"[+-]?\d[\d,]*(?:\.\d+)?(?:e-\d+)?")


@dataclass(frozen=True)
class Reach:
    """A number and the ends between which its rounded inputs allow it to lie."""

    value: Fraction
    low: Fraction
    high: Fraction

    def __add__(self, other: Reach) -> Reach:
        return Reach(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: Reach) -> Reach:
        return Reach(self.value - other.value, self.low - other.high, self.high - other.low)

    def __mul__(self, factor: Fraction | int) -> Reach:
        ends = sorted((self.low * factor, self.high * factor))
        return Reach(self.value * factor, *ends)

    def __truediv__(self, other: Reach) -> Reach:
        if other.low <= 0 <= other.high:
            raise ZeroDivisionError("the divisor may be zero")
        ends = [a / b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Reach(self.value / other.value, min(ends), max(ends))


def exact(value: Fraction | float) -> Reach:
    """A number that was not rounded."""
    return Reach(Fraction(value), Fraction(value), Fraction(value))


@dataclass(frozen=True)
class Printed:
    """One number as printed; its digits say how it was rounded."""

    text: str

    @property
    def value(self) -> Fraction:
        """What is printed, exactly."""
        return Fraction(self.text.replace(",", ""))

    @property
    def unit(self) -> Fraction:
        """One of the last printed digit."""
        digits, _, exponent = self.text.partition("e")
        decimals = len(digits.partition(".")[2])
        return Fraction(10) ** (int(exponent or 0) - decimals)

    @property
    def decimals(self) -> int:
        """Digits after the point."""
        return len(self.text.partition("e")[0].partition(".")[2])

    @property
    def reach(self) -> Reach:
        """What it may have been before it was rounded, either way at a half."""
        return Reach(self.value, self.value - self.unit / 2, self.value + self.unit / 2)

    def __float__(self) -> float:
        return float(self.value)

    def counts(self, n_images: int) -> list[int]:
        """The whole numbers of images whose share, in percent, is printed so."""
        low, high = self.reach.low * n_images / 100, self.reach.high * n_images / 100
        return [n for n in range(int(low) - 1, int(high) + 2) if low <= n <= high]


@dataclass(frozen=True)
class Table:
    """A table of the paper: rows of cells, and the LaTeX label under which they stand."""

    label: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[str, ...]]

    def numbers(self, row: str, column: str) -> list[Printed]:
        """All numbers of a cell: a value, then its deviation or the ends of its interval."""
        return numbers(self.rows[row][self.columns.index(column)])

    def at(self, row: str, column: str) -> Printed:
        """The first number of a cell."""
        return self.numbers(row, column)[0]

    def column(self, column: str, rows: Iterable[str] | None = None) -> dict[str, Printed]:
        """The first number of every cell of a column that has one."""
        names = self.rows if rows is None else rows
        return {row: self.at(row, column) for row in names if self.numbers(row, column)}


def numbers(text: str) -> list[Printed]:
    """All numbers of a text in which no name has digits."""
    return [Printed(match) for match in _NUMBER.findall(text)]


def table(label: str, text: str) -> Table:
    """Read a table whose first line names the columns; a dash is an empty cell."""
    found = [[cell.strip() for cell in line.split("|")] for line in text.strip().split("\n")]
    header, *lines = found
    for line in lines:
        if len(line) != len(header):
            raise ValueError(f"{label}: {line[0]} has {len(line)} cells instead of {len(header)}")
    return Table(label, tuple(header[1:]), {name: tuple(cells) for name, *cells in lines})


def mean(values: Sequence[Reach]) -> Reach:
    """The mean of rounded numbers."""
    total = exact(0)
    for value in values:
        total = total + value
    return total * Fraction(1, len(values))


def deviation(values: Sequence[Reach]) -> Reach:
    """The sample standard deviation (n - 1) of rounded numbers."""
    return at_corners(lambda numbers: stdev(numbers), values)


def at_corners(function: Callable[[list[float]], float], inputs: Sequence[Reach]) -> Reach:
    """A function of rounded inputs, evaluated where each is lowest, as printed, or highest.

    Exact for a function that is monotone in each input, and never too generous for another.
    """
    corners = itertools.product(*((each.low, each.value, each.high) for each in inputs))
    outputs = [Fraction(function([float(value) for value in corner])) for corner in corners]
    value = Fraction(function([float(each.value) for each in inputs]))
    return Reach(value, min(outputs), max(outputs))
