"""One writer at a time in a folder: a lock that the system gives back when its holder dies."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from marc.errors import MarcError

LOCK = ".lock"
"""The file in the folder."""


@contextmanager
def locked(folder: Path, busy: str) -> Iterator[None]:
    """Be the only writer of a folder that is there; `busy` is what the second is told."""
    with (folder / LOCK).open("w") as file:
        if sys.platform != "win32":  # it has no such locks: there, two writers do double work
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise MarcError(busy, got=folder) from error
            except OSError:
                pass  # nor have some shared file systems
        yield
