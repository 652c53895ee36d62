"""How many commits of a log were acknowledged, in a small file next to it.

A write-ahead log that was cut or deleted leaves a shorter one that is whole, so the log alone
cannot tell that its end is missing. The count here is written after each commit and not synced:
it outlives the process, as an acknowledged step does. After a loss of power it says nothing about
a log that was not synced either.
"""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from pathlib import Path

from marc.errors import MarcError
from marc.files import read_bytes, read_text

_LINE = re.compile(rb"(\d{16}) (process|power  ) ([0-9a-f-]{36}) ([0-9a-f]{8})\n")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_UNKNOWN = "0" * 36
_ODD = ("O_BINARY", "O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK")  # a pipe would make a writer wait
_FLAGS = os.O_WRONLY | os.O_CREAT | sum(getattr(os, name, 0) for name in _ODD)


class Acknowledged:
    """The count of one log, and the promise under which it was made."""

    def __init__(self, path: Path, durability: str) -> None:
        self._durability, self._boot = durability, _boot()
        self._before = _read(path)
        self._file = -1
        with contextlib.suppress(OSError):  # a full disk: then nothing is known, and nothing lost
            self._file = os.open(path, _FLAGS, 0o666)

    def missing(self, commits: int) -> int:
        """How many commits a log of so many has lost, as far as that can be known."""
        if self._before is None:
            return 0
        count, durability, boot = self._before
        was_kept = durability == "power" or (boot == self._boot and boot != _UNKNOWN)
        return max(0, count - commits) if was_kept else 0

    def write(self, commits: int) -> None:
        """Note that so many commits were acknowledged."""
        line = f"{commits:016d} {self._durability:7} {self._boot}".encode()
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.lseek(self._file, 0, os.SEEK_SET)
                os.write(self._file, line + b" %08x\n" % zlib.crc32(line))

    def close(self) -> None:
        """Give the file back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _read(path: Path) -> tuple[int, str, str] | None:
    """What was written last; None where there is nothing, or nothing that can be read."""
    try:
        line = _LINE.fullmatch(read_bytes(path, at_most=1000))
    except (MarcError, OSError):
        return None
    if line is None or zlib.crc32(line[0][:-10]) != int(line[4], 16):
        return None
    return int(line[1]), line[2].decode().strip(), line[3].decode()


def _boot() -> str:
    """Which start of the system this is; zeros where the system does not say."""
    try:
        boot = read_text(_BOOT).strip()
    except (MarcError, OSError):
        return _UNKNOWN
    return boot if re.fullmatch("[0-9a-f-]{36}", boot) else _UNKNOWN
