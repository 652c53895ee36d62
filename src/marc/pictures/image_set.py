"""A list of pictures: where their bytes lie, what they are called, and what is on them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


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
        with Path(self.path).open("rb") as file:
            file.seek(self.offset)
            return file.read(-1 if self.size is None else self.size)

    def n_bytes(self) -> int:
        """How many there are, without reading them."""
        return Path(self.path).stat().st_size - self.offset if self.size is None else self.size


@dataclass(frozen=True)
class ImageSet:
    """The pictures of a source in their canonical order."""

    name: str
    """The source as it was asked for: `folder/photos`."""
    ids: tuple[str, ...]
    """Distinct names of the pictures: relative paths with forward slashes."""
    locations: tuple[Location, ...]
    labels: tuple[int, ...] | None = None
    class_names: tuple[str, ...] = ()
    """In the order of the labels, as prompts say them. Empty: not known."""
    prompts: tuple[str, ...] = ("t1",)
    """Prompt sets to use if nobody says otherwise."""
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
