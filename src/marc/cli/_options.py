"""What commands ask of a stream before they start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from marc.cli import console
from marc.errors import MarcError, integer
from marc.sources import load_stream, resolve_source
from marc.stream import Stream
from marc.stream.orders import Ordering
from marc.stream.transforms import resolve

WEIGHTS = typer.Option(
    [], help="Weights on disk: a file, a folder with NAME.safetensors, or NAME=PATH."
)
OFFLINE = typer.Option(False, "--offline", help="Never touch the network.")
DEVICE = typer.Option("auto", help="auto, cpu, cuda, cuda:N or mps.")
ROOT = typer.Option("", help="Where a named data set lies.")
CLASS_NAMES = typer.Option("", help="A file with these names instead, one per line.")
"""Options of several commands."""

_SEEDS = (0, 1, 2)  # of the orders, unless others are asked for


def open_stream(source: str, views: int, **networks: Any) -> Stream:
    """The stream of a source, seen through its first `views` views.

    0 takes all that are stored; of the lab, which draws views when asked, the plain one alone.
    `networks` say how those of its predictor are loaded, as `marc.load_stream` takes them.
    """
    with console.notes(), console.progress() as bar:
        return load_stream(resolve_source(source), bar.report, views or None, **networks)


def choose_orders(
    stream: Stream, order: str, seeds: list[int], *, in_order: bool
) -> tuple[Stream, list[int | None]]:
    """The stream with orders of one kind, and seeds without repeats; None is the stored order.

    Without seeds three orders where labels tell what they are worth, else the stored one: without
    labels, three answers to each image are two too many.
    """
    asked = Ordering.parse(order)
    if in_order and asked.kind not in ("shuffled", "stored"):
        raise MarcError(
            "--in-order is the stored order, and --order another",
            got=f"--in-order --order {order}",
            hint=f"--order {order} --seed 0 1 2",
        )
    unlabelled = stream.row_labels is None and not seeds and asked.kind == "shuffled"
    if in_order or unlabelled or asked.kind == "stored":
        return stream, [None]
    seeds = seeds or [*_SEEDS]
    for seed in seeds:  # all of them before the first order is run
        integer("seed", seed, 0)
    if len(set(seeds)) < len(seeds):
        raise MarcError("seeds must be distinct", got=seeds, hint="--seed 0 1 2")
    return stream if asked == stream.ordering else stream.ordered(asked.name), [*seeds]


def check_spaces(stream: Stream, given: list[str]) -> list[str]:
    """Known and distinct names, all stored ones by default."""
    spaces = [resolve(each) for each in given] or list(stream.spaces)
    if len(set(spaces)) < len(spaces):
        raise MarcError("a space is named twice", got=" ".join(spaces), allowed="each name once")
    for space in spaces:
        stream.features.dim(space)
    return spaces


def read_large(stream: Stream, spaces: Sequence[str]) -> None:
    """Read what is too large to be held once before work begins, behind a progress bar.

    Of a stream that is held nothing is read before it is used.
    """
    with console.progress() as bar:
        stream.features.prepare(spaces, bar.report)


def class_list(classes: str, class_names: str) -> str | list[str]:
    """Classes that were typed, `"cat,dog,coffee cup"`, or the file that has them instead."""
    if classes and class_names:
        raise MarcError(
            "the classes are given twice", got="--classes and --class-names", hint="one of them"
        )
    return [name.strip() for name in classes.split(",")] if classes else class_names
