"""The methods by name, as data."""

from __future__ import annotations

import fnmatch
import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from marc.errors import MarcError, Registry, imported, one_of
from marc.loop import AnyMethod
from marc.peers.cards import AbsentMethod, MethodCard, card_of

_FIRST = ("class-means", "marc", "no-memory")
_CARDS = files("marc.peers.cards")


def _written(folder: Traversable) -> dict[str, dict[str, Any]]:
    """What the files NAME.toml of a folder say, by name."""
    found = (each for each in folder.iterdir() if each.name.endswith(".toml"))
    cards = {
        each.name.removesuffix(".toml"): tomllib.loads(each.read_text("utf-8")) for each in found
    }
    return dict(sorted(cards.items()))


def _own_cards() -> dict[str, MethodCard | str]:
    """The cards of our methods, from `cards/NAME.toml`; `class` there is what makes the method."""
    written = _written(_CARDS)
    cards: dict[str, MethodCard | str] = {}
    for name in dict.fromkeys([*_FIRST, *written]):
        entry = {"reads_before_writes": None, **written[name]}
        factory = imported("method", entry.pop("class"), "marc")
        entry["needs"] = tuple(entry.get("needs", ()))
        entry["searched"] = {name: tuple(w) for name, w in entry.get("searched", {}).items()}
        cards[name] = MethodCard(name, factory=factory, **entry)
    return cards


def absent_methods() -> dict[str, AbsentMethod]:
    """Methods of the field that do not run here, from `cards/absent/NAME.toml`, and why."""
    written = _written(_CARDS / "absent")
    return {
        name: AbsentMethod(name, **{**entry, "would_need": tuple(entry.get("would_need", ()))})
        for name, entry in written.items()
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


METHODS = Registry("method", "marc.methods", _own_cards(), _card, "marc list methods")
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


def refuse_absent(name: str) -> None:
    """Refuse a method of the field that does not run here, with the fact that keeps it out."""
    if isinstance(name, str) and name not in METHODS and name in (absent := absent_methods()):
        reason = " ".join(absent[name].reason.split())
        hint = f"marc list methods --card {name}"
        raise MarcError(f"{name} does not run here: {reason}", got=name, hint=hint)


def create_method(name: str, /, *, published: str | None = None, **settings: Any) -> AnyMethod:
    """A method by name, with its own defaults or those `published` for a data set.

    >>> create_method("marc", space="dinov2-b", capacity=8).config()["capacity"]
    8
    """
    refuse_absent(name)
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
