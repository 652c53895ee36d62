"""The files of printed values: the cells of a table, and beside them the address of each.

    label = "tab:swap"                                  # of the table in the paper
    printed = "space | purity | ..."                    # its cells, one row per line
    [address]                                           # of all its values
    [columns]                                           # more about those of a column,
    purity = { column = "purity@10" }
    [rows]                                              # of a row,
    span = { row = { space = "span" } }
    [cells]                                             # and of a cell
    CLIP = { oracle = { note = "CLIP gains" } }
    [each_row]                                          # of rows that `[rows]` does not name
    row = { space = "@space" }
    [addresses]                                         # parts of an address, used by `like`

What is nearer to a cell counts. `@name` is the name of a row or column; `@space` and `@dataset` are
the names that `marc list` has for it, and leave out a row that has none.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, final

from marc.errors import MarcError
from marc_paper.printed.numbers import Table, parse_table

PRINTED = "printed"
"""The one column of every table of statements."""

_Address = Mapping[str, Any]
"""Where a study has a value, in the words of a file."""

_ADDRESSES = ("address", "each_column", "each_row", "columns", "rows", "cells", "addresses")


@final
@dataclass(frozen=True)
class Sheet:
    """A printed table with the addresses of its values."""

    table: Table
    address: _Address
    columns: Mapping[str, _Address]
    rows: Mapping[str, _Address]
    cells: Mapping[tuple[str, str], _Address]
    named: Mapping[str, _Address]
    """Parts of an address that `like` refers to, beside those of `common.toml`."""


@cache
def table_sheets() -> dict[str, Sheet]:
    """All tables of results by the names of their files, in the order of the paper."""
    return {name: _sheet_of(_read(name)) for name in common()["tables"]}


@cache
def statement_sheets() -> tuple[Sheet, ...]:
    """The statements under each label, in the order of the paper."""
    return tuple(_statements_of(_read("statements")))


@cache
def common() -> Mapping[str, Any]:
    """The names that all files share."""
    return _read("common")


def _read(name: str) -> dict[str, Any]:
    return _parse((files(__package__) / f"{name}.toml").read_text("utf-8"))


def _parse(text: str) -> dict[str, Any]:
    """The data of a file."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise MarcError("a file of printed values is not TOML", got=str(problem)) from problem


def _sheet_of(data: Mapping[str, Any]) -> Sheet:
    """A printed table of the data of its file."""
    label = _text(data, "label", "a printed table")
    refuse_unknown(label, data, ("label", PRINTED, *_ADDRESSES))
    for name in _ADDRESSES:
        _is_address(f"{label}, {name}", data.get(name, {}))
    printed = parse_table(label, _text(data, PRINTED, label))
    cells = data.get("cells", {})
    refuse_unknown(f"the cells of {label}", cells, printed.rows)
    for row, columns in cells.items():
        _is_address(f"{label}, {row}", columns)
        refuse_unknown(f"the cells of {label}, {row}", columns, printed.columns)
    return Sheet(
        printed,
        data.get("address", {}),
        _completed(label, printed.columns, data.get("columns", {}), data.get("each_column")),
        _completed(label, printed.rows, data.get("rows", {}), data.get("each_row")),
        {(row, column): cells[row][column] for row in cells for column in cells[row]},
        data.get("addresses", {}),
    )


def _statements_of(data: Mapping[str, Any]) -> list[Sheet]:
    """The statements under each label: a row says what is printed and its address."""
    found = []
    for label, rows in data.items():
        if label == "addresses":
            continue
        _is_address(label, rows)
        cells, addresses = {}, {}
        for row, said in rows.items():
            cells[row] = (_text(said, PRINTED, f"{label}, {row}"),)
            addresses[row] = {name: value for name, value in said.items() if name != PRINTED}
        printed = Table(label, (PRINTED,), cells)
        found.append(Sheet(printed, {}, {PRINTED: {}}, addresses, {}, data.get("addresses", {})))
    return found


def refuse_unknown(where: str, given: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse names that are not allowed."""
    known = list(allowed)
    wrong = [name for name in given if name not in known]
    if wrong:
        raise MarcError(
            f"{where}: unknown names",
            got=", ".join(map(str, wrong)),
            allowed=", ".join(sorted(known)),
        )


def _text(data: Mapping[str, Any], key: str, where: str) -> str:
    value = data.get(key) if isinstance(data, Mapping) else None
    if not isinstance(value, str):
        raise MarcError(f"{where} has no text {key!r}", got=repr(value))
    return value


def _is_address(where: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise MarcError(f"{where} is not a table", got=repr(value))


def _completed(
    label: str, names: Iterable[str], own: Mapping[str, _Address], each: _Address | None
) -> dict[str, _Address]:
    """The addresses of rows or columns: their own, else the one that is filled for each."""
    names = list(names)
    refuse_unknown(label, own, names)
    if each is None:
        return dict(own)
    found = {name: own.get(name, _filled(each, name)) for name in names}
    return {name: address for name, address in found.items() if address is not None}


def _filled(each: _Address, name: str) -> _Address | None:
    """An address for a row or column of this name; none where the name is not of its kind."""
    meant = {
        "@name": name,
        "@space": common()["spaces"].get(name),
        "@dataset": common()["datasets"].get(name),
    }
    found: dict[str, Any] = {}
    for key, value in each.items():
        filled = _filled(value, name) if isinstance(value, Mapping) else value
        if isinstance(value, str):
            filled = meant.get(value, value)
        if filled is None:
            return None
        found[key] = filled
    return found
