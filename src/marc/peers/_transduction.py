"""What StatA and TransCLIP share: a graph of near images, and labels that spread along it.

Both alternate between the labels of a batch and one Gaussian for each class. They differ in the
Gaussians alone: how these start, and what holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from marc.peers._arrays import distinct_rows, gather
from marc.scores import Float, Int, softmax
from marc.types import Query, Step

if TYPE_CHECKING:
    from scipy.sparse import csr_array

GAUSSIAN_WEIGHT = 1 / 50
"""How much a log-likelihood counts beside a logit: read off the released outputs, in which it is
the same for 33 to 2,533 images and 10 to 100 classes. All have D = 1,280."""
LEAST_VARIANCE = 1e-10
"""Below every variance of real features; the released codes divide by 0 where all are copies."""
SELF_RULES = ("first_hit", "itself")

_Scores = Callable[[Float], NDArray[np.float64]]
"""The weighted log-likelihoods (N, C) of the Gaussians that labels (N, C) make."""
_ROWS = 1024  # images whose similarities are held at a time


def answer_together(
    queries: Sequence[Query],
    start: Callable[[Float, Float, Float], tuple[NDArray[np.float64], _Scores]],
    *,
    n_neighbors: int,
    self_rule: str,
    text_weight: float,
    neighbor_weight: float,
    rounds: int,
    inner_rounds: int,
) -> list[Step]:
    """Answers of a batch: softmax(text_weight x logits + Gaussians + neighbour_weight x W z).

    `start(features, labels, prototypes)` gives the first scores of the Gaussians, and a function
    from the labels of a round to the scores of the next. After the last, labels spread again.
    """
    if not len(queries):
        return []
    batch = gather(queries)
    base = text_weight * batch.logits.astype(np.float64)
    graph = neighbor_weight * _neighbor_graph(batch.keys, n_neighbors, self_rule)
    labels = softmax(batch.logits)
    features = batch.keys.astype(np.float64)
    scores, fitted = start(features, labels, batch.predictor.prototypes)
    for left in range(rounds, -1, -1):
        fixed = base + scores
        for _ in range(inner_rounds):
            spread = graph @ labels
            labels = softmax(fixed + spread)
        if left:
            scores = fitted(labels)
    offered = batch.logits.argmax(axis=1)
    return [
        Step(
            item,
            batch.logits[row],
            {"gaussians": scores[row], "neighbors": spread[row]},
            {"gaussians": 1.0, "neighbors": 1.0},
            int(offered[row]),
            0.0,
            base_weight=text_weight,
        )
        for row, item in enumerate(batch.items)
    ]


def _neighbor_graph(keys: Float, n_neighbors: int, self_rule: str) -> csr_array:
    """W = (A + A^T) / (2 k): A (N, N) holds the cosines above 0 of each image to its k nearest.

    Rule `itself` leaves each image out of its own neighbours. Rule `first_hit` drops the nearest
    hit, whoever it is: a copy of an earlier image then counts itself.
    """
    from scipy.sparse import csr_array

    n_images = len(keys)
    nearest, cosines = _nearest(keys, min(n_neighbors + 1, n_images))
    drop = np.zeros(nearest.shape, dtype=bool)
    if self_rule == "itself":
        drop = nearest == np.arange(n_images)[:, np.newaxis]
        drop[~drop.any(axis=1), -1] = True  # it has so many copies that it is not among them
    else:
        drop[:, 0] = True
    kept = ~drop
    rows = np.broadcast_to(np.arange(n_images)[:, np.newaxis], nearest.shape)[kept]
    edges = np.maximum(cosines[kept], 0).astype(np.float64), (rows, nearest[kept])
    graph = csr_array(edges, shape=(n_images, n_images))
    return (graph + graph.T) / (2 * n_neighbors)


def products(rows: Float, columns: Float) -> NDArray[np.float64]:
    """`rows @ columns`, bit for bit equal for equal rows: so classes with one text stay tied."""
    first, which = distinct_rows(rows)
    if len(first) == len(rows):
        return rows @ columns
    return (rows[first] @ columns)[which]


def unit_or(rows: Float, otherwise: Float) -> NDArray[np.float64]:
    """Rows (C, D) of unit length in float64, and another row where there is none but zeros."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.where(lengths > 0, rows / np.where(lengths > 0, lengths, 1), otherwise)


def _nearest(keys: Float, n: int) -> tuple[Int, Float]:
    """The n nearest images (N, n) of each, itself among them, and their cosines.

    Equal cosines keep the lower image. Copies are compared once, so they have the same cosines.
    """
    first, which = distinct_rows(keys)
    distinct, n_each = keys[first], np.bincount(which)
    members = np.argsort(which, kind="stable")
    begins = np.cumsum(n_each) - n_each
    found, cosines = np.empty((len(first), n), dtype=np.int64), np.empty((len(first), n))
    for start in range(0, len(first), _ROWS):
        block = distinct[start : start + _ROWS] @ distinct.T
        for row, similar in enumerate(block, start):
            groups = _largest(similar, min(n, len(first)))
            images = np.concatenate([members[begins[g] : begins[g] + n_each[g]] for g in groups])
            near = np.repeat(similar[groups], n_each[groups])
            order = np.lexsort((images, -near))[:n]
            found[row], cosines[row] = images[order], near[order]
    return found[which], cosines[which]


def _largest(values: Float, n: int) -> Int:
    """Places of the n largest, and of those that equal the last of them."""
    return np.flatnonzero(values >= np.partition(values, -n)[-n])
