"""`marc select`: which memory to read, or none, before anything is adapted and without labels."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import typer

from marc.cli import console
from marc.cli._label_order import chance_notes
from marc.cli._options import check_spaces, open_stream
from marc.cli.spaces import DEVICE, IMAGES, REPLICATES, for_each, note_neighbors, with_error
from marc.errors import one_of
from marc.replay.device import choose_gpu
from marc.results.folder import Folder
from marc.results.sweep import load_sweep
from marc.spaces.calibration import Calibration
from marc.spaces.geometry import looked_at
from marc.spaces.selection import Candidate, Selection, plan_selection
from marc.spaces.trust import ALL, is_own
from marc.stats import Interval
from marc.stream import Stream
from marc.types import OnProgress

_Settings = Mapping[str, tuple[int, float]]
"""Capacity and weight by space."""
_TEST = Selection.TESTS[0]


def select(
    source: str = typer.Argument(help="A stream, for example arrays/FILE.npz."),
    space: list[str] = typer.Option([], help="Spaces; all stored ones by default."),
    neighbors: int = typer.Option(10, help="Neighbours to look at, kappa."),
    images: int | None = IMAGES,
    test: str = typer.Option(_TEST, help="Test of a lead: paired, or radii, the paper's."),
    settings_from: str = typer.Option(
        "", "--settings-from", help="Sweep folder of a labelled stream to take K and w from."
    ),
    replicates: int = typer.Option(REPLICATES, min=2, help="Calibration batches of each size."),
    device: str = DEVICE,
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Say whether any memory is worth it, and which space is the best by itself.

    Trust is how far class means in a space agree with the predictor where it doubts; the ranking is
    by pseudo-purity, and chooses a space or says that it is too close to call.

    Labels are not read, even if the stream has some; a note alone says so if by them the predictor
    is no better than chance.

    Example:  marc select arrays/photos.npz --space dinov2-b clip-b16
    """
    one_of("test of a lead", test, Selection.TESTS)
    opened = open_stream(source, 0)
    source = opened.source or source
    labelled = load_sweep(settings_from) if settings_from else None
    spaces = check_spaces(opened, space)
    settings: _Settings = {}
    if labelled is not None:  # a sample would hide that the sweep is of the same images
        settings = {name: labelled.transferred(name, opened) for name in spaces}
    with console.notes():
        looked = looked_at(opened, images)
    stream = replace(looked, row_labels=None)
    selection = _choose(stream, spaces, neighbors, replicates, test, device)
    answers, names = stream.features.base.label, stream.features.class_names
    notes = chance_notes(answers, looked.row_labels, names, source)
    if json:
        data = _selection_as_data(stream, selection, settings_from, settings)
        about = Folder.describe("select", source, stream)
        console.as_json("select", {**about, **data, "notes": notes})
        return
    _show_selection(stream, selection, settings_from, settings)
    for note in notes:
        console.note(note)
    if selection.method != "none":
        asked = ["--space", *space] if space else []  # of these, class means need no choice
        console.say(f"next: {shlex.join(['marc', 'run', source, *asked])}")
        if selection.space is not None:
            paper = _paper_command(source, selection.space, settings)
            console.say(f"next, the paper's system: {paper}")


def _paper_command(source: str, space: str, settings: _Settings) -> str:
    words = ["--weight", "auto"]  # nothing is known of this stream's weights
    if space in settings:
        capacity, weight = settings[space]
        words = ["--capacity", str(capacity), "--weight", f"{weight:g}"]
    return shlex.join(["marc", "run", source, "--method", "marc", "--space", space, *words])


def choose_aloud(stream: Stream, spaces: list[str], replicates: int) -> Selection:
    """Choose a space and show why, as `marc select` does."""
    selection = _choose(stream, spaces, 10, replicates, _TEST, "cpu")
    _show_selection(stream, selection, "", {})
    return selection


def _choose(
    stream: Stream, spaces: list[str], neighbors: int, replicates: int, test: str, device: str
) -> Selection:
    """Measure the spaces one by one behind a progress bar, and rank them."""
    job = plan_selection(stream, spaces, neighbors, n_replicates=replicates)
    measured = for_each(spaces, len(stream), partial(job.space, gpu=choose_gpu(device)))

    def trusted(name: str, on_progress: OnProgress) -> float:
        on_progress("class means", 0, 1)
        found = job.trust_of(name)
        on_progress("class means", 1, 1)
        return found

    names = [*spaces, ALL]
    trusts = dict(zip(names, for_each(names, len(stream), trusted), strict=True))
    return job.result(measured, test, trusts)


