"""`coop/SPLIT.json`: the split files of the CoOp family, `{"test": [[path, label, name], ...]}`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from marc.errors import MarcError, one_of
from marc.pictures.csv_file import read_text, require_one
from marc.pictures.image_set import FileBytes, ImageSet
from marc.pictures.listing import made_distinct, printable, spoken

_PARTS = ("test", "val", "train")
_LAYOUT = '{"train": [[path, label, class name], ...], "val": [...], "test": [...]}'


def open_coop(file: Path, name: str, root: Path | None = None, part: str = "test") -> ImageSet:
    """One part of a split file, in its order, `test` if nothing else is asked for.

    Paths are relative to `root`; without one, to the folder of the file or the folder beside it
    that has the pictures.
    """
    split = _read(file)
    one_of("part", part, _PARTS, hint=f"{name}#test")
    rows = split.get(part, [])
    if not rows:
        filled = ", ".join(key for key, value in split.items() if value)
        raise MarcError(f"the part {part!r} is empty", got=file, allowed=filled or "none is filled")
    class_names = _class_names(file, [row for key in split for row in split[key]])
    folder = root if root is not None else _picture_folder(file, [row[0] for row in rows])
    locations = tuple(FileBytes(os.path.join(folder, row[0])) for row in rows)  # noqa: PTH118
    require_one(locations, file, folder)
    ids, repeated = made_distinct(printable(row[0]) for row in rows)
    return ImageSet(
        name,
        ids,
        locations,
        tuple(row[1] for row in rows),
        class_names,
        upright=False,
        notes=(f"{repeated} pictures are listed more than once",) if repeated else (),
    )


def _read(file: Path) -> dict[str, list[tuple[str, int, str]]]:
    try:
        parsed = json.loads(read_text(file))
    except ValueError as problem:
        if isinstance(problem, MarcError):
            raise
        raise MarcError("the file is not JSON", got=f"{file}: {problem}") from None
    if not isinstance(parsed, dict) or not set(parsed) & set(_PARTS):
        raise MarcError("this is no split file", got=file, allowed=_LAYOUT)
    return {
        part: [_row(file, part, index, row) for index, row in enumerate(_rows(file, parsed, part))]
        for part in _PARTS
        if part in parsed
    }


def _rows(file: Path, parsed: dict[str, Any], part: str) -> list[Any]:
    if not isinstance(parsed[part], list):
        raise MarcError(f"the part {part!r} is no list", got=file, allowed=_LAYOUT)
    return parsed[part]


def _row(file: Path, part: str, index: int, row: Any) -> tuple[str, int, str]:
    good = (
        isinstance(row, list)
        and len(row) == 3
        and isinstance(row[0], str)
        and row[0] != ""
        and isinstance(row[1], int)
        and not isinstance(row[1], bool)
        and row[1] >= 0
        and isinstance(row[2], str)
    )
    if not good:
        raise MarcError(
            "an entry of the split file cannot be read",
            got=f"{file}: {part}[{index}] = {str(row)[:100]}",
            allowed="[path, label from 0, class name]",
        )
    return row[0], row[1], row[2]


def _class_names(file: Path, rows: list[tuple[str, int, str]]) -> tuple[str, ...]:
    """By label, from all parts: a class may be missing in one of them."""
    names: dict[int, str] = {}
    for path, label, name in rows:
        if names.setdefault(label, name) != name:
            raise MarcError(
                "a label has two class names",
                got=f"{file}: label {label} is {names[label]!r}, but {name!r} at {path}",
            )
    absent = next((label for label in range(len(names)) if label not in names), None)
    if absent is not None:
        raise MarcError(
            "a label between others has no class",
            got=f"{file}: no entry has label {absent}, the largest is {max(names)}",
        )
    return tuple(spoken(names[label]) for label in range(len(names)))


def _picture_folder(file: Path, paths: list[str]) -> Path:
    """The folder beside the split file that has most of a few pictures of the list."""
    some = paths[:: max(1, len(paths) // 50)]
    beside = sorted(path for path in file.parent.iterdir() if path.is_dir())
    return max([file.parent, *beside], key=lambda folder: sum((folder / p).is_file() for p in some))
