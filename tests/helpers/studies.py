"""A tiny study: a plan over small streams in memory, with a space of each kind."""

from dataclasses import replace

import numpy as np

from marc.stream import Stream
from marc_paper.study.plan import Plan
from marc_paper.study.work import Work, _Held

SPACES = ["noise", "own", "weak", "good", "best", "tilted"]

PLAN = {
    "title": "A tiny study",
    "predictor": "tiny",
    "streams": {
        "first": {"source": "arrays/first.npz", "group": "main", "views": 8},
        "second": {"source": "arrays/second.npz", "group": "main", "views": 4},
        "third": {"source": "arrays/third.npz", "group": "shift", "views": 4},
        "fourth": {"source": "arrays/fourth.npz", "group": "domain", "views": 4},
        "fifth": {"source": "arrays/fifth.npz", "group": "domain", "views": 4},
        "sixth": {"source": "arrays/sixth.npz", "group": "domain", "views": 4},
    },
    "spaces": {
        "all": SPACES,
        "controls": ["noise", "own", "weak", "good", "best"],
        "own": "own",
        "deployed": "good",
        "strong": "best",
    },
    "grids": {
        "capacities": [1, 2, 4, 8, 16],
        "weights": [0, 0.1, 1, 3, 10, 30],
        "views": [1, 2, 4, 8],
        "neighbors": [1, 5, 10],
        "dims": [2, 4],
        "alphas": [1, 2],
        "betas": [2, 5],
    },
    "draws": {"batches": 8, "sizes": [20, 40], "bootstraps": 40},
    "benchmark": {"methods": ["zero-shot", "tda", "cosmic"]},
    "timing": {"images": 20, "warm_up": 4, "sessions": 2},
}


def tiny_plan(**changes):
    """The plan, with some of its parts changed: `tiny_plan(grids={"capacity": 4})`."""
    data = {name: dict(v) if isinstance(v, dict) else v for name, v in PLAN.items()}
    for name, change in changes.items():
        data[name] = {**data.get(name, {}), **change} if isinstance(change, dict) else change
    return Plan.of(data)


def tiny_stream(name, seed, n_images=90, n_views=8, n_classes=5, dim=8):
    """A labelled stream whose spaces differ in how much their neighbours know of the labels."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(n_classes, size=n_images)
    prototypes = draw.standard_normal((n_classes, dim))
    images = prototypes[labels] + 1.6 * draw.standard_normal((n_images, dim))
    views = images[:, np.newaxis] + 0.7 * draw.standard_normal((n_images, n_views, dim))
    views[:, 0] = images
    centers = draw.standard_normal((n_classes, 6))
    spread = {"best": 0.3, "good": 0.7, "tilted": 1.0, "weak": 1.8}
    spaces = {
        space: centers[labels] + noise * draw.standard_normal((n_images, 6))
        for space, noise in spread.items()
    }
    spaces["noise"] = draw.standard_normal((n_images, 6))
    spaces["own"] = images
    return Stream.from_arrays(
        views.astype(np.float32),
        prototypes,
        {space: spaces[space] for space in SPACES},
        logit_scale=20.0,
        labels=labels,
        name=name,
    )


def tiny_work(plan=None, **sizes):
    """The shared work of a plan over tiny streams, in memory."""
    plan = plan or tiny_plan()
    return Work(plan, _Held(), tiny_streams(plan, **sizes))


def tiny_streams(plan, **sizes):
    """A tiny stream for each of a plan, by name."""
    return {
        name: tiny_stream(name, seed, **sizes).with_views(entry.views)
        for seed, (name, entry) in enumerate(plan.streams.items())
    }


def table_of(artifacts, name):
    """The artifact of a name."""
    [found] = [each for each in artifacts if each.name == name]
    return found


def column(table, name, **where):
    """The cells of a column in the rows where text columns have some values."""
    names = [each.name for each in table.columns]
    rows = [
        row
        for row in table.rows
        if all(row[names.index(key)] == value for key, value in where.items())
    ]
    return [row[names.index(name)] for row in rows]


def cell(table, name, **where):
    """The only cell of a column in the row where text columns have some values."""
    [found] = column(table, name, **where)
    return found


def without(plan, *streams):
    """A plan with some of its streams left out."""
    kept = {name: entry for name, entry in plan.streams.items() if name not in streams}
    return replace(plan, streams=kept)
