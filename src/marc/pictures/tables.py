"""Pictures listed in a table: `csv/FILE`, and the metadata of a Hugging Face folder."""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from marc.errors import MarcError
from marc.files import parse_json, read_text
from marc.pictures.image_set import FileBytes, ImageSet, WithGenerated
from marc.pictures.listing import as_label, made_distinct, printable, read_labels

_EXAMPLE = "a first line `path,label`, then lines like `cats/1.jpg,cat`"
_GENERATED = "a first line `id,path`, then lines like `cats/1.jpg,variants/1-a.png`"


def open_csv(file: Path, name: str, root: Path | None = None) -> ImageSet:
    """The pictures of a table with the columns `path` and, if known, `label`, in its order.

    Paths are relative to the file, or to `root`.

    A picture that does not exist stays in the list, and is found missing when it is read.
    """
    rows, columns = _read(file)
    folder = root if root is not None else file.parent
    paths = [_path(row["path"], place, file) for place, row in rows]
    _refuse_repeats(file, paths, [place for place, _ in rows])
    locations = FileBytes.listed(paths, folder, file)
    known = None
    if "label" in columns:
        written = [row["label"].strip() for _, row in rows]
        known = read_labels(written, [place for place, _ in rows], file)
    labels, class_names = known or (None, ())
    extra = [column for column in columns if column not in ("path", "label")]
    notes = (f"columns not used: {', '.join(extra)}",) if extra else ()
    ids = tuple(printable(path) for path in paths)
    return ImageSet(name, ids, locations, labels, class_names, notes=notes)


def with_generated(images: ImageSet, file: Path) -> tuple[ImageSet, int, str]:
    """The pictures with those that were generated from each: a table of `id` and `path`.

    Paths are relative to the file. Gives the pictures, how many belong to each, and a digest of
    what lies in their files: features of others must not be taken for features of these.
    """
    rows, _ = _read(file, ("id", "path"), _GENERATED)
    by_id: dict[str, list[str]] = {name: [] for name in images.ids}
    for place, row in rows:
        if row["id"] not in by_id:
            raise MarcError(
                "a generated picture belongs to a picture that is not there",
                got=f"{file}: {place}: {row['id']!r}",
                allowed=f"ids as {images.ids[0]!r}",
            )
        by_id[row["id"]].append(_path(row["path"], place, file))
    counts = {len(paths) for paths in by_id.values()}
    if len(counts) > 1:
        fewest = min(by_id, key=lambda name: len(by_id[name]))
        raise MarcError(
            "not every picture has as many generated ones",
            got=f"{file}: {len(by_id[fewest])} of {fewest!r}, up to {max(counts)} of others",
            allowed="the same number for each",
        )
    FileBytes.listed([path for paths in by_id.values() for path in paths], file.parent, file)
    known, locations = hashlib.blake2b(digest_size=16), []
    for plain, (name, paths) in zip(images.locations, by_id.items(), strict=True):
        of_one = tuple(FileBytes(str(file.parent / path)) for path in paths)
        known.update(name.encode())
        for each in of_one:
            known.update(_content(each))
        locations.append(WithGenerated(plain, of_one))
    return replace(images, locations=tuple(locations)), counts.pop(), known.hexdigest()


def _content(location: FileBytes) -> bytes:
    from marc.pictures.decoding import Unreadable, read_bytes  # PIL; a list needs none

    try:
        return hashlib.sha256(read_bytes(location)).digest()
    except Unreadable as error:
        raise MarcError(
            "a generated picture cannot be read",
            got=f"{location.path}: {error.reason}",
            hint="generate it again, or leave it out for every picture",
        ) from None


def _read(
    file: Path, needed: Sequence[str] = ("path",), example: str = _EXAMPLE
) -> tuple[list[tuple[str, dict[str, str]]], list[str]]:
    """Rows by place (`line 3`) and the names of the columns."""
    text = read_text(file)
    delimiter = "\t" if file.suffix.lower() == ".tsv" else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        columns = [column.strip() for column in next(reader, [])]
        _check_columns(file, columns, needed, example)
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
        raise MarcError("the table lists no pictures", got=file, allowed=example)
    return rows, columns


def _check_columns(file: Path, columns: list[str], needed: Sequence[str], example: str) -> None:
    if missing := [column for column in needed if column not in columns]:
        raise MarcError(
            f"the table has no column `{missing[0]}`",
            got=f"{file}: {', '.join(columns)[:200] or 'nothing'}",
            allowed=example,
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


def open_metadata(file: Path, name: str) -> ImageSet:
    """The pictures of `metadata.csv` or `.jsonl`, in its order; folder names are no labels."""
    rows = _csv_rows(file) if file.suffix == ".csv" else _json_rows(file)
    if not rows:
        raise MarcError("the table lists no pictures", got=file)
    for place, row in rows:
        if not isinstance(row.get("file_name"), str) or not row["file_name"]:
            raise MarcError(
                "a row names no picture", got=f"{file}: {place}", allowed="a field `file_name`"
            )
    paths = [_path(str(row["file_name"]), place, file) for place, row in rows]
    locations = FileBytes.listed(paths, file.parent, file)
    known = None
    if any(row.get("label") is not None for _, row in rows):
        written = [as_label(row.get("label"), f"{file}: {place}") for place, row in rows]
        known = read_labels(written, [place for place, _ in rows], file)
    labels, class_names = known or (None, ())
    if labels is not None:
        _refuse_two_labels(file, paths, labels, [place for place, _ in rows])
    ids, repeated = made_distinct(printable(path) for path in paths)
    notes = (f"{repeated} pictures are listed more than once",) if repeated else ()
    return ImageSet(name, ids, locations, labels, class_names, notes=notes)


def _refuse_two_labels(
    file: Path, paths: list[str], labels: tuple[int, ...], places: list[str]
) -> None:
    first: dict[str, tuple[int, str]] = {}
    for path, label, place in zip(paths, labels, places, strict=True):
        known, before = first.setdefault(path, (label, place))
        if known != label:
            raise MarcError(
                "a picture has two labels", got=f"{file}: {path} in {before} and {place}"
            )


def _csv_rows(file: Path) -> list[tuple[str, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(read_text(file), newline=""))
    try:
        return [(f"line {reader.line_num}", row) for row in reader]
    except csv.Error as problem:
        raise MarcError("the table cannot be read", got=f"{file}: {problem}") from None


def _json_rows(file: Path) -> list[tuple[str, dict[str, Any]]]:
    rows = []
    for number, line in enumerate(read_text(file).split("\n"), 1):
        if not line.strip():
            continue
        row = parse_json(line, f"{file}: line {number}")
        if not isinstance(row, dict):
            raise MarcError("a line is no JSON object", got=f"{file}: line {number}")
        rows.append((f"line {number}", row))
    return rows
