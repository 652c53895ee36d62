"""A check: what the paper prints beside what follows from its other numbers, and a verdict.

A printed number was rounded. `Reach` carries the ends between which its exact value may lie through
the arithmetic, so that a verdict knows what the rounding of the inputs allows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from statistics import stdev

from marc_paper.printed import Printed, Table

_SLACK = Fraction(1, 10**9)  # of a printed digit: what a float cannot hold


class Verdict(StrEnum):
    """What came out of a check."""

    SAME = "reproduces"
    ROUNDED = "within rounding of its inputs"
    DIFFERENT = "does not reproduce"


@dataclass(frozen=True)
class Reach:
    """A number and the ends between which its rounded inputs allow it to lie."""

    value: Fraction
    low: Fraction
    high: Fraction

    def __add__(self, other: _Number) -> Reach:
        other = Reach.of(other)
        return Reach(self.value + other.value, self.low + other.low, self.high + other.high)

    def __sub__(self, other: _Number) -> Reach:
        other = Reach.of(other)
        return Reach(self.value - other.value, self.low - other.high, self.high - other.low)

    def __mul__(self, factor: Fraction | int) -> Reach:
        ends = sorted((self.low * factor, self.high * factor))
        return Reach(self.value * factor, *ends)

    def __truediv__(self, other: _Number) -> Reach:
        other = Reach.of(other)
        if other.low <= 0 <= other.high:
            raise ZeroDivisionError("the divisor may be zero")
        ends = [a / b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Reach(self.value / other.value, min(ends), max(ends))

    @classmethod
    def of(cls, number: _Number) -> Reach:
        """A printed number was rounded, either way at a half; another reaches no further."""
        if isinstance(number, Reach):
            return number
        if isinstance(number, Printed):
            return Reach(number.value, number.low, number.high)
        return Reach(Fraction(number), Fraction(number), Fraction(number))

    @classmethod
    def mean(cls, values: Sequence[_Number]) -> Reach:
        """The mean of rounded numbers."""
        return sum(map(Reach.of, values), start=Reach.of(0)) * Fraction(1, len(values))

    @classmethod
    def at_corners(
        cls, function: Callable[[list[float]], float], inputs: Sequence[_Number]
    ) -> Reach:
        """A function of rounded inputs, evaluated where each is lowest, as printed, or highest.

        Exact for a function that is monotone in each input, and never too generous for another.
        """
        reaches = [Reach.of(each) for each in inputs]
        corners = itertools.product(*((each.low, each.value, each.high) for each in reaches))
        outputs = [Fraction(function([float(value) for value in corner])) for corner in corners]
        value = Fraction(function([float(each.value) for each in reaches]))
        return Reach(value, min(outputs), max(outputs))


_Number = Reach | Printed | Fraction | float


@dataclass(frozen=True)
class Check:
    """One printed value or claim."""

    where: str
    """LaTeX label of the table or section that prints it."""
    what: str
    """The kind of quantity; equal ones under one label are folded in the document."""
    item: str
    """Which of them."""
    printed: str
    computed: str
    verdict: Verdict
    distance: float | None = None
    """From the printed value, in units of its last digit; None for a claim in words."""

    @property
    def name(self) -> str:
        """Names the check among all."""
        return f"{self.where} / {self.what} / {self.item}"


@dataclass(frozen=True)
class Section:
    """Checks of one section of the document."""

    title: str
    text: str
    parts: tuple[Callable[[], Iterable[Check]], ...]
    listed: tuple[str, ...] = ()
    """Kinds of which every value is shown; of the others only their number."""

    @cached_property
    def checks(self) -> list[Check]:
        """All of them, in order."""
        return [check for part in self.parts for check in part()]


def number(where: str, what: str, item: str, printed: Printed | str, computed: _Number) -> Check:
    """Judge a printed number by its digits, and by what the rounding of its inputs allows."""
    printed = Printed(printed) if isinstance(printed, str) else printed
    computed = Reach.of(computed)
    distance = abs(computed.value - printed.value) / printed.unit
    slack = _SLACK * printed.unit
    if distance <= Fraction(1, 2) + _SLACK:
        verdict = Verdict.SAME
    elif computed.low <= printed.high + slack and computed.high >= printed.low - slack:
        verdict = Verdict.ROUNDED
    else:
        verdict = Verdict.DIFFERENT
    text = _written(computed, printed, with_ends=verdict != Verdict.SAME)
    return Check(where, what, item, printed.text, text, verdict, float(distance))


def claim(where: str, what: str, item: str, printed: str, computed: str, *, holds: bool) -> Check:
    """A statement that holds or does not."""
    verdict = Verdict.SAME if holds else Verdict.DIFFERENT
    return Check(where, what, item, printed, computed, verdict)


def _written(computed: Reach, like: Printed, *, with_ends: bool) -> str:
    """A computed number with two digits more than the printed one, and how far it may reach."""
    is_count = like.decimals == 0 and computed.low == computed.high
    digits = 0 if is_count and computed.value.denominator == 1 else like.decimals + 2
    sign = "+" if like.text[0] in "+-" else ""

    def text(value: Fraction) -> str:
        if "e" in like.text:
            return f"{float(value):{sign}.{digits}e}"
        return f"{round(float(value), digits) + 0.0:{sign}.{digits}f}"

    if with_ends and computed.high > computed.low:
        return f"{text(computed.value)} ({text(computed.low)} to {text(computed.high)})"
    return text(computed.value)


def differences(
    where: str, what: str, rows: Iterable[tuple[str, Printed, Printed, Printed]]
) -> list[Check]:
    """Printed differences: name, minuend, subtrahend, and the difference as printed."""
    return [
        number(where, what, name, printed, Reach.of(first) - second)
        for name, first, second, printed in rows
    ]


def in_rows(
    source: Table, what: str, columns: tuple[str, str, str], rows: Iterable[str] | None = None
) -> list[Check]:
    """Differences inside rows: the columns of minuend, subtrahend and difference."""
    names = source.rows if rows is None else rows
    first, second, printed = (source.column(column, names) for column in columns)
    cells = [(row, first[row], second[row], printed[row]) for row in names]
    return differences(source.label, what, cells)


def over_seeds(
    where: str, item: str, seeds: Sequence[_Number], printed: Sequence[Printed]
) -> list[Check]:
    """A printed mean over seeds, and its printed sample deviation (n - 1) if there is one."""
    computed = {
        "mean over seeds": Reach.mean(seeds),
        "standard deviation over seeds": Reach.at_corners(lambda values: stdev(values), seeds),
    }
    pairs = zip(computed.items(), printed, strict=False)
    return [number(where, what, item, text, value) for (what, value), text in pairs]


def averages(source: Table, column: str, inputs: Sequence[str]) -> list[Check]:
    """The column of averages of a table, where all inputs of a row are printed."""
    return [
        number(source.label, f"{column} of a row", row, printed, Reach.mean(values))
        for row, printed in source.column(column).items()
        for values in [[n for name in inputs for n in source.numbers(row, name)[:1]]]
        if len(values) == len(inputs)
    ]
