"""`marc list`: what there is, by name."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Collection, Iterable
from typing import Any

import typer

from marc.admission import POLICIES
from marc.cli import console
from marc.encoders import encoder_card, list_encoders
from marc.errors import MarcError, one_of
from marc.lab.streams import list_lab_streams, plan_stream
from marc.methods import METHODS, MethodCard, list_methods


def list_names(
    what: str = typer.Argument(help="methods, policies, encoders or datasets."),
    pattern: str = typer.Argument("*", help="A shell-style pattern, for example 'no*'."),
    card: str = typer.Option("", help="Print everything about one method or encoder."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List methods, admission policies, encoders or data sets.

    Example:  marc list encoders 'mini:pairs-*'
    """
    kinds = {
        "methods": list_method_cards,
        "policies": list_policies,
        "encoders": list_encoder_cards,
        "datasets": list_datasets,
    }
    kinds[one_of("kind of thing to list", what, kinds)](pattern, card, json)


def list_method_cards(pattern: str, card: str, json: bool) -> None:
    """Methods, or the card of one."""
    names = [one_of("method", card, METHODS)] if card else list_methods(pattern)
    _refuse_none("method", names, pattern, METHODS)
    cards = {name: METHODS[name] for name in names}
    if json:
        console.as_json({name: as_data(each) for name, each in cards.items()})
    elif card:
        show_card(cards[card])
    else:
        rows = [[n, order(each.reads_before_writes), each.summary] for n, each in cards.items()]
        console.table(["method", "order", "what it is"], rows, numbers=False)


def list_encoder_cards(pattern: str, card: str, json: bool) -> None:
    """Encoders, or the card of one."""
    names = [card] if card else list_encoders(pattern)
    _refuse_none("encoder", names, pattern, list_encoders())
    cards = {name: dataclasses.asdict(encoder_card(name)) for name in names}
    if json:
        console.as_json(cards)
    elif card:
        rows = [[name, str(value)] for name, value in cards[card].items()]
        console.table(["", card], rows, numbers=False)
    else:
        rows = [[n, str(each["dim"]), each["summary"]] for n, each in cards.items()]
        console.table(["encoder", "dim", "what it is"], rows, numbers=False)


def list_datasets(pattern: str, card: str, json: bool) -> None:
    """Streams that come with the program."""
    _refuse_card("data sets", card)
    names = [
        name for name in map("lab/{}".format, list_lab_streams()) if fnmatch.fnmatch(name, pattern)
    ]
    _refuse_none("data set", names, pattern, map("lab/{}".format, list_lab_streams()))
    plans = {name: plan_stream(name.removeprefix("lab/")) for name in names}
    if json:
        sizes = {n: {"images": len(p), "classes": len(p.classes)} for n, p in plans.items()}
        console.as_json(sizes)
    else:
        rows = [[name, str(len(plan)), str(len(plan.classes))] for name, plan in plans.items()]
        console.table(["data set", "images", "classes"], rows)


def list_policies(pattern: str, card: str, json: bool) -> None:
    """Admission policies and what they keep."""
    _refuse_card("policies", card)
    found = {p.name: p.summary for p in POLICIES.values() if fnmatch.fnmatch(p.name, pattern)}
    _refuse_none("policy", found, pattern, POLICIES)
    if json:
        console.as_json(found)
    else:
        console.table(["policy", "keeps"], [[*row] for row in found.items()], numbers=False)


def _refuse_card(what: str, card: str) -> None:
    if card:
        raise MarcError(f"{what} have no cards", got=f"--card {card}", allowed="methods, encoders")


def _refuse_none(what: str, found: Collection[str], pattern: str, known: Iterable[str]) -> None:
    if not found:
        raise MarcError(f"no {what} has such a name", got=pattern, allowed=", ".join(known))


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
