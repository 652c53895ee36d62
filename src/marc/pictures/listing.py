"""What lies in a folder: pictures in byte order of their paths, and everything else by reason."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_JPEG = {".jpg", ".jpeg", ".jpe", ".jfif", ".jp2", ".j2k", ".jpx"}
_PLAIN = {".bmp", ".dib", ".ppm", ".pgm", ".pbm", ".pnm", ".tif", ".tiff"}
PICTURE_SUFFIXES = frozenset({*_JPEG, *_PLAIN, ".png", ".webp", ".gif", ".avif"})
_RAW = {".raw", ".cr2", ".cr3", ".nef", ".arw", ".dng"}
_OTHER_PICTURES = _RAW | {".heic", ".heif", ".svg", ".psd", ".ico", ".eps", ".pdf", ".exr", ".jxl"}

HIDDEN = "hidden: its name starts with a dot"


@dataclass(frozen=True)
class Listing:
    """The pictures below a folder."""

    pictures: tuple[str, ...]
    """Paths below the folder as the system spells them, with forward slashes, in byte order."""
    passed_over: tuple[tuple[str, str], ...]
    """Printable path and reason, in the same order."""
    folders: tuple[str, ...]
    """Names of the folders directly below, hidden ones left out, in byte order."""


def list_pictures(root: Path) -> Listing:
    """Walk through a folder and all folders below it.

    Links to folders elsewhere are followed once; links that lead back into the folder, or to one
    that contains it, are passed over, so that a ring of links ends.
    """
    walk = _Walk(os.path.realpath(root))
    pending = [("", str(root))]
    while pending:
        below, folder = pending.pop()
        pending += walk.visit(below, folder)
    return Listing(
        tuple(sorted(walk.pictures, key=in_bytes)),
        tuple((printable(path), why) for path, why in sorted(walk.passed_over, key=_path_bytes)),
        tuple(sorted(walk.top, key=in_bytes)),
    )


def printable(path: str) -> str:
    r"""A path as text that every screen and file can hold, distinct for distinct paths.

    Bytes that are not valid UTF-8 are written as backslash escapes; so are backslashes.

    >>> printable("caf\udce9.jpg")
    'caf\\xe9.jpg'
    """
    return in_bytes(path).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")


def in_bytes(name: str) -> bytes:
    """A name as the file system has it: names are sorted by this."""
    try:
        return os.fsencode(name)
    except UnicodeEncodeError:  # text that no file can be called, as JSON may have it
        return name.encode("utf-8", "backslashreplace")


def spoken(name: str) -> str:
    """A folder or label name as a prompt says it: underscores are spaces.

    >>> spoken("great_white_shark")
    'great white shark'
    """
    return printable(name).replace("_", " ").strip()


def made_distinct(ids: Iterable[str]) -> tuple[tuple[str, ...], int]:
    """Ids with `#2`, `#3`, ... behind those that were there before, and how many these are.

    >>> made_distinct(["a", "b", "a"])
    (('a', 'b', 'a#2'), 1)
    """
    seen: dict[str, int] = {}
    result = []
    repeated = 0
    for name in ids:
        distinct = name
        while distinct in seen:
            seen[name] += 1
            distinct = f"{name}#{seen[name]}"
        repeated += distinct != name
        seen[distinct] = 1
        result.append(distinct)
    return tuple(result), repeated


@dataclass
class _Walk:
    """The state of one walk."""

    root: str
    """With all links resolved."""
    pictures: list[str] = field(default_factory=list)
    passed_over: list[tuple[str, str]] = field(default_factory=list)
    top: list[str] = field(default_factory=list)
    followed: set[str] = field(default_factory=set)

    def visit(self, below: str, folder: str) -> list[tuple[str, str]]:
        """Note the files of one folder; the folders in it, the last to be visited first."""
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: in_bytes(entry.name))
        except OSError as problem:
            self.passed_over.append((f"{below}/", f"cannot be opened: {problem.strerror}"))
            return []
        inner = []
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            if entry.name.startswith("."):
                self.passed_over.append((path, HIDDEN))
            elif entry.is_dir():
                if self._may_enter(entry, path):
                    inner.append((path, entry.path))
                    self.top += [] if below else [entry.name]
            else:
                self._file(entry, path)
        return inner[::-1]

    def _may_enter(self, entry: os.DirEntry[str], path: str) -> bool:
        if not entry.is_symlink():
            return True
        target = os.path.realpath(entry.path)
        within = _contains(self.root, target) or _contains(target, self.root)
        if within or any(_contains(other, target) for other in self.followed):
            self.passed_over.append((path, "a link to a folder that is read already, or above it"))
            return False
        self.followed.add(target)
        return True

    def _file(self, entry: os.DirEntry[str], path: str) -> None:
        suffix = os.path.splitext(entry.name)[1].lower()  # noqa: PTH122
        if suffix in _OTHER_PICTURES:
            self.passed_over.append((path, f"{suffix} pictures cannot be read: convert to .png"))
        elif suffix not in PICTURE_SUFFIXES:
            self.passed_over.append((path, "no picture by its name"))
        elif not entry.is_file() and os.path.exists(entry.path):  # noqa: PTH110
            self.passed_over.append((path, "no plain file"))
        else:  # a broken link too: it is a picture that is missing
            self.pictures.append(path)


def _contains(folder: str, other: str) -> bool:
    return other == folder or other.startswith(folder.rstrip(os.sep) + os.sep)


def _path_bytes(item: tuple[str, str]) -> bytes:
    return in_bytes(item[0])
