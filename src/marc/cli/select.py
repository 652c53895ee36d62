"""`marc select`: which space to retrieve in, without labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

import typer

from marc.calibration import REPLICATES
from marc.cli import console
from marc.cli.sources import describe, open_stream
from marc.cli.sweep import check_spaces
from marc.errors import one_of
from marc.folders import read_sweep
from marc.rankings import HINTED_NEIGHBORS, Candidate, Selection
from marc.selection import plan_selection, transferred
from marc.stream import Stream


def select(
    source: str = typer.Argument(help="A stream, for example arrays/FILE.npz."),
    space: list[str] = typer.Option([], help="Spaces; all stored ones by default."),
    neighbors: int = typer.Option(10, help="Neighbours to look at, kappa."),
    test: str = typer.Option("radii", help="Test of a lead: radii, or paired, which is sharper."),
    settings_from: str = typer.Option(
        "", "--settings-from", help="Sweep folder of a labelled stream to take K and w from."
    ),
    replicates: int = typer.Option(REPLICATES, min=2, help="Calibration batches of each size."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Rank the spaces by pseudo-purity, and choose one or say that it is too close to call.

    Labels are not read, even if the stream has some.

    Example:  marc select arrays/photos.npz --space dinov2-b clip-b16
    """
    one_of("test of a lead", test, ("radii", "paired"))
    stream = replace(open_stream(source, 0), row_labels=None)
    labelled = read_sweep(Path(settings_from)) if settings_from else None
    spaces = check_spaces(stream, space)
    settings = {}
    if labelled is not None:
        settings = {name: transferred(stream, labelled, name) for name in spaces}
    selection = choose(stream, spaces, neighbors, replicates=replicates, test=test)
    if json:
        console.as_json(
            {**describe("select", source, stream), **as_data(selection, settings_from, settings)}
        )
    else:
        show(stream, selection, settings_from, settings)


def choose(
    stream: Stream,
    spaces: list[str],
    neighbors: int = 10,
    *,
    replicates: int = REPLICATES,
    test: str = "radii",
) -> Selection:
    """Measure the spaces one by one behind a progress bar, and rank them."""
    job = plan_selection(stream, spaces, neighbors, n_replicates=replicates)
    measured = []
    with console.progress() as bar:
        task = bar.add_task("", total=len(spaces), note="")
        for number, name in enumerate(spaces):
            bar.update(task, description=name, completed=number)
            measured.append(job.space(name))
    return job.result(measured, cast(Literal["radii", "paired"], test))


def as_data(
    selection: Selection, settings_from: str, settings: dict[str, tuple[int, float]]
) -> dict[str, Any]:
    """A selection for JSON."""
    return {
        "space": selection.space,
        "tied": list(selection.tied),
        "test": selection.test,
        "n_neighbors": selection.n_neighbors,
        "n_replicates": selection.n_replicates,
        "chance": selection.chance,
        "agreement": {str(size): value for size, value in selection.agreement.items()},
        "settings_from": settings_from or None,
        "ranking": [
            candidate_as_data(each, selection, settings.get(each.space))
            for each in selection.ranking
        ],
    }


def candidate_as_data(
    candidate: Candidate, selection: Selection, settings: tuple[int, float] | None
) -> dict[str, Any]:
    """One space of the ranking for JSON."""
    lead = selection.leads.get(candidate.space)
    return {
        "space": candidate.space,
        "pseudo_purity": candidate.pseudo_purity,
        "radius": candidate.radius,
        "lead": None if lead is None else lead.estimate,
        "lead_interval": None if lead is None else [lead.low, lead.high],
        "batches": {
            str(size): {"mean": batch.estimate, "interval": [batch.low, batch.high]}
            for size, batch in candidate.batches.items()
        },
        "antihub_fraction": candidate.antihub_fraction,
        "capacity_hint": list(candidate.capacity_hint)
        if selection.n_neighbors == HINTED_NEIGHBORS
        else None,
        "capacity": None if settings is None else settings[0],
        "weight": None if settings is None else settings[1],
    }


def show(
    stream: Stream,
    selection: Selection,
    settings_from: str = "",
    settings: Mapping[str, tuple[int, float]] = MappingProxyType({}),
) -> None:
    """The selection for a person."""
    console.say(
        f"{stream.name}: {selection.n_images} images, {stream.n_classes} classes; no label is read"
    )
    columns = ["space", "pseudo-purity %", "radius", "behind the first", "anti-hubs %"]
    hinted = selection.n_neighbors == HINTED_NEIGHBORS
    rows = []
    for each in selection.ranking:
        low, high = each.capacity_hint
        rows.append(
            [
                each.space,
                console.percent(each.pseudo_purity),
                f"{100 * each.radius:.2f}",
                behind(selection, each),
                console.percent(each.antihub_fraction),
                *([f"{low} to {high}"] if hinted else []),
                *([f"{settings[each.space][0]}, {settings[each.space][1]:g}"] if settings else []),
            ]
        )
    columns += [*(["try K"] if hinted else []), *(["K, w"] if settings else [])]
    console.table(columns, rows)
    console.say(
        f"chance {console.percent(selection.chance)} %; radius: 95 %, for all spaces at once; "
        "behind the first: in points, paired [95 %]"
    )
    if hinted:
        console.say("try K: only a hint, learned on one stream of 7,500 images")
    if settings:
        console.say(f"K, w: best on the labelled stream of {settings_from}")
    shares = ", ".join(f"{n}: {value:.2f}" for n, value in selection.agreement.items())
    console.say(f"how often so many images have the same first space: {shares}")
    conclude(selection)


def behind(selection: Selection, candidate: Candidate) -> str:
    """The lead of the first space over another."""
    lead = selection.leads.get(candidate.space)
    if lead is None:
        return ""
    ends = f"[{console.points(lead.low)}, {console.points(lead.high)}]"
    return f"{console.points(lead.estimate)} {ends}"


def conclude(selection: Selection) -> None:
    """The answer in words."""
    if selection.space is not None:
        console.heading(f"choose {selection.space}")
        return
    console.heading(f"too close to call: {', '.join(selection.tied)}")
    first = selection.ranking[0].space
    if selection.test == "radii" and all(selection.leads[s].low > 0 for s in selection.tied[1:]):
        console.say(f"image by image {first} is ahead of them all: --test paired chooses it")
