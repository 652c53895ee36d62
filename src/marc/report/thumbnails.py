"""Pictures of the images of a stream, where there are any, and small copies of them for a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.embed.store import FeatureStore
from marc.errors import MarcError
from marc.files import user_path
from marc.pictures import reopen_images
from marc.pictures.image_set import FileBytes, Location
from marc.sources import SOURCES, Pictures, is_pictures
from marc.stream import Stream

_LARGEST = 96
"""Pixels of the longer side of a thumbnail."""
_BUDGET = 9_000_000
"""Bytes that all thumbnails of a page may take."""
_RUNGS = ((_LARGEST, 80), (_LARGEST, 60), (72, 50), (48, 45), (32, 40))  # pixels, WebP quality


def pictures_of(stream: Stream, source: str, pixels: int | None = _LARGEST) -> Pictures:
    """Where the pictures of a source are found, by the source's type.

    `pixels` is the longer side of what is read from files; None: as large as they are.
    """
    if is_pictures(source):
        return _pictures_of_store(stream, str(FeatureStore.default_path(source)), pixels)
    kind, _, name = source.partition("/")
    own = SOURCES[kind].pictures if kind in SOURCES else None
    if own is not None:
        return own(name)
    by_type = {"arrays": _pictures_of_files, "store": _pictures_of_store}
    return by_type[kind](stream, name, pixels) if kind in by_type else _no_picture


def _no_picture(row: int) -> None:
    del row


def _pictures_of_files(stream: Stream, name: str, pixels: int | None) -> Pictures:
    """A feature pack: its ids are paths, relative to the pack or as they are."""
    ids, beside = stream.features.ids, Path(name).parent

    def picture(row: int) -> NDArray[np.uint8] | None:
        for path in (beside / ids[row], Path(ids[row])):
            if _is_file(path):
                return _read_picture(FileBytes(str(path)), pixels)
        return None

    return picture


def _pictures_of_store(stream: Stream, name: str, pixels: int | None) -> Pictures:
    """A feature store: the pictures lie where they were embedded from, if they still do."""
    about = FeatureStore(user_path(name)).about
    try:
        images = reopen_images(about)
    except MarcError:
        return _no_picture
    places = dict(zip(images.ids, images.locations, strict=True))

    def picture(row: int) -> NDArray[np.uint8] | None:
        place = places.get(stream.features.ids[row])
        return None if place is None else _read_picture(place, pixels, upright=about["upright"])

    return picture


def _read_picture(
    place: Location, pixels: int | None = _LARGEST, *, upright: bool = True
) -> NDArray[np.uint8] | None:
    """A small copy of a picture; None if it cannot be read."""
    from marc.pictures import decoding

    try:
        picture = decoding.read_picture(place, upright=upright)
    except decoding.Unreadable:
        return None
    if pixels is not None:
        picture.thumbnail((pixels, pixels))
    return np.asarray(picture)


def thumbnails(pictures: Pictures, rows: Iterable[int], budget: int = _BUDGET) -> dict[int, str]:
    """Pictures of some rows as data addresses, as large as the budget lets all of them be.

    Rows without a picture are left out.
    """
    from PIL import Image

    small: dict[int, Any] = {}
    for row in rows:
        pixels = pictures(row)
        if pixels is not None:
            image = Image.fromarray(np.asarray(pixels, dtype=np.uint8))
            image.thumbnail((_LARGEST, _LARGEST))
            small[row] = image
    sample = list(small.values())[:: max(1, len(small) // 64)]
    for size, quality in _RUNGS:
        expected = sum(len(_encoded(image, size, quality)) for image in sample)
        if expected * len(small) <= budget * len(sample):
            break
    return {row: _encoded(image, size, quality) for row, image in small.items()}


def _encoded(image: Any, size: int, quality: int) -> str:
    copy = image.copy()
    copy.thumbnail((size, size))
    buffer = io.BytesIO()
    copy.save(buffer, format="WEBP", quality=quality)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # an id that no file system takes as a path
        return False
