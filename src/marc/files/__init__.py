"""Records: JSON objects on disk, written in one piece, and what computed them."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
import uuid
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError

_ENCODING = ("pillow", "onnxruntime", "torch", "timm", "open_clip_torch", "zarr")
PARTIAL = ".new"
"""How the name of a file ends while it is written."""
LOCK = ".lock"
"""A file that stays in a locked folder."""


def versions(*more: str, encoding: bool = False) -> dict[str, str]:
    """What computed a result: this package, the libraries under it, and `more` if installed.

    `encoding`: also the libraries that features of pictures come through.
    """
    found = {"python": platform.python_version()}
    for name in ("marc-clip", "numpy", "numba", "scipy", *more, *(_ENCODING if encoding else ())):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as one level with dotted names.

    >>> flatten({"method": {"capacity": 16}, "seeds": [0, 1]})
    {'method.capacity': 16, 'seeds': [0, 1]}
    """
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def differences(stored: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two records, in words.

    >>> differences({"card": {"dim": 8}}, {"card": {"dim": 9}})
    ['card.dim: stored 8, now 9']
    """
    return [
        f"{name}: stored {_short(old)}, now {_short(new)}"
        for name, old, new in changed(stored, now)
    ]


def changed(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Name, old and new value of what differs between two records."""
    old, new = flatten(stored), flatten(now)
    for name in {**old, **new}:
        if old.get(name) != new.get(name):
            yield name, old.get(name), new.get(name)


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    try:
        value = json.loads(path.read_text())
    except ValueError as error:
        raise MarcError("this file is not JSON", got=f"{path}: {error}") from error
    if not isinstance(value, dict):
        raise MarcError("this file is not a JSON object", got=f"{path}: {str(value)[:80]}")
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object in one piece."""
    write_whole(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file in one piece, see `whole_file`."""
    with whole_file(path) as file:
        file.write(content)


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write in one piece: under its name there is the old one, or the whole new one.

    Each writer has a temporary name of its own, and a crash of the system after the end leaves the
    new file.
    """
    partial = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}{PARTIAL}")
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Put the names in a folder on the disk, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def locked(folder: Path, busy: str) -> Iterator[None]:
    """Be the only writer of a folder; a second is refused at once with `busy`.

    The system gives the lock back when its holder dies.
    """
    from filelock import FileLock, Timeout

    (folder / LOCK).touch()  # what cannot be written to is an error here
    lock = FileLock(folder / LOCK, blocking=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise MarcError(busy, got=folder) from error
    except OSError:
        pass  # some shared file systems have no locks: there, two writers do double work
    try:
        yield
    finally:
        lock.release()  # of a lock that was not acquired it does nothing


def add_to_log(path: Path, event: str, **details: Any) -> None:
    """Add a line to a log: when it was, what happened, and more about it."""
    line = {"time": time.strftime("%Y-%m-%dT%H:%M:%S%z"), "event": event, **details}
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


Arrays = Mapping[str, NDArray[Any]]

# what NumPy raises on a file that is truncated, damaged, of another kind, or pickled
_UNREADABLE = (OSError, EOFError, KeyError, TypeError, ValueError, RuntimeError)


def read_arrays(path: Path, what: str, allowed: str | None = None) -> dict[str, NDArray[Any]]:
    """All arrays of a file; `what` names the file in the error, `allowed` says what it may be."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (*_UNREADABLE, zipfile.BadZipFile, zlib.error) as error:
        raise MarcError(
            f"this file is not {what}", got=f"{path}: {error}", allowed=allowed
        ) from error


def write_arrays(path: Path, arrays: Arrays, *, compressed: bool = False) -> None:
    """Write arrays; a killed or failed write leaves the old file, or none, under this name."""
    save = np.savez_compressed if compressed else np.savez
    with whole_file(path) as file:
        save(file, allow_pickle=False, **arrays)


def cache_folder() -> Path:
    """The user's cache folder for this program; `MARC_CACHE` puts it elsewhere."""
    import platformdirs

    chosen = os.environ.get("MARC_CACHE")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("marc")
