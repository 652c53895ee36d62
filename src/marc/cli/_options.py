"""What `run` and `sweep` ask of a stream before they start, and what they record of it."""

from __future__ import annotations

from typing import Any

import typer

from marc.cli import console
from marc.errors import MarcError
from marc.sources import load_stream, resolve_source
from marc.stream import Stream


def open_stream(source: str, views: int) -> Stream:
    """The stream of a source, seen through its first `views` views.

    0 takes all that are stored; of the lab, which draws views when asked, the plain one alone.
    """
    with console.notes(), console.progress() as bar:
        return load_stream(resolve_source(source), console.reporter(bar), views or None)


IN_ORDER = typer.Option(False, "--in-order", help="The stored order alone, instead of --seed.")


def check_seeds(seeds: list[int], *, in_order: bool) -> list[int | None]:
    """Seeds without repeats; None stands for the order in which the images are stored."""
    if in_order:
        return [None]
    if len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise MarcError("seeds must be distinct whole numbers >= 0", got=seeds, hint="--seed 0 1 2")
    return [*seeds]


def describe(kind: str, source: str, stream: Stream) -> dict[str, Any]:
    """The part of a protocol that belongs to the stream; orders are recorded by their seeds."""
    fingerprint = stream.fingerprint
    del fingerprint["order"]
    return {
        "kind": kind,
        "source": source,
        "stream": stream.name,
        "n_images": len(stream),
        "n_classes": stream.n_classes,
        "n_views": stream.n_views,
        "fingerprint": fingerprint,
    }
