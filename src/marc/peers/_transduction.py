"""What StatA and TransCLIP share: a graph of near images, and labels that spread along it.

Both alternate between the labels of a batch and one Gaussian for each class. They differ in the
Gaussians alone: how these start, and what holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from marc.errors import integer, number, one_of
from marc.memory import Resumable
from marc.peers._arrays import Batch, distinct_rows, gather
from marc.peers._image_search import Images
from marc.scores import Float, softmax
from marc.types import Query, Step

if TYPE_CHECKING:
    from scipy.sparse import csr_array

GAUSSIAN_WEIGHT = 1 / 50
"""How much a log-likelihood counts beside a logit: read off the released outputs, in which it is
the same for 33 to 2,533 images and 10 to 100 classes. All have D = 1,280."""
LEAST_VARIANCE = 1e-10
"""Below every variance of real features; the released codes divide by 0 where all are copies."""

_SELF_RULES = ("first_hit", "itself")
_MOST_ROUNDS = 10_000
_Scores = Callable[[Float], NDArray[np.float64]]
"""The weighted log-likelihoods (N, C) of the Gaussians that labels (N, C) make."""
_Start = Callable[[Float, Float, Float], tuple[NDArray[np.float64], _Scores]]


@dataclass(eq=False)
class Transduction(Resumable):
    """Settings of both."""

    n_neighbors: int = 3
    text_weight: float = 1.0
    """lambda_y of StatA, lambda of TransCLIP: how much the zero-shot logits count."""
    neighbor_weight: float = field(default=1.0, init=False)
    """How much the labels of near images count: a setting of StatA alone."""
    batch_size: int | None = None
    """Images that are answered together; None is the whole stream."""
    rounds: int = 10
    inner_rounds: int = 5
    """How often labels spread in each round."""
    self_rule: str = "itself"
    """Whose hit is no neighbour: the image `itself`, or as released the `first_hit`."""

    def __post_init__(self) -> None:
        self.n_neighbors = integer("n_neighbors", self.n_neighbors, 1)
        self.text_weight = number("text_weight", self.text_weight)
        self.neighbor_weight = number("neighbor_weight", self.neighbor_weight)
        if self.batch_size is not None:
            self.batch_size = integer("batch_size", self.batch_size, 1)
        self.rounds = integer("rounds", self.rounds, 0, _MOST_ROUNDS)
        self.inner_rounds = integer("inner_rounds", self.inner_rounds, 1, _MOST_ROUNDS)
        one_of("self rule", self.self_rule, _SELF_RULES)


def answer_together(queries: Sequence[Query], settings: Transduction, start: _Start) -> list[Step]:
    """Answers of a batch: softmax(text_weight x logits + Gaussians + neighbour_weight x W z).

    `start(features, labels, prototypes)` gives the first scores of the Gaussians, and a function
    from the labels of a round to the scores of the next. After the last, labels spread again.
    """
    if not len(queries):
        return []
    batch = gather(queries)
    gaussians, spread = _alternated(batch, settings, start)
    offered = batch.logits.argmax(axis=1)
    return [
        Step(
            item,
            batch.logits[row],
            {"gaussians": gaussians[row], "neighbors": spread[row]},
            {"gaussians": 1.0, "neighbors": 1.0},
            int(offered[row]),
            0.0,
            base_weight=settings.text_weight,
        )
        for row, item in enumerate(batch.items)
    ]


def _alternated(
    batch: Batch, settings: Transduction, start: _Start
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the Gaussians and the neighbours say in the end, (N, C) each."""
    base = settings.text_weight * batch.logits.astype(np.float64)
    graph = _neighbor_graph(batch.keys, settings.n_neighbors, settings.self_rule)
    graph = settings.neighbor_weight * graph
    labels = softmax(batch.logits)
    scores, fitted = start(batch.keys.astype(np.float64), labels, batch.predictor.prototypes)
    for left in range(settings.rounds, -1, -1):
        fixed = base + scores
        for _ in range(settings.inner_rounds):
            spread = graph @ labels
            labels = softmax(fixed + spread)
        if left:
            scores = fitted(labels)
    return scores, spread


def _neighbor_graph(keys: Float, n_neighbors: int, self_rule: str) -> csr_array:
    """W = (A + A^T) / (2 k): A (N, N) holds the cosines above 0 of each image to its k nearest.

    Rule `itself` leaves each image out of its own neighbours. Rule `first_hit` drops the nearest
    hit, whoever it is: a copy of an earlier image then counts itself.
    """
    from scipy.sparse import csr_array

    n_images = len(keys)
    nearest, cosines = Images(keys).nearest_to_each(min(n_neighbors + 1, n_images))
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
