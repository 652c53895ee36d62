"""`hf/DIR`: a local Hugging Face data set: parquet or arrow files, or pictures with a table."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from marc.errors import MarcError
from marc.pictures.arrow_rows import open_arrow, open_parquet, pyarrow
from marc.pictures.csv_file import read_text, require_one
from marc.pictures.image_set import FileBytes, ImageSet, Location
from marc.pictures.labels import named, read_labels
from marc.pictures.listing import in_bytes, made_distinct, printable, spoken

_SPLITS = ("test", "validation", "valid", "val", "train")
"""Which part is taken if there are several and none was asked for, the first that is there."""
_LABELS = ("label", "labels", "fine_label", "cls", "class", "target")
_KINDS = "DIR with .parquet files, a save_to_disk folder, or pictures with metadata.csv or .jsonl"


@dataclass(frozen=True)
class _Columns:
    image: str
    label: str | None
    names: tuple[str, ...]


def open_hf(directory: Path, name: str, part: str | None = None) -> ImageSet:
    """One part of a local data set, rows in the order of its files."""
    if not directory.is_dir():
        raise MarcError("there is no such folder", got=directory, hint=f"ls {directory.parent}")
    table = _find_metadata(directory)
    if table is not None:
        return _open_metadata(table, name)
    pyarrow()  # a clear error if it is not installed
    parts = _parts(directory)
    if not parts:
        raise MarcError(
            "this is no local data set folder",
            got=directory,
            allowed=_KINDS,
            hint=f"folder/{directory} for a plain folder of pictures",
        )
    chosen = _choose(parts, part, name)
    images = _rows(directory, parts[chosen], name)
    others = ", ".join(sorted(set(parts) - {chosen}))
    note = f"the part {chosen!r} is read; there are also: {others}"
    return replace(images, notes=(*images.notes, note)) if others else images


def _choose(parts: dict[str, list[Path]], part: str | None, name: str) -> str:
    if part is None and len(parts) == 1:
        return next(iter(parts))
    wanted = [part] if part is not None else [split for split in _SPLITS if split in parts]
    if not wanted or wanted[0] not in parts:
        raise MarcError(
            "the data set has several parts" if part is None else "the data set has no such part",
            got=repr(part) if part is not None else None,
            allowed=", ".join(sorted(parts)),
            hint=f"{name.partition('#')[0]}#{min(parts)}",
        )
    return wanted[0]


def _parts(directory: Path) -> dict[str, list[Path]]:
    """Data files of each part."""
    saved = _saved_parts(directory)
    if saved:
        return saved
    found: dict[str, list[Path]] = {}
    files = [path for path in directory.rglob("*.parquet") if _is_plain(path, directory)]
    for path in sorted(files, key=lambda path: in_bytes(path.relative_to(directory).as_posix())):
        found.setdefault(_part_of(path, directory), []).append(path)
    for part, paths in found.items():
        folders = sorted({str(path.parent) for path in paths})
        if len(folders) > 1:  # several configurations: reading them as one would mix them
            raise MarcError(
                f"the files of the part {part!r} lie in several folders",
                got=directory,
                allowed=", ".join(f"hf/{folder}" for folder in folders[:5]),
            )
    return found


def _is_plain(path: Path, directory: Path) -> bool:
    return path.is_file() and not any(p.startswith(".") for p in path.relative_to(directory).parts)


def _part_of(path: Path, directory: Path) -> str:
    """By `test-00000-of-00003.parquet`, else by a folder called like a part, else `all`."""
    numbered = re.match(r"(.+?)-\d+(-of-\d+)?(-[0-9a-f]+)?$", path.stem)
    if numbered:
        return numbered[1]
    names = [path.stem, *reversed(path.relative_to(directory).parts[:-1])]
    return next((name for name in names if name in _SPLITS), "all")


def _saved_parts(directory: Path) -> dict[str, list[Path]]:
    """Folders of `save_to_disk`: one part, or several with a list of them."""
    whole = directory / "dataset_dict.json"
    if whole.is_file():
        splits = _json(whole).get("splits")
        names = [str(split) for split in splits] if isinstance(splits, list) else []
        return {split: _saved_files(directory / split) for split in names}
    return {"all": _saved_files(directory)} if (directory / "state.json").is_file() else {}


def _saved_files(folder: Path) -> list[Path]:
    state = _json(folder / "state.json")
    files = state.get("_data_files")
    if not isinstance(files, list) or not all(
        isinstance(file, dict) and isinstance(file.get("filename"), str) for file in files
    ):
        raise MarcError("state.json does not list the data files", got=folder / "state.json")
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise MarcError(
            "the data set was saved with rows left out or in another order",
            got=folder,
            hint="dataset.flatten_indices().save_to_disk(DIR)",
        )
    return [folder / file["filename"] for file in files]


def _json(path: Path) -> dict[str, Any]:
    try:
        parsed = json.loads(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise MarcError("a file of the data set cannot be read", got=f"{path}: {problem}") from None
    return parsed if isinstance(parsed, dict) else {}


def _rows(directory: Path, files: list[Path], name: str) -> ImageSet:
    ids: list[str] = []
    places: list[Location] = []
    values: list[Any] = []
    columns = None
    for file in files:
        short = file.relative_to(directory).as_posix()
        opened = open_parquet(file) if file.suffix == ".parquet" else open_arrow(file)
        these = _columns(opened.schema, file)
        columns = these if columns is None else columns
        if these != columns:
            raise MarcError("the files of the data set differ in their columns", got=file)
        ids += [printable(f"{short}#{row}") for row in range(opened.n_rows)]
        places += opened.places(columns.image)
        values += opened.values(columns.label) if columns.label is not None else []
    if columns is None or not ids:
        raise MarcError("the data set has no rows", got=directory)
    labels, class_names, notes = _labels(values, columns, directory)
    return ImageSet(name, tuple(ids), tuple(places), labels, class_names, notes=notes)


def _labels(
    values: list[Any], columns: _Columns, directory: Path
) -> tuple[tuple[int, ...] | None, tuple[str, ...], tuple[str, ...]]:
    if columns.label is None:
        return None, (), ("no column of labels was found",)
    hidden = sum(value is None or value == -1 for value in values)
    if hidden == len(values):
        return None, columns.names, (f"all labels of the column {columns.label!r} are hidden",)
    written = ["" if value is None else str(value) for value in values]
    places = [f"row {row}" for row in range(len(values))]
    labels, class_names = read_labels(written, places, f"{directory}: {columns.label}")
    if columns.names and not class_names:
        class_names = named(labels, columns.names, directory)
    return labels, class_names, ()


def _columns(schema: Any, file: Path) -> _Columns:
    """Columns of pictures and labels, by the features that the schema keeps, else by name."""
    features = _features(schema, file)
    image = _image_column(schema, features, file)
    classes = [
        column
        for column, feature in features.items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
    ]
    known = [column for column in _LABELS if column in classes] + classes
    plain = [column for column in _LABELS if column in schema.names]
    label = next((column for column in [*known, *plain] if column in schema.names), None)
    names = features[label].get("names") if label in classes else None
    return _Columns(
        image, label, tuple(spoken(str(name)) for name in names) if isinstance(names, list) else ()
    )


def _features(schema: Any, file: Path) -> dict[str, Any]:
    stored = (schema.metadata or {}).get(b"huggingface")
    try:
        info = json.loads(stored).get("info") if stored else None
    except (ValueError, AttributeError):
        info = None  # notes that cannot be read: columns are found by their names
    if not info and (file.parent / "dataset_info.json").is_file():
        info = _json(file.parent / "dataset_info.json")
    features = info.get("features") if isinstance(info, dict) else None
    return features if isinstance(features, dict) else {}


def _image_column(schema: Any, features: dict[str, Any], file: Path) -> str:
    marked = [
        column
        for column, feature in features.items()
        if isinstance(feature, dict) and feature.get("_type") == "Image"
    ]
    for column in [*marked, "image", "img", "picture"]:
        if column in schema.names and _holds_bytes(schema.field(column).type):
            return column
    raise MarcError(
        "the data set has no column of encoded pictures",
        got=f"{file}: {', '.join(schema.names)}",
        allowed="a column `image` of bytes, or of {bytes, path}",
    )


def _holds_bytes(kind: Any) -> bool:
    types = pyarrow().types
    if types.is_struct(kind):
        return any(kind.field(index).name == "bytes" for index in range(kind.num_fields))
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


_FILES = ("metadata.csv", "metadata.jsonl")


def _find_metadata(directory: Path) -> Path | None:
    """The table of a folder, if it has one."""
    return next((directory / name for name in _FILES if (directory / name).is_file()), None)


def _open_metadata(file: Path, name: str) -> ImageSet:
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
