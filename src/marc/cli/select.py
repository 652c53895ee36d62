"""`marc select`: which space to retrieve in, without labels."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import typer

from marc.cli import console
from marc.cli._options import check_spaces, open_stream
from marc.cli._spaces import IMAGES, for_each, note_neighbors, sample, with_error
from marc.errors import one_of
from marc.results.folder import Folder
from marc.results.sweep import load_sweep
from marc.spaces.calibration import REPLICATES, error_size
from marc.spaces.selection import (
    HINTED_NEIGHBORS,
    TEST,
    TESTS,
    Candidate,
    Selection,
    own_spaces,
    plan_selection,
)
from marc.stats import Interval
from marc.stream import Stream

_Settings = Mapping[str, tuple[int, float]]
"""Capacity and weight by space."""


def select(
    source: str = typer.Argument(help="A stream, for example arrays/FILE.npz."),
    space: list[str] = typer.Option([], help="Spaces; all stored ones by default."),
    neighbors: int = typer.Option(10, help="Neighbours to look at, kappa."),
    images: int = IMAGES,
    test: str = typer.Option(TEST, help="Test of a lead: paired, or radii, the paper's."),
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
    one_of("test of a lead", test, TESTS)
    whole = replace(open_stream(source, 0), row_labels=None)
    labelled = load_sweep(settings_from) if settings_from else None
    spaces = check_spaces(whole, space)
    settings: _Settings = {}
    if labelled is not None:  # a sample would hide that the sweep is of the same images
        settings = {name: labelled.transferred(name, whole) for name in spaces}
    stream = sample(whole, images)
    selection = choose(stream, spaces, neighbors, replicates=replicates, test=test)
    if json:
        data = _as_data(stream, selection, settings_from, settings)
        console.as_json({**Folder.describe("select", source, stream), **data})
        return
    show(stream, selection, settings_from, settings)
    if selection.space is not None:
        console.say(f"next: {_next_command(source, selection.space, settings)}")


def _next_command(source: str, space: str, settings: _Settings) -> str:
    words = ["marc", "run", source, "--space", space]
    if space in settings:
        capacity, weight = settings[space]
        words += ["--capacity", str(capacity), "--weight", f"{weight:g}"]
    else:  # nothing is known of this stream's weights
        words += ["--weight", "auto"]
    return shlex.join(words)


def choose(
    stream: Stream,
    spaces: list[str],
    neighbors: int = 10,
    *,
    replicates: int = REPLICATES,
    test: str = TEST,
) -> Selection:
    """Measure the spaces one by one behind a progress bar, and rank them."""
    job = plan_selection(stream, spaces, neighbors, n_replicates=replicates)
    return job.result(for_each(spaces, len(stream), job.space), test)


def _as_data(
    stream: Stream, selection: Selection, settings_from: str, settings: _Settings
) -> dict[str, Any]:
    return {
        "space": selection.space,
        "tied": list(selection.tied),
        "test": selection.test,
        "n_neighbors": selection.n_neighbors,
        "n_replicates": selection.n_replicates,
        "chance": selection.chance,
        "agreement": {str(size): value for size, value in selection.agreement.items()},
        "predictors_own": list(_own_spaces(stream, selection)),
        "settings_from": settings_from or None,
        "ranking": [
            _candidate_as_data(each, selection, settings.get(each.space))
            for each in selection.ranking
        ],
    }


def _own_spaces(stream: Stream, selection: Selection) -> Sequence[str]:
    return own_spaces(stream.features, [each.space for each in selection.ranking])


def _candidate_as_data(
    candidate: Candidate, selection: Selection, settings: tuple[int, float] | None
) -> dict[str, Any]:
    lead = selection.leads.get(candidate.space)
    hinted = selection.n_neighbors == HINTED_NEIGHBORS
    capacity, weight = settings or (None, None)
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
        "n_duplicates": candidate.n_duplicates,
        "recall": candidate.recall,
        "capacity_hint": list(candidate.capacity_hint) if hinted else None,
        "capacity": capacity,
        "weight": weight,
    }


def show(
    stream: Stream,
    selection: Selection,
    settings_from: str = "",
    settings: _Settings = MappingProxyType({}),
) -> None:
    """The selection for a person."""
    console.say(
        f"{stream.name}: {selection.n_images} images, {stream.n_classes} classes; no label is read"
    )
    hinted = selection.n_neighbors == HINTED_NEIGHBORS
    columns = ["space", "pseudo-purity %", "behind", "anti-hubs %"]
    columns += [*(["try K"] if hinted else []), *(["K, w"] if settings else [])]
    rows = []
    for each in selection.ranking:
        purity, radius, lead = each.pseudo_purity, each.radius, selection.leads.get(each.space)
        low, high = each.capacity_hint
        rows.append(
            [
                each.space,
                with_error(Interval(purity, purity - radius, purity + radius)),
                "" if lead is None else with_error(lead),
                console.percent(each.antihub_fraction),
                *([f"{low} to {high}"] if hinted else []),
                *([f"{settings[each.space][0]}, {settings[each.space][1]:g}"] if settings else []),
            ]
        )
    console.table(columns, rows)
    _explain(selection, settings_from)
    note_neighbors(
        {each.space: each.n_duplicates for each in selection.ranking},
        {each.space: each.recall for each in selection.ranking},
    )
    own = _own_spaces(stream, selection)
    if own and len(selection.ranking) > 1:
        console.say(f"{', '.join(own)}: the predictor's own; shares its mistakes and ranks high")
    _conclude(selection)


def _explain(selection: Selection, settings_from: str) -> None:
    console.say(f"±: 95 %, for all spaces at once; by chance: {console.percent(selection.chance)}")
    console.say("pseudo-purity: neighbours that share the predictor's answer; not yet a gain")
    if len(selection.ranking) > 1:
        needed = {"paired": "its own ±", "radii": "the sum of both ±"}[selection.test]
        console.say(f"behind: the first space, in points; it counts if above {needed}")
        console.say(f"same first space in batches of {_agreements(selection)}")
    if selection.n_neighbors == HINTED_NEIGHBORS:
        console.say("try K: only a hint, learned on one stream of 7,500 images")
    if settings_from:
        console.say(f"K, w: best on the labelled stream of {settings_from}")


def _agreements(selection: Selection) -> str:
    """How often smaller batches agree; those behind the errors are shown if there is no other."""
    agreement = dict(selection.agreement)
    if len(agreement) > 1:
        del agreement[error_size(selection.n_images)]
    return ", ".join(f"{size}: {100 * part:.0f} %" for size, part in agreement.items())


def _conclude(selection: Selection) -> None:
    first = selection.ranking[0].space
    if len(selection.ranking) == 1:
        console.heading(f"choose {first}: there is no other")
    elif selection.space is not None:
        console.heading(f"choose {first}")
    else:
        console.heading(f"too close to call: {', '.join(selection.tied)}")
        ahead = all(selection.leads[other].low > 0 for other in selection.tied[1:])
        if selection.test == "radii" and ahead:
            console.say(f"image by image {first} is ahead of them all: --test paired chooses it")
