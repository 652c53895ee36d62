"""What readers of lists share: the text of a file, and names as paths, ids and prompts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from marc.errors import MarcError


def read_text(file: Path) -> str:
    """The text of a file in UTF-8, or an error that says what is wrong with it."""
    if not file.is_file():
        raise MarcError("there is no such file", got=file, hint=f"ls {file.parent}")
    try:
        return file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise MarcError(
            "the file is not text in UTF-8", got=f"{file}: byte {problem.start}", allowed="UTF-8"
        ) from None


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


def is_integer(text: str) -> bool:
    """Whether a name is an integer from 0, digits only."""
    return text.isascii() and text.isdigit()
