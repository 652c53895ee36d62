"""What a printed number may have been before rounding, and what then follows from it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import stdev

from marc_paper.printed.numbers import Printed


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


def reach_of(printed: Printed) -> Reach:
    """What a printed number may have been before it was rounded, either way at a half."""
    return Reach(printed.value, printed.low, printed.high)


def whole_counts(printed: Printed, n_images: int) -> list[int]:
    """The whole numbers of images whose share, in percent, is printed so."""
    low, high = printed.low * n_images / 100, printed.high * n_images / 100
    return [n for n in range(int(low) - 1, int(high) + 2) if low <= n <= high]


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
