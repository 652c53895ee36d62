"""`marc list`: what there is, by name."""

from __future__ import annotations

import fnmatch

import typer

from marc.admission import POLICIES
from marc.cli import console
from marc.errors import MarcError, one_of
from marc.methods import METHODS, list_methods


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
        rows = [[p.name, p.summary] for p in POLICIES.values() if fnmatch.fnmatch(p.name, pattern)]
        if json:
            console.as_json(dict((name, summary) for name, summary in rows))
        else:
            console.table(["policy", "keeps"], rows, numbers=False)
        return
    names = [one_of("method", card, METHODS)] if card else list_methods(pattern)
    cards = {name: METHODS[name] for name in names}
    if not cards:
        raise MarcError("no method has such a name", got=pattern, allowed=", ".join(METHODS))
    if json:
        console.as_json(
            {
                name: {
                    "summary": each.summary,
                    "reads_before_writes": each.reads_before_writes,
                    "needs": each.needs,
                    "paper": each.paper,
                    "settings": each.settings,
                }
                for name, each in cards.items()
            }
        )
    elif card:
        only = cards[card]
        console.heading(f"{only.name}: {only.summary}")
        console.say(f"paper: {only.paper}\nneeds: {only.needs}")
        console.say(f"order: {order(only.reads_before_writes)}")
        rows = [[name, str(value)] for name, value in only.settings.items()]
        console.table(["setting", "default"], rows, numbers=False)
    else:
        rows = [
            [name, order(each.reads_before_writes), each.summary] for name, each in cards.items()
        ]
        console.table(["method", "order", "what it is"], rows, numbers=False)


def order(reads_before_writes: bool | None) -> str:
    """Whether an image is answered before it is stored."""
    if reads_before_writes is None:
        return "stores nothing"
    return "reads, then writes" if reads_before_writes else "writes, then reads"
