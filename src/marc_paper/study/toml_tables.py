"""Dataclasses from the tables of a TOML file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from marc.errors import MarcError, integer, number, one_of


def table(name: str, value: object) -> Mapping[str, Any]:
    """A value that must be a table."""
    if not isinstance(value, Mapping):
        raise MarcError(f"{name} must be a table", got=repr(value), hint=f"[{name}]")
    return value


def build(kind: type, where: str, given: Mapping[str, Any]) -> Any:
    """A dataclass from a table: known keys, required ones there, each of the right type."""
    fields = {each.name: each for each in dataclasses.fields(kind)}
    for name in given:
        one_of(f"key of {where}", name, fields)
    missing = [
        name
        for name, each in fields.items()
        if each.default is dataclasses.MISSING
        and each.default_factory is dataclasses.MISSING
        and name not in given
    ]
    if missing:
        raise MarcError(f"{where} lacks {', '.join(missing)}", allowed=", ".join(fields))
    values = {
        name: _value(f"{where}: {name}", str(fields[name].type), value)
        for name, value in given.items()
    }
    return kind(**values)


def _value(name: str, kind: str, value: Any) -> Any:
    """A value of the type that a field declares; annotations of a plan are text."""
    if kind.startswith("tuple["):
        if not isinstance(value, list) or not value:
            raise MarcError(f"{name} must be a list of one or more", got=repr(value))
        return tuple(_value(name, kind[6:].partition(",")[0], each) for each in value)
    if kind == "int":
        return integer(name, value, 0)
    if kind == "float":
        return number(name, value)
    if kind == "str" and not isinstance(value, str):
        raise MarcError(f"{name} must be text", got=repr(value))
    return value
