"""A list of pictures: where their bytes lie, what they are called, and what is on them."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from marc.errors import MarcError
from marc.files import refuse_odd_file
from marc.types import OnProgress


class Location(Protocol):
    """Where the bytes of one picture lie. Small and picklable: worker processes get it."""

    def read(self) -> bytes:
        """The encoded picture (JPEG, PNG, ...)."""
        ...


@dataclass(frozen=True)
class FileBytes:
    """A file, or a piece of one."""

    path: str
    offset: int = 0
    size: int | None = None
    """None: to the end of the file."""

    def read(self) -> bytes:
        """The encoded picture."""
        refuse_odd_file(Path(self.path))  # a pipe would keep us waiting, a device has no end
        with Path(self.path).open("rb") as file:
            file.seek(self.offset)
            return file.read(-1 if self.size is None else self.size)

    def n_bytes(self) -> int:
        """How many there are, without reading them."""
        there = refuse_odd_file(Path(self.path)).st_size - self.offset
        return there if self.size is None else self.size

    @staticmethod
    def listed(paths: Sequence[str], folder: Path, file: Path) -> tuple[FileBytes, ...]:
        """Pictures that a list in `file` names. At least one must exist: else `folder` is wrong."""
        locations = tuple(FileBytes(os.path.join(folder, path)) for path in paths)  # noqa: PTH118
        if not any(os.path.isfile(location.path) for location in locations):  # noqa: PTH113
            raise MarcError(
                f"none of the {len(locations)} pictures of the list exists",
                got=f"{file}: first {locations[0].path}",
                hint=f"ls {folder}, or name the folder of the pictures with --root",
            )
        return locations


@dataclass(frozen=True)
class WithGenerated:
    """A picture, and pictures that a model of the user's generated from it."""

    plain: Location
    generated: tuple[FileBytes, ...]

    def read(self) -> bytes:
        """The encoded picture itself."""
        return self.plain.read()


@dataclass(frozen=True)
class ImageSet:
    """The pictures of a source in their canonical order."""

    HIDDEN: ClassVar[str] = "hidden: its name starts with a dot"
    """Why a file is passed over."""

    name: str
    """The source as it was asked for: `folder/photos`."""
    ids: tuple[str, ...]
    """Distinct names of the pictures: relative paths with forward slashes."""
    locations: tuple[Location, ...]
    labels: tuple[int, ...] | None = None
    class_names: tuple[str, ...] = ()
    """In the order of the labels, as prompts say them. Empty: not known."""
    prompts: tuple[str, ...] = ("t1",)
    """Prompt sets to use if no others are asked for."""
    upright: bool = True
    """Whether pictures are turned as their camera says (EXIF). Published sets are read as stored:
    that is how their published results came about."""
    passed_over: tuple[tuple[str, str], ...] = ()
    """What was found beside the pictures and is none: path and reason."""
    notes: tuple[str, ...] = ()
    """What a person should know: counts that differ from the published ones, renamed classes."""
    root: str = field(default="", compare=False)
    """The root folder that was named with it."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def digest(self) -> str:
        """Of the list: ids, labels and the turning; not of the pictures or the words for them."""
        parts = [self.ids, self.labels, self.upright]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def count_notes(self, n_images: int, n_classes: int) -> Iterator[str]:
        """What differs from published numbers."""
        if len(self) != n_images:
            yield f"{len(self):,} pictures; the published set has {n_images:,}"
        seen = len(set(self.labels or ()))
        if seen != n_classes:
            yield f"pictures of {seen:,} classes; the published set has {n_classes:,}"

    def duplicates(self, on_progress: OnProgress | None = None) -> list[list[str]]:
        """Groups of ids with identical bytes, in the order of the list; none unreadable.

        Where sizes are known without reading, only files that share their size are read.

        Args:
            on_progress: called with what is done, how many are done, and how many there are.
        """
        sizes = [_size(location) for location in self.locations]
        counts = Counter(sizes)
        alone = None not in counts  # a picture of unknown size may equal any other
        rows = [
            row for row, size in enumerate(sizes) if not (alone and counts[size] == 1) and size != 0
        ]
        groups: dict[bytes, list[str]] = {}
        for done, row in enumerate(rows, 1):
            digest = _digest(self.locations[row])
            if digest is not None:
                groups.setdefault(digest, []).append(self.ids[row])
            if on_progress is not None:
                on_progress("comparing files", done, len(rows))
        return [group for group in groups.values() if len(group) > 1]


def _size(location: Location) -> int | None:
    """None: not known without reading. Missing and empty files have size 0: they are none."""
    if not isinstance(location, FileBytes):
        return None
    try:
        return location.n_bytes()
    except (OSError, ValueError):
        return 0


def _digest(location: Location) -> bytes | None:
    try:
        data = location.read()
    except (OSError, ValueError):
        return None
    return hashlib.sha256(data).digest() if data else None
