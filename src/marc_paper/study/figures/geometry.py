"""Neighbourhoods before anything is adapted, seen and measured: fig:s_geometry.

The same images of eight classes are laid on a plane in the predictor's own space and in the
deployed one; the plane is a picture, the numbers come from whole features. Then the purity of every
space at each number of neighbours, and its anti-hubs beside its best capacity. Cost: the sweeps and
the geometry of `tables/spaces.py`, and seconds for the planes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from typing import final

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.replay.sweep import Sweep
from marc.scores import Int
from marc.spaces.geometry import Geometry, purity
from marc.stream import Stream
from marc_paper.study.artifacts import Artifact, Estimate, Figure, Row, Table, columns
from marc_paper.study.drawing import looks_of
from marc_paper.study.figures.geometry_panels import draw
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Work, main_pieces

_NAME = "geometry"
_LABEL = "fig:s_geometry"
_NEIGHBORS = 10
_N_CLASSES, _N_IMAGES = 8, 800
_PERPLEXITY = 30.0
_NEEDS = "its planes are the t-SNE of scikit-learn, which is not installed"
_INSTALL = "pip install 'marc-clip[paper]'"


@final
@dataclass(frozen=True)
class _Projection:
    """One space on a plane."""

    positions: NDArray[np.float64]
    """(n, 2)."""
    purity: float
    """Within the images that are shown, in the whole space."""


def _shown_rows(labels: Int, n_classes: int = _N_CLASSES, n_images: int = _N_IMAGES) -> Int:
    """Stored rows of the classes with the most images, as many of each: the first ones.

    >>> _shown_rows(np.array([2, 0, 2, 1, 2, 1, 0]), n_classes=2, n_images=4)
    array([0, 1, 2, 6])
    """
    counts = np.bincount(labels)
    chosen = np.argsort(-counts, kind="stable")[:n_classes]  # of equal ones the lower
    rows = [np.flatnonzero(labels == each)[: n_images // n_classes] for each in chosen]
    return np.sort(np.concatenate(rows))


def _allowed_perplexity(n_points: int) -> float:
    """The usual perplexity, or less where there are too few points to have so many neighbours.

    >>> _allowed_perplexity(800), allowed_perplexity(31), allowed_perplexity(2)
    (30.0, 10.0, 1.0)
    """
    return max(1.0, min(_PERPLEXITY, (n_points - 1) / 3))


def _plane(points: NDArray[np.floating]) -> NDArray[np.float64]:
    """Positions (n, 2) of points (n, d) by exact t-SNE; the same points give the same ones."""
    if find_spec("sklearn") is None:
        raise MarcError(f"this figure cannot be drawn: {_NEEDS}", hint=_INSTALL)
    from sklearn.manifold import TSNE

    by_neighbors = TSNE(
        perplexity=_allowed_perplexity(len(points)), init="pca", method="exact", random_state=0
    )
    positions: NDArray[np.float64] = by_neighbors.fit_transform(points).astype(np.float64)
    return positions


def _project(stream: Stream, space: str, rows: Int, labels: Int) -> _Projection:
    keys = stream.features.keys(space)[rows]
    kappa = min(_NEIGHBORS, len(rows) - 1)
    return _Projection(positions=_plane(keys), purity=purity(keys, labels[rows], kappa))


def _curve_rows(stream: str, geometry: Mapping[str, Geometry]) -> list[Row]:
    """Purity at each kappa, one row a space and kappa."""
    return [
        (
            stream,
            space,
            str(kappa),
            Estimate.within(measures.purity),
            Estimate.within(measures.pseudo_purity),
            measures.antihub_fraction,
            measures.hub_skewness,
        )
        for space, found in geometry.items()
        for kappa, measures in found.measures.items()
    ]


def _hub_rows(stream: str, sweep: Sweep, geometry: Mapping[str, Geometry]) -> list[Row]:
    rows: list[Row] = []
    for space, found in geometry.items():
        measures, best = found.measures[_NEIGHBORS], sweep.oracle(space)
        rows.append(
            (
                stream,
                space,
                measures.antihub_fraction,
                measures.hub_skewness,
                best.capacity,
                best.base_accuracies[0],
                Estimate.of(best),
            )
        )
    return rows


def _make(work: Work) -> Sequence[Artifact]:
    plan = work.plan
    curves: list[Row] = []
    hubs: list[Row] = []
    for stream in plan.group("main"):
        geometry = work.geometry(stream, plan.spaces.all)
        sweep = work.sweep(stream, plan.spaces.all)
        curves += _curve_rows(stream, geometry)
        hubs += _hub_rows(stream, sweep, geometry)
    return [_figure(work), _curve_table(plan, curves), _hub_table(plan, hubs)]


def _figure(work: Work) -> Figure:
    plan = work.plan
    stream, labels = work.stream(plan.main), work.labels(plan.main)
    rows = _shown_rows(labels)
    spaces = dict.fromkeys((plan.spaces.own, plan.spaces.deployed))
    planes = {space: _project(stream, space, rows, labels) for space in spaces}
    class_names = stream.features.class_names
    names = {label: class_names[label] for label in np.unique(labels[rows]).tolist()}
    geometry = work.geometry(plan.main, plan.spaces.all)
    sweep = work.sweep(plan.main, plan.spaces.all)
    purities = {
        space: {kappa: Estimate.within(each.purity) for kappa, each in found.measures.items()}
        for space, found in geometry.items()
    }
    antihubs = {
        space: (found.measures[_NEIGHBORS].antihub_fraction, sweep.oracle(space).capacity)
        for space, found in geometry.items()
    }
    kappa = min(_NEIGHBORS, len(rows) - 1)
    return Figure(
        name=_NAME,
        title="Neighbourhoods before adaptation",
        caption=f"(a, b) The same {len(rows)} images of {len(names)} classes of {plan.main} "
        f"on a plane (exact t-SNE, perplexity {_allowed_perplexity(len(rows)):.3g}, begun at the "
        f"principal components): a picture only; letters are classes, and marks in (c, d) are "
        f"spaces. Purity@{kappa} in their titles is within these "
        "images, in the whole space; it is not that of the full stream. (c) Purity over all "
        "images and classes against the number of neighbours; bands are 95 % intervals. (d) "
        f"Images that are among the {_NEIGHBORS} neighbours of no other, and the best capacity K* "
        "(oracle: with the best weight of the grid, over orders).",
        draw=partial(
            draw,
            {space: (each.positions, each.purity) for space, each in planes.items()},
            labels[rows],
            names,
            kappa,
            purities,
            antihubs,
            looks_of(plan),
        ),
        answers=(_LABEL,),
        data={
            "rows": rows,
            "labels": labels[rows],
            "classes": names,
            "planes": {space: asdict(each) for space, each in planes.items()},
            "perplexity": _allowed_perplexity(len(rows)),
            "purity": {
                space: {kappa: asdict(each) for kappa, each in found.items()}
                for space, found in purities.items()
            },
            "anti-hubs, K*": antihubs,
        },
    )


def _curve_table(plan: Plan, rows: Sequence[Row]) -> Table:
    return Table(
        name="purity-curves",
        title="Purity against the number of neighbours",
        caption="Before adaptation, over all images, with 95 % intervals over images. "
        "Pseudo-purity puts the predictor's answers in place of labels. Anti-hubs are neighbours "
        "of no other image; skewness is that of how often each image is a neighbour.",
        columns=columns(
            "stream | space | neighbors | purity: percent | pseudo-purity: percent",
            "anti-hubs: percent | hub skewness: ratio",
        ),
        rows=tuple(rows),
        answers=(_LABEL,),
        settings={"views": 1},
    )


def _hub_table(plan: Plan, rows: Sequence[Row]) -> Table:
    return Table(
        name="hubs",
        title="Anti-hubs and the best capacity",
        caption=f"Anti-hubs and skewness at {_NEIGHBORS} neighbours, before adaptation. K* is the "
        "capacity of the highest gain with the best weight of the grid in each order, chosen with "
        "the labels of the stream.",
        columns=columns(
            "stream | space | anti-hubs@10: percent | hub skewness@10: ratio",
            "K*: count oracle | no memory: percent | G* at K*: points oracle",
        ),
        rows=tuple(rows),
        answers=(_LABEL,),
        settings={"views": 1, "seeds": plan.seeds.orders, "neighbors": _NEIGHBORS},
    )


def _missing(plan: Plan) -> str:
    del plan
    return "" if find_spec("sklearn") else f"{_NEEDS}: {_INSTALL}"


EXPERIMENT = Experiment(
    _NAME, "Neighbourhoods before adaptation, figure", (_LABEL,), _make, main_pieces, _missing
)
