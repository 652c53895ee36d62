"""`marc geometry` and `marc select`: the neighbours of each space, before anything is adapted."""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import typer

from marc.cli import console
from marc.cli._options import check_spaces, open_stream
from marc.errors import one_of
from marc.report.text import duration
from marc.results.folder import Folder
from marc.results.sweep import load_sweep
from marc.spaces.calibration import Calibration
from marc.spaces.geometry import Geometry, Measures, chance, measure, pseudo_labels
from marc.spaces.neighbors import EXACT_UP_TO, check_kappas, has_index
from marc.spaces.selection import Candidate, Selection, plan_selection
from marc.stats import Interval
from marc.stream import Features, Stream
from marc.types import OnProgress

_Result = TypeVar("_Result")
_Settings = Mapping[str, tuple[int, float]]
"""Capacity and weight by space."""

_IMAGES = typer.Option(
    0,
    "--images",
    min=0,
    show_default=False,
    help="Images to look at, drawn at random; all by default.",
)
_REPLICATES, _TEST = Calibration.REPLICATES, Selection.TESTS[0]
_SHOWN = 5  # classes and hubs in a line of details
_SURE = 2.0  # seconds after which the rest can be estimated
_LONG = 90.0  # seconds for one space that are worth a word
_ENOUGH = 20_000  # images of a sample: the error of a fraction is below one point


