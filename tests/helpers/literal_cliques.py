"""Shared by tests of cliques and others."""

import numpy as np


def literal_edges(similarity, degree):
    """500 passes over all pairs with float64 middles; the last middle where none is reached."""
    size = len(similarity)
    low, high = float(similarity.min()), float(similarity.max())
    off = similarity[~np.eye(size, dtype=bool)].astype(np.float64)
    for _ in range(500):
        middle = (low + high) / 2
        average = float(np.float32((off > middle).sum() / size))
        if abs(average - degree) <= 0.01:
            break
        if average > degree:
            low = middle
        else:
            high = middle
    return (similarity.astype(np.float64) > middle) & ~np.eye(size, dtype=bool)


def literal_support(graph):
    """An edge stays if its ends share more than one neighbour."""
    around = [set(np.flatnonzero(row).tolist()) for row in graph]
    kept = np.zeros_like(graph)
    for one, other in zip(*np.nonzero(graph), strict=True):
        kept[one, other] = len(around[one] & around[other]) > 1
    return kept
