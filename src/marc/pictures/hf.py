"""`hf/DIR`: a local Hugging Face data set: parquet or arrow files, or pictures with a table.

Pictures in parquet and arrow files are read from their rows when they are needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from marc.errors import MarcError
from marc.files import parse_json, read_bytes, read_json, refuse_odd_file
from marc.pictures.image_set import ImageSet, Location
from marc.pictures.listing import in_bytes, no_such, printable, read_labels, spoken
from marc.pictures.tables import open_metadata

_SPLITS = ("test", "validation", "valid", "val", "train")
"""Which part is taken if there are several and none was asked for, the first that is there."""
_LABELS = ("label", "labels", "fine_label", "cls", "class", "target")
_TABLES = ("metadata.csv", "metadata.jsonl")
_KINDS = "DIR with .parquet files, a save_to_disk folder, or pictures with metadata.csv or .jsonl"
_OPEN_FILES = 64
_OPEN_GROUPS = 2
"""Row groups held by a process. Rows in order need one; two serve readers at a border."""


@dataclass(frozen=True)
class _Columns:
    image: str
    label: str | None
    names: tuple[str, ...]


def open_hf(directory: Path, name: str, part: str | None = None) -> ImageSet:
    """One part of a local data set, rows in the order of its files."""
    if not directory.is_dir():
        raise no_such(directory, "hf")
    table = next((directory / file for file in _TABLES if (directory / file).is_file()), None)
    if table is not None:
        return open_metadata(table, name)
    _pyarrow()  # a clear error if it is not installed
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
    chosen = [part] if part is not None else [split for split in _SPLITS if split in parts]
    if not chosen or chosen[0] not in parts:
        raise MarcError(
            "the data set has several parts" if part is None else "the data set has no such part",
            got=repr(part) if part is not None else None,
            allowed=", ".join(sorted(parts)),
            hint=f"{name.partition('#')[0]}#{min(parts)}",
        )
    return chosen[0]


def _parts(directory: Path) -> dict[str, list[Path]]:
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
        return {split: _saved_files(directory / split) for split in _names(whole, "splits")}
    return {"all": _saved_files(directory)} if (directory / "state.json").is_file() else {}


def _saved_files(folder: Path) -> list[Path]:
    state = read_json(folder / "state.json")
    files = _names(folder / "state.json", "_data_files", "filename")
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise MarcError(
            "the data set was saved with rows left out or in another order",
            got=folder,
            hint="dataset.flatten_indices().save_to_disk(DIR)",
        )
    return [folder / file for file in files]


def _names(path: Path, field: str, inner: str | None = None) -> list[str]:
    """Names, of files or folders beside it, that a file lists; or a field of what it lists."""
    found = read_json(path).get(field)
    found = found if isinstance(found, list) else [None]
    names: list[Any] = [
        each.get(inner) if inner and isinstance(each, dict) else each for each in found
    ]
    for name in names:
        if not isinstance(name, str) or name in ("", "..") or Path(name).name != name:
            problem = f"{path.name} does not list the data files"
            raise MarcError(problem, got=f"{path}: {field}: {repr(name)[:80]}")
    return names


def _rows(directory: Path, files: list[Path], name: str) -> ImageSet:
    ids: list[str] = []
    places: list[Location] = []
    values: list[Any] = []
    columns = None
    for file in files:
        short = file.relative_to(directory).as_posix()
        opened = _open_file(file)
        these = _columns(opened.schema, file)
        columns = these if columns is None else columns
        if these != columns:
            raise MarcError("the files of the data set differ in their columns", got=file)
        ids += [printable(f"{short}#{row}") for row in range(opened.n_rows)]
        places += opened.rows(columns.image)
        values += opened.values(columns.label) if columns.label is not None else []
        if columns.label is not None and len(values) != len(ids):
            raise MarcError("there are not as many labels as pictures", got=file)
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
    source, names = f"{directory}: {columns.label}", (columns.names, directory)
    return (*read_labels(written, places, source, names), ())


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
        noted = parse_json(stored, file) if stored else None
    except MarcError:
        noted = None  # notes that cannot be read: columns are found by their names
    info = noted.get("info") if isinstance(noted, dict) else None
    if not info and (file.parent / "dataset_info.json").is_file():
        info = read_json(file.parent / "dataset_info.json")
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
    types = _pyarrow().types
    if types.is_struct(kind):
        return any(kind.field(index).name == "bytes" for index in range(kind.num_fields))
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


@dataclass(frozen=True)
class _Row:
    """A picture in a row of an arrow file, or in one of a row group of a parquet file.

    An arrow file is mapped into memory: rows in any order. A row group is read whole: better in
    order.
    """

    path: str
    column: str
    row: int
    group: int | None
    """Of a parquet file; `row` is within it."""

    def read(self) -> bytes:
        """The encoded picture."""
        changed = refuse_odd_file(Path(self.path)).st_mtime_ns
        with _told(self.path):
            if self.group is None:
                table = _arrow_table(self.path, changed)
            else:
                table = _parquet_group(self.path, self.column, self.group, changed)
            return _picture(table, self.column, self.path, self.row)


@dataclass(frozen=True)
class _DataFile:
    """An arrow file, mapped into memory, or a parquet file of which only the notes are read."""

    path: str
    file: Any
    schema: Any
    """Names and types of the columns."""
    groups: tuple[int, ...] | None
    """Rows of each row group of a parquet file."""

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return int(self.file.num_rows) if self.groups is None else sum(self.groups)

    def rows(self, column: str) -> list[_Row]:
        """Where each picture is."""
        if self.groups is None:
            return [_Row(self.path, column, row, None) for row in range(self.n_rows)]
        return [
            _Row(self.path, column, row, group)
            for group, n_rows in enumerate(self.groups)
            for row in range(n_rows)
        ]

    def values(self, column: str) -> list[Any]:
        """A column of small values; the pictures are not touched."""
        with _told(self.path):
            table = self.file if self.groups is None else self.file.read(columns=[column])
            return list(table.column(column).to_pylist())


def _open_file(path: Path) -> _DataFile:
    facts = refuse_odd_file(path, "file of the data set")
    with _told(str(path)):
        if path.suffix != ".parquet":
            table = _arrow_table(str(path), facts.st_mtime_ns)
            return _DataFile(str(path), table, table.schema, None)
        file = _pyarrow("pyarrow.parquet").ParquetFile(path, memory_map=True)
        notes = file.metadata
        groups = tuple(notes.row_group(group).num_rows for group in range(notes.num_row_groups))
        if min(groups, default=0) < 0 or sum(groups) > facts.st_size:  # no picture has no bytes
            raise ValueError(f"{sum(groups)} rows in {facts.st_size} bytes")
        return _DataFile(str(path), file, file.schema_arrow, groups)


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as problem:  # pyarrow has a family of errors for damaged files, and others
        line = (str(problem).splitlines() or [type(problem).__name__])[0]
        raise MarcError("a file of the data set cannot be read", got=f"{path}: {line}") from None


@lru_cache(maxsize=_OPEN_FILES)
def _arrow_table(path: str, changed: int) -> Any:
    """All rows; nothing is copied. `changed` lets a file that was written again be opened again."""
    del changed
    ipc = _pyarrow("pyarrow.ipc")
    with _pyarrow().memory_map(path, "r") as mapped:
        is_file = mapped.read(6) == b"ARROW1"
        mapped.seek(0)
        table = (ipc.open_file if is_file else ipc.open_stream)(mapped).read_all()
        table.validate(full=True)  # a place outside the file would end the process
        return table


@lru_cache(maxsize=_OPEN_GROUPS)
def _parquet_group(path: str, column: str, group: int, changed: int) -> Any:
    del changed
    with _pyarrow("pyarrow.parquet").ParquetFile(path, memory_map=True) as file:
        return file.read_row_group(group, columns=[column])


def _picture(table: Any, column: str, path: str, row: int) -> bytes:
    """Bytes as they are, or those of the file that the row names."""
    try:
        value = table.column(column)[row].as_py()
    except (IndexError, KeyError):
        raise FileNotFoundError(f"{path} has changed: row {row} is gone") from None
    if isinstance(value, bytes):
        return value
    stored = value.get("bytes") if isinstance(value, dict) else None
    if isinstance(stored, bytes):
        return stored
    named = value.get("path") if isinstance(value, dict) else None
    if not isinstance(named, str) or not named:
        raise FileNotFoundError(f"row {row} of {path} has no picture")
    return read_bytes(Path(path).parent / named, "picture")


def _pyarrow(module: str = "pyarrow") -> Any:
    """The library or a module of it, or an error that says how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise MarcError(
            "hf/ needs the package pyarrow, which is not installed",
            hint='pip install "marc-clip[hf]"',
        ) from None
