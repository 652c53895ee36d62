"""Names and sizes of models that are not on one of our own cards."""

from __future__ import annotations

import re
from collections.abc import Sequence

from marc.errors import MarcError


def safe_name(name: str) -> str:
    """A name that can be that of a file and of a space.

    >>> safe_name("ViT-B-16/laion2b s34b")
    'ViT-B-16-laion2b-s34b'
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "encoder"


def square(name: str, sides: int | Sequence[int]) -> int:
    """The side of the square that a model takes."""
    lengths = {sides} if isinstance(sides, int) else set(sides)
    if len(lengths) != 1:
        raise MarcError(
            "only models that take square pictures can be used", got=f"{name}: {list(lengths)}"
        )
    return int(lengths.pop())
