"""`folder/DIR`: pictures below a folder; its sub-folders, if there are any, are the labels.

Pictures are listed in byte order of their paths, and everything else by the reason it is none.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from marc.errors import MarcError
from marc.pictures.image_set import FileBytes, ImageSet
from marc.pictures.listing import in_bytes, is_integer, no_such, printable, spoken

_JPEG = {".jpg", ".jpeg", ".jpe", ".jfif", ".jp2", ".j2k", ".jpx"}
_PLAIN = {".bmp", ".dib", ".ppm", ".pgm", ".pbm", ".pnm", ".tif", ".tiff"}
_PICTURE_SUFFIXES = frozenset({*_JPEG, *_PLAIN, ".png", ".webp", ".gif", ".avif"})
_RAW = {".raw", ".cr2", ".cr3", ".nef", ".arw", ".dng"}
_OTHER_PICTURES = _RAW | {".heic", ".heif", ".svg", ".psd", ".ico", ".eps", ".pdf", ".exr", ".jxl"}

_SPLITS = {"train", "training", "val", "valid", "validation", "dev", "test", "testing"}


def open_folder(directory: Path, name: str) -> ImageSet:
    """The pictures below a folder.

    Class order is the byte order of the folder names; if all of them are integers, the order
    of the numbers.
    """
    if not os.path.isdir(directory):  # noqa: PTH112
        raise no_such(directory)
    listing = list_pictures(directory)
    if not listing.pictures:
        _no_pictures(directory, listing)
    ids = tuple(printable(path) for path in listing.pictures)
    locations = tuple(FileBytes(os.path.join(directory, path)) for path in listing.pictures)  # noqa: PTH118
    classes = _class_folders(listing)
    if not classes:
        return ImageSet(name, ids, locations, passed_over=listing.passed_over)
    _refuse_strays(directory, listing)
    label = {folder: index for index, folder in enumerate(classes)}
    bare = [
        (f"{printable(folder)}/", "no pictures in it: no class")
        for folder in listing.folders
        if folder not in label
    ]
    return ImageSet(
        name,
        ids,
        locations,
        tuple(label[path.partition("/")[0]] for path in listing.pictures),
        tuple(spoken(folder) for folder in classes),
        passed_over=tuple(sorted([*listing.passed_over, *bare])),
        notes=tuple(_notes(name, classes)),
    )


def _in_class_order(names: list[str]) -> list[str]:
    """Names in byte order, or in number order if all are integers.

    >>> _in_class_order(["10", "9", "0"]), _in_class_order(["10", "9", "b"])
    (['0', '9', '10'], ['10', '9', 'b'])
    """
    by_bytes = sorted(names, key=in_bytes)
    return sorted(by_bytes, key=int) if all(map(is_integer, names)) else by_bytes


def _class_folders(listing: _Listing) -> list[str]:
    with_pictures = {path.partition("/")[0] for path in listing.pictures if "/" in path}
    return _in_class_order([folder for folder in listing.folders if folder in with_pictures])


def _refuse_strays(directory: Path, listing: _Listing) -> None:
    """Pictures beside class folders have no label, and leaving them out would be a guess."""
    strays = [printable(path) for path in listing.pictures if "/" not in path]
    if strays:
        some = ", ".join(strays[:3]) + (", ..." if len(strays) > 3 else "")
        raise MarcError(
            "pictures lie beside class folders, so it is not clear whether folders are labels",
            got=f"{directory}: {some} ({len(strays)} in all) beside {len(listing.folders)} folders",
            allowed="pictures in class folders only, or pictures and no folders",
            hint="move the pictures or the folders away, or list what you mean in csv/FILE",
        )


def _notes(name: str, classes: list[str]) -> list[str]:
    notes = []
    if all(map(is_integer, classes)):
        notes.append(
            "class folders are numbers: classes are in the order of the numbers (2 before 10), and "
            "prompts need names: give class names"
        )
    if {folder.lower() for folder in classes} <= _SPLITS:
        inner = f"{name.rstrip('/')}/{printable(classes[-1])}"
        notes.append(f"class folders are named like parts of a data set: did you mean {inner}?")
    return notes


def _no_pictures(directory: Path, listing: _Listing) -> None:
    reasons = sorted({why for _, why in listing.passed_over})
    raise MarcError(
        "there are no pictures in the folder",
        got=f"{directory}: {len(listing.passed_over)} other entries"
        + (f" ({'; '.join(reasons[:3])})" if reasons else ""),
        allowed=" ".join(sorted(_PICTURE_SUFFIXES)),
        hint=f"ls {directory}",
    )


@dataclass(frozen=True)
class _Listing:
    """The pictures below a folder."""

    pictures: tuple[str, ...]
    """Paths below the folder as the system spells them, with forward slashes, in byte order."""
    passed_over: tuple[tuple[str, str], ...]
    """Printable path and reason, in the same order."""
    folders: tuple[str, ...]
    """Names of the folders directly below, hidden ones left out, in byte order."""


def list_pictures(root: Path) -> _Listing:
    """Walk through a folder and all folders below it.

    Links to folders elsewhere are followed once; links that lead back into the folder, or to one
    that contains it, are passed over, so that a ring of links ends.
    """
    walk = _Walk(os.path.realpath(root))
    pending = [("", str(root))]
    while pending:
        below, folder = pending.pop()
        pending += walk.visit(below, folder)
    return _Listing(
        tuple(sorted(walk.pictures, key=in_bytes)),
        tuple(
            (printable(path), why)
            for path, why in sorted(walk.passed_over, key=lambda each: in_bytes(each[0]))
        ),
        tuple(sorted(walk.top, key=in_bytes)),
    )


@dataclass
class _Walk:
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
                self.passed_over.append((path, ImageSet.HIDDEN))
            elif os.path.isdir(entry.path):  # noqa: PTH112 (an entry fails on a ring of links)
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
        elif suffix not in _PICTURE_SUFFIXES:
            self.passed_over.append((path, "no picture by its name"))
        elif os.path.exists(entry.path) and not os.path.isfile(entry.path):  # noqa: PTH110, PTH113
            self.passed_over.append((path, "no plain file"))
        else:  # a broken link too: it is a picture that is missing
            self.pictures.append(path)


def _contains(folder: str, other: str) -> bool:
    return other == folder or other.startswith(folder.rstrip(os.sep) + os.sep)
