"""Pictures in the rows of arrow and parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from marc.errors import MarcError

_OPEN_FILES = 64
_OPEN_GROUPS = 2
"""Row groups held by a process. Rows in order need one; two serve readers at a border."""


def pyarrow(module: str = "pyarrow") -> Any:
    """The library or a module of it, or an error that says how to get it."""
    try:
        return import_module(module)
    except ImportError:
        raise MarcError(
            "hf/ needs the package pyarrow, which is not installed",
            hint='pip install "marc-clip[hf]"',
        ) from None


@dataclass(frozen=True)
class _ArrowRow:
    """A picture in a row of an arrow file, which is mapped into memory: rows in any order."""

    path: str
    column: str
    row: int

    def read(self) -> bytes:
        """The encoded picture."""
        table = _arrow_table(self.path, Path(self.path).stat().st_mtime_ns)
        return _picture(table, self.column, self.path, self.row)


@dataclass(frozen=True)
class _ParquetRow:
    """A picture in a row of a parquet file. A row group is read whole: best in order."""

    path: str
    column: str
    group: int
    row: int
    """Within the group."""

    def read(self) -> bytes:
        """The encoded picture."""
        changed = Path(self.path).stat().st_mtime_ns
        rows = _parquet_group(self.path, self.column, self.group, changed)
        return _picture(rows, self.column, self.path, self.row)


@dataclass(frozen=True)
class _ArrowFile:
    """An arrow file, mapped into memory."""

    path: str
    table: Any

    @property
    def schema(self) -> Any:
        """Names and types of the columns."""
        return self.table.schema

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return int(self.table.num_rows)

    def places(self, column: str) -> Iterator[_ArrowRow]:
        """Where each picture is."""
        return (_ArrowRow(self.path, column, row) for row in range(self.n_rows))

    def values(self, column: str) -> list[Any]:
        """A column of small values."""
        return list(self.table.column(column).to_pylist())


@dataclass(frozen=True)
class _ParquetFile:
    """A parquet file of which only the notes at its end are read."""

    path: str
    file: Any

    @property
    def schema(self) -> Any:
        """Names and types of the columns."""
        return self.file.schema_arrow

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return int(self.file.metadata.num_rows)

    def places(self, column: str) -> Iterator[_ParquetRow]:
        """Where each picture is."""
        notes = self.file.metadata
        for group in range(notes.num_row_groups):
            for row in range(notes.row_group(group).num_rows):
                yield _ParquetRow(self.path, column, group, row)

    def values(self, column: str) -> list[Any]:
        """A column of small values; the pictures are not touched."""
        return list(self.file.read(columns=[column]).column(column).to_pylist())


def open_arrow(path: Path) -> _ArrowFile:
    """An arrow file in either of its two forms."""
    try:
        return _ArrowFile(str(path), _arrow_table(str(path), path.stat().st_mtime_ns))
    except (OSError, pyarrow().ArrowException) as problem:
        raise _unreadable(path, problem) from None


def open_parquet(path: Path) -> _ParquetFile:
    """A parquet file."""
    parquet = pyarrow("pyarrow.parquet")
    try:
        return _ParquetFile(str(path), parquet.ParquetFile(path, memory_map=True))
    except (OSError, pyarrow().ArrowException) as problem:
        raise _unreadable(path, problem) from None


def _unreadable(path: Path, problem: Exception) -> MarcError:
    line = (str(problem).splitlines() or [""])[0]
    return MarcError("a file of the data set cannot be read", got=f"{path}: {line}")


@lru_cache(maxsize=_OPEN_FILES)
def _arrow_table(path: str, changed: int) -> Any:
    """All rows; nothing is copied. `changed` lets a file that was written anew be opened anew."""
    del changed
    ipc = pyarrow("pyarrow.ipc")
    with pyarrow().memory_map(path, "r") as mapped:
        if mapped.read(6) == b"ARROW1":
            return ipc.open_file(mapped).read_all()
        mapped.seek(0)
        return ipc.open_stream(mapped).read_all()


@lru_cache(maxsize=_OPEN_GROUPS)
def _parquet_group(path: str, column: str, group: int, changed: int) -> Any:
    del changed
    with pyarrow("pyarrow.parquet").ParquetFile(path, memory_map=True) as file:
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
    if stored is not None:
        return bytes(stored)
    named = value.get("path") if isinstance(value, dict) else None
    if not named:
        raise FileNotFoundError(f"row {row} of {path} has no picture")
    return (Path(path).parent / named).read_bytes()
