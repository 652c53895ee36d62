"""`marc list`: what there is, by name."""

from __future__ import annotations

import fnmatch
from typing import Any

import typer

from marc.admission import POLICIES
from marc.cli import console
from marc.errors import MarcError, one_of
from marc.methods import METHODS, MethodCard, list_methods


def list_names(
    what: str = typer.Argument(help="methods or policies."),
    pattern: str = typer.Argument("*", help="A shell-style pattern, for example 'no*'."),
    card: str = typer.Option("", help="Print everything about one method."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List methods or admission policies.

    Example:  marc list methods --card marc
    """
    one_of("kind of thing to list", what, ("methods", "policies"))
    if what == "policies":
        show_policies(pattern, json=json)
        return
    names = [one_of("method", card, METHODS)] if card else list_methods(pattern)
    if not names:
        raise MarcError("no method has such a name", got=pattern, allowed=", ".join(METHODS))
    cards = {name: METHODS[name] for name in names}
    if json:
        console.as_json({name: as_data(each) for name, each in cards.items()})
    elif card:
        show_card(cards[card])
    else:
        rows = [[n, order(each.reads_before_writes), each.summary] for n, each in cards.items()]
        console.table(["method", "order", "what it is"], rows, numbers=False)


def show_policies(pattern: str, *, json: bool) -> None:
    """Admission policies and what they keep."""
    found = {p.name: p.summary for p in POLICIES.values() if fnmatch.fnmatch(p.name, pattern)}
    if not found:
        raise MarcError("no policy has such a name", got=pattern, allowed=", ".join(POLICIES))
    if json:
        console.as_json(found)
    else:
        console.table(["policy", "keeps"], [[*row] for row in found.items()], numbers=False)


def show_card(card: MethodCard) -> None:
    """Everything about one method."""
    console.heading(f"{card.name}: {card.summary}")
    console.say(f"paper: {card.paper}\nneeds: {card.needs}")
    console.say(f"order: {order(card.reads_before_writes)}")
    rows = [[name, str(value)] for name, value in card.settings.items()]
    console.table(["setting", "default"], rows, numbers=False)


def as_data(card: MethodCard) -> dict[str, Any]:
    """A card for JSON."""
    names = ("summary", "reads_before_writes", "needs", "paper", "settings")
    return {name: getattr(card, name) for name in names}


def order(reads_before_writes: bool | None) -> str:
    """Whether an image is answered before it is stored."""
    if reads_before_writes is None:
        return "stores nothing"
    return "reads, then writes" if reads_before_writes else "writes, then reads"
