"""The methods by name, as data."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from marc.core import Method
from marc.errors import MarcError, one_of
from marc.method import MARC
from marc.no_memory import NoMemory


@dataclass(frozen=True)
class MethodCard:
    """What a person should know of a method before comparing numbers."""

    name: str
    summary: str
    factory: Callable[..., Method]
    reads_before_writes: bool | None
    """Whether an image is answered before it is stored; None if nothing is stored."""
    needs: str
    paper: str

    @property
    def settings(self) -> dict[str, Any]:
        """Settings and their defaults; a setting without one must be given."""
        return {
            field.name: "required" if field.default is dataclasses.MISSING else field.default
            for field in dataclasses.fields(self.factory)  # type: ignore[arg-type]
            if field.init
        }


METHODS: dict[str, MethodCard] = {
    card.name: card
    for card in (
        MethodCard(
            "marc",
            "bounded memory admitted by CLIP, read in another encoder's space",
            MARC,
            reads_before_writes=True,
            needs="a retrieval space",
            paper="Retrieval Geometry Shapes Cache-Based CLIP Adaptation",
        ),
        MethodCard(
            "no-memory",
            "the predictor over its most confident views; the matched baseline",
            NoMemory,
            reads_before_writes=None,
            needs="nothing more",
            paper="the same, equation 1",
        ),
    )
}


def list_methods(pattern: str = "*") -> list[str]:
    """Names of the methods that match a shell-style pattern."""
    return [name for name in METHODS if fnmatch.fnmatch(name, pattern)]


def create_method(name: str, /, **settings: Any) -> Method:
    """A method by name.

    >>> create_method("marc", space="dinov2-b", capacity=8).config()["capacity"]
    8
    """
    card = METHODS[one_of("method", name, METHODS, "marc list methods")]
    for setting in settings:
        one_of(f"setting of {name}", setting, card.settings)
    missing = [s for s, value in card.settings.items() if value == "required" and s not in settings]
    if missing:
        raise MarcError(f"{name} needs {', '.join(missing)}", hint=f"{missing[0]}=...")
    return card.factory(**settings)