def _selection_as_data(
    stream: Stream, selection: Selection, settings_from: str, settings: _Settings
) -> dict[str, Any]:
    spaces = [each.space for each in selection.ranking]
    return {
        "method": selection.method,
        "reason": selection.reason,
        "trust": selection.trust,
        "space": selection.space,
        "tied": list(selection.tied),
        **{n: getattr(selection, n) for n in ("test", "n_neighbors", "n_replicates", "chance")},
        "agreement": {str(size): value for size, value in selection.agreement.items()},
        "predictors_own": [space for space in spaces if is_own(stream.features, space)],
        "settings_from": settings_from or None,
        "ranking": [
            _candidate_as_data(each, selection, *settings.get(each.space, (None, None)))
            for each in selection.ranking
        ],
    }


def _candidate_as_data(
    candidate: Candidate, selection: Selection, capacity: int | None, weight: float | None
) -> dict[str, Any]:
    lead = selection.leads.get(candidate.space)
    hinted = selection.n_neighbors == Candidate.HINTED_NEIGHBORS
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
        "trust": candidate.trust,
        **{n: getattr(candidate, n) for n in ("antihub_fraction", "n_duplicates", "recall")},
        "capacity_hint": list(candidate.capacity_hint) if hinted else None,
        "capacity": capacity,
        "weight": weight,
    }


def _show_selection(
    stream: Stream, selection: Selection, settings_from: str, settings: _Settings
) -> None:
    size = f"{selection.n_images} images, {stream.n_classes} classes"
    console.say(f"{stream.name}: {size}; no label is read")
    hinted = selection.n_neighbors == Candidate.HINTED_NEIGHBORS
    columns = ["space", "trust", "pseudo-purity %", "behind", "anti-hubs %"]
    columns += [*(["try K"] if hinted else []), *(["K, w"] if settings else [])]
    rows = []
    for each in selection.ranking:
        purity, radius, lead = each.pseudo_purity, each.radius, selection.leads.get(each.space)
        low, high = each.capacity_hint
        rows.append(
            [
                each.space,
                f"{each.trust:.2f}",
                with_error(Interval(purity, purity - radius, purity + radius)),
                "" if lead is None else with_error(lead),
                console.percent(each.antihub_fraction),
                *([f"{low} to {high}"] if hinted else []),
                *([f"{settings[each.space][0]}, {settings[each.space][1]:g}"] if settings else []),
            ]
        )
    console.table(columns, rows)
    _explain(selection, settings_from)
    note_neighbors(selection.ranking)
    own = [each.space for each in selection.ranking if is_own(stream.features, each.space)]
    if own and len(selection.ranking) > 1:
        console.say(f"{', '.join(own)}: the predictor's own; shares its mistakes and ranks high")
    _conclude(selection)


def _explain(selection: Selection, settings_from: str) -> None:
    console.say("trust: of class means in a space, 0 to 1")
    console.say(f"trust in all of them and `predictor`: {selection.trust:.2f}")
    console.say(f"±: 95 %, for all spaces at once; by chance: {console.percent(selection.chance)}")
    console.say("pseudo-purity: neighbours that share the predictor's answer; not yet a gain")
    if len(selection.ranking) > 1:
        needed = {"paired": "its own ±", "radii": "the sum of both ±"}[selection.test]
        console.say(f"behind: the first space, in points; it counts if above {needed}")
        agreement = selection.agreement
        if len(agreement) > 1:  # batches behind the errors are shown if there are no smaller ones
            del agreement[Calibration(selection.n_images, selection.n_neighbors).error_size]
        sizes = ", ".join(f"{size}: {100 * part:.0f} %" for size, part in agreement.items())
        console.say(f"same first space in batches of {sizes}")
    if selection.n_neighbors == Candidate.HINTED_NEIGHBORS:
        console.say("try K: only a hint, learned on one stream of 7,500 images")
    if settings_from:
        console.say(f"K, w: best on the labelled stream of {settings_from}")


def _conclude(selection: Selection) -> None:
    first = selection.ranking[0].space
    if selection.method == "none":
        why, _, numbers = selection.reason.partition(": ")
        console.say(f"no memory: {why}", bold=True, always=True)
        console.say(numbers)
    elif selection.space is not None:
        alone = ": there is no other" if len(selection.ranking) == 1 else ""
        console.say(f"choose {first}{alone}", bold=True, always=True)
    else:
        console.say(f"too close to call: {', '.join(selection.tied)}", bold=True, always=True)
        console.say("no choice is needed: class means read them all, each as far as it is trusted")
        ahead = all(selection.leads[other].low > 0 for other in selection.tied[1:])
        if selection.test == "radii" and ahead:
            console.say(f"image by image {first} is ahead of them all: --test paired chooses it")
