"""Pictures whose files are the same, byte for byte."""

from __future__ import annotations

import hashlib
from collections import Counter

from marc.pictures.image_set import FileBytes, ImageSet, Location
from marc.types import OnProgress


def content_duplicates(images: ImageSet, on_progress: OnProgress | None = None) -> list[list[str]]:
    """Groups of ids with identical bytes, in the order of the list. Unreadable ones are left out.

    Where sizes are known without reading, only files that share their size are read.

    Args:
        images: the list.
        on_progress: called with what is done, how many are done, and how many there are.
    """
    sizes = [_size(location) for location in images.locations]
    counts = Counter(sizes)
    alone = None not in counts  # a picture of unknown size may equal any other
    rows = [
        row for row, size in enumerate(sizes) if not (alone and counts[size] == 1) and size != 0
    ]
    groups: dict[bytes, list[str]] = {}
    for done, row in enumerate(rows, 1):
        digest = _digest(images.locations[row])
        if digest is not None:
            groups.setdefault(digest, []).append(images.ids[row])
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
