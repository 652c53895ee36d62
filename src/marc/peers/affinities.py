"""What the images of a batch say of each other: affinities W (N, N), and their spreading."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marc.peers._arrays import distinct_rows
from marc.scores import Float, Int, softmax

AFFINITIES = ("knn", "linear", "rbf")
SELF_RULES = ("first_hit", "itself")


def _similarities(keys: Float) -> NDArray[np.float64]:
    """Inner products (N, N) in float64, symmetric, and bit for bit equal for equal images."""
    first, place = distinct_rows(keys)
    rows = keys[first].astype(np.float64)
    return (rows @ rows.T)[np.ix_(place, place)]


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


def affinity_of(
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


def spread(scores: Float, affinity: Float, max_steps: int) -> NDArray[np.float64]:
    """W Y (N, C) of the last round of Y <- softmax(scores + W Y): softmax of the sum is the last Y.

    The released rule stops when sum(U Y - (W Y') Y + Y ln Y) hardly changes, where Y' is the Y
    before. With Y = softmax(-U + W Y') this is minus the sum of the logarithms of what the softmax
    divides by, so it costs nothing here. Classes with the same scores are spread once: they tie.
    """
    scores = np.asarray(scores, dtype=np.float64)
    first, place = distinct_rows(scores.T)
    posteriors, before = softmax(scores), np.inf
    for step in range(max_steps):
        if len(first) < len(place):
            evidence = (affinity @ posteriors[:, first])[:, place]
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
