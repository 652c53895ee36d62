"""The query explorer as data: which queries, what they read in two spaces, and lines in w.

An entry is readable from the arrival after its own until the one that pushes it out, so what any
query saw follows from the lifetimes; nothing is run again.

The page fuses again for any weight. It must then know every class that wins at some weight, which
is a short list: scores are lines in w, and only those on their upper envelope can win.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.method import MARC
from marc.replay.lifetimes import History
from marc.replay.weights import winning_segments
from marc.report.queries import (
    LOW_MARGIN,
    Explored,
    Sorted,
    explored,
    low_margin,
    outcomes,
)
from marc.report.setting import Subject
from marc.results.remembered import Remembered, readable
from marc.scores import Float, Int, kernel
from marc.stream import Stream
from marc.types import WEIGHTS

_NEAREST = 8
"""Stored entries that are shown beside a query, and by which neighbours are compared."""
_HUB = 3.0
"""An entry is called a hub when it is read this many times as often as equal chances would give."""
_HUB_READS = 10
"""... and at least this often: three reads instead of one are no hub."""
_HUBS_MET = 2
"""A query is listed under hubs when this many of its nearest entries are hubs."""
_LEADING = 5  # classes listed for their base score alone, and for their evidence alone
_NEARLY = 1e-9  # scores this close to the winner's, relatively, may win by rounding
_EXPLANATION = (
    "Neighbour disagreement is the share of nearest entries whose pseudo-labels the two spaces "
    "do not share. Low margin: the best two sums are among the closest "
    f"{100 * LOW_MARGIN:.0f} % of the stream. Hubs: at least {_HUBS_MET} of the nearest entries "
    f"are read {_HUB:.0f} times as often as equal chances would give. "
    "A vote is alpha exp(−beta (1 − similarity)); the evidence L of a class is the sum of the "
    "votes of all its entries, shown or not. Bars start at the lowest base score of any class, "
    "which changes no answer; equal sums go to the lower class; ✓ marks the true class, where it "
    "is known."
)
"""What the filters and the numbers beside them mean."""


def explore(subject: Subject, limit: int) -> Explored:
    """Choose at most `limit` queries of the first order, and read the memory again for them."""
    views, spaces = _look(subject), "” and in “".join(subject.shown_spaces)
    return explored(
        subject,
        views,
        limit,
        lambda rows: _queries(subject, views, rows),
        introduction="An image is answered with what was stored before it. Here is what the memory "
        f"held at that moment, read in “{spaces}”: the nearest stored entries, what each of them "
        "votes, and what the votes do to the predictor’s scores.",
        rest=f"whose {_NEAREST} nearest entries disagree most",
        explanation=_EXPLANATION,
        data={
            "weight": subject.weight,
            "stops": _weight_stops(subject.weight),
            "spaces": subject.shown_spaces,
        },
    )


@dataclass(frozen=True)
class _Views(Sorted):
    """Every image beside the entries that it read."""

    nearest: Mapping[str, Int]
    """By space: rows of the nearest entries, (N, n)."""
    hubs: Mapping[str, NDArray[np.bool_]]
    """By space: which entries are hubs."""


def _look(subject: Subject) -> _Views:
    """Sort every image by what its neighbours say and by what the memory did to its answer."""
    spaces = subject.shown_spaces
    memory, nearest = Remembered(subject.stream, subject.history), {}
    for space in spaces:
        nearest[space] = memory.nearest(space, subject.history.time, _NEAREST)[0]
    hubs = {}
    for space, rows in nearest.items():
        reads = np.bincount(rows[rows >= 0], minlength=len(rows))
        hubs[space] = (_hub_ratio(rows, subject.history) >= _HUB) & (reads >= _HUB_READS)
    first, last = nearest[spaces[0]], nearest[spaces[-1]]
    label = np.empty(len(first), dtype=np.int64)
    label[subject.trajectory.order] = subject.trajectory.label
    margin = subject.answers[subject.method.space].margin
    kinds = {
        **outcomes(subject),
        "low margin": low_margin(margin),
        "hubs": (hubs[subject.method.space][first] & (first >= 0)).sum(axis=1) >= _HUBS_MET,
    }
    changed = subject.prediction != subject.base_prediction
    disagreement, time = _disagreement(first, last, label), subject.history.time
    return _Views(disagreement, kinds, changed, time, nearest, hubs)


def _contenders(constant: Float, slope: Float, segments: list[tuple[float, int]]) -> set[int]:
    """Classes that can be the answer at some w >= 0, those that only touch the winner included.

    A line that stays below the envelope at each of its corners, and is no steeper than its last
    piece, stays below it everywhere.
    """
    found = {winner for _, winner in segments}
    for weight, winner in segments:
        scores = constant + weight * slope
        margin = _NEARLY * max(1.0, float(np.abs(scores).max()))
        found |= set(np.flatnonzero(scores >= scores[winner] - margin).tolist())
    return found


def _queries(subject: Subject, views: _Views, rows: Int) -> list[dict[str, Any]]:
    at = subject.method, subject.stream, subject.history, rows
    reads = {space: _read_queries(space, *at) for space in subject.shown_spaces}
    return [_query(subject, views, reads, int(row), place) for place, row in enumerate(rows)]


def _query(
    subject: Subject, views: _Views, reads: Mapping[str, _Read], row: int, place: int
) -> dict[str, Any]:
    constant = subject.fusion.constant[row].astype(np.float64)
    slopes = {s: read.evidence[place] * subject.fusion.scale[row] for s, read in reads.items()}
    segments = {space: winning_segments(constant, slope) for space, slope in slopes.items()}
    listed = set(np.argsort(-constant, kind="stable")[:_LEADING].tolist())
    listed |= set() if subject.labels is None else {int(subject.labels[row])}
    for space, slope in slopes.items():
        listed |= set(np.argsort(-slope, kind="stable")[:_LEADING].tolist())
        listed |= _contenders(constant, slope, segments[space])
    classes = sorted(listed)  # ascending, so that the first best is the lowest class
    first = next(iter(reads.values()))
    return {
        "row": row,
        "time": int(subject.history.time[row]),
        "truth": None if subject.labels is None else int(subject.labels[row]),
        "base": int(subject.base_prediction[row]),
        "adapted": int(subject.prediction[row]),
        "disagreement": round(float(views.disagreement[row]), 3),
        "kinds": [name for name, mask in views.kinds.items() if mask[row]],
        "held": int(np.isfinite(first.similarity[place]).sum()),
        "floor": float(constant.min()),
        "classes": classes,
        "constant": constant[classes].tolist(),
        "slopes": [slope[classes].tolist() for slope in slopes.values()],
        "segments": [[[w, c] for w, c in ends] for ends in segments.values()],
        "entries": [_entries(subject, views, space, reads[space], row, place) for space in reads],
    }


def _entries(
    subject: Subject, views: _Views, space: str, read: _Read, row: int, place: int
) -> list[dict[str, Any]]:
    """The nearest entries of one query, nearest first."""
    entries = []
    for item in views.nearest[space][row].tolist():
        if item < 0:
            continue
        time, column = int(subject.history.time[item]), read.column[item]
        entries.append(
            {
                "row": item,
                "label": int(subject.trajectory.label[time]),
                "truth": None if subject.labels is None else int(subject.labels[item]),
                "similarity": round(float(read.similarity[place, column]), 4),
                "vote": round(float(read.vote[place, column]), 4),
                "time": time,
                "hub": bool(views.hubs[space][item]),
            }
        )
    return entries


def _disagreement(first: Int, second: Int, label: Int) -> NDArray[np.float64]:
    """Share of nearest entries whose pseudo-labels the two spaces do not share, (N,) in [0, 1].

    The entries of each query, (N, n), are compared as bags of labels; `label` is by stored row. A
    query before which nothing was stored has 0.
    """
    ours, theirs = (np.where(rows >= 0, label[rows], -1) for rows in (first, second))
    same = ours[:, :, np.newaxis] == ours[:, np.newaxis, :]
    earlier = np.tril(same, -1).sum(axis=-1)  # how often the label came before in our own bag
    shared = (ours[:, :, np.newaxis] == theirs[:, np.newaxis, :]).sum(axis=-1) > earlier
    held = (ours >= 0).sum(axis=-1)
    return 1 - (shared & (ours >= 0)).sum(axis=-1) / np.maximum(held, 1) - (held == 0)


def _hub_ratio(nearest: Int, history: History) -> NDArray[np.float64]:
    """How often an entry was among the nearest, over what equal chances would give, (N,).

    An entry that stays longer is read more often, so a query that reads m entries owes each of
    them n / m. Entries that were never among the nearest have 0.
    """
    counts = np.bincount(nearest[nearest >= 0], minlength=len(nearest))
    n_queries = len(history.time)
    size = np.zeros(n_queries + 1)
    np.add.at(size, np.minimum(history.arrivals + 1, n_queries), 1)
    np.add.at(size, np.minimum(history.last[-1] + 1, n_queries), -1)
    size = np.cumsum(size)[:n_queries]  # entries that the query at each position reads
    owed = np.minimum(nearest.shape[1], size) / np.maximum(size, 1)
    total = np.concatenate([[0.0], np.cumsum(owed)])
    expected = np.zeros(len(nearest))
    ends = np.minimum(history.last[-1] + 1, n_queries)
    expected[history.items] = total[ends] - total[np.minimum(history.arrivals + 1, n_queries)]
    return np.divide(counts, expected, out=np.zeros(len(nearest)), where=expected > 0)


@dataclass(frozen=True)
class _Read:
    """What some queries read in one space."""

    evidence: NDArray[np.float64]
    """L of equation 3, (queries, C)."""
    similarity: NDArray[np.float32]
    """Cosine to every item of the history, (queries, items); -inf where it was not held."""
    vote: NDArray[np.float64]
    """alpha phi_beta of the same: its share of the evidence, 0 where it was not held."""
    column: Int
    """Where each stored row is among the items, (N,); -1 for those never held."""


def _read_queries(
    space: str, method: MARC, stream: Stream, history: History, queries: Int
) -> _Read:
    """The evidence of some queries and where it came from, as `Memory.read` sums it."""
    keys = stream.features.keys(space)
    held = readable(history, history.time[queries])
    similarity = keys[queries] @ keys[history.items].T
    vote = np.where(held, method.alpha * kernel(similarity, method.beta).astype(np.float64), 0.0)
    labels = np.repeat(np.arange(stream.n_classes), np.diff(history.starts))
    evidence = np.zeros((len(queries), stream.n_classes))
    for place, row in enumerate(vote):
        evidence[place] = np.bincount(labels, row, minlength=stream.n_classes)
    similarity[~held] = -np.inf
    column = np.full(len(keys), -1)
    column[history.items] = np.arange(len(history.items))
    return _Read(evidence, similarity, vote, column)


def _weight_stops(weight: float) -> list[float]:
    """Where the slider stops: 0, then evenly in ratio, with the usual weights and this one."""
    top = max(100.0, 10 ** np.ceil(np.log10(max(weight, 1.0))))
    even = np.geomspace(0.1, top, round(30 * np.log10(top / 0.1)) + 1)
    rounded = {float(f"{stop:.3g}") for stop in even}
    return sorted({0.0, *rounded, *WEIGHTS, weight})
