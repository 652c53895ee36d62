"""`marc geometry`: what the neighbours of each space are like, before anything is adapted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import typer

from marc.cli import console
from marc.cli._options import check_spaces, open_stream
from marc.cli._spaces import IMAGES, for_each, note_neighbors, sample, with_error
from marc.results.folder import Folder
from marc.spaces.calibration import REPLICATES, check_replicates
from marc.spaces.geometry import Geometry, Measures, chance, measure, pseudo_labels
from marc.spaces.neighbors import check_kappas
from marc.stats import Interval
from marc.stream import Stream
from marc.types import OnProgress

_SHOWN = 5  # classes and hubs in a line of details


def geometry(
    source: str = typer.Argument(help="A stream, for example arrays/FILE.npz."),
    space: list[str] = typer.Option([], help="Spaces; all stored ones by default."),
    neighbors: list[int] = typer.Option([5, 10], help="Neighbours to look at, kappa."),
    images: int = IMAGES,
    replicates: int = typer.Option(
        REPLICATES, min=0, help="Batches behind the intervals, 2 or more; 0 for no intervals."
    ),
    details: bool = typer.Option(False, "--details", help="Also hubs and the least pure classes."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Measure each space: purity (if there are labels), pseudo-purity, anti-hubs and skewness.

    Example:  marc geometry arrays/photos.npz --space dinov2-b clip-b16 --neighbors 5 10
    """
    stream = sample(open_stream(source, 0), images)
    plain = stream.with_views(1)  # what the predictor says of plain images is computed once
    spaces = check_spaces(stream, space)
    kappas = check_kappas(neighbors, len(stream))
    check_replicates(replicates)

    def work(name: str, on_progress: OnProgress) -> Geometry:
        return measure(plain, name, kappas, n_replicates=replicates, on_progress=on_progress)

    measured = for_each(spaces, len(stream), work)
    if json:
        data = {
            **Folder.describe("geometry", source, stream),
            "n_replicates": replicates,
            "chance": _chances(plain),
            "spaces": {each.space: _as_data(each, stream) for each in measured},
        }
        console.as_json(data)
    else:
        measured = sorted(
            measured, key=lambda each: -each.measures[kappas[-1]].pseudo_purity.estimate
        )
        _show(plain, measured)
        if details:
            _show_details(plain, measured)


def _chances(stream: Stream) -> dict[str, float | None]:
    labels = stream.row_labels
    return {
        "purity": None if labels is None else chance(labels),
        "pseudo_purity": chance(pseudo_labels(stream)),
    }


def _as_data(geometry: Geometry, stream: Stream) -> dict[str, Any]:
    by_class = geometry.per_class_purity
    return {
        "n_duplicates": geometry.n_duplicates,
        "recall": geometry.recall,
        "measures": [_measures_as_data(each) for each in geometry.measures.values()],
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


def _measures_as_data(measures: Measures) -> dict[str, Any]:
    """The measures at one kappa for JSON; the ends of an interval that was left out are null."""
    data: dict[str, Any] = {"n_neighbors": measures.n_neighbors}
    for name in ("purity", "pseudo_purity"):
        interval = getattr(measures, name)
        data[name] = None if interval is None else interval.estimate
        data[f"{name}_interval"] = None if interval is None else _ends(interval)
    return {
        **data,
        "antihub_fraction": measures.antihub_fraction,
        "hub_skewness": measures.hub_skewness,
    }


def _ends(interval: Interval) -> list[float] | None:
    return None if math.isnan(interval.low) else [interval.low, interval.high]


def _show(stream: Stream, measured: list[Geometry]) -> None:
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
    console.table([*columns, "anti-hubs %", "skewness"], rows)
    if any(math.isnan(each.pseudo_purity.low) for each in measured[0].measures.values()):
        console.say("no intervals: none were asked for, or there are too few images")
    else:
        console.say("±: 95 %, over batches of the images")
    by_chance = [
        f"{name} {100 * fraction:.2f}" for name, fraction in _chances(stream).items() if fraction
    ]
    console.say(f"by chance: {', '.join(by_chance).replace('_', '-')}")
    if labelled:
        console.say("purity: neighbours of the same class")
    console.say("pseudo-purity: neighbours that share the predictor's answer")
    console.say("anti-hubs: images that are nobody's neighbour")
    note_neighbors(
        {each.space: each.n_duplicates for each in measured},
        {each.space: each.recall for each in measured},
    )


def _show_details(stream: Stream, measured: list[Geometry]) -> None:
    """The images that are neighbours of most others, and the classes of lowest purity."""
    for each in measured:
        console.heading(f"{each.space}, {max(each.measures)} neighbours")
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
