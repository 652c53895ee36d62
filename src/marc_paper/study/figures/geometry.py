"""Neighbourhoods before anything is adapted, seen and measured: fig:s_geometry.

The same images of eight classes are laid on a plane in the predictor's own space and in the
deployed one; the plane is a picture, the numbers come from whole features. Then the purity of every
space at each number of neighbours, and its anti-hubs beside its best capacity. Cost: the sweeps and
the geometry of `tables/spaces.py`, and seconds for the planes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from string import ascii_uppercase
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.replay.sweep import Sweep
from marc.report.style import INK, MUTED, Look
from marc.scores import Int
from marc.spaces.geometry import Geometry, purity
from marc.stream import Stream
from marc_paper.study.artifacts import Artifact, Estimate, Figure, Row, Table, columns
from marc_paper.study.drawing import Page, looks_of
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_ROW, _PLANE = 0.175, 2.6  # inches
_LETTER = 4.2  # points
_LONGEST = 22  # letters of a class name

_Planes = Mapping[str, tuple[NDArray[np.float64], float]]
"""By space: positions (n, 2), and the purity within these images."""


def _draw(
    planes: _Planes,
    labels: Int,
    class_names: Mapping[int, str],
    n_neighbors: int,
    purities: Mapping[str, Mapping[int, Estimate]],
    antihubs: Mapping[str, tuple[float, int]],
    looks: Mapping[str, Look],
) -> Any:
    """Planes above, curves and anti-hubs below; classes are named above, spaces below."""
    from matplotlib.figure import Figure as Canvas

    lower = max(2.3, 0.6 + _ROW * len(antihubs))
    figure = Canvas(figsize=(Page.WIDTH, _PLANE + lower + 0.5))
    grid = figure.subplots(2, 2, squeeze=False, gridspec_kw={"height_ratios": (_PLANE, lower)})
    for place, axes in enumerate(grid[0]):
        axes.set(xticks=[], yticks=[])
        axes.grid(False)
        if place < len(planes):
            space = list(planes)[place]
            _draw_plane(axes, *planes[space], labels, f"({'ab'[place]}) {space}", n_neighbors)
    _curves(grid[1, 0], purities, looks)
    _antihubs(grid[1, 1], antihubs, looks)
    _class_legend(figure, class_names)
    Page.legend_below(figure, looks, marker=True)
    return figure


def _class_looks(classes: Iterable[int]) -> dict[int, tuple[str, str]]:
    """A colour and a letter for each of up to eight classes, the lowest first.

    Shapes are those of spaces in every figure, so that classes have letters.
    """
    colors = (*Look.PALETTE, INK, MUTED)
    return {
        label: (colors[place % len(colors)], ascii_uppercase[place % len(ascii_uppercase)])
        for place, label in enumerate(sorted(set(classes)))
    }


def _letter_mark(letter: str) -> Any:
    """The outline of a letter about its middle, as a marker of matplotlib."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    outline = TextPath((0, 0), letter, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = outline.get_extents()
    middle = ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
    return Path(outline.vertices - middle, outline.codes)


def _draw_plane(
    axes: Any,
    positions: NDArray[np.float64],
    purity: float,
    labels: Int,
    title: str,
    n_neighbors: int,
) -> None:
    for label, (color, letter) in _class_looks(labels.tolist()).items():
        chosen = positions[labels == label]
        axes.plot(
            *(chosen[:, 0], chosen[:, 1]),
            linestyle="none",
            marker=_letter_mark(letter),
            color=color,
            markersize=_LETTER,
            markeredgewidth=0,
            alpha=0.8,
        )
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_title(f"{title}: purity@{n_neighbors} {100 * purity:.1f} % here", fontsize=8.5)


