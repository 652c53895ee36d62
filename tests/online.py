"""Gains of online runs, the slow way: what sweeps of a tiny study must agree with."""

import numpy as np

from marc import MARC, run

_KNOWN = {}


def gains(work, stream, space, views=1, capacity=8):
    """Gain of every order at every weight of the plan, (orders, weights)."""
    features = work.stream(stream, views)
    known = _KNOWN.setdefault((stream, space, views, capacity, work.plan.seeds.orders), [])
    if not known:
        known += [
            [
                run(MARC(space, capacity, weight), features.shuffled(seed)).gain
                for weight in work.plan.grids.weights
            ]
            for seed in work.plan.seeds.orders
        ]
    return np.array(known)


def best(work, stream, space, views=1, capacity=8):
    """Oracle gain of every order, (orders,)."""
    return gains(work, stream, space, views, capacity).max(axis=1)
