"""Right answers of MARC as the plain online loop gives them, to set a study against."""

from functools import cache

import numpy as np

from marc import MARC, run
from marc.stats import Z_95


@cache
def online(work, stream, space, capacity, weight, seed, views=1):
    """Whether each image is right with memory and without, by stored row (N,) each."""
    ordered = work.stream(stream, views).shuffled(seed)
    found = run(MARC(space, capacity, weight), ordered)
    right, base = np.empty(len(ordered), bool), np.empty(len(ordered), bool)
    right[found.order], base[found.order] = found.correct, found.base_correct
    return right, base


def gains(work, stream, space, capacity, weight, views=1):
    """What the memory changes in every order of the plan, -1, 0 or 1, (orders, N)."""
    rows = []
    for seed in work.plan.seeds.orders:
        right, base = online(work, stream, space, capacity, weight, seed, views)
        rows.append(right.astype(int) - base.astype(int))
    return np.array(rows)


def weight_gains(work, stream, space, views=1, capacity=8):
    """Gain of every order at every weight of the plan, (orders, weights)."""
    grids = work.plan.grids
    changes = [gains(work, stream, space, capacity, weight, views) for weight in grids.weights]
    return np.mean(changes, axis=2).T


def best_gains(work, stream, space, views=1, capacity=8):
    """Oracle gain of every order, (orders,)."""
    return weight_gains(work, stream, space, views, capacity).max(axis=1)


def wald(differences):
    """Mean and 95 % interval over images of differences (orders, N)."""
    by_image = np.mean(differences, axis=0)
    half = Z_95 * np.sqrt(np.mean((by_image - by_image.mean()) ** 2) / by_image.size)
    return by_image.mean(), by_image.mean() - half, by_image.mean() + half
