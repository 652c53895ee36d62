"""Class names given by the user in place of those of a source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from marc.errors import MarcError
from marc.pictures.csv_file import read_text
from marc.pictures.image_set import ImageSet

_KINDS = "a .txt file with one name a line, a JSON list of names, or JSON {name now: new name}"


def with_class_names(images: ImageSet, path: Path) -> ImageSet:
    """The same pictures with class names from a file.

    Args:
        images: any list of pictures, labelled or not.
        path: a `.txt` file with one name a line in class order, a JSON list in class order, or a
            JSON object that maps names as they are now (or folder names) to new ones. An object
            may leave classes out: these keep their names.
    """
    given = _read(path)
    if isinstance(given, dict):
        return replace(images, class_names=_renamed(images.class_names, given, path))
    names = tuple(_name(name, f"name {index + 1}", path) for index, name in enumerate(given))
    _check_count(images, len(names), path)
    return replace(images, class_names=names)


def _read(path: Path) -> list[Any] | dict[str, Any]:
    text = read_text(path)
    if path.suffix.lower() != ".json":
        return text.rstrip().splitlines()
    try:
        parsed = json.loads(text)
    except ValueError as problem:
        raise MarcError("the file is not JSON", got=f"{path}: {problem}", allowed=_KINDS) from None
    if not isinstance(parsed, list | dict):
        raise MarcError("these are no class names", got=path, allowed=_KINDS)
    return parsed


def _name(name: Any, place: str, path: Path) -> str:
    if not isinstance(name, str) or not name.strip():
        raise MarcError("a class name must be text", got=f"{path}: {place} is {name!r}")
    return name.strip()


def _check_count(images: ImageSet, n_names: int, path: Path) -> None:
    """As many names as classes; if these have no names yet, one for every label at least."""
    if n_names == 0:
        raise MarcError("there are no class names in the file", got=path, allowed=_KINDS)
    if images.labels is None:
        return  # the names alone say what the classes are
    n_classes = len(images.class_names)
    if n_classes and n_names != n_classes:
        raise MarcError(
            f"{images.name} has {n_classes} classes",
            got=f"{path}: {n_names} names",
            allowed=f"{n_classes} names, in this order: {_some(images.class_names)}",
        )
    if n_names <= max(images.labels, default=-1):
        raise MarcError(
            "a label has no class name",
            got=f"{path}: {n_names} names, but the largest label is {max(images.labels)}",
        )


def _renamed(current: tuple[str, ...], given: dict[str, Any], path: Path) -> tuple[str, ...]:
    if not current:
        raise MarcError(
            "classes that have no names yet cannot be renamed", got=path, allowed="a list of names"
        )
    new = {key.replace("_", " "): _name(name, repr(key), path) for key, name in given.items()}
    unknown = [key for key in given if key.replace("_", " ") not in _spoken(current)]
    if unknown or not given:
        raise MarcError(
            "a name to be replaced is not the name of a class",
            got=f"{path}: {_some(unknown) or 'nothing'}",
            allowed=_some(current),
        )
    return tuple(new.get(name.replace("_", " "), name) for name in current)


def _spoken(names: tuple[str, ...]) -> set[str]:
    return {name.replace("_", " ") for name in names}


def _some(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(map(str, names[:5])) + (", ..." if len(names) > 5 else "")