def geometry(
    source: str = typer.Argument(help="A stream, for example arrays/FILE.npz."),
    space: list[str] = typer.Option([], help="Spaces; all stored ones by default."),
    neighbors: list[int] = typer.Option([5, 10], help="Neighbours to look at, kappa."),
    images: int = _IMAGES,
    replicates: int = typer.Option(
        _REPLICATES, min=0, help="Batches behind the intervals, 2 or more; 0 for no intervals."
    ),
    details: bool = typer.Option(False, "--details", help="Also hubs and the least pure classes."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Measure each space: purity (if there are labels), pseudo-purity, anti-hubs and skewness.

    Example:  marc geometry arrays/photos.npz --space dinov2-b clip-b16 --neighbors 5 10
    """
    whole = open_stream(source, 0)
    stream = whole.sample(images) if images else whole
    plain = stream.with_views(1)  # what the predictor says of plain images is computed once
    spaces = check_spaces(stream, space)
    kappas = check_kappas(neighbors, len(stream))
    Calibration.check_replicates(replicates)

    def work(name: str, on_progress: OnProgress) -> Geometry:
        return measure(plain, name, kappas, n_replicates=replicates, on_progress=on_progress)

    measured = _for_each(spaces, len(stream), work)
    if json:
        data: dict[str, Any] = {"n_replicates": replicates, "chance": _chances(plain)}
        data["spaces"] = {each.space: _geometry_as_data(each, stream) for each in measured}
        console.as_json({**Folder.describe("geometry", source, stream), **data})
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
            *([_with_error(measures.purity)] if measures.purity else []),
            _with_error(measures.pseudo_purity),
            console.percent(measures.antihub_fraction),
            f"{measures.hub_skewness:.2f}",
        ]
        for each in measured
        for kappa, measures in each.measures.items()
    ]
    console.table([*columns, "anti-hubs %", "skewness"], rows)
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
    _note_neighbors(measured)


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


def select(
    source: str = typer.Argument(help="A stream, for example arrays/FILE.npz."),
    space: list[str] = typer.Option([], help="Spaces; all stored ones by default."),
    neighbors: int = typer.Option(10, help="Neighbours to look at, kappa."),
    images: int = _IMAGES,
    test: str = typer.Option(_TEST, help="Test of a lead: paired, or radii, the paper's."),
    settings_from: str = typer.Option(
        "", "--settings-from", help="Sweep folder of a labelled stream to take K and w from."
    ),
    replicates: int = typer.Option(_REPLICATES, min=2, help="Calibration batches of each size."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Rank the spaces by pseudo-purity, and choose one or say that it is too close to call.

    Labels are not read, even if the stream has some.

    Example:  marc select arrays/photos.npz --space dinov2-b clip-b16
    """
    one_of("test of a lead", test, Selection.TESTS)
    whole = replace(open_stream(source, 0), row_labels=None)
    labelled = load_sweep(settings_from) if settings_from else None
    spaces = check_spaces(whole, space)
    settings: _Settings = {}
    if labelled is not None:  # a sample would hide that the sweep is of the same images
        settings = {name: labelled.transferred(name, whole) for name in spaces}
    stream = whole.sample(images) if images else whole
    selection = _choose(stream, spaces, neighbors, replicates, test)
    if json:
        data = _selection_as_data(stream, selection, settings_from, settings)
        console.as_json({**Folder.describe("select", source, stream), **data})
        return
    _show_selection(stream, selection, settings_from, settings)
    if selection.space is not None:
        console.say(f"next: {_next_command(source, selection.space, settings)}")


def _next_command(source: str, space: str, settings: _Settings) -> str:
    words = ["--weight", "auto"]  # nothing is known of this stream's weights
    if space in settings:
        capacity, weight = settings[space]
        words = ["--capacity", str(capacity), "--weight", f"{weight:g}"]
    return shlex.join(["marc", "run", source, "--space", space, *words])


def choose_aloud(stream: Stream, spaces: list[str], replicates: int) -> Selection:
    """Choose a space and show why, as `marc select` does."""
    selection = _choose(stream, spaces, 10, replicates, _TEST)
    _show_selection(stream, selection, "", {})
    return selection


def _choose(
    stream: Stream, spaces: list[str], neighbors: int, replicates: int, test: str
) -> Selection:
    """Measure the spaces one by one behind a progress bar, and rank them."""
    job = plan_selection(stream, spaces, neighbors, n_replicates=replicates)
    return job.result(_for_each(spaces, len(stream), job.space), test)


def _selection_as_data(
    stream: Stream, selection: Selection, settings_from: str, settings: _Settings
) -> dict[str, Any]:
    spaces = [each.space for each in selection.ranking]
    return {
        "space": selection.space,
        "tied": list(selection.tied),
        **{n: getattr(selection, n) for n in ("test", "n_neighbors", "n_replicates", "chance")},
        "agreement": {str(size): value for size, value in selection.agreement.items()},
        "predictors_own": _own_spaces(stream.features, spaces),
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
    columns = ["space", "pseudo-purity %", "behind", "anti-hubs %"]
    columns += [*(["try K"] if hinted else []), *(["K, w"] if settings else [])]
    rows = []
    for each in selection.ranking:
        purity, radius, lead = each.pseudo_purity, each.radius, selection.leads.get(each.space)
        low, high = each.capacity_hint
        rows.append(
            [
                each.space,
                _with_error(Interval(purity, purity - radius, purity + radius)),
                "" if lead is None else _with_error(lead),
                console.percent(each.antihub_fraction),
                *([f"{low} to {high}"] if hinted else []),
                *([f"{settings[each.space][0]}, {settings[each.space][1]:g}"] if settings else []),
            ]
        )
    console.table(columns, rows)
    _explain(selection, settings_from)
    _note_neighbors(selection.ranking)
    own = _own_spaces(stream.features, [each.space for each in selection.ranking])
    if own and len(selection.ranking) > 1:
        console.say(f"{', '.join(own)}: the predictor's own; shares its mistakes and ranks high")
    _conclude(selection)


def _explain(selection: Selection, settings_from: str) -> None:
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
    if selection.space is not None:
        alone = ": there is no other" if len(selection.ranking) == 1 else ""
        console.say(f"choose {first}{alone}", bold=True)
    else:
        console.say(f"too close to call: {', '.join(selection.tied)}", bold=True)
        ahead = all(selection.leads[other].low > 0 for other in selection.tied[1:])
        if selection.test == "radii" and ahead:
            console.say(f"image by image {first} is ahead of them all: --test paired chooses it")


def _for_each(
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
        return [work(name, partial(show, text)) for name, text in numbered.items()]


def _how_long(what: str, seconds: float, n_images: int, n_spaces: int) -> str:
    """A note on work that takes long, and what to type instead.

    >>> print(_how_long("neighbours", 900, 100_000, 2))
    note: 100,000 images, neighbours: about 15 min for each of 2 space(s)
      faster:  --images 20000, a random sample
    """
    each = f"{duration(seconds)} for each of {n_spaces} space(s)"
    lines = [f"note: {n_images:,} images, {what}: about {each}"]
    if n_images > _ENOUGH:
        lines.append(f"faster:  --images {_ENOUGH}, a random sample")
    if n_images > EXACT_UP_TO and not has_index():
        lines.append("faster:  pip install faiss-cpu, whose index finds nearly all neighbours")
    return "\n  ".join(lines)


def _with_error(interval: Interval) -> str:
    """A fraction in percent, with half of its interval if it has one.

    >>> _with_error(Interval(0.5, 0.48, 0.52)), _with_error(Interval(0.5, np.nan, np.nan))
    ('50.00 ± 2.00', '50.00')
    """
    if np.isnan(interval.low):
        return console.percent(interval.estimate)
    # a fraction near 0 or 1 has one end cut off
    half = max(interval.high - interval.estimate, interval.estimate - interval.low)
    return f"{console.percent(interval.estimate)} ± {console.percent(half)}"


def _note_neighbors(measured: Sequence[Geometry | Candidate]) -> None:
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


def _own_spaces(features: Features, spaces: Sequence[str]) -> list[str]:
    """Those that are the predictor's own features, by name or by content, transformed or not."""

    def is_own(space: str) -> bool:
        name = space.partition("+")[0]
        return name == "predictor" or np.array_equal(features.spaces[name], features.clip_keys)

    return [space for space in spaces if is_own(space)]
