"""Every number that the paper prints, and where a study of the same protocol has its value.

Mapping[str, Any]es are read from the files of `marc_paper.printed`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, final, get_args

from marc.errors import MarcError
from marc_paper.printed.numbers import Printed, Table
from marc_paper.printed.sheets import Sheet, common, refuse_unknown, statement_sheets, table_sheets
from marc_paper.verify.tolerances import KINDS, Tolerance

_VIT = "clip-b16"
"""The paper's predictor, but where it says otherwise."""

_Part = Literal["", "value", "sd", "low", "high"]
"""Of a cell of a study; empty: as the paper prints it."""

MEAN = "@mean"
"""In a row: the average over exactly the data sets of a place."""
STREAM = "@"
"""In a row, before a data set: the name of its stream in the study."""


_EMPTY = "@empty"
"""In a row: a cell of the study without a value, for which TOML has no word."""


@final
@dataclass(frozen=True)
class _Never:
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
    part: _Part = ""
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
    predictor: str = _VIT
    settings: Mapping[str, Any] = field(default_factory=dict)
    """That the table must have; `orders` is the number of its seeds."""
    plan: Mapping[str, Any] = field(default_factory=dict)
    """That the plan must have, such as `grids.weights`; spaces in any order."""
    tolerance: Tolerance | None = None
    note: str = ""
    never: _Never | None = None

    def of(self, *, also: Place) -> Place:
        """Both places together; what `also` says counts."""
        default, names = Place(), [each.name for each in fields(Place)]
        own = [name for name in names if getattr(also, name) != getattr(default, name)]
        merged = {name: getattr(also, name) for name in own}
        for name in ("row", "less", "settings", "plan"):
            merged[name] = {**getattr(self, name), **getattr(also, name)}
        return replace(self, **merged)


_Places = Place | tuple[Place, ...]
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
        if self.place.tolerance is KINDS["p"]:
            return self.printed.log10
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


def _declare(
    table: Table,
    base: Place,
    columns: Mapping[str, _Places],
    rows: Mapping[str, _Places],
    cells: Mapping[tuple[str, str], _Places] | None = None,
) -> list[Expected]:
    """Every number of a printed table; a cell says more than its row, and that more than a column.

    Cells without numbers need no place.
    """
    declared: list[Expected] = []
    for row, column in itertools.product(table.rows, table.columns):
        printed = table.numbers(row, column)
        if not printed:
            continue
        if row not in rows or column not in columns:
            raise MarcError(f"{table.label} has no place for {row}, {column}")
        nearer = [columns[column], rows[row], (cells or {}).get((row, column), Place())]
        places = _each(len(printed), table.cell(row, column), nearer)
        for number, place in enumerate(places):
            declared.append(_expected(table, row, column, number, base.of(also=place)))
    return declared


def _each(n_numbers: int, text: str, addresses: Iterable[_Places]) -> list[Place]:
    """A place for each number of a cell."""
    parts: list[_Part] = ["value"] * n_numbers
    if "±" in text and n_numbers == 2:
        parts = ["value", "sd"]
    elif "[" in text and n_numbers == 3:
        parts = ["value", "low", "high"]
    each_place = [Place(part=part) for part in parts]
    for places in addresses:
        each = places if isinstance(places, tuple) else (places,) * n_numbers
        if len(each) != n_numbers:
            raise MarcError(f"a cell of {n_numbers} numbers has {len(each)} places", got=text)
        each_place = [place.of(also=also) for place, also in zip(each_place, each, strict=True)]
    return each_place


def _expected(table: Table, row: str, column: str, number: int, place: Place) -> Expected:
    printed = table.numbers(row, column)
    text = table.cell(row, column)
    has_deviation = "±" in text and len(printed) == 2
    if place.part == "sd" and place.never is None:
        place = place.of(also=Place(tolerance=KINDS["deviation"]))
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


_KEYS = {*(each.name for each in fields(Place)), "unanswered", "like"}


def _expected_of(sheet: Sheet) -> list[Expected]:
    """Every number of a sheet with its place."""
    read = _Reader(sheet.table.label, {**common()["addresses"], **sheet.named})
    return _declare(
        sheet.table,
        read.place(sheet.address),
        {name: read.places(address) for name, address in sheet.columns.items()},
        {name: read.places(address) for name, address in sheet.rows.items()},
        {cell: read.places(address) for cell, address in sheet.cells.items()},
    )


@final
@dataclass(frozen=True)
class _Reader:
    """Reads the addresses of a table."""

    label: str
    named: Mapping[str, Mapping[str, Any]]

    def places(self, address: Mapping[str, Any]) -> _Places:
        """The place of a cell, or of each of its numbers."""
        if not isinstance(address, Mapping) or "numbers" not in address:
            return self.place(address)
        place = self.place({key: value for key, value in address.items() if key != "numbers"})
        return tuple(place.of(also=self.place(each)) for each in _several(address["numbers"]))

    def place(self, address: Mapping[str, Any]) -> Place:
        """The place of an address: that of what it is like, and what it says itself."""
        if not isinstance(address, Mapping):
            raise MarcError(f"{self.label}: an address is not a table", got=repr(address))
        refuse_unknown(f"an address of {self.label}", address, _KEYS)
        place = self.place(self._of("addresses", address["like"])) if "like" in address else Place()
        own = {
            "never" if key == "unanswered" else key: self._value(key, address[key])
            for key in address
            if key != "like"
        }
        return place.of(also=Place(**own))

    def _value(self, key: str, value: Any) -> Any:
        """What a place has under a key."""
        match key:
            case "datasets":
                return tuple(self._of("streams", value) if isinstance(value, str) else value)
            case "plan":
                plans = [self._of("plans", name) for name in _several(value)]
                return {path: _frozen(each) for plan in plans for path, each in plan.items()}
            case "tolerance":
                refuse_unknown(f"a tolerance of {self.label}", [value], KINDS)
                return KINDS[value]
            case "note":
                return " ".join(self._of("notes", name) for name in _several(value))
            case "never":
                return _Never(**self._of("never", value))
            case "unanswered":
                return _Never(f"nothing of this study answers it: {value}")
            case "part":
                refuse_unknown(f"a part of {self.label}", [value], get_args(_Part))
        return self._plain(key, value)

    def _plain(self, key: str, value: Any) -> Any:
        """A value that needs no name of `common.toml`."""
        if not isinstance(_frozen(value), type(getattr(Place(), key))):
            raise MarcError(f"an address of {self.label} has a wrong {key}", got=repr(value))
        if isinstance(value, dict):
            return {name: None if cell == _EMPTY else cell for name, cell in value.items()}
        return _frozen(value)

    def _of(self, kind: str, name: str) -> Any:
        """What a name stands for."""
        known = self.named if kind == "addresses" else common()[kind]
        refuse_unknown(f"{kind} of {self.label}", [name], known)
        return known[name]


def _several(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


EXPECTED: tuple[Expected, ...] = tuple(
    expected
    for sheet in (*table_sheets().values(), *statement_sheets())
    for expected in _expected_of(sheet)
)
"""Each printed number once, in the order of the tables and then of the text."""
