"""A neighbour table one pair at a time, and points to make tables of."""

import numpy as np

from marc.scores import unit


def slow_neighbors(features, n_neighbors):
    """One pair at a time: the cosine in float64, rounded to float32, then the lower index."""
    keys = unit(np.asarray(features)).astype(np.float64)
    table = []
    for i, key in enumerate(keys):
        others = [j for j in range(len(keys)) if j != i]
        cosine = {j: np.float32((key * keys[j]).sum()) for j in others}
        table.append(sorted(others, key=lambda j: (-cosine[j], j))[:n_neighbors])
    return np.array(table)


def clustered(seed, n_points, dim=16, n_clusters=4):
    draw = np.random.default_rng(seed)
    centers = draw.standard_normal((n_clusters, dim))
    return centers[draw.integers(n_clusters, size=n_points)] + draw.standard_normal((n_points, dim))
