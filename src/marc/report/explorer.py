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
from marc.report.setting import Subject
from marc.scores import Float, Int, kernel
from marc.stream import Stream
from marc.types import WEIGHTS

_NEAREST = 8
"""Stored entries that are shown beside a query, and by which neighbours are compared."""
_WINDOW = 1024  # queries of one block of similarities
_HUB = 3.0
"""An entry is called a hub when it is read this many times as often as equal chances would give."""
_HUB_READS = 10
"""... and at least this often: three reads instead of one are no hub."""
_HUBS_MET = 2
"""A query is listed under hubs when this many of its nearest entries are hubs."""
_LOW_MARGIN = 0.1
"""Fraction of the stream whose margin is called low."""
_LEADING = 5  # classes listed for their base score alone, and for their evidence alone
_SAMPLES = 8  # images of each kind among the samples
_NEARLY = 1e-9  # scores this close to the winner's, relatively, may win by rounding
_EXPLANATION = (
    "Neighbour disagreement is the share of nearest entries whose pseudo-labels the two spaces "
    f"do not share. Low margin: the best two sums are among the closest {_LOW_MARGIN:.0%} of "
    f"the stream. Hubs: at least {_HUBS_MET} of the nearest entries are read {_HUB:.0f} times as "
    "often as equal chances would give. A vote is alpha exp(−beta (1 − similarity)); the "
    "evidence L of a class is the sum of the votes of all its entries, shown or not. Bars "
    "start at the lowest base score of any class, which changes no answer; equal sums go to "
    "the lower class; ✓ marks the true class, where it is known."
)
"""What the filters and the numbers beside them mean."""


@dataclass(frozen=True)
class _Explored:
    """Everything about single images that a page shows, as plain data."""

    samples: dict[str, Int]
    """By what the memory did to the answer: rows of a few images."""
    totals: dict[str, int]
    """How many images each of these has."""
    kinds: dict[str, str]
    """By name of a filter: how many images it lets through are listed, and of how many."""
    queries: list[dict[str, Any]]
    stops: list[float]
    """Where the slider of weights stops."""
    rule: str
    """How the queries were chosen, in words."""
    explanation: str = _EXPLANATION

    @property
    def rows(self) -> list[int]:
        """Rows whose picture or id the page shows, each once."""
        rows = dict.fromkeys(int(row) for group in self.samples.values() for row in group)
        for query in self.queries:
            rows[query["row"]] = None
            for entries in query["entries"]:
                rows |= dict.fromkeys(entry["row"] for entry in entries)
        return list(rows)


def explore(subject: Subject, limit: int) -> _Explored:
    """Choose at most `limit` queries of the first order, and read the memory again for them."""
    views, outcomes = _look(subject), _all_outcomes(subject)
    samples, time = _sample_images(subject), subject.history.time
    rows = _choose_queries(views, samples, time, limit)
    masks = {"all": np.ones(len(time), dtype=bool), **views.kinds}
    rule = "Every image of the stream is listed, the most disagreeing first."
    if len(time) > limit:
        rule = (
            f"{limit} of {len(time):,} images are listed: the samples above, a share for each "
            f"filter, and for the rest those whose {_NEAREST} nearest entries disagree most."
        )
    return _Explored(
        samples,
        {kind: int(mask.sum()) for kind, mask in outcomes.items()},
        {kind: _listed_of(mask, rows) for kind, mask in masks.items()},
        _queries(subject, views, rows),
        _weight_stops(subject.weight),
        rule,
    )


def _listed_of(mask: NDArray[np.bool_], rows: Int) -> str:
    """How many images of a kind the explorer lists, and of how many."""
    listed, total = int(mask[rows].sum()), int(mask.sum())
    return f"{listed:,}" if listed == total else f"{listed:,} of {total:,}"


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

    def ranked(self, mask: NDArray[np.bool_], time: Int) -> Int:
        """Rows of a mask: most disagreeing first, then changed answers, in stream order."""
        rows = np.flatnonzero(mask)
        keys = time[rows], ~self.changed[rows], -self.disagreement[rows]
        return rows[np.lexsort(keys)]


