"""`folder/DIR`: pictures in a folder; its sub-folders, if there are any, are the labels."""

from __future__ import annotations

import os
from pathlib import Path

from marc.errors import MarcError
from marc.pictures.image_set import FileBytes, ImageSet
from marc.pictures.listing import (
    PICTURE_SUFFIXES,
    Listing,
    in_bytes,
    list_pictures,
    printable,
    spoken,
)

_SPLITS = {"train", "training", "val", "valid", "validation", "dev", "test", "testing"}


def open_folder(directory: Path, name: str) -> ImageSet:
    """The pictures below a folder.

    Class order is the byte order of the folder names; if all of them are whole numbers, the order
    of the numbers.
    """
    if not directory.is_dir():
        raise MarcError("there is no such folder", got=directory, hint=f"ls {directory.parent}")
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
    bare = [(f"{folder}/", "no pictures in it: no class") for folder in _empty(listing, classes)]
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
    """Names in byte order, or in number order if all are whole numbers.

    >>> _in_class_order(["10", "9", "0"]), in_class_order(["10", "9", "b"])
    (['0', '9', '10'], ['10', '9', 'b'])
    """
    by_bytes = sorted(names, key=in_bytes)
    return sorted(by_bytes, key=int) if all(map(is_whole, names)) else by_bytes


def is_whole(text: str) -> bool:
    """Whether a name is a whole number, digits only."""
    return text.isascii() and text.isdigit()


def _class_folders(listing: Listing) -> list[str]:
    with_pictures = {path.partition("/")[0] for path in listing.pictures if "/" in path}
    return _in_class_order([folder for folder in listing.folders if folder in with_pictures])


def _empty(listing: Listing, classes: list[str]) -> list[str]:
    return [printable(folder) for folder in listing.folders if folder not in set(classes)]


def _refuse_strays(directory: Path, listing: Listing) -> None:
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
    if all(map(is_whole, classes)):
        notes.append(
            "class folders are numbers: classes are in the order of the numbers (2 before 10), and "
            "prompts need names: give class names"
        )
    if {folder.lower() for folder in classes} <= _SPLITS:
        inner = f"{name.rstrip('/')}/{printable(classes[-1])}"
        notes.append(f"class folders are named like parts of a data set: did you mean {inner}?")
    return notes


def _no_pictures(directory: Path, listing: Listing) -> None:
    reasons = sorted({why for _, why in listing.passed_over})
    raise MarcError(
        "there are no pictures in the folder",
        got=f"{directory}: {len(listing.passed_over)} other entries"
        + (f" ({'; '.join(reasons[:3])})" if reasons else ""),
        allowed=" ".join(sorted(PICTURE_SUFFIXES)),
        hint=f"ls {directory}",
    )
