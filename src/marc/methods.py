"""The methods by name, as data."""

from __future__ import annotations

import fnmatch
from typing import Any

from marc.errors import MarcError, one_of
from marc.method import MARC
from marc.method_cards import AnyMethod, MethodCard
from marc.no_memory import NoMemory

METHODS: dict[str, MethodCard] = {
    card.name: card
    for card in (
        MethodCard(
            "marc",
            "bounded memory admitted by CLIP, read in another encoder's space",
            MARC,
            reads_before_writes=True,
            needs=("space",),
            views="the tenth of them with the lowest entropy, at least one",
            paper="Retrieval Geometry Shapes Cache-Based CLIP Adaptation",
        ),
        MethodCard(
            "no-memory",
            "the predictor over its most confident views; the matched baseline",
            NoMemory,
            reads_before_writes=None,
            views="the tenth of them with the lowest entropy, at least one",
            paper="the same, equation 1",
        ),
    )
}


def list_methods(pattern: str = "*") -> list[str]:
    """Names of the methods that match a shell-style pattern."""
    return [name for name in METHODS if fnmatch.fnmatch(name, pattern)]


def create_method(name: str, /, *, published: str | None = None, **settings: Any) -> AnyMethod:
    """A method by name, with its own defaults or those `published` for a data set.

    >>> create_method("marc", space="dinov2-b", capacity=8).config()["capacity"]
    8
    """
    card = METHODS[one_of("method", name, METHODS, "marc list methods")]
    if card.factory is None:
        raise MarcError(f"{name} is not implemented: {card.ours}", hint="marc list methods")
    for setting in settings:
        one_of(f"setting of {name}", setting, card.settings)
    if published is not None:
        one_of(f"data set with published settings of {name}", published, card.published)
        settings = {**card.published[published], **settings}
    missing = [s for s, value in card.settings.items() if value == "required" and s not in settings]
    if missing:
        raise MarcError(f"{name} needs {', '.join(missing)}", hint=f"{missing[0]}=...")
    return card.factory(**settings)
