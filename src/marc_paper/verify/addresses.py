"""Every number that the paper prints, with its address in a study, of the files in `printed/`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, final, get_args

from marc.errors import MarcError
from marc_paper.printed.sheets import (
    Address,
    Sheet,
    common,
    statement_sheets,
    table_sheets,
    unknown,
)
from marc_paper.verify.expected import Expected, Never, Part, Place, Places, declare
from marc_paper.verify.tolerances import KINDS

_EMPTY = "@empty"
"""In a row: a cell of the study without a value, for which TOML has no word."""
_TOLERANCES = {kind.name: kind for kind in KINDS}
_KEYS = {*(each.name for each in fields(Place)), "unanswered", "like"}


def _expected_of(sheet: Sheet) -> list[Expected]:
    """Every number of a printed table with its place."""
    read = _Reader(sheet.table.label, {**common()["addresses"], **sheet.named})
    return declare(
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
    named: Mapping[str, Address]

    def places(self, address: Address) -> Places:
        """The place of a cell, or of each of its numbers."""
        if not isinstance(address, Mapping) or "numbers" not in address:
            return self.place(address)
        place = self.place({key: value for key, value in address.items() if key != "numbers"})
        return tuple(place.of(also=self.place(each)) for each in _several(address["numbers"]))

    def place(self, address: Address) -> Place:
        """The place of an address: that of what it is like, and what it says itself."""
        if not isinstance(address, Mapping):
            raise MarcError(f"{self.label}: an address is not a table", got=repr(address))
        unknown(f"an address of {self.label}", address, _KEYS)
        place = self.place(self._of("addresses", address["like"])) if "like" in address else Place()
        said = {
            "never" if key == "unanswered" else key: self._value(key, address[key])
            for key in address
            if key != "like"
        }
        return place.of(also=Place(**said))

    def _value(self, key: str, value: Any) -> Any:
        """What a place has under a key."""
        match key:
            case "datasets":
                return tuple(self._of("streams", value) if isinstance(value, str) else value)
            case "plan":
                plans = [self._of("plans", name) for name in _several(value)]
                return {path: _frozen(each) for plan in plans for path, each in plan.items()}
            case "tolerance":
                unknown(f"a tolerance of {self.label}", [value], _TOLERANCES)
                return _TOLERANCES[value]
            case "note":
                return " ".join(self._of("notes", name) for name in _several(value))
            case "never":
                return Never(**self._of("never", value))
            case "unanswered":
                return Never(f"nothing of this study answers it: {value}")
            case "part":
                unknown(f"a part of {self.label}", [value], get_args(Part))
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
        unknown(f"{kind} of {self.label}", [name], known)
        return known[name]


def _several(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


EXPECTED: tuple[Expected, ...] = tuple(
    expected for sheet in (*table_sheets(), *statement_sheets()) for expected in _expected_of(sheet)
)
"""Each printed number once, in the order of the tables and then of the text."""
