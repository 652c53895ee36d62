"""`csv/FILE`: a table with the columns `path` and, if known, `label`."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

from marc.errors import MarcError
from marc.pictures.image_set import FileBytes, ImageSet
from marc.pictures.labels import read_labels
from marc.pictures.listing import printable

_EXAMPLE = "a first line `path,label`, then lines like `cats/1.jpg,cat`"


def open_csv(file: Path, name: str, root: Path | None = None) -> ImageSet:
    """The pictures of a table, in its order. Paths are relative to the file, or to `root`.

    A picture that does not exist stays in the list, and is found missing when it is read.
    """
    rows, columns = _read(file)
    folder = root if root is not None else file.parent
    paths = [_path(row["path"], place, file) for place, row in rows]
    _refuse_repeats(file, paths, [place for place, _ in rows])
    locations = tuple(FileBytes(os.path.join(folder, path)) for path in paths)  # noqa: PTH118
    require_one(locations, file, folder)
    known = None
    if "label" in columns:
        written = [row["label"].strip() for _, row in rows]
        known = read_labels(written, [place for place, _ in rows], file)
    labels, class_names = known or (None, ())
    extra = [column for column in columns if column not in ("path", "label")]
    notes = (f"columns not used: {', '.join(extra)}",) if extra else ()
    ids = tuple(printable(path) for path in paths)
    return ImageSet(name, ids, locations, labels, class_names, notes=notes)


def require_one(locations: tuple[FileBytes, ...], file: Path, folder: Path) -> None:
    """At least one picture must be there: else the folder is probably the wrong one."""
    if not any(Path(location.path).is_file() for location in locations):
        raise MarcError(
            f"none of the {len(locations)} pictures of the list exists",
            got=f"{file}: first {locations[0].path}",
            hint=f"ls {folder}, or name the folder of the pictures with --root",
        )


def _read(file: Path) -> tuple[list[tuple[str, dict[str, str]]], list[str]]:
    """Rows by place (`line 3`) and the names of the columns."""
    text = read_text(file)
    delimiter = "\t" if file.suffix.lower() == ".tsv" else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        columns = [column.strip() for column in next(reader, [])]
        _check_columns(file, columns)
        rows = []
        for row in reader:
            place = f"line {reader.line_num}"
            if not row:
                continue  # an empty line
            if len(row) != len(columns):
                raise MarcError(
                    "a line has another number of values than the first one",
                    got=f"{file}: {place} has {len(row)}",
                    allowed=f"{len(columns)}: {', '.join(columns)}",
                    hint="put values that contain commas in double quotes",
                )
            rows.append((place, dict(zip(columns, row, strict=True))))
    except csv.Error as problem:
        raise MarcError(
            "the table cannot be read", got=f"{file}: line {reader.line_num}: {problem}"
        ) from None
    if not rows:
        raise MarcError("the table lists no pictures", got=file, allowed=_EXAMPLE)
    return rows, columns


def read_text(file: Path) -> str:
    """The text of a file in UTF-8, or an error that says what is wrong with it."""
    if not file.is_file():
        raise MarcError("there is no such file", got=file, hint=f"ls {file.parent}")
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise MarcError(
            "the file is not text in UTF-8", got=f"{file}: byte {problem.start}", allowed="UTF-8"
        ) from None


def _check_columns(file: Path, columns: list[str]) -> None:
    if "path" not in columns:
        raise MarcError(
            "the table has no column `path`",
            got=f"{file}: {', '.join(columns)[:200] or 'nothing'}",
            allowed=_EXAMPLE,
            hint="separate values by commas" if any(";" in column for column in columns) else None,
        )
    if len(set(columns)) < len(columns):
        raise MarcError("the table has a column twice", got=f"{file}: {', '.join(columns)}")


def _path(written: str, place: str, file: Path) -> str:
    """A path with forward slashes, so that two spellings of one file are known as one."""
    if not written.strip() or "\0" in written:
        raise MarcError("a path is missing", got=f"{file}: {place}: {written!r}")
    return Path(os.path.normpath(written.strip())).as_posix()


def _refuse_repeats(file: Path, paths: list[str], places: list[str]) -> None:
    first: dict[str, str] = {}
    for path, place in zip(paths, places, strict=True):
        if path in first:
            raise MarcError(
                "a picture is listed twice", got=f"{file}: {path} in {first[path]} and {place}"
            )
        first[path] = place
