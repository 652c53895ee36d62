"""`marc geometry`: the neighbours of each space, and what `marc select` says in the same way."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import typer

from marc.cli import console
from marc.cli._options import check_spaces, open_stream
from marc.replay.device import choose_gpu
from marc.report.text import duration
from marc.results.folder import Folder
from marc.spaces.calibration import Calibration
from marc.spaces.geometry import (
    ENOUGH,
    Geometry,
    Measures,
    chance,
    looked_at,
    measure,
    pseudo_labels,
)
from marc.spaces.neighbors import EXACT_UP_TO, check_kappas, has_index
from marc.spaces.selection import Candidate
from marc.stats import Interval
from marc.stream import Stream
from marc.types import OnProgress

_Result = TypeVar("_Result")

IMAGES = typer.Option(
    None,
    "--images",
    min=0,
    help="Images to look at, drawn at random; 0: all. By default all, but 20000 of a stream of "
    "more than 200000.",
)
DEVICE = typer.Option(
    "cpu",
    "--device",
    help="Where neighbours are found: cpu, auto, cuda, cuda:N; the numbers are the same.",
)
REPLICATES = Calibration.REPLICATES
_SHOWN = 5  # classes and hubs in a line of details
_SURE = 2.0  # seconds after which the rest can be estimated
_LONG = 90.0  # seconds for one space that are worth a word


def geometry(
    source: str = typer.Argument(help="A stream, for example arrays/FILE.npz."),
    space: list[str] = typer.Option([], help="Spaces; all stored ones by default."),
    neighbors: list[int] = typer.Option([5, 10], help="Neighbours to look at, kappa."),
    images: int | None = IMAGES,
    replicates: int = typer.Option(
        REPLICATES, min=0, help="Batches behind the intervals, 2 or more; 0 for no intervals."
    ),
    device: str = DEVICE,
    details: bool = typer.Option(False, "--details", help="Also hubs and the least pure classes."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Measure each space: purity (if there are labels), pseudo-purity, anti-hubs and skewness.

    Example:  marc geometry arrays/photos.npz --space dinov2-b clip-b16 --neighbors 5 10
    """
    whole = open_stream(source, 0)
    with console.notes():
        stream = looked_at(whole, images)
    plain = stream.with_views(1)  # what the predictor says of plain images is computed once
    spaces = check_spaces(stream, space)
    kappas = check_kappas(neighbors, len(stream))
    Calibration.check_replicates(replicates)
    device = choose_gpu(device) or "cpu"

    def work(name: str, on_progress: OnProgress) -> Geometry:
        return measure(
            plain, name, kappas, n_replicates=replicates, device=device, on_progress=on_progress
        )

    measured = for_each(spaces, len(stream), work)
    if json:
        data: dict[str, Any] = {"n_replicates": replicates, "chance": _chances(plain)}
        data["spaces"] = {each.space: _geometry_as_data(each, stream) for each in measured}
        about = Folder.describe("geometry", whole.source or source, stream)
        console.as_json("geometry", {**about, **data})
    else:
        measured.sort(key=lambda each: -each.measures[kappas[-1]].pseudo_purity.estimate)
        _show_geometry(plain, measured)
        if details:
            _show_details(plain, measured)


def _chances(stream: Stream) -> dict[str, float | None]:
    labels = stream.row_labels
    purity = None if labels is None else chance(labels)
    return {"purity": purity, "pseudo_purity": chance(pseudo_labels(stream))}


def _geometry_as_data(geometry: Geometry, stream: Stream) -> dict[str, Any]:
    by_class, ids = geometry.per_class_purity, stream.features.ids
    if by_class is not None:
        values = [None if np.isnan(value) else float(value) for value in by_class]
        named = dict(zip(stream.features.class_names, values, strict=True))
    return {
        "n_duplicates": geometry.n_duplicates,
        "recall": geometry.recall,
        "measures": [_measures_as_data(each) for each in geometry.measures.values()],
        "per_class_purity": None if by_class is None else named,
        "hubs": [{"id": ids[hub.item], "in_degree": hub.in_degree} for hub in geometry.hubs],
    }


def _measures_as_data(measures: Measures) -> dict[str, Any]:
    """The measures at one kappa for JSON; the ends of an interval that was left out are null."""
    data: dict[str, Any] = {"n_neighbors": measures.n_neighbors}
    for name in ("purity", "pseudo_purity"):
        interval = getattr(measures, name)
        data[name] = None if interval is None else interval.estimate
        known = interval is not None and not math.isnan(interval.low)
        data[f"{name}_interval"] = [interval.low, interval.high] if known else None
    data["antihub_fraction"] = measures.antihub_fraction
    return {**data, "hub_skewness": measures.hub_skewness}


