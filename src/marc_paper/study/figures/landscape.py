"""Gain over purity and weight, one figure a main stream: fig:s_landscape.

Does a space of purer neighbourhoods bear a heavier memory? Each space is a row of cells, the purest
at the top, and nothing is drawn between two spaces: purity is known at these encoders alone. Beside
them stands what the one fixed weight gains, against the best weight of each space. Cost: the sweeps
and the geometry of `tables/spaces.py`, and one bootstrap of the best weight a space.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from marc.replay.sweep import Sweep
from marc.report.style import INK, MUTED, Look
from marc.spaces.geometry import Geometry
from marc.stats import Interval, paired_difference
from marc_paper.study.artifacts import Figure
from marc_paper.study.drawing import Axis, Page
from marc_paper.study.plan import Plan
from marc_paper.study.tables.paired import envelope_interval
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "landscape"
_NEIGHBORS = 10
_TITLES = ("(a) gain at each weight", f"(b) purity@{_NEIGHBORS}", "(c) gain at two weights")
_COLORS = "PuOr"  # two hues that the colour-blind tell apart, white between them
_ROW = 0.2  # inches
_BAR, _MARK = 3.2, 2.6  # points: the ends of a bar show beside its mark


@final
@dataclass(frozen=True)
class _Landscape:
    """What one space shows: its purity, its gain at each weight, and two choices of a weight."""

    purity: Interval
    gains: NDArray[np.float64]
    """(weights,): fixed, mean over orders."""
    fixed: Interval
    """Gain at the weight of the plan, over images."""
    oracle: Interval
    """Gain at the best weight of each order, over images, the weight chosen again in each draw."""


def _landscapes(
    sweep: Sweep,
    geometry: Mapping[str, Geometry],
    capacity: int,
    weight: float,
    n_bootstraps: int,
    seed: int,
) -> dict[str, _Landscape]:
    """By space, the purest first."""
    place = sweep.capacities.index(capacity)
    base = sweep.base_correct
    purity = {space: geometry[space].measures[_NEIGHBORS].purity for space in sweep.spaces}
    found = {}
    for space in sorted(sweep.spaces, key=lambda space: -_estimate(purity[space])):
        right = [sweep.correct(space, capacity, weight, order) for order in sweep.seeds]
        found[space] = _Landscape(
            purity=_known(purity[space]),
            gains=sweep.curve(space)[place],
            fixed=paired_difference(right, [base] * len(right)),
            oracle=envelope_interval(sweep, space, capacity, n_bootstraps, seed),
        )
    return found


def _draw(weights: Sequence[float], weight: float, spaces: Mapping[str, _Landscape]) -> Any:
    """Cells over the weight, a purity for each row, and the two gains of each row."""
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=(Page.WIDTH, 1.2 + _ROW * max(len(spaces), 4)))
    [cells, purities, gains] = figure.subplots(
        1, 3, sharey=True, gridspec_kw={"width_ratios": (2.3, 1.3, 2.0)}
    )
    mesh = _cells(cells, weights, spaces)
    _mark_weight(cells, weights, weight, spaces)
    bar = figure.colorbar(mesh, ax=cells, location="bottom", aspect=32, pad=0.02, shrink=0.9)
    bar.set_label("gain, points (fixed)")
    bar.ax.tick_params(labelsize=Page.SMALL)
    _purities(purities, list(spaces.values()))
    _dumbbells(gains, list(spaces.values()), weight)
    cells.set_yticks(range(len(spaces)), list(spaces), fontsize=Page.SMALL + 0.5)
    cells.set_ylim(len(spaces) - 0.5, -0.5)
    for axes, title in zip((cells, purities, gains), _TITLES, strict=True):
        axes.set_title(title, loc="left", fontsize=9)
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", labelsize=Page.SMALL + 1)
    return figure


def _cell_edges(axes: Any, weights: Sequence[float]) -> NDArray[np.float64]:
    """Edges half way between the weights, as the axis spaces them, (weights + 1,)."""
    scale = axes.xaxis.get_transform()
    places = scale.transform(np.asarray(weights, dtype=np.float64))
    if len(places) == 1:
        return np.asarray(scale.inverted().transform(places[0] + np.array([-0.05, 0.05])))
    inner = (places[1:] + places[:-1]) / 2
    first, last = 2 * places[0] - inner[0], 2 * places[-1] - inner[-1]
    return np.asarray(scale.inverted().transform(np.r_[first, inner, last]))


def _cells(axes: Any, weights: Sequence[float], spaces: Mapping[str, _Landscape]) -> Any:
    gains = 100 * np.stack([space.gains for space in spaces.values()])
    most = max(float(np.abs(gains).max()), 0.1)
    Axis.weight(axes, weights)
    edges = _cell_edges(axes, weights)
    mesh = axes.pcolormesh(
        *(edges, np.arange(len(spaces) + 1) - 0.5, gains),
        cmap=_COLORS,
        vmin=-most,
        vmax=most,
        edgecolors="white",
        linewidth=0.4,
    )
    axes.set_xlim(edges[0], edges[-1])
    axes.grid(False)
    return mesh


def _mark_weight(
    axes: Any, weights: Sequence[float], weight: float, spaces: Mapping[str, _Landscape]
) -> None:
    edges = _cell_edges(axes, weights)
    place = list(weights).index(weight)
    for edge in edges[place : place + 2]:
        axes.axvline(edge, color=INK, linewidth=1.0)
    best = [weights[int(space.gains.argmax())] for space in spaces.values()]
    axes.plot(best, range(len(best)), "o", color=INK, markersize=3.2, markeredgecolor="white")


def _purities(axes: Any, spaces: Sequence[_Landscape]) -> None:
    for row, space in enumerate(spaces):
        # a share of a few points is narrower than any mark but a tick
        _interval(axes, row, space.purity, Look.PALETTE[0], "|")
    axes.set_xlabel("purity, %")


def _dumbbells(axes: Any, spaces: Sequence[_Landscape], weight: float) -> None:
    axes.axvline(0, color=MUTED, linewidth=0.8, zorder=1)
    for row, space in enumerate(spaces):
        ends = [100 * space.fixed.estimate, 100 * space.oracle.estimate]
        axes.plot(ends, [row, row], color=MUTED, linewidth=1.4, zorder=2)
        first = _interval(axes, row + 0.13, space.fixed, Look.PALETTE[1], "s")
        second = _interval(axes, row - 0.13, space.oracle, Look.PALETTE[0], "o")
    axes.set_xlabel("gain, points")
    key = axes.legend(
        [first, second],
        [f"w = {weight:g} (fixed)", "best w (oracle)"],
        loc="upper center",
        bbox_to_anchor=(0.5, -0.52 / (_ROW * max(len(spaces), 4))),
        ncols=2,
        fontsize=Page.SMALL + 0.5,
        columnspacing=0.9,
        handletextpad=0.1,
    )
    key.set_in_layout(False)  # the colour bar has made the room already


def _interval(axes: Any, row: float, value: Interval, color: str, marker: str) -> Any:
    estimate, low, high = (100 * each for each in value)
    if np.isfinite([low, high]).all():
        axes.plot(
            *([low, high], [row, row]),
            color=color,
            linewidth=_BAR,
            alpha=0.45,
            zorder=3,
            solid_capstyle="butt",
        )
    [mark] = axes.plot([estimate], [row], marker, color=color, markersize=_MARK, zorder=4)
    return mark


def _make(work: Work) -> Sequence[Figure]:
    plan = work.plan
    grids, spaces = plan.grids, plan.spaces.all
    figures = []
    for stream in plan.group("main"):
        found = _landscapes(
            work.sweep(stream, spaces),
            work.geometry(stream, spaces),
            grids.capacity,
            grids.weight,
            plan.draws.bootstraps,
            plan.seeds.draws,
        )
        figures.append(_figure(stream, plan, found))
    return figures


def _figure(stream: str, plan: Plan, found: Mapping[str, _Landscape]) -> Figure:
    grids = plan.grids
    return Figure.of(
        plan,
        f"{_NAME}-{stream}",
        partial(_draw, grids.weights, grids.weight, found),
        {
            "weights": grids.weights,
            "capacity": grids.capacity,
            "weight": grids.weight,
            "spaces": {space: asdict(each) for space, each in found.items()},
        },
        like="landscape",
        answers=None if stream == plan.main else (),
        stream=stream,
    )


_EXPERIMENT = Experiment.of(_NAME, _make, Piece.main)


def _known(purity: Interval | None) -> Interval:
    assert purity is not None  # the streams of a study have labels
    return purity


def _estimate(purity: Interval | None) -> float:
    return _known(purity).estimate
