"""`marc list`: what there is, by name."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import typer

from marc.admission import POLICIES
from marc.cli import console
from marc.cli._methods import list_methods
from marc.encoders import broken_libraries, encoder_card, list_encoders
from marc.encoders.prompts import PromptSet
from marc.errors import MarcError, Registry, one_of
from marc.pictures import IMAGE_KINDS, NAMED_SETS
from marc.results.all_methods import AllMethods
from marc.sources import SOURCES

_LISTINGS = Registry("listing", "marc.listings", {}, lambda name, thing: thing)
"""What else can be listed, by packages that bring it: `f(pattern, card, json)`."""


def list_names(
    what: str = typer.Argument(
        help="methods, policies, encoders, datasets, prompts or experiments."
    ),
    pattern: str = typer.Argument("*", help="A shell-style pattern, for example 'no*'."),
    card: str = typer.Option("", help="Print everything about one of them."),
    paper: bool = typer.Option(
        False, "--paper", help="Of methods: the paper's tables, beside what ran here in runs/."
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """List methods, admission policies, encoders, data sets, prompt sets or experiments.

    Example:  marc list encoders 'mini:pairs-*'

    What a method is:  marc list methods --card tda

    What the paper printed for each, and what ran here:  marc list methods --paper
    """
    if paper:
        one_of("kind of thing to list with --paper", what, ["methods"])
        what = "paper"
    kinds = {
        "methods": list_methods,
        "policies": _list_policies,
        "encoders": _list_encoder_cards,
        "datasets": _list_datasets,
        "prompts": _list_prompts,
    }
    one_of("kind of thing to list", what, {**kinds, **dict.fromkeys(_LISTINGS)})
    (kinds[what] if what in kinds else _LISTINGS[what])(pattern, card, json)


def _print(
    kind: str, data: Mapping[str, Any], columns: list[str], rows: list[list[str]], json: bool
) -> None:
    if json:
        console.as_json(kind, data)
    else:
        console.table(columns, rows, numbers=False, always=True)


def _list_encoder_cards(pattern: str, card: str, json: bool) -> None:
    names = [card] if card else list_encoders(pattern)
    _refuse_none("encoder", names, pattern, list_encoders())
    cards = {name: dataclasses.asdict(encoder_card(name)) for name in names}
    if card:
        _print("encoders", cards, ["", card], _encoder_rows(cards[card]), json)
        return
    rows = [
        [name, str(each["dim"]), str(each["crop"]["size"]), each["summary"]]
        for name, each in cards.items()
    ]
    rows += [[f"{n}:", "-", "-", AllMethods.reason(e)] for n, e in broken_libraries().items()]
    _print("encoders", cards, ["encoder", "dim", "pixels", "what it is"], rows, json)


def _encoder_rows(card: Mapping[str, Any]) -> list[list[str]]:
    crop, training = card["crop"], card["training"] or {}
    sides = "short side" if crop["resize"] == "short" else "both sides"
    lines = {
        "what it is": card["summary"],
        "runs in": card["library"],
        "there named": card["tag"],
        "dim": card["dim"],
        "resize": f"{sides} to {crop['resized']} pixels, {crop['interpolation']}",
        "crop": f"the centre, {crop['size']} x {crop['size']}",
        "mean": ", ".join(f"{each:g}" for each in card["mean"]),
        "std": ", ".join(f"{each:g}" for each in card["std"]),
        "vector": card["pooling"],
        "text": "yes: it can be a predictor" if card["has_text"] else "no",
        "prompt sets": ", ".join(card["prompts"]),
        "licence": card["licence"],
        "paper": card["paper"],
        "digest of the weights": card["digest"] or "known once they are loaded",
        **training,
    }
    return [[name, str(value)] for name, value in lines.items() if value != ""]


def _list_datasets(pattern: str, card: str, json: bool) -> None:
    """Streams that come with the program, and published sets that it knows how to read."""
    ours, broken = _streams()
    names = matching("data set", "data sets", [*ours, *NAMED_SETS], pattern, card)
    sets = {name: _data_set(name, ours.get(name)) for name in names}
    rows = [[name, *map(str, each.values())] for name, each in sets.items()]
    rows += [[f"{kind}/", "-", "-", AllMethods.reason(error)] for kind, error in broken.items()]
    _print("datasets", sets, ["data set", "images", "classes", "where"], rows, json)
    if json:
        return
    if any(name.startswith("lab/") for name in names):
        console.say("lab/NAME@captions-vit: the same pictures, seen by the lab's second predictor")
    if any(name in NAMED_SETS for name in names):
        console.say("nothing is downloaded: marc embed NAME --root ROOT reads what is there")
    if pattern == "*":
        console.table(
            ["pictures", "what they are"], [[*e] for e in IMAGE_KINDS.values()], numbers=False
        )


def _streams() -> tuple[dict[str, tuple[int, int]], dict[str, Exception]]:
    """Images and classes of the streams that have names, and the types of source that fail."""
    sources, errors = SOURCES.load_all()
    found: dict[str, tuple[int, int]] = {}
    broken: dict[str, Exception] = {**errors}
    for kind, source in sources.items():
        try:
            sizes = {f"{kind}/{name}": (int(n), int(c)) for name, (n, c) in source.names().items()}
        except Exception as error:  # of another's code
            broken[kind] = error
        else:
            found |= sizes
    return found, broken


def _data_set(name: str, size: tuple[int, int] | None) -> dict[str, Any]:
    if size is not None:
        return {"images": size[0], "classes": size[1], "where": "drawn by the program"}
    known = NAMED_SETS[name]
    return {"images": known.images, "classes": known.classes, "where": f"ROOT/{known.layout}"}


def _list_prompts(pattern: str, card: str, json: bool) -> None:
    """Prompt sets, or the texts of one."""
    sets = PromptSet.available()
    names = [one_of("prompt set", card, sets)] if card else fnmatch.filter(sets, pattern)
    _refuse_none("prompt set", names, pattern, sets)
    if not card:
        chosen = {name: sets[name] for name in names}
        _print(
            "prompts",
            chosen,
            ["prompt set", "what it is"],
            [[*row] for row in chosen.items()],
            json,
        )
        return
    prompts = PromptSet.read(card)
    if json:
        console.as_json("prompts", {card: dataclasses.asdict(prompts)})
        return
    console.say(f"{card}, version {prompts.version}: {prompts.summary}", bold=True)
    console.say("\n".join(prompts.templates))


def _list_policies(pattern: str, card: str, json: bool) -> None:
    summaries = {each.name: each.summary for each in POLICIES.load_all()[0].values()}
    names = matching("policy", "policies", summaries, pattern, card)
    found = {name: summaries[name] for name in names}
    _print("policies", found, ["policy", "keeps"], [[*row] for row in found.items()], json)


def matching(noun: str, plural: str, known: Iterable[str], pattern: str, card: str) -> list[str]:
    """Names that a pattern matches, of things that have no cards."""
    if card:
        allowed = "methods, encoders, prompts"
        raise MarcError(f"{plural} have no cards", got=f"--card {card}", allowed=allowed)
    names = fnmatch.filter(known, pattern)
    _refuse_none(noun, names, pattern, known)
    return names


def _refuse_none(what: str, found: Collection[str], pattern: str, known: Iterable[str]) -> None:
    if not found:
        raise MarcError(f"no {what} has such a name", got=pattern, allowed=", ".join(known))
