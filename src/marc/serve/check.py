"""Whether the memories of a data folder would open: each is opened as a copy."""

from __future__ import annotations

import dataclasses
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marc.errors import MarcError
from marc.files import LOCK, locked
from marc.serve.memory import snapshots
from marc.serve.memory.served import LOG, Served

_MEMORIES = "memories"  # as a service names it
_FIXED = (3, 51, 3)
_HELD = "a server has it open"


@dataclass(frozen=True)
class MemoryReport:
    """How one memory is."""

    name: str
    state: str
    """`ready`, `quarantined`, or `open` by a server: then nothing of it was read."""
    steps: int | None = None
    """The number of the last step."""
    n_seen: int | None = None
    mode: str | None = None
    snapshot: str | None = None
    """The file that a recovery begins with."""
    snapshot_seq: int | None = None
    log_bytes: int = 0
    integrity: str = "not checked"
    """`ok` where every row of the log and every snapshot was read and is what was written."""
    recovery_seconds: float | None = None
    answered_otherwise: int | None = None
    """Answers that were another when they were computed again."""
    problem: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return dataclasses.asdict(self)

    def cells(self) -> list[str]:
        """Name, state, steps, the step of the snapshot, size of the log, seconds to open."""
        state = self.state if self.integrity != "damaged" else f"{self.state}, damaged"
        seconds = None if self.recovery_seconds is None else f"{self.recovery_seconds:.2f} s"
        numbers = [None if n is None else f"{n:,}" for n in (self.steps, self.snapshot_seq)]
        cells = [*numbers, f"{self.log_bytes / 1e6:,.1f} MB", seconds]
        return [self.name, state, *("-" if cell is None else cell for cell in cells)]


@dataclass(frozen=True)
class DataReport:
    """How a data folder is."""

    folder: str
    memories: tuple[MemoryReport, ...]
    sqlite: str = sqlite3.sqlite_version
    has_wal_fix: bool = sqlite3.sqlite_version_info >= _FIXED
    """Whether two connections may write one log; a server has one connection, and needs no fix."""

    @property
    def problems(self) -> list[str]:
        """The memories that would not open, or of which something cannot be read."""
        return [each.name for each in self.memories if each.integrity == "damaged"]

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {**dataclasses.asdict(self), "problems": self.problems}


def check_data(folder: str | Path) -> DataReport:
    """Open a copy of every memory of a data folder, and read all of it; nothing is changed."""
    folder = Path(folder)
    memories = folder / _MEMORIES
    if not memories.is_dir():
        raise MarcError(
            "there are no memories in this folder",
            got=folder,
            hint="the folder that marc serve --data was given",
        )
    paths = sorted(path for path in memories.iterdir() if not path.name.startswith("."))
    with _held(folder) as is_open:
        reports = [_open_report(p) if is_open else _report(p) for p in paths if p.is_dir()]
    return DataReport(str(folder), tuple(reports))


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Whether a server has a folder; if none has, none gets it meanwhile."""
    with ExitStack() as stack:
        is_open = False
        if (folder / LOCK).exists():  # or there never was a server
            try:
                stack.enter_context(locked(folder, _HELD))
            except MarcError:
                is_open = True
            except OSError:
                pass  # a folder that cannot be written to has no server
        yield is_open


def _open_report(folder: Path) -> MemoryReport:
    return MemoryReport(folder.name, "open", log_bytes=_log_bytes(folder), problem=_HELD)


def _report(folder: Path) -> MemoryReport:
    size = _log_bytes(folder)
    with _held(folder) as is_open, tempfile.TemporaryDirectory(prefix="marc-check-") as made:
        if is_open:
            return _open_report(folder)
        try:
            return _opened(folder, Path(made) / folder.name, size)
        except Exception as error:  # whatever a damaged file leads to
            text = str(error) if isinstance(error, MarcError) else repr(error)
            problem = " ".join(text.replace(made, str(folder.parent)).split())
            return MemoryReport(
                folder.name, "quarantined", log_bytes=size, integrity="damaged", problem=problem
            )


def _opened(folder: Path, copy: Path, log_bytes: int) -> MemoryReport:
    """A report on a copy that could be opened."""
    _copy(folder, copy)
    started = time.perf_counter()
    served = Served(copy)
    seconds = time.perf_counter() - started
    try:
        problem = _unreadable(served, folder)
        entry = served.head["snapshot"] or {}
        return MemoryReport(
            folder.name,
            "ready",
            steps=served.seq,
            n_seen=served.head["n_seen"],
            mode=served.head["mode"],
            snapshot=entry.get("file"),
            snapshot_seq=entry.get("seq"),
            log_bytes=log_bytes,
            integrity="damaged" if problem else "ok",
            recovery_seconds=seconds,
            answered_otherwise=served.differences,
            problem=problem,
        )
    finally:
        served.close()


def _copy(folder: Path, copy: Path) -> None:
    """What a recovery writes to as a copy; snapshots, which are large, as links."""
    (copy / snapshots.FOLDER).mkdir(parents=True)
    for path in folder.iterdir():
        if path.is_file() and path.name != LOCK:
            shutil.copyfile(path, copy / path.name)
    for entry in snapshots.kept(folder):
        path = Path(snapshots.FOLDER, entry["file"])
        (copy / path).symlink_to((folder / path).resolve())


def _unreadable(served: Served, folder: Path) -> str | None:
    """Why a row of the log, or a snapshot that a recovery does not need, cannot be read."""
    try:
        served.log.verify()
        for entry in snapshots.kept(folder):
            snapshots.read(snapshots.path_of(folder, entry["file"]), served.config)
    except (MarcError, OSError) as error:
        return " ".join(str(error).split())
    return None


def _log_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(f"{LOG}*"))
