"""What the memory held when each image was answered, and how it was read in one space.

An entry is readable from the arrival after its own until the one that pushes it out, so what any
query saw follows from the lifetimes; nothing is run again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from marc.loop import iter_steps
from marc.method import MARC
from marc.replay.evidence import KernelValues, read_all
from marc.replay.lifetimes import History
from marc.scores import Float, Int, fuse, kernel
from marc.stream import Stream

NEAREST = 8
"""Stored entries that are shown beside a query, and by which neighbours are compared."""
_WINDOW = 1024  # queries of one block of similarities


@dataclass(frozen=True)
class Fusion:
    """Scores as lines in w: score(w) = constant + w x scale x evidence, by stored row."""

    constant: NDArray[np.floating]
    """What does not depend on w, (N, C): base logits, and other evidence where a method has it."""
    scale: NDArray[np.float64]
    """1, or the image's own factor in adaptive fusion, (N,)."""


def fusion_of(method: MARC, stream: Stream) -> Fusion:
    """The lines of a method's scores; `stream` is in the order that was run."""
    base = stream.features.base
    scale = np.ones(len(base.label))
    if method.gamma:
        weights = method.fusion_weights(base, stream.n_classes, 1.0)
        scale = np.asarray(weights["retrieval"], dtype=np.float64)
    if not (method.clip_weight or method.negative_weight):
        return Fusion(base.logits * np.float32(method.use_base), scale)
    # rare, and only the loop has the evidence of every memory in its public results
    constant = np.empty(base.logits.shape)
    for step in iter_steps(replace(method), stream):
        total = step.base_weight * step.base.astype(np.float64)
        for name in step.evidence.keys() - {"retrieval"}:
            total += step.weights[name] * step.evidence[name]
        constant[step.item] = total
    return Fusion(constant, scale)


@dataclass(frozen=True)
class Answers:
    """Fused answers of all images in one space, by stored row (N,)."""

    prediction: Int
    margin: NDArray[np.float64]
    """Best fused score minus the second best."""


def answer_all(
    space: str, method: MARC, weight: float, stream: Stream, history: History, lines: Fusion
) -> Answers:
    """Answers at one weight when the memory is read in `space`."""
    keys = stream.features.keys(space)
    prediction = np.empty(len(keys), dtype=np.int64)
    margin = np.empty(len(keys))

    def answer(order: int, items: Int, sums: NDArray[np.float32]) -> None:
        del order
        factor = (weight * lines.scale[items])[:, np.newaxis]
        logits = fuse(lines.constant[items], sums[0].T, factor)
        prediction[items] = logits.argmax(axis=-1)
        best = np.partition(logits, -2, axis=-1)
        margin[items] = best[:, -1] - best[:, -2]

    read_all(KernelValues(keys, method.alpha, method.beta), [history], answer)
    return Answers(prediction, margin)


def nearest_entries(keys: NDArray[np.float32], history: History, n: int = NEAREST) -> Int:
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


def disagreement(first: Int, second: Int, label: Int) -> NDArray[np.float64]:
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


def hub_ratio(nearest: Int, history: History) -> NDArray[np.float64]:
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
class Read:
    """What some queries read in one space."""

    evidence: NDArray[np.float64]
    """L of equation 3, (queries, C)."""
    similarity: NDArray[np.float32]
    """Cosine to every item of the history, (queries, items); -inf where it was not held."""
    vote: NDArray[np.float64]
    """alpha phi_beta of the same: its share of the evidence, 0 where it was not held."""
    column: Int
    """Where each stored row is among the items, (N,); -1 for those never held."""


def read_queries(space: str, method: MARC, stream: Stream, history: History, queries: Int) -> Read:
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
    return Read(evidence, similarity, vote, column)
