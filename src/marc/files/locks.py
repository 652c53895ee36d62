"""One writer at a time in a folder: a lock that the system gives back when its holder dies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from marc.errors import MarcError

LOCK = ".lock"
"""The file in the folder; it stays there."""


@contextmanager
def locked(folder: Path, busy: str) -> Iterator[None]:
    """Be the only writer of a folder that is there; a second is refused at once with `busy`."""
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
