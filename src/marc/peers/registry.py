"""The methods by name, as data."""

from __future__ import annotations

import fnmatch
from typing import Any

from marc.errors import MarcError, Registry, one_of
from marc.method import MARC
from marc.peers import (
    bafta,
    boostadapter,
    cosmic,
    dmn,
    dota,
    etta,
    lame,
    oga,
    shot,
    tda,
    tip_adapter,
    view_ensembles,
    zero,
    zero_shot,
)
from marc.peers.cards import MethodCard, card_of
from marc.peers.zero_shot import NoMemory
from marc.types import AnyMethod

_CONFIDENT = "the tenth of them with the lowest entropy, at least one"

_OWN: dict[str, MethodCard | str] = {
    card.name: card
    for card in (
        MethodCard(
            "marc",
            "bounded memory admitted by CLIP, read in another encoder's space",
            MARC,
            reads_before_writes=True,
            paper="Retrieval Geometry Shapes Cache-Based CLIP Adaptation",
            needs=("space",),
            views=_CONFIDENT,
            ours="docs/protocol.md names every choice where the paper leaves room",
            tuned="nothing per data set; the weight 10 is the paper's for all",
        ),
        MethodCard(
            "no-memory",
            "the predictor over its most confident views; the matched baseline",
            NoMemory,
            reads_before_writes=None,
            paper="the same, equation 1",
            views=_CONFIDENT,
            ours="equal to view-ensemble at its defaults",
        ),
        zero_shot.CARD,
        *view_ensembles.CARDS,
        zero.CARD,
        tip_adapter.CARD,
        tda.CARD,
        boostadapter.CARD,
        dmn.CARD,
        cosmic.CARD,
        dota.CARD,
        etta.CARD,
        oga.CARD,
        lame.CARD,
        shot.CARD,
        bafta.CARD,
    )
}


def _card(name: str, thing: Any) -> MethodCard:
    """What was registered as a card: one, or the class of a method."""
    if isinstance(thing, MethodCard):
        return thing
    if not callable(thing) or not hasattr(thing, "from_state"):
        raise MarcError(
            f"{name} is no method",
            got=type(thing).__name__,
            allowed="a MethodCard, or a class with step, reset, config, state and from_state",
        )
    return card_of(thing)


METHODS = Registry("method", "marc.methods", _OWN, _card, "marc list methods")
"""Every method by name: ours, registered ones, and those that installed packages bring."""


def register_method(method: MethodCard | type, *, replace: bool = False) -> None:
    """Make a method known by its name to `create_method`, snapshots and comparisons.

    Args:
        method: a card, or the class of a method with a `name`, of which a card is made.
        replace: whether it may take the place of one that was registered before.
    """
    card = _card(str(method), method)
    METHODS.register(card.name, card, replace=replace)


def list_methods(pattern: str = "*") -> list[str]:
    """Names of the methods that match a shell-style pattern."""
    return [name for name in METHODS if fnmatch.fnmatch(name, pattern)]


def create_method(name: str, /, *, published: str | None = None, **settings: Any) -> AnyMethod:
    """A method by name, with its own defaults or those `published` for a data set.

    >>> create_method("marc", space="dinov2-b", capacity=8).config()["capacity"]
    8
    """
    card = METHODS.known(name)
    for setting in settings:
        one_of(f"setting of {name}", setting, card.settings)
    if published is not None:
        one_of(f"data set with published settings of {name}", published, card.published)
        settings = {**card.published[published], **settings}
    missing = [s for s, value in card.settings.items() if value == "required" and s not in settings]
    if missing:
        option = "" if missing == ["space"] else f"; on the command line --set {missing[0]}=..."
        raise MarcError(f"{name} needs {', '.join(missing)}", hint=f"{missing[0]}=...{option}")
    return card.factory(**settings)
