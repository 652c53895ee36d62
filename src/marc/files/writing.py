"""Files that are written whole or not at all, and folders with one writer."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import stat
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.files.reading import user_path

try:
    import fcntl
except ImportError:  # not a Unix: there, what a killed writer left stays until its folder goes
    fcntl = None  # type: ignore[assignment]

PARTIAL = ".new"
"""How the name of a file ends while it is written."""
LOCK = ".lock"
"""A file that stays in a locked folder."""
Arrays = Mapping[str, NDArray[Any]]
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\t", "\r", "\n")
_BEFORE = "' \ufeff\u00a0\u3000"  # may stand before a formula, or hide it


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object in one piece."""
    write_whole(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def csv_bytes(rows: Iterable[Iterable[object]]) -> bytes:
    """Comma-separated values; text that a spreadsheet would compute is quoted, numbers are not.

    What came from a file name of no encoding is written back as the bytes it was.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([quoted(v) if isinstance(v, str) else v for v in row] for row in rows)
    return text.getvalue().encode("utf-8", "surrogateescape")


def quoted(text: str) -> str:
    """A text with an apostrophe before it if a spreadsheet would take it for a formula.

    >>> quoted("=1+1"), quoted("'=1+1"), quoted("'t is"), quoted(" =1")
    ("'=1+1", "''=1+1", "'t is", "' =1")
    """
    return f"'{text}" if text.lstrip(_BEFORE).startswith(_FORMULA) else text


def unquoted(text: str) -> str:
    """The text of which `quoted` made this."""
    return text.removeprefix("'") if text.lstrip(_BEFORE).startswith(_FORMULA) else text


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one piece, see `whole_file`."""
    with whole_file(path) as file:
        file.write(content)


def write_arrays(path: Path, arrays: Arrays, *, compressed: bool = False) -> None:
    """Write arrays; a killed or failed write leaves the old file, or none, under this name."""
    save = np.savez_compressed if compressed else np.savez
    with whole_file(path) as file:
        save(file, allow_pickle=False, **arrays)


@contextlib.contextmanager
def whole_file(path: Path, *, clear: bool = True) -> Iterator[BinaryIO]:
    """A file to write in one piece: under its name there is the old one, or the whole new one.

    Each writer has a temporary name of its own, and a crash of the system after the end leaves the
    new file, in folders that are made for it. What killed writers of this file left is removed if
    it is to be `clear`ed.
    """
    path = follow(path)
    if path.exists() and not path.is_file():  # the name of a device would be taken from the system
        raise MarcError("this is no plain file, so it is not replaced", got=path, hint="-o FILE")
    new = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    if clear:
        remove_left(path.parent, path.name)
    partial, file = _begin(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # before the new name: a name never leads to half a file
            if not fcntl:
                file.close()  # an open file has its name for good there
            partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    for name in (path, *new):
        sync_folder(name.parent)


def follow(path: Path) -> Path:
    """What a link leads to: that is replaced, not the link."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _begin(path: Path) -> tuple[Path, BinaryIO]:
    """A new file beside `path`, locked as long as it is open: who can lock it finds it left."""
    while True:
        partial = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}{PARTIAL}")
        file = partial.open("xb")
        if _lock(file) and partial.exists():  # or it was taken for left before it was locked
            return partial, file
        file.close()


def remove_left(folder: Path, name: str = "") -> None:
    """Remove what killed writers left in a folder, of one file or of every one."""
    start = name and f"{name}."
    for left in folder.iterdir() if fcntl else ():
        if left.name.startswith(start) and left.name.endswith(PARTIAL):
            with contextlib.suppress(OSError):
                if not stat.S_ISREG(left.lstat().st_mode):  # a pipe would make a reader wait
                    continue
                with left.open("rb") as file:
                    if _lock(file, unsupported=False):
                        left.unlink()


def _lock(file: BinaryIO, *, unsupported: bool = True) -> bool:
    """Whether nobody else holds a lock on this file; some file systems have none to give."""
    try:
        if fcntl:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    except OSError:
        return unsupported


def sync_folder(path: Path) -> None:
    """Put the names in a folder on the disk, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def locked(
    folder: Path,
    busy: str,
    beside: Path | None = None,
    *,
    hint: str = "again when it ends, or another folder: -o FOLDER",
) -> Iterator[None]:
    """Be the only writer of a folder; a second is refused at once with `busy`.

    The lock is a file in the folder that stays, or, of a folder that is replaced as a whole, one
    `beside` it that goes. The system gives it back when its holder dies.
    """
    from filelock import FileLock, Timeout

    path = beside or folder / LOCK
    path.touch()  # what cannot be written to is an error here
    lock = FileLock(path, blocking=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise MarcError(busy, got=folder, hint=hint) from error
    except OSError:
        pass  # some shared file systems have no locks: there, two writers do double work
    try:
        yield
    finally:
        if beside:
            beside.unlink(missing_ok=True)  # while it is held: who waits for it looks again
        lock.release()  # of a lock that was not acquired it does nothing


def add_to_log(path: Path, event: str, **details: Any) -> None:
    """Add a line to a log: when it was, what happened, and more about it."""
    line = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "event": event, **details}
    with open(path, "a", opener=_open_plain) as file:
        file.write(json.dumps(line) + "\n")


def _open_plain(path: str, flags: int) -> int:
    """A link would lead elsewhere, and a pipe make a writer wait."""
    odd = (getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK"))
    return os.open(path, flags | sum(odd), 0o666)


def cache_folder() -> Path:
    """The user's cache folder for this program; `MARC_CACHE` puts it elsewhere."""
    import platformdirs

    chosen = os.environ.get("MARC_CACHE")
    return user_path(chosen) if chosen else platformdirs.user_cache_path("marc")
