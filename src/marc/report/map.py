"""A map of the stream: its images in two dimensions, as the spaces that are compared group them.

The same images in each space, so that a page can mark one of them in both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marc.report.figures import looks_of
from marc.report.queries import outcomes
from marc.report.setting import Subject
from marc.report.stepped import Stepped
from marc.report.thumbnails import Pictures, thumbnails
from marc.scores import Int
from marc.spaces.plane import lay_out

_POINTS = 2000
_SIZE = 1000  # of a map: its points are whole numbers from 0
_COLORED = 12  # classes that have a colour of their own: six, filled and hollow
_BUDGET = 1_000_000  # bytes of pictures that only the map shows
_SPREAD = "spread evenly over the stream"


def draw_map(
    subject: Subject | Stepped, listed: Sequence[int], pictures: Pictures, shown: Mapping[int, str]
) -> dict[str, Any] | None:
    """The map as data; None of a method that reads no space.

    Args:
        subject: what the page is about.
        listed: rows that the explorer lists, which are on the map in any case.
        pictures: where pictures are found.
        shown: pictures that the page has anyway.
    """
    if not subject.shown_spaces:
        return None
    stream, labels = subject.stream, subject.labels
    rows = sample_rows(stream.order, listed, _POINTS)
    looks, planes, layout = looks_of(subject), {}, ""
    for space in subject.shown_spaces:
        plane, layout = lay_out(stream.features.keys(space)[rows])
        planes[space] = (_SIZE * plane).round().astype(np.int64).reshape(-1).tolist()
    answers = subject.prediction[rows]
    common = np.argsort(-np.bincount(answers, minlength=stream.n_classes), kind="stable")
    met = np.unique(answers).size
    apart = [row for row in rows.tolist() if row not in shown]
    return {
        "rows": rows.tolist(),
        "planes": planes,
        "colors": [looks[name].page_color for name in _names(subject)],
        "answers": answers.tolist(),
        "base": subject.base_prediction[rows].tolist(),
        "truth": None if labels is None else labels[rows].tolist(),
        "kinds": _kinds(subject)[rows].tolist(),
        "legend": common[: min(_COLORED, met)].tolist(),
        "others": max(0, met - _COLORED),
        "pictures": thumbnails(pictures, apart, _BUDGET),
        "ids": {row: stream.features.ids[row] for row in apart},
        "text": _text(layout, len(rows), len(stream)),
    }


def sample_rows(order: Int, listed: Sequence[int], limit: int) -> Int:
    """At most `limit` rows in stream order: those listed, and others spread over the stream."""
    chosen = np.zeros(len(order), dtype=bool)
    chosen[list(listed)[:limit]] = True
    rest = order[~chosen[order]]
    n = min(limit - int(chosen.sum()), len(rest))
    chosen[rest[np.linspace(0, len(rest), n, endpoint=False).astype(int)]] = True
    return order[chosen[order]]


def _names(subject: Subject | Stepped) -> tuple[str, ...]:
    """What the spaces are called where they are drawn."""
    return subject.shown_spaces if isinstance(subject, Subject) else subject.shown_voices


def _kinds(subject: Subject | Stepped) -> Int:
    """By stored row: 0 the same answer, 1 changed, 2 repaired, 3 broken."""
    kinds = (subject.prediction != subject.base_prediction).astype(np.int64)
    found = outcomes(subject)
    for number, name in ((2, "repaired"), (3, "broken")):
        if name in found:
            kinds[found[name]] = number
    return kinds


def _text(layout: str, n_points: int, n_images: int) -> str:
    """What the map is of, and what may be read from it."""
    of = f"all {n_images:,} images"
    if n_points < n_images:
        of = f"{n_points:,} of {n_images:,} images: those of the explorer, and others {_SPREAD}"
    how = (
        "Drawn by t-SNE with a fixed seed: neighbours in a space are mostly neighbours here, and "
        "distances between groups and sizes of groups mean nothing."
        if layout == "t-SNE"
        else "Drawn along the two main directions of each space (PCA); scikit-learn, which is not "
        "installed or has too few images here, would keep more of who is near to whom."
    )
    return f"A map of {of}, in the first order, coloured by the answer with memory. {how}"