def _curves(
    axes: Any, purities: Mapping[str, Mapping[int, Estimate]], looks: Mapping[str, Look]
) -> None:
    kappas: list[int] = []
    for space, curve in purities.items():
        look, kappas = looks[space], list(curve)
        known = [each for each in curve.values() if each.low is not None]
        if len(known) == len(curve):
            axes.fill_between(
                kappas,
                [100 * (each.low or 0.0) for each in known],
                [100 * (each.high or 0.0) for each in known],
                color=look.color,
                alpha=0.2,
                linewidth=0,
            )
        axes.plot(
            *(kappas, [100 * each.value for each in curve.values()]),
            color=look.color,
            linestyle=look.dash,
            marker=look.marker,
            markersize=3,
            linewidth=1.1,
        )
    axes.set_xscale("log")
    axes.set_xticks(kappas, [str(kappa) for kappa in kappas])
    axes.minorticks_off()
    axes.set_xlabel("neighbours")
    axes.set_ylabel("purity, %")
    axes.set_title("(c) all images", fontsize=8.5)


def _antihubs(
    axes: Any, antihubs: Mapping[str, tuple[float, int]], looks: Mapping[str, Look]
) -> None:
    ranked = sorted(antihubs, key=lambda space: antihubs[space][0])
    most = 100 * max((share for share, _ in antihubs.values()), default=0.0)
    for row, space in enumerate(ranked):
        share, capacity = antihubs[space]
        look = looks[space]
        axes.plot([0, 100 * share], [row, row], color=look.color, linewidth=1.0)
        axes.plot(
            *([100 * share], [row], look.marker), color=look.color, markersize=4.5, clip_on=False
        )
        axes.annotate(
            str(capacity),
            (1.0, row),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=Page.SMALL + 0.5,
        )
    axes.set_yticks(range(len(ranked)), ranked, fontsize=Page.SMALL)
    axes.set_ylim(len(ranked) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.2 * max(most, 1.0))
    axes.set_xlabel("anti-hubs, %")
    axes.set_title("(d) anti-hubs", loc="left", fontsize=8.5)
    axes.set_title("K*", loc="right", fontsize=8.5)


def _class_legend(figure: Any, class_names: Mapping[int, str]) -> None:
    from matplotlib.lines import Line2D

    found = _class_looks(class_names)
    keys = [
        Line2D([], [], color=color, marker=_letter_mark(letter), linestyle="none", markersize=6)
        for color, letter in found.values()
    ]
    figure.legend(
        keys,
        [_short_name(class_names[label]) for label in found],
        loc="outside upper center",
        ncols=4,
        fontsize=Page.SMALL + 0.5,
        handletextpad=0.2,
    )


def _short_name(name: str) -> str:
    """A class name that fits; a leading underscore would hide it from a legend."""
    short = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
    return f"\u200b{short}" if short.startswith("_") else short


_NAME = "geometry"
_NEIGHBORS = 10
_CURVES = columns(
    "stream | space | neighbors | purity: percent | pseudo-purity: percent",
    "anti-hubs: percent | hub skewness: ratio",
)
_HUBS = columns(
    "stream | space | anti-hubs@10: percent | hub skewness@10: ratio",
    "K*: count oracle | no memory: percent | G* at K*: points oracle",
)
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

    >>> _allowed_perplexity(800), _allowed_perplexity(31), _allowed_perplexity(2)
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
            *(stream, space, str(kappa)),
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
                *(stream, space, measures.antihub_fraction, measures.hub_skewness),
                *(best.capacity, best.base_accuracies[0], Estimate.of(best)),
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
    return [
        _figure(work),
        Table.of(plan, "purity-curves", _CURVES, curves, {"views": 1}),
        Table.of(plan, "hubs", _HUBS, hubs, plan.protocol("views seeds", neighbors=_NEIGHBORS)),
    ]


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
    return Figure.of(
        plan,
        _NAME,
        partial(
            _draw,
            {space: (each.positions, each.purity) for space, each in planes.items()},
            labels[rows],
            names,
            kappa,
            purities,
            antihubs,
            looks_of(plan),
        ),
        {
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
        n_images=len(rows),
        n_classes=len(names),
        perplexity=_allowed_perplexity(len(rows)),
        kappa=kappa,
        neighbors=_NEIGHBORS,
    )


def _missing(plan: Plan) -> str:
    del plan
    return "" if find_spec("sklearn") else f"{_NEEDS}: {_INSTALL}"


_EXPERIMENT = Experiment.of(_NAME, _make, Piece.main, _missing)
