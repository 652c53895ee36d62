"""A check: what the paper prints beside what follows from its other numbers, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from benchmarks.paper.reaches import Reach, deviation, exact, mean, reach_of
from marc_paper.printed.numbers import Printed, Table

SAME = "reproduces"
ROUNDED = "within rounding of its inputs"
DIFFERENT = "does not reproduce"

_SLACK = Fraction(1, 10**9)  # of a printed digit: what a float cannot hold


@dataclass(frozen=True)
class Check:
    """One printed value or claim."""

    where: str
    """LaTeX label of the table or section that prints it."""
    what: str
    """The kind of quantity; equal ones of one place are folded in the document."""
    item: str
    """Which of them."""
    printed: str
    computed: str
    verdict: str
    distance: float | None = None
    """From the printed value, in units of its last digit; None for a claim in words."""

    @property
    def name(self) -> str:
        """Names the check among all."""
        return f"{self.where} / {self.what} / {self.item}"


def number(where: str, what: str, item: str, printed: Printed | str, found: Reach | float) -> Check:
    """Judge a printed number by its digits, and by what the rounding of its inputs allows."""
    said = Printed(printed) if isinstance(printed, str) else printed
    reach = found if isinstance(found, Reach) else exact(found)
    distance = abs(reach.value - said.value) / said.unit
    slack = _SLACK * said.unit
    if distance <= Fraction(1, 2) + _SLACK:
        verdict = SAME
    elif reach.low <= said.high + slack and reach.high >= said.low - slack:
        verdict = ROUNDED
    else:
        verdict = DIFFERENT
    shown = written(reach, said, ends=verdict != SAME)
    return Check(where, what, item, said.text, shown, verdict, float(distance))


def claim(where: str, what: str, item: str, printed: str, computed: str, *, holds: bool) -> Check:
    """A statement that holds or does not."""
    return Check(where, what, item, printed, computed, SAME if holds else DIFFERENT)


def written(reach: Reach, like: Printed, *, ends: bool = False) -> str:
    """A computed number with two digits more than the printed one, and how far it may reach."""
    whole = like.decimals == 0 and reach.low == reach.high and reach.value.denominator == 1
    digits = 0 if whole else like.decimals + 2
    sign = "+" if like.text[0] in "+-" else ""

    def text(value: Fraction) -> str:
        if "e" in like.text:
            return f"{float(value):{sign}.{digits}e}"
        return f"{round(float(value), digits) + 0.0:{sign}.{digits}f}"

    if ends and reach.high - reach.low > 0:
        return f"{text(reach.value)} ({text(reach.low)} to {text(reach.high)})"
    return text(reach.value)


def p_value(where: str, what: str, item: str, printed: str, log10: float) -> Check:
    """Judge a printed p-value by its digits; it may be smaller than any float."""
    exponent = math.floor(log10)
    found = f"{10 ** (log10 - exponent):.2f}e{exponent}" if log10 < -2 else f"{10**log10:.4f}"
    if printed.startswith("<"):
        holds = log10 < math.log10(Printed(printed[1:].strip()).value)
        return claim(where, what, item, printed, found, holds=holds)
    said, scale = Printed(printed), Fraction(10) ** exponent
    distance = float(abs(Fraction(10 ** (log10 - exponent)) * scale - said.value) / said.unit)
    verdict = SAME if distance <= 0.5 else DIFFERENT
    return Check(where, what, item, printed, found, verdict, distance)


def differences(
    where: str, what: str, rows: Iterable[tuple[str, Printed, Printed, Printed]]
) -> list[Check]:
    """Printed differences: name, what it is taken from, what is taken away, what is printed."""
    return [
        number(where, what, name, printed, reach_of(first) - reach_of(second))
        for name, first, second, printed in rows
    ]


def in_rows(
    source: Table, what: str, columns: tuple[str, str, str], rows: Iterable[str] | None = None
) -> list[Check]:
    """Differences inside rows: the columns of what it is taken from, what is taken away, and it."""
    first, second, printed = columns
    names = source.rows if rows is None else rows
    return differences(
        source.label,
        what,
        [(r, source.at(r, first), source.at(r, second), source.at(r, printed)) for r in names],
    )


def over_seeds(
    where: str, item: str, seeds: Sequence[Reach], printed: Sequence[Printed]
) -> list[Check]:
    """A printed mean over seeds, and its printed deviation if there is one."""
    names = ("mean over seeds", "standard deviation over seeds")
    found = (mean(seeds), deviation(seeds))
    return [
        number(where, what, item, said, value)
        for what, said, value in zip(names, printed, found, strict=False)
    ]


def averages(source: Table, column: str, inputs: Sequence[str]) -> list[Check]:
    """The column of averages of a table, where all inputs of a row are printed."""
    return [
        number(
            source.label, f"{column} of a row", row, printed, mean([reach_of(n) for n in values])
        )
        for row, printed in source.column(column).items()
        for values in [[n for name in inputs for n in source.numbers(row, name)[:1]]]
        if len(values) == len(inputs)
    ]