def _look(subject: Subject) -> _Views:
    """Sort every image by what its neighbours say and by what the memory did to its answer."""
    keys, spaces = subject.inputs.stream.features.keys, subject.shown_spaces
    nearest = {space: _nearest_entries(keys(space), subject.history) for space in spaces}
    hubs = {}
    for space, rows in nearest.items():
        reads = np.bincount(rows[rows >= 0], minlength=len(rows))
        hubs[space] = (_hub_ratio(rows, subject.history) >= _HUB) & (reads >= _HUB_READS)
    first, last = nearest[spaces[0]], nearest[spaces[-1]]
    label = np.empty(len(first), dtype=np.int64)
    label[subject.trajectory.order] = subject.trajectory.label
    margin = subject.answers[subject.method.space].margin
    kinds = {
        **_outcomes(subject),
        "low margin": margin <= np.quantile(margin, _LOW_MARGIN),
        "hubs": (hubs[subject.method.space][first] & (first >= 0)).sum(axis=1) >= _HUBS_MET,
    }
    changed = subject.prediction != subject.base_prediction
    return _Views(nearest, hubs, _disagreement(first, last, label), kinds, changed)


def _outcomes(subject: Subject) -> dict[str, NDArray[np.bool_]]:
    """What the memory did to each answer of the first order, as far as labels let one say."""
    before, after, truth = subject.base_prediction, subject.prediction, subject.labels
    if truth is None:
        return {"changed": before != after}
    return {
        "repaired": (before != truth) & (after == truth),
        "broken": (before == truth) & (after != truth),
    }


def _all_outcomes(subject: Subject) -> dict[str, NDArray[np.bool_]]:
    """Every image under exactly one name: what the memory did to its answer, or did not."""
    kinds = _outcomes(subject)
    rest = ~np.any(list(kinds.values()), axis=0)
    if subject.labels is None:
        kinds["unchanged"] = rest
    else:
        right = subject.prediction == subject.labels
        kinds |= {"right both times": rest & right, "wrong both times": rest & ~right}
    return kinds


def _sample_images(subject: Subject) -> dict[str, Int]:
    """A few images of each kind, spread evenly over the stream, so that nobody chose them."""
    order = subject.trajectory.order
    samples = {}
    for name, mask in _all_outcomes(subject).items():
        rows = order[mask[order]]
        positions = np.linspace(0, len(rows) - 1, min(_SAMPLES, len(rows)) + 2).round()[1:-1]
        samples[name] = rows[np.unique(positions.astype(int))]
    return samples


def _choose_queries(views: _Views, samples: Mapping[str, Int], time: Int, limit: int) -> Int:
    """At most `limit` rows: the samples, a share for each filter, then the most disagreeing."""
    ranked = views.ranked(np.ones(len(time), dtype=bool), time)
    chosen = dict.fromkeys(int(row) for rows in samples.values() for row in rows[:limit])
    share = max(1, limit // (2 * len(views.kinds)))
    for mask in views.kinds.values():
        chosen |= dict.fromkeys(views.ranked(mask, time)[:share].tolist())
    chosen |= dict.fromkeys(ranked.tolist())
    listed = np.zeros(len(time), dtype=bool)
    listed[list(chosen)[:limit]] = True
    return views.ranked(listed, time)


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


def _nearest_entries(keys: NDArray[np.float32], history: History, n: int = _NEAREST) -> Int:
    """Rows of the `n` nearest readable entries of every query, (N, n) by stored row.

    Nearest first; equal similarities keep the lower row, as `Memory.neighbors` does. -1 where the
    memory held fewer.
    """
    nearest = np.full((len(keys), n), -1)
    by_time = np.argsort(history.time)
    for start in range(0, len(by_time), _WINDOW):
        alive = history.between(start, start + _WINDOW)
        queries = by_time[start : start + _WINDOW]
        if len(alive.items):
            similarity = keys[queries] @ keys[alive.items].T
            similarity[~_readable(alive, queries)] = -np.inf
            nearest[queries] = _top(similarity, alive.items, n)
    return nearest


def _readable(history: History, queries: Int) -> NDArray[np.bool_]:
    """Which listed items each query can read, (queries, items), at the largest capacity."""
    times = history.time[queries][:, np.newaxis]
    return (history.arrivals < times) & (times <= history.last[-1])


def _top(similarity: Float, items: Int, n: int) -> Int:
    """Items of the n largest finite values of each row, ties to the lower item; -1 for none."""
    top = np.full((len(similarity), n), -1)
    last = min(n, similarity.shape[1]) - 1
    bound = -np.partition(-similarity, last, axis=1)[:, last]
    rows, columns = np.nonzero((similarity >= bound[:, np.newaxis]) & np.isfinite(similarity))
    order = np.lexsort((items[columns], -similarity[rows, columns], rows))
    rows, columns = rows[order], columns[order]
    place = np.arange(len(rows)) - np.searchsorted(rows, rows)
    kept = place < n
    top[rows[kept], place[kept]] = items[columns[kept]]
    return top


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
    held = _readable(history, queries)
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