def _show_geometry(stream: Stream, measured: list[Geometry]) -> None:
    console.say(f"{stream.name}: {len(stream)} images, {stream.n_classes} classes")
    labelled = stream.row_labels is not None
    columns = ["space", "kappa", *(["purity %"] if labelled else []), "pseudo-purity %"]
    rows = [
        [
            each.space,
            str(kappa),
            *([with_error(measures.purity)] if measures.purity else []),
            with_error(measures.pseudo_purity),
            console.percent(measures.antihub_fraction),
            f"{measures.hub_skewness:.2f}",
        ]
        for each in measured
        for kappa, measures in each.measures.items()
    ]
    console.table([*columns, "anti-hubs %", "skewness"], rows, always=True)
    missing = any(math.isnan(each.pseudo_purity.low) for each in measured[0].measures.values())
    why = "no intervals: none were asked for, or there are too few images"
    console.say(why if missing else "±: 95 %, over batches of the images")
    chances = _chances(stream).items()
    by_chance = [f"{name} {100 * fraction:.2f}" for name, fraction in chances if fraction]
    console.say(f"by chance: {', '.join(by_chance).replace('_', '-')}")
    if labelled:
        console.say("purity: neighbours of the same class")
    console.say("pseudo-purity: neighbours that share the predictor's answer")
    console.say("anti-hubs: images that are nobody's neighbour")
    note_neighbors(measured)


def _show_details(stream: Stream, measured: list[Geometry]) -> None:
    """The images that are neighbours of most others, and the classes of lowest purity."""
    for each in measured:
        console.say(f"{each.space}, {max(each.measures)} neighbours", bold=True)
        hubs = [f"{stream.features.ids[hub.item]} ({hub.in_degree})" for hub in each.hubs[:_SHOWN]]
        console.say(f"  hubs (neighbour of so many): {', '.join(hubs)}")
        if each.per_class_purity is not None:
            lowest = np.argsort(each.per_class_purity, kind="stable")  # not a number comes last
            names = [
                f"{stream.features.class_names[index]} {100 * each.per_class_purity[index]:.1f}"
                for index in lowest[:_SHOWN]
                if not np.isnan(each.per_class_purity[index])
            ]
            console.say(f"  least pure classes (%): {', '.join(names)}")


def for_each(
    spaces: Sequence[str], n_images: int, work: Callable[[str, OnProgress], _Result]
) -> list[_Result]:
    """What `work` gives for each space, behind a progress bar; says once if it will take long."""
    announced, start = False, 0.0

    def show(space: str, what: str, done: int, total: int) -> None:
        nonlocal announced, start
        bar.report(f"{space} {what}", done, total)
        if done == 0:
            start = time.monotonic()
            return
        spent = time.monotonic() - start
        if not announced and spent >= _SURE and spent * total / done > _LONG:
            announced = True
            seconds = spent * total / done
            console.say(_how_long(what, seconds, n_images, len(spaces)), err=True)

    with console.progress() as bar:
        numbered = {name: f"{name} ({n} of {len(spaces)})" for n, name in enumerate(spaces, 1)}
        bar.report("features", 0, 1)  # of a large stream they are read for some time
        return [work(name, partial(show, text)) for name, text in numbered.items()]


def _how_long(what: str, seconds: float, n_images: int, n_spaces: int) -> str:
    """A note on work that takes long, and what to type instead.

    >>> print(_how_long("neighbours", 900, 100_000, 2))
    note: 100,000 images, neighbours: about 15 min for each of 2 space(s)
      faster:  --images 20000, a random sample
    """
    each = f"{duration(seconds)} for each of {n_spaces} space(s)"
    lines = [f"note: {n_images:,} images, {what}: about {each}"]
    if n_images > ENOUGH:
        lines.append(f"faster:  --images {ENOUGH}, a random sample")
    if n_images > EXACT_UP_TO and not has_index():
        lines.append("faster:  pip install faiss-cpu, whose index finds nearly all neighbours")
    return "\n  ".join(lines)


def with_error(interval: Interval) -> str:
    """A fraction in percent, with half of its interval if it has one.

    >>> with_error(Interval(0.5, 0.48, 0.52)), with_error(Interval(0.5, np.nan, np.nan))
    ('50.00 ± 2.00', '50.00')
    """
    if np.isnan(interval.low):
        return console.percent(interval.estimate)
    # a fraction near 0 or 1 has one end cut off
    half = max(interval.high - interval.estimate, interval.estimate - interval.low)
    return f"{console.percent(interval.estimate)} ± {console.percent(half)}"


def note_neighbors(measured: Sequence[Geometry | Candidate]) -> None:
    """Say what a reader of neighbours should know: copies of images, and missing neighbours."""
    copies = {each.space: str(each.n_duplicates) for each in measured if each.n_duplicates}
    if copies:
        console.say(f"images whose features equal those of an earlier one: {_together(copies)}")
    approximate = {each.space: f"{each.recall:.4f}" for each in measured if each.recall < 1}
    if approximate:
        console.say(f"fraction of the true neighbours that were found: {_together(approximate)}")


def _together(values: Mapping[str, str]) -> str:
    if len(values) > 1 and len(set(values.values())) == 1:
        return f"{next(iter(values.values()))} in each of {len(values)} spaces"
    return ", ".join(f"{space} {value}" for space, value in values.items())
