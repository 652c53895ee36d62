"""`marc geometry`: what the neighbours of each space are like, before anything is adapted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import typer

from marc.calibration import REPLICATES
from marc.cli import console
from marc.cli.sources import describe, open_stream
from marc.cli.sweep import check_spaces
from marc.geometry import Geometry, Measures, check_kappas, measure
from marc.stats import Interval
from marc.stream import Stream


def geometry(
    source: str = typer.Argument(help="A stream, for example arrays/FILE.npz."),
    space: list[str] = typer.Option([], help="Spaces; all stored ones by default."),
    neighbors: list[int] = typer.Option([5, 10], help="Neighbours to look at, kappa."),
    replicates: int = typer.Option(
        REPLICATES, min=0, help="Half-samples behind the intervals, 2 or more; 0 for none."
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Measure each space: purity (if there are labels), pseudo-purity, anti-hubs and skewness.

    Example:  marc geometry arrays/photos.npz --space dinov2-b clip-b16 --neighbors 5 10
    """
    stream = open_stream(source, 0)
    spaces = check_spaces(stream, space)
    kappas = check_kappas(neighbors, len(stream))
    found = []
    with console.progress() as bar:
        task = bar.add_task("", total=len(spaces), note="")
        for number, name in enumerate(spaces):
            bar.update(task, description=name, completed=number)
            found.append(measure(stream, name, kappas, n_replicates=replicates))
    if json:
        rows = {each.space: as_data(each, stream) for each in found}
        console.as_json({**describe("geometry", source, stream), "spaces": rows})
    else:
        show(stream, found)


def as_data(geometry: Geometry, stream: Stream) -> dict[str, Any]:
    """A geometry for JSON."""
    by_class = geometry.per_class_purity
    return {
        "n_duplicates": geometry.n_duplicates,
        "recall": geometry.recall,
        "measures": [measures_as_data(each) for each in geometry.measures.values()],
        "per_class_purity": None
        if by_class is None
        else {
            name: None if np.isnan(value) else float(value)
            for name, value in zip(stream.features.class_names, by_class, strict=True)
        },
        "hubs": [
            {"id": stream.features.ids[hub.item], "in_degree": hub.in_degree}
            for hub in geometry.hubs
        ],
    }


def measures_as_data(measures: Measures) -> dict[str, Any]:
    """The measures at one kappa for JSON; the ends of an interval that was left out are null."""
    data: dict[str, Any] = {"n_neighbors": measures.n_neighbors}
    for name in ("purity", "pseudo_purity"):
        interval = getattr(measures, name)
        data[name] = None if interval is None else interval.estimate
        data[f"{name}_interval"] = None if interval is None else ends(interval)
    return {
        **data,
        "antihub_fraction": measures.antihub_fraction,
        "hub_skewness": measures.hub_skewness,
    }


def ends(interval: Interval) -> list[float] | None:
    """Low and high; None if the interval was left out."""
    return None if math.isnan(interval.low) else [interval.low, interval.high]


def show(stream: Stream, found: list[Geometry]) -> None:
    """The geometry for a person: highest pseudo-purity first."""
    console.say(f"{stream.name}: {len(stream)} images, {stream.n_classes} classes")
    labelled = stream.row_labels is not None
    largest = max(found[0].measures)
    found = sorted(found, key=lambda each: -each.measures[largest].pseudo_purity.estimate)
    columns = ["space", "kappa", *(["purity %"] if labelled else []), "pseudo-purity %"]
    rows = [
        [
            each.space,
            str(kappa),
            *([share(measures.purity)] if measures.purity else []),
            share(measures.pseudo_purity),
            console.percent(measures.antihub_fraction),
            f"{measures.hub_skewness:.2f}",
        ]
        for each in found
        for kappa, measures in each.measures.items()
    ]
    console.table([*columns, "anti-hubs %", "skewness"], rows)
    console.say(
        "pseudo-purity: neighbours that share the predictor's answer; anti-hubs: images that are "
        "nobody's neighbour"
    )
    if not math.isnan(found[0].measures[largest].pseudo_purity.low):
        console.say("[95 % intervals over half-samples of the images]")
    copies = [f"{each.space} {each.n_duplicates}" for each in found if each.n_duplicates]
    if copies:
        console.say(f"images whose features equal those of an earlier one: {', '.join(copies)}")
    recalls = [f"{each.space} {each.recall:.4f}" for each in found if each.recall < 1]
    if recalls:
        console.say(f"approximate neighbours, recall: {', '.join(recalls)}")


def share(interval: Interval) -> str:
    """A share in percent with its interval."""
    if math.isnan(interval.low):
        return console.percent(interval.estimate)
    low, high = console.percent(interval.low), console.percent(interval.high)
    return f"{console.percent(interval.estimate)} [{low}, {high}]"
