"""A map of the stream: its images in two dimensions, as the spaces that are compared group them.

The same images in each space, so that a page can mark one of them in both. t-SNE where
scikit-learn is installed, and else the two main directions, which NumPy finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.report.figures import looks_of
from marc.report.queries import outcomes
from marc.report.setting import Subject
from marc.report.stepped import Stepped
from marc.report.thumbnails import Pictures, thumbnails
from marc.scores import Float, Int

_POINTS = 2000
_SIZE = 1000  # of a map: its points are whole numbers from 0
_COLORED = 12  # classes that have a colour of their own: six, filled and hollow
_DIMENSIONS = 50  # main directions from which t-SNE starts
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
        planes[space] = plane.reshape(-1).tolist()
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


def lay_out(keys: Float) -> tuple[Int, str]:
    """Points (n, 2) from 0 to 1,000, one scale for both directions, and what made them.

    The same keys give the same points.
    """
    main = _main_directions(keys)
    plane, name = main[:, :2], "PCA"
    if len(keys) > 4:
        with suppress(ImportError):
            plane, name = _tsne(main), "t-SNE"
    plane = plane - plane.min(axis=0)
    whole = float(plane.max()) or 1.0
    margin = (1 - plane.max(axis=0) / whole) / 2  # the shorter side is in the middle
    return (_SIZE * (plane / whole + margin)).round().astype(np.int64), name


def _main_directions(keys: Float) -> NDArray[np.float64]:
    """Keys in their main directions, (n, at least 2 and at most 50)."""
    centred = np.asarray(keys, dtype=np.float64)
    centred = centred - centred.mean(axis=0)
    left, lengths, _ = np.linalg.svd(centred, full_matrices=False)
    found = (left * lengths)[:, :_DIMENSIONS]
    found *= np.where(found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])] < 0, -1, 1)
    return np.pad(found, ((0, 0), (0, max(0, 2 - found.shape[1]))))


def _tsne(main: NDArray[np.float64]) -> NDArray[np.float64]:
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # scikit-learn brings it

    start = main[:, :2] / (main[:, 0].std() or 1.0) * 1e-4
    perplexity = min(30.0, (len(main) - 1) / 3)
    method = TSNE(perplexity=perplexity, init=start.astype(np.float32), random_state=0)
    with threadpool_limits(1):  # sums in one order
        return np.asarray(method.fit_transform(main.astype(np.float32)), dtype=np.float64)


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
