"""LAME: the posteriors of a batch are pulled together where images are alike.

Nothing is learnt and nothing is kept: each batch is answered on its own. The answer of an image
is its zero-shot log-posterior plus the posteriors of the images it is close to, repeated until it
settles. The affinity may be built in any retrieval space, which makes this a test of geometry.

It was designed for streams whose neighbours in time share a class. On a shuffled stream it often
hurts, and the `rbf` affinity collapses: it adds nearly the same class counts to every image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, check_space_name, integer, one_of, switch
from marc.memory import Resumable
from marc.peers._arrays import distinct_rows, gather
from marc.scores import Float, Int, softmax
from marc.types import Query, Step

_AFFINITIES = ("knn", "linear", "rbf")
_MOST_STEPS = 100_000
_SELF_RULES = ("first_hit", "itself")


@dataclass(eq=False)
class LAME(Resumable):
    """Laplacian adjusted maximum-likelihood estimation of one batch at a time.

    >>> LAME(space="dinov2-b").config()["affinity"]
    'knn'
    """

    name: ClassVar[str] = "lame"

    space: str = "predictor"
    """Where images are compared; `predictor` is the predictor's own space, as published."""
    affinity: str = "knn"
    """`knn`, `rbf` (the released default) or `linear`."""
    n_neighbors: int = 5
    """k: neighbours of `knn`, or the neighbour whose distance sets the width of `rbf`."""
    batch_size: int = 64
    """Images that are answered together; the released default is 16."""
    symmetric: bool = False
    """Whether W is replaced by (W + W^T) / 2."""
    self_rule: str = "itself"
    """Who `knn` leaves out: the image `itself`, or as released the `first_hit` of the search,
    which among copies may be another image."""
    max_steps: int = 100

    def __post_init__(self) -> None:
        self.space = check_space_name(self.space)
        one_of("affinity", self.affinity, _AFFINITIES)
        one_of("self rule", self.self_rule, _SELF_RULES)
        self.n_neighbors = integer("n_neighbors", self.n_neighbors, 1)
        self.batch_size = integer("batch_size", self.batch_size, 1)
        self.max_steps = integer("max_steps", self.max_steps, 1, _MOST_STEPS)
        self.symmetric = switch("symmetric", self.symmetric)
        if self.affinity == "rbf" and self.n_neighbors == 1:
            raise MarcError(
                "the rbf affinity counts the image itself as its first neighbour, so its width is "
                "0 with one neighbour",
                got="n_neighbors 1",
                allowed="n_neighbors >= 2",
                hint="n_neighbors=5",
            )

    def step_batch(self, queries: Sequence[Query]) -> list[Step]:
        """Answer the queries of a batch together.

        `base` is -U = ln(p + 1e-10), rounded to float32 before it is used, so that the softmax of
        the step's logits is the final Y of the iteration.
        """
        if not len(queries):
            return []
        batch = gather(queries, self.space)
        base = np.log(softmax(batch.logits) + 1e-10).astype(np.float32)
        affinity = _affinity_of(
            batch.keys,
            self.affinity,
            self.n_neighbors,
            symmetric=self.symmetric,
            self_rule=self.self_rule,
        )
        evidence = _spread(base, affinity, self.max_steps)
        labels = base.argmax(axis=1)
        return [
            Step(item, base[row], {"affinity": evidence[row]}, {"affinity": 1.0}, int(label), 0.0)
            for row, (item, label) in enumerate(zip(batch.items, labels, strict=True))
        ]


def _similarities(keys: Float) -> NDArray[np.float64]:
    """Inner products (N, N) in float64, symmetric, and bit for bit equal for equal images."""
    first, which = distinct_rows(keys)
    rows = keys[first].astype(np.float64)
    return (rows @ rows.T)[np.ix_(which, which)]


def _squared_distances(products: Float) -> NDArray[np.float64]:
    """Squared Euclidean distances (N, N) from inner products, exactly 0 between equal images."""
    lengths = np.diagonal(products)
    return np.maximum(lengths[:, np.newaxis] + lengths - 2 * products, 0)


def _nearest(squared: Float, n_neighbors: int, self_rule: str = "itself") -> NDArray[np.float64]:
    """1 for the nearest others of each image, 0 elsewhere; equal distances keep the lower index.

    Rule `itself` leaves each image out of its own neighbours. Rule `first_hit` drops the nearest
    hit, whoever it is: an image with an earlier copy then counts itself and not the copy.
    """
    n_images = len(squared)
    if self_rule == "itself":
        squared = squared.copy()
        np.fill_diagonal(squared, -1)
    ranked: Int = np.argsort(squared, axis=1, kind="stable")[:, 1 : n_neighbors + 1]
    affinity = np.zeros((n_images, n_images))
    np.put_along_axis(affinity, ranked, 1.0, axis=1)
    return affinity


def _radial(squared: Float, n_neighbors: int) -> NDArray[np.float64]:
    """exp(-d^2 / (2 s^2)), where s is the mean distance to the k-th neighbour, oneself counted.

    Where s is 0 every image has copies only: the affinity is then 1 to them and 0 to others.
    """
    kth = min(n_neighbors, len(squared)) - 1
    width = np.sqrt(np.partition(squared, kth, axis=1)[:, kth]).mean()
    if not width:
        return (squared == 0).astype(np.float64)
    return np.exp(squared / (-2 * width * width))


def _affinity_of(
    keys: Float, kind: str, n_neighbors: int, *, symmetric: bool, self_rule: str
) -> NDArray[np.float64]:
    """W of a batch. One image alone has no neighbours, whatever the kind."""
    if len(keys) == 1:
        return np.zeros((1, 1))
    affinity = _similarities(keys)
    if kind == "knn":
        affinity = _nearest(_squared_distances(affinity), n_neighbors, self_rule)
    elif kind == "rbf":
        affinity = _radial(_squared_distances(affinity), n_neighbors)
    return (affinity + affinity.T) / 2 if symmetric else affinity


def _spread(scores: Float, affinity: Float, max_steps: int) -> NDArray[np.float64]:
    """W Y (N, C) of the last round of Y <- softmax(scores + W Y): softmax of the sum is the last Y.

    The released rule stops when sum(U Y - (W Y') Y + Y ln Y) hardly changes, where Y' is the Y
    before. With Y = softmax(-U + W Y') this is minus the sum of the logarithms of what the softmax
    divides by, so it costs nothing here. Classes with the same scores are spread once: they tie.
    """
    scores = np.asarray(scores, dtype=np.float64)
    first, which = distinct_rows(scores.T)
    posteriors, before = softmax(scores), np.inf
    for step in range(max_steps):
        if len(first) < len(which):
            evidence = (affinity @ posteriors[:, first])[:, which]
        else:
            evidence = affinity @ posteriors
        fused = scores + evidence
        top = fused.max(axis=1, keepdims=True)
        posteriors = np.exp(fused - top)
        total = posteriors.sum(axis=1, keepdims=True)
        posteriors /= total
        energy = -float((np.log(total) + top).sum())
        if step > 1 and abs(energy - before) <= 1e-8 * abs(before):
            break
        before = energy
    return evidence
