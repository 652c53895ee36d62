"""Labels as they are written in files: all names, or all whole numbers."""

from __future__ import annotations

from collections.abc import Sequence

from marc.errors import MarcError
from marc.pictures.listing import in_bytes, spoken

_MOST_CLASSES = 2**20
"""A larger label number is taken for a mistake: every class has a row in every prototype."""


def read_labels(
    values: Sequence[str], places: Sequence[str], source: object
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Label of each picture and the class names, which are empty if labels are numbers.

    Args:
        values: what was written, one for each picture.
        places: where it was written (`line 3`), for messages.
        source: the file, for messages.
    """
    whole = [_whole(value) for value in values]
    for value, place in zip(values, places, strict=True):
        if not value.strip():
            raise MarcError("a label is missing", got=f"{source}: {place}")
    if all(number is not None for number in whole):
        return tuple(
            _check(number, place, source) for number, place in zip(whole, places, strict=True)
        ), ()
    if any(number is not None for number in whole):
        a_number = next(i for i, number in enumerate(whole) if number is not None)
        a_name = next(i for i, number in enumerate(whole) if number is None)
        raise MarcError(
            "labels are numbers in some places and names in others",
            got=f"{source}: {places[a_number]} has {values[a_number]!r}, "
            f"{places[a_name]} has {values[a_name]!r}",
            allowed="only whole numbers from 0, or only names",
        )
    names = sorted(set(values), key=in_bytes)
    label = {name: index for index, name in enumerate(names)}
    return tuple(label[value] for value in values), tuple(spoken(name) for name in names)


def named(labels: Sequence[int], names: Sequence[str], source: object) -> tuple[str, ...]:
    """Class names from a list, refused if a label has none."""
    if labels and max(labels) >= len(names):
        raise MarcError(
            "there are fewer class names than labels",
            got=f"{source}: {len(names)} names, but the largest label is {max(labels)}",
        )
    return tuple(names)


def _whole(value: str) -> int | None:
    text = value.strip()
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def _check(number: int | None, place: str, source: object) -> int:
    if number is None or not 0 <= number < _MOST_CLASSES:
        raise MarcError(
            "a label is out of range",
            got=f"{source}: {place} has {number}",
            allowed=f"whole numbers from 0 to {_MOST_CLASSES - 1}",
        )
    return number
