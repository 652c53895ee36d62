"""What readers of lists share: text, names as paths, ids and prompts, labels and class names."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from marc.errors import MarcError
from marc.files import parse_json, read_text
from marc.pictures.image_set import ImageSet

_MOST_CLASSES = 2**20
"""A larger label number is taken for a mistake: every class has a row in every prototype."""
_CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that end a line, move the cursor, change colours or the direction of writing."""
_ESCAPES = "\\x{:02x}", "\\u{:04x}"
"""Of characters up to DEL and of others: that of a byte which is no text is never the same."""
_KINDS = "a .txt file with one name per line, a JSON list of names, or JSON {name now: new name}"


def printable(path: str) -> str:
    r"""A path as text that every screen and file can hold, distinct for distinct paths.

    Bytes that are not valid UTF-8, characters that move or colour a screen, and backslashes are
    written as backslash escapes.

    >>> printable("caf\udce9.jpg"), printable("a\nb")
    ('caf\\xe9.jpg', 'a\\x0ab')
    """
    text = in_bytes(path).replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return _CONTROLS.sub(lambda found: _ESCAPES[found[0] >= "\x80"].format(ord(found[0])), text)


def in_bytes(name: str) -> bytes:
    """A name as the file system has it: names are sorted by this."""
    try:
        return os.fsencode(name)
    except UnicodeEncodeError:  # text that no file can be called, as JSON may have it
        return name.encode("utf-8", "backslashreplace")


def near_name(path: Path) -> Path | None:
    """What lies there under nearly that name; None if nothing does."""
    try:
        names = [each.name for each in path.parent.iterdir() if each.is_dir() or path.suffix]
    except (OSError, ValueError):
        return None
    close = difflib.get_close_matches(path.name, names, 1, 0.7)
    return path.with_name(close[0]) if close else None


def no_such(path: Path, kind: str = "folder", what: str = "folder") -> MarcError:
    """The error for a path that is not there, with what was probably meant."""
    near = near_name(path)
    hint = f"ls {path.parent}" if near is None else f"{kind}/{near}"
    return MarcError(f"there is no such {what}", got=path, hint=hint)


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


def is_integer(text: str) -> bool:
    """Whether a name is an integer from 0, digits only."""
    return text.isascii() and text.isdigit()


def read_labels(
    values: Sequence[str],
    places: Sequence[str],
    source: object,
    names: tuple[Sequence[str], object] = ((), ""),
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Label of each picture and the class names, which are empty if labels are numbers.

    Args:
        values: what was written, one for each picture.
        places: where it was written (`line 3`), for messages.
        source: the file, for messages.
        names: class names for labels that are numbers, if known, and where they were written.
    """
    integers = [_integer(value) for value in values]
    for value, place in zip(values, places, strict=True):
        if not value.strip():
            raise MarcError("a label is missing", got=f"{source}: {place}")
    if all(number is not None for number in integers):
        labels = tuple(
            _check(number, place, source) for number, place in zip(integers, places, strict=True)
        )
        if names[0] and labels and max(labels) >= len(names[0]):
            raise MarcError(
                "there are fewer class names than labels",
                got=f"{names[1]}: {len(names[0])} names, but the largest label is {max(labels)}",
            )
        return labels, tuple(names[0])
    if any(number is not None for number in integers):
        a_number = next(i for i, number in enumerate(integers) if number is not None)
        a_name = next(i for i, number in enumerate(integers) if number is None)
        raise MarcError(
            "labels are numbers in some places and names in others",
            got=f"{source}: {places[a_number]} has {values[a_number]!r}, "
            f"{places[a_name]} has {values[a_name]!r}",
            allowed="only integers from 0, or only names",
        )
    ordered = sorted(set(values), key=in_bytes)
    label = {name: index for index, name in enumerate(ordered)}
    return tuple(label[value] for value in values), tuple(spoken(name) for name in ordered)


def as_label(value: object, where: str) -> str:
    """What stands for a label in JSON, as text; nothing if there is none."""
    if not isinstance(value, str | int | float | None):
        raise MarcError("a label must be a name or a number", got=f"{where}: {repr(value)[:80]}")
    return "" if value is None else str(value)


def _integer(value: str) -> int | None:
    text = value.strip()
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def _check(number: int | None, place: str, source: object) -> int:
    if number is None or not 0 <= number < _MOST_CLASSES:
        raise MarcError(
            "a label is out of range",
            got=f"{source}: {place} has {number}",
            allowed=f"integers from 0 to {_MOST_CLASSES - 1}",
        )
    return number


def with_class_names(images: ImageSet, names: Path | Sequence[str]) -> ImageSet:
    """The same pictures with other class names.

    Args:
        images: any list of pictures, labelled or not.
        names: in class order; or a `.txt` file with one name per line in class order, a JSON list
            in class order, or a JSON object that maps names as they are now (or folder names) to
            new ones. An object may leave classes out: these keep their names.
    """
    if isinstance(names, Path):
        is_json, path = names.suffix.lower() == ".json", names
        given = _read_json_names(names) if is_json else read_names(names)
        if isinstance(given, dict):
            return replace(images, class_names=_renamed(images.class_names, given, names))
    else:
        given, path = _distinct(names), Path("classes")
    listed = tuple(_name(name, f"name {index + 1}", path) for index, name in enumerate(given))
    _check_count(images, len(listed), path)
    return replace(images, class_names=listed)


def _distinct(names: Sequence[str]) -> list[str]:
    """Names that somebody typed: one that is there twice is a slip, and would never be answered."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise MarcError("classes are a list of names", got=repr(names), hint='["cat", "dog"]')
    known: set[str] = set()
    for name in map(str, names):
        if name.strip().casefold() in known:
            raise MarcError("a class is named twice", got=repr(name), hint="each class once")
        known.add(name.strip().casefold())
    return [*names]


def read_names(path: Path) -> list[str]:
    """The names of classes, one per line."""
    lines = read_text(path).rstrip().splitlines()
    return [_name(line, f"line {number}", path) for number, line in enumerate(lines, 1)]


def _read_json_names(path: Path) -> list[Any] | dict[str, Any]:
    parsed = parse_json(read_text(path), path, allowed=_KINDS)
    if not isinstance(parsed, list | dict):
        raise MarcError("these are no class names", got=path, allowed=_KINDS)
    return parsed


def _name(name: Any, place: str, path: Path) -> str:
    if not isinstance(name, str) or not name.strip() or _CONTROLS.search(name.strip()):
        raise MarcError("a class name must be text", got=f"{path}: {place} is {repr(name)[:80]}")
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
    known = {name.replace("_", " ") for name in current}
    unknown = [key for key in given if key.replace("_", " ") not in known]
    if unknown or not given:
        raise MarcError(
            "a name to be replaced is not the name of a class",
            got=f"{path}: {_some(unknown) or 'nothing'}",
            allowed=_some(current),
        )
    return tuple(new.get(name.replace("_", " "), name) for name in current)


def _some(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(map(str, names[:5])) + (", ..." if len(names) > 5 else "")
