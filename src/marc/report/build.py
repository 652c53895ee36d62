"""Write a report: open the folders, compute what they do not hold, and make the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import integer
from marc.replay.sweep import Sweep, check_sources
from marc.report.captions import (
    along_words,
    capacity_words,
    caveat,
    kinds_explained,
    notes,
    purity_title,
    purity_words,
    weight_words,
)
from marc.report.classes import class_table
from marc.report.curves import along_stream, by_capacity, by_purity, by_weight, ordered_spaces
from marc.report.explorer import (
    all_outcomes,
    choose_queries,
    explore,
    look,
    outcomes,
    rule,
    sample_images,
    weight_stops,
)
from marc.report.figures import (
    draw_along_stream,
    draw_by_capacity,
    draw_by_purity,
    draw_by_weight,
)
from marc.report.inputs import read_inputs
from marc.report.page import PlacedFigure, is_there, referenced, render, write_page
from marc.report.provenance import digest_of, digest_of_sweep, how_made
from marc.report.setting import Progress, Subject, make_subject
from marc.report.story import Story, tell
from marc.report.style import drawing, looks
from marc.report.tables import weight_text
from marc.report.thumbnails import Pictures, pictures_of, thumbnails
from marc.report.vectors import inline_svg, save_figures
from marc.results.sweep import load_sweep
from marc.scores import Int
from marc.types import order_name

QUERIES = 200
"""Queries in the explorer, unless one asks for another number."""


@dataclass(frozen=True)
class Report:
    """A page that was written."""

    path: Path
    n_bytes: int
    was_there: bool
    """Whether the same page lay there already, so that nothing was done."""
    story: Story | None
    """What the page says first; None if nothing was done."""
    figures: tuple[Path, ...] = ()
    """Files of the figures, where they were asked for."""


def report(
    *folders: str | Path,
    output: str | Path = "report.html",
    against: str | None = None,
    figures: str | Path | None = None,
    n_queries: int = QUERIES,
    held_out: Sequence[str | Path] = (),
    pictures: Pictures | None = None,
    force: bool = False,
    progress: Progress = lambda step: None,
) -> Report:
    """One self-contained HTML page of a finished run, a finished sweep, or both.

    Args:
        folders: a run folder and/or a sweep folder of the same stream.
        output: the file to write.
        against: the space shown beside the run's; by default that of lowest pseudo-purity.
        figures: a folder for every figure as SVG, PDF and PNG.
        n_queries: how many queries the explorer lists at most.
        held_out: sweep folders of other streams on which a weight is chosen.
        pictures: the picture of a stored row; by default found by the type of the source.
        force: replace another report that lies there.
        progress: called with what is being done.
    """
    integer("queries", n_queries, 1)
    output = Path(output)
    progress("opening the stream again")
    inputs = read_inputs([Path(folder) for folder in folders])
    others = [load_sweep(folder) for folder in held_out]
    options = {
        "against": against,
        "queries": n_queries,
        "held_out": [digest_of_sweep(other) for other in others],
        "pictures": pictures is not None,
    }
    digest = digest_of(inputs, options)
    if is_there(output, digest, force=force) and figures is None:
        return Report(output, output.stat().st_size, was_there=True, story=None)
    subject = make_subject(inputs, against, progress)
    _check_held_out(subject, others)
    picture = pictures_of(inputs.stream, inputs.source) if pictures is None else pictures
    placed, files = _place_figures(subject, others, figures, progress)
    story = tell(subject, others)
    progress("query by query")
    content, data = _describe(subject, story, picture, n_queries)
    text = render({**content, "figures": placed}, data, digest)
    write_page(output, text)
    return Report(output, output.stat().st_size, False, story, tuple(files))


def _check_held_out(subject: Subject, others: Sequence[Sweep]) -> None:
    """Refuse a held-out choice that is not one, before anything is drawn."""
    sweep = subject.sweep
    if others and sweep is not None:
        space = subject.method.space
        check_sources(others, sweep.images, sweep.capacities, sweep.weights, [space])


def _place_figures(
    subject: Subject, others: Sequence[Sweep], folder: str | Path | None, progress: Progress
) -> tuple[list[PlacedFigure], list[Path]]:
    """Every figure that the subject allows, on the page and, if asked for, as files."""
    progress("figures")
    along = along_stream(subject)
    told: list[tuple[str, str, str, Callable[..., Any], Any]]
    told = [("warm-up", "Along the stream", along_words(subject), draw_along_stream, along)]
    spaces = subject.shown_spaces
    if subject.sweep is not None:
        spaces = ordered_spaces(subject)
        weight, purity = weight_words(subject, others), purity_words(subject)
        capacity = capacity_words(subject)
        told = [
            ("by-weight", "Every weight", weight, draw_by_weight, by_weight(subject, others)),
            ("by-purity", purity_title(subject), purity, draw_by_purity, by_purity(subject)),
            ("by-capacity", "Every capacity", capacity, draw_by_capacity, by_capacity(subject)),
            *told,
        ]
    style = looks(tuple(dict.fromkeys([*subject.shown_spaces, *spaces])), len(subject.shown_spaces))
    with drawing():
        figures = {name: draw(data, style) for name, _, _, draw, data in told}
        files = save_figures(figures, Path(folder)) if folder else []
        return [
            PlacedFigure(name, title, words, inline_svg(figures[name], name), data.table)
            for name, title, words, _, data in told
        ], files


def _describe(
    subject: Subject, story: Story, picture: Pictures, n_queries: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the template needs, and the data of the explorer."""
    views, samples = look(subject), sample_images(subject)
    time = subject.history.time
    rows = choose_queries(views, samples, time, n_queries)
    queries = explore(subject, views, rows)
    shown = [int(row) for group in samples.values() for row in group]
    needed = referenced(queries, shown)
    images = thumbnails(picture, needed)
    stops, features = weight_stops(subject.weight), subject.stream.features
    data = {
        "length": len(time),
        "weight": subject.weight,
        "stops": stops,
        "spaces": subject.shown_spaces,
        "classes": features.class_names,
        "ids": {row: features.ids[row] for row in needed},
        "pictures": images,
        "queries": queries,
    }
    masks = {"all": np.ones(len(time), dtype=bool), **views.kinds}
    kinds = [{"name": name, "total": _listed_of(mask, rows)} for name, mask in masks.items()]
    content = {
        "story": story,
        "caveat": caveat(subject),
        "stream": subject.stream,
        "order": order_name(subject.seeds[0]),
        "samples": _sample_groups(subject, samples, images),
        "spaces": subject.shown_spaces,
        "rule": rule(n_queries, len(time)),
        "kinds": kinds,
        "kinds_explained": kinds_explained(),
        "stops": stops,
        "weight_text": weight_text(subject.weight),
        "notes": notes(subject),
        "classes": class_table(subject),
        "made": how_made(subject.inputs),
    }
    return content, data


def _listed_of(mask: NDArray[np.bool_], rows: Int) -> str:
    """How many images of a kind the explorer lists, and of how many."""
    listed, total = int(mask[rows].sum()), int(mask.sum())
    return f"{listed:,}" if listed == total else f"{listed:,} of {total:,}"


def _sample_groups(
    subject: Subject, samples: Mapping[str, Int], images: Mapping[int, str]
) -> list[dict[str, Any]]:
    """The samples with the words that stand under them."""
    names, ids = subject.stream.features.class_names, subject.stream.features.ids
    totals = {kind: int(wanted.sum()) for kind, wanted in all_outcomes(subject).items()}
    groups = []
    for kind, rows in samples.items():
        groups.append(
            {
                "name": kind,
                "mark": kind if kind in outcomes(subject) else "same",
                "total": f"{totals[kind]:,} in the first order",
                "images": [
                    {
                        "row": int(row),
                        "id": ids[row],
                        "picture": images.get(int(row)),
                        "truth": None if subject.labels is None else names[subject.labels[row]],
                        "base": names[subject.base_prediction[row]],
                        "adapted": names[subject.prediction[row]],
                    }
                    for row in rows
                ],
            }
        )
    return groups
