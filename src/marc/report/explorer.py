"""The query explorer as data: which queries, what they read in two spaces, and lines in w.

The page fuses again for any weight. It must then know every class that wins at some weight, which
is a short list: scores are lines in w, and only those on their upper envelope can win.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.replay.weights import winning_segments
from marc.report.memory_view import (
    NEAREST,
    Read,
    disagreement,
    hub_ratio,
    nearest_entries,
    read_queries,
)
from marc.report.setting import Subject
from marc.scores import Float, Int
from marc.types import WEIGHTS

HUB = 3.0
"""An entry is called a hub when it is read this many times as often as equal chances would give."""
_HUB_READS = 10
"""... and at least this often: three reads instead of one are no hub."""
HUBS_MET = 2
"""A query is listed under hubs when this many of its nearest entries are hubs."""
LOW_MARGIN = 0.1
"""Share of the stream whose margin is called low."""
_LEADING = 5  # classes listed for their base score alone, and for their evidence alone
_SAMPLES = 8  # images of each kind among the samples
_NEARLY = 1e-9  # scores this close to the winner's, relatively, may win by rounding


@dataclass(frozen=True)
class _Views:
    """Every image of the first order as the explorer sorts it; arrays are by stored row (N,)."""

    nearest: Mapping[str, Int]
    """By space: rows of the nearest entries, (N, n)."""
    hubs: Mapping[str, NDArray[np.bool_]]
    """By space: which entries are hubs."""
    disagreement: NDArray[np.float64]
    kinds: Mapping[str, NDArray[np.bool_]]
    """By name of a filter: which queries it lets through."""

    changed: NDArray[np.bool_]
    """Whether the memory changed the answer."""

    def ranked(self, wanted: NDArray[np.bool_], time: Int) -> Int:
        """Rows that are wanted: most disagreeing first, then changed answers, in stream order."""
        rows = np.flatnonzero(wanted)
        keys = time[rows], ~self.changed[rows], -self.disagreement[rows]
        return rows[np.lexsort(keys)]


def look(subject: Subject) -> _Views:
    """Sort every image by what its neighbours say and by what the memory did to its answer."""
    nearest = {
        space: nearest_entries(subject.inputs.stream.features.keys(space), subject.history)
        for space in subject.shown_spaces
    }
    hubs = {}
    for space, rows in nearest.items():
        reads = np.bincount(rows[rows >= 0], minlength=len(rows))
        hubs[space] = (hub_ratio(rows, subject.history) >= HUB) & (reads >= _HUB_READS)
    first, last = nearest[subject.shown_spaces[0]], nearest[subject.shown_spaces[-1]]
    label = np.empty(len(first), dtype=np.int64)
    label[subject.trajectory.order] = subject.trajectory.label
    margin = subject.answers[subject.method.space].margin
    kinds = {
        **outcomes(subject),
        "low margin": margin <= np.quantile(margin, LOW_MARGIN),
        "hubs": (hubs[subject.method.space][first] & (first >= 0)).sum(axis=1) >= HUBS_MET,
    }
    changed = subject.prediction != subject.base_prediction
    return _Views(nearest, hubs, disagreement(first, last, label), kinds, changed)


def outcomes(subject: Subject) -> dict[str, NDArray[np.bool_]]:
    """What the memory did to each answer of the first order, as far as labels let one say."""
    before, after, truth = subject.base_prediction, subject.prediction, subject.labels
    if truth is None:
        return {"changed": before != after}
    return {
        "repaired": (before != truth) & (after == truth),
        "broken": (before == truth) & (after != truth),
    }


def all_outcomes(subject: Subject) -> dict[str, NDArray[np.bool_]]:
    """Every image under exactly one name: what the memory did to its answer, or did not."""
    kinds = outcomes(subject)
    rest = ~np.any(list(kinds.values()), axis=0)
    if subject.labels is None:
        kinds["unchanged"] = rest
    else:
        right = subject.prediction == subject.labels
        kinds |= {"right both times": rest & right, "wrong both times": rest & ~right}
    return kinds


def sample_images(subject: Subject) -> dict[str, Int]:
    """A few images of each kind, spread evenly over the stream, so that nobody chose them."""
    order = subject.trajectory.order
    samples = {}
    for name, wanted in all_outcomes(subject).items():
        rows = order[wanted[order]]
        places = np.linspace(0, len(rows) - 1, min(_SAMPLES, len(rows)) + 2).round()[1:-1]
        samples[name] = rows[np.unique(places.astype(int))]
    return samples


def choose_queries(views: _Views, samples: Mapping[str, Int], time: Int, limit: int) -> Int:
    """At most `limit` rows: the samples, a share for each filter, then the most disagreeing."""
    everything = views.ranked(np.ones(len(time), dtype=bool), time)
    chosen = dict.fromkeys(int(row) for rows in samples.values() for row in rows[:limit])
    share = max(1, limit // (2 * len(views.kinds)))
    for wanted in views.kinds.values():
        chosen |= dict.fromkeys(views.ranked(wanted, time)[:share].tolist())
    chosen |= dict.fromkeys(everything.tolist())
    kept = np.zeros(len(time), dtype=bool)
    kept[list(chosen)[:limit]] = True
    return views.ranked(kept, time)


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


def explore(subject: Subject, views: _Views, rows: Int) -> list[dict[str, Any]]:
    """Everything the page shows of some queries, as plain data."""
    reads = {
        space: read_queries(space, subject.method, subject.stream, subject.history, rows)
        for space in subject.shown_spaces
    }
    return [_query(subject, views, reads, int(row), place) for place, row in enumerate(rows)]


def _query(
    subject: Subject, views: _Views, reads: Mapping[str, Read], row: int, place: int
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
        "kinds": [name for name, wanted in views.kinds.items() if wanted[row]],
        "held": int(np.isfinite(first.similarity[place]).sum()),
        "floor": float(constant.min()),
        "classes": classes,
        "constant": constant[classes].tolist(),
        "slopes": [slope[classes].tolist() for slope in slopes.values()],
        "segments": [[[w, c] for w, c in ends] for ends in segments.values()],
        "entries": [_entries(subject, views, space, reads[space], row, place) for space in reads],
    }


def _entries(
    subject: Subject, views: _Views, space: str, read: Read, row: int, place: int
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


def weight_stops(weight: float) -> list[float]:
    """Where the slider stops: 0, then evenly in ratio, with the usual weights and this one."""
    top = max(100.0, 10 ** np.ceil(np.log10(max(weight, 1.0))))
    even = np.geomspace(0.1, top, round(30 * np.log10(top / 0.1)) + 1)
    rounded = {float(f"{stop:.3g}") for stop in even}
    return sorted({0.0, *rounded, *WEIGHTS, weight})


def rule(limit: int, n_images: int) -> str:
    """How the queries were chosen, in words."""
    if n_images <= limit:
        return "Every image of the stream is listed, the most disagreeing first."
    return (
        f"{limit} of {n_images:,} images are listed: the samples above, a share for each filter, "
        f"and for the rest those whose {NEAREST} nearest entries disagree most."
    )
