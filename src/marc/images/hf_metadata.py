"""A folder of pictures with `metadata.csv` or `metadata.jsonl`: `file_name` and, maybe, `label`."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path
from typing import Any

from marc.errors import MarcError
from marc.images.csv_file import read_text, require_one
from marc.images.image_set import FileBytes, ImageSet
from marc.images.labels import read_labels
from marc.images.listing import made_distinct, printable

_FILES = ("metadata.csv", "metadata.jsonl")


def find_metadata(directory: Path) -> Path | None:
    """The table of a folder, if it has one."""
    return next((directory / name for name in _FILES if (directory / name).is_file()), None)


def open_metadata(file: Path, name: str) -> ImageSet:
    """The pictures of the table, in its order. With a table, folder names are no labels."""
    directory = file.parent
    rows = _csv_rows(file) if file.suffix == ".csv" else _json_rows(file)
    if not rows:
        raise MarcError("the table lists no pictures", got=file)
    for place, row in rows:
        if not isinstance(row.get("file_name"), str) or not row["file_name"]:
            raise MarcError(
                "a row names no picture", got=f"{file}: {place}", allowed="a field `file_name`"
            )
    paths = [str(row["file_name"]) for _, row in rows]
    locations = tuple(FileBytes(os.path.join(directory, path)) for path in paths)  # noqa: PTH118
    require_one(locations, file, directory)
    known = None
    if any(row.get("label") is not None for _, row in rows):
        written = ["" if row.get("label") is None else str(row["label"]) for _, row in rows]
        known = read_labels(written, [place for place, _ in rows], file)
    labels, class_names = known or (None, ())
    ids, repeated = made_distinct(printable(path) for path in paths)
    notes = (f"{repeated} pictures are listed more than once",) if repeated else ()
    return ImageSet(name, ids, locations, labels, class_names, notes=notes)


def _csv_rows(file: Path) -> list[tuple[str, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(read_text(file), newline=""))
    try:
        return [(f"line {reader.line_num}", row) for row in reader]
    except csv.Error as problem:
        raise MarcError("the table cannot be read", got=f"{file}: {problem}") from None


def _json_rows(file: Path) -> list[tuple[str, dict[str, Any]]]:
    rows = []
    for number, line in enumerate(read_text(file).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as problem:
            raise MarcError("a line is not JSON", got=f"{file}: line {number}: {problem}") from None
        if not isinstance(row, dict):
            raise MarcError("a line is no JSON object", got=f"{file}: line {number}")
        rows.append((f"line {number}", row))
    return rows
