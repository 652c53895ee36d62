"""A printed number of the paper, and where a study of the same protocol has its value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, final

from marc.errors import MarcError
from marc_paper.printed.numbers import Printed, Table
from marc_paper.verify.names import VIT
from marc_paper.verify.tolerances import DEVIATION, LOG10_P, Tolerance, log10_of

Part = Literal["", "value", "sd", "low", "high"]
"""Of a cell of a study; empty: as the paper prints it."""

MEAN = "@mean"
"""In a row: the average over exactly the data sets of a place."""
STREAM = "@"
"""In a row, before a data set: the name of its stream in the study."""


@final
@dataclass(frozen=True)
class Never:
    """Why no study of any plan has a value."""

    reason: str
    first: bool = False
    """Whether this is said before anything else."""


@final
@dataclass(frozen=True)
class Place:
    """Where a study has a value, as far as a table, a column or a row of the paper decides it."""

    table: str = ""
    column: str = ""
    part: Part = ""
    row: Mapping[str, Any] = field(default_factory=dict)
    """Cells that tell the row; `MEAN` and `STREAM` stand for names that the study gives."""
    less: Mapping[str, Any] = field(default_factory=dict)
    """Cells that tell a second row, whose value is taken off."""
    dataset: str = ""
    """Of the stream that the value is about."""
    datasets: tuple[str, ...] = ()
    """Of all streams behind the value, where there are several."""
    groups: tuple[str, ...] = ()
    """Groups whose streams are exactly `datasets`."""
    predictor: str = VIT
    settings: Mapping[str, Any] = field(default_factory=dict)
    """That the table must have; `orders` is the number of its seeds."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """That the plan must have, such as `grids.weights`; spaces in any order."""
    tolerance: Tolerance | None = None
    note: str = ""
    never: Never | None = None

    def of(self, *, also: Place) -> Place:
        """Both places together; what `also` says counts."""
        usual = Place()
        said = {
            each.name: getattr(also, each.name)
            for each in fields(Place)
            if getattr(also, each.name) != getattr(usual, each.name)
        }
        for name in ("row", "less", "settings", "plan"):
            said[name] = {**getattr(self, name), **getattr(also, name)}
        kept = {each.name: getattr(self, each.name) for each in fields(Place)}
        return Place(**{**kept, **said})


Places = Place | tuple[Place, ...]
"""One for a cell, or one for each number of it."""


@final
@dataclass(frozen=True)
class Expected:
    """One printed number, and its place."""

    label: str
    row: str
    column: str
    number: int
    """Which number of the cell, from 0."""
    printed: Printed
    place: Place
    deviation: Printed | None = None
    """That the cell prints beside the number."""
    is_bound: bool = False
    """Whether the cell says that the value is below the number."""

    @property
    def where(self) -> str:
        """The cell in words."""
        column = "" if self.column == "printed" else f", {self.column}"
        part = {"sd": ", deviation", "low": ", low", "high": ", high"}.get(self.place.part, "")
        return f"{self.row}{column}{part}"

    @property
    def value(self) -> float:
        """What a study is held against: the number, or the logarithm of a p-value."""
        if self.place.tolerance is LOG10_P:
            return log10_of(self.printed)
        return float(self.printed)

    @property
    def is_deviation(self) -> bool:
        """Whether it is a deviation over orders, which few orders hardly fix."""
        return self.place.part == "sd"

    @property
    def claims_sign(self) -> bool:
        """Whether the sign is what is claimed; that of an end of an interval never is."""
        assert self.place.tolerance is not None
        return self.place.tolerance.keeps_sign and self.place.part == "value"

    def distance(self, got: float) -> float:
        """How far a study is off; nothing where a bound holds, else as its tolerance counts."""
        assert self.place.tolerance is not None
        if self.is_bound and got <= self.value:
            return 0.0
        return self.place.tolerance.distance(self.value, got)

    @property
    def allowed(self) -> float:
        """How far a study may be off."""
        assert self.place.tolerance is not None
        return self.place.tolerance.allowed(self.printed, self.deviation)

    def meets(self, got: float) -> bool:
        """Whether a study's value is near enough, and on the side of zero that is claimed."""
        if self.claims_sign and got * self.value < 0 and abs(got) > self.allowed / 2:
            return False
        return abs(self.distance(got)) <= self.allowed


def declare(
    table: Table,
    base: Place,
    columns: Mapping[str, Places],
    rows: Mapping[str, Places],
    cells: Mapping[tuple[str, str], Places] | None = None,
) -> list[Expected]:
    """Every number of a printed table; a cell says more than its row, and that more than a column.

    Cells without numbers need no place.
    """
    found: list[Expected] = []
    for row in table.rows:
        for column in table.columns:
            printed = table.numbers(row, column)
            if not printed:
                continue
            text = table.cell(row, column)
            special = (cells or {}).get((row, column), Place())
            if row not in rows or column not in columns:
                raise MarcError(f"{table.label} has no place for {row}, {column}")
            places = _each(len(printed), text, [columns[column], rows[row], special])
            for number, place in enumerate(places):
                found.append(_expected(table, row, column, number, base.of(also=place)))
    return found


def _each(n_numbers: int, text: str, said: Iterable[Places]) -> list[Place]:
    """A place for each number of a cell."""
    parts: list[Part] = ["value"] * n_numbers
    if "±" in text and n_numbers == 2:
        parts = ["value", "sd"]
    elif "[" in text and n_numbers == 3:
        parts = ["value", "low", "high"]
    found = [Place(part=part) for part in parts]
    for places in said:
        each = places if isinstance(places, tuple) else (places,) * n_numbers
        if len(each) != n_numbers:
            raise MarcError(f"a cell of {n_numbers} numbers has {len(each)} places", got=text)
        found = [place.of(also=also) for place, also in zip(found, each, strict=True)]
    return found


def _expected(table: Table, row: str, column: str, number: int, place: Place) -> Expected:
    printed = table.numbers(row, column)
    text = table.cell(row, column)
    has_deviation = "±" in text and len(printed) == 2
    if place.part == "sd" and place.never is None:
        place = place.of(also=Place(tolerance=DEVIATION))
    return Expected(
        label=table.label,
        row=row,
        column=column,
        number=number,
        printed=printed[number],
        place=place,
        deviation=printed[1] if has_deviation and number == 0 else None,
        is_bound=text.startswith("<"),
    )
