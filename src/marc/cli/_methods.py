"""`marc list methods`: what there is by what it needs, and the card of one."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Mapping
from typing import Any, get_args

from marc.cli import console
from marc.errors import MarcError
from marc.peers.cards import AbsentMethod, MethodCard, Need
from marc.peers.registry import METHODS, absent_methods
from marc.results.all_methods import AllMethods

_NEEDS: Mapping[Need, str] = {
    "space": "the space of a second encoder",
    "prompts": "the embedding of every prompt",
    "shots": "labelled few-shot features",
    "unlabelled": "features of unlabelled images that are not in the stream",
    "text-tower": "the predictor's text encoder, in torch",
    "image-tower": "the predictor's image encoder and the pictures, in torch",
}


def list_methods(pattern: str, card: str, json: bool) -> None:
    """Every method by what it needs most, or all that is known of one."""
    usable, broken = METHODS.load_all()
    absent = absent_methods()
    if card and card in absent:
        _show_absent(absent[card], json)
        return
    known = [*METHODS, *absent]
    names = [METHODS.resolve(card)] if card else fnmatch.filter(known, pattern)
    if not names:
        raise MarcError("no method has such a name", got=pattern, allowed=", ".join(known))
    cards = {name: METHODS[name] for name in names if name in usable or card}
    missing = {name: absent[name] for name in names if name in absent}
    if card and not json:
        _show_card(cards[names[0]])
    elif json:
        console.as_json("methods", {name: _as_data(each) for name, each in cards.items()})
    else:
        _show_groups(cards)
        reasons = {name: AllMethods.reason(broken[name]) for name in names if name in broken}
        _show_reasons("cannot be used", reasons)
        _show_reasons("do not run here", {name: each.reason for name, each in missing.items()})
        if console.is_narrow() and cards:
            where = "in a terminal of 120 columns, with --json, or of one with --card NAME"
            console.say(f"\norder, gradients and needs: {where}")


def _show_groups(cards: Mapping[str, MethodCard]) -> None:
    """One table for each need: a method stands where the last of its needs does."""
    for need in (None, *get_args(Need)):
        group = [card for card in cards.values() if _most(card) == need]
        if not group:
            continue
        words = "the features of the predictor alone" if need is None else _NEEDS[need]
        console.say(f"\nfrom {words}", bold=True)
        if console.is_narrow():  # the rest is on the cards
            rows = [[each.name, each.summary] for each in group]
            console.table(["method", "what it is"], rows, numbers=False, always=True)
            continue
        rows = [
            [each.name, _order(each), "yes" if each.gradients else "-", _needs(each), each.summary]
            for each in group
        ]
        columns = ["method", "order", "gradients", "needs", "what it is"]
        console.table(columns, rows, numbers=False, always=True)


def _most(card: MethodCard) -> Need | None:
    """The need that is hardest to meet, in the order in which needs are known."""
    return max(card.needs, key=get_args(Need).index, default=None)


def _needs(card: MethodCard) -> str:
    return ", ".join(need.replace("-tower", " encoder") for need in card.needs) or "-"


def _show_reasons(title: str, reasons: Mapping[str, str]) -> None:
    if reasons:
        console.say(f"\n{title}", bold=True)
        rows = [[name, " ".join(reason.split())] for name, reason in reasons.items()]
        console.table(["method", "why"], rows, numbers=False, always=True)


def _show_absent(method: AbsentMethod, json: bool) -> None:
    if json:
        console.as_json("methods", {"absent": {method.name: dataclasses.asdict(method)}})
        return
    console.say(f"{method.name}: {method.summary}", bold=True)
    console.say(f"paper: {method.paper}")
    console.say(f"does not run here: {method.reason}")
    if method.would_need:
        console.say(f"would need: {'; '.join(method.would_need)}")


_FORGETS = {
    None: "",
    "image": "after each image",
    "batch": "after each batch",
    "stream": "after the stream",
    "never": "never",
}


def _show_card(card: MethodCard) -> None:
    console.say(f"{card.name}: {card.summary}", bold=True)
    together = {"image": "one image", "batch": "a batch", "stream": "all images"}
    lines = {
        "paper": card.paper,
        "order": _order(card),
        "answers together": together[card.sees],
        "learns by gradients": "yes" if card.gradients else "",
        "forgets what it learned": _FORGETS[card.resets],
        "grows": "with every image, in memory and in time" if card.grows else "",
        "views": card.views,
        "needs": "; ".join(_NEEDS[need] for need in card.needs) or "nothing more",
        "the paper says": card.paper_says,
        "the released code": card.released_code,
        "here": card.ours,
        "its authors tuned": card.tuned,
        "built from": "descriptions alone: a reconstruction" if card.reconstruction else "",
    }
    for name, value in lines.items():
        if value:
            console.say(f"{name}: {value}")
    rows = [[name, _default(name, value)] for name, value in card.settings.items()]
    if rows:
        console.table(["setting", "default"], rows, numbers=False, always=True)
    _show_tables(card)


def _default(name: str, value: object) -> str:
    """A default, or where a digest comes from, which nobody need give."""
    return "that of the file" if (name, value) == ("digest", "") else str(value)


def _show_tables(card: MethodCard) -> None:
    """Settings by data set, and the weights that an oracle may search."""
    if card.published:
        console.say("published for single data sets, used with --published NAME")
        names = list(dict.fromkeys(name for row in card.published.values() for name in row))
        rows = [
            [data_set, *(str(settings.get(name, "")) for name in names)]
            for data_set, settings in card.published.items()
        ]
        console.table(["data set", *names], rows, always=True)
    for name, grid in card.searched.items():
        values = ", ".join(f"{value:g}" for value in grid)
        console.say(f"chosen on labels with --oracle: {name} of {values}")


def _as_data(card: MethodCard) -> dict[str, Any]:
    names = [each.name for each in dataclasses.fields(card) if each.name not in ("name", "factory")]
    return {**{name: getattr(card, name) for name in names}, "settings": card.settings}


def _order(card: MethodCard) -> str:
    """Whether an image is answered before it is stored, and what is answered together."""
    together = {"image": "", "batch": "in batches", "stream": "whole stream"}[card.sees]
    if card.reads_before_writes is None:
        return together or "stores nothing"
    words = "reads, then writes" if card.reads_before_writes else "writes, then reads"
    return f"{together}: {words}" if together else words
