"""How much weight a memory bears on each stream: fig:hazard.

One weight is not safe everywhere: past some weight a memory overrules a predictor that was right.
The deployed space, at one capacity, over all streams of the plan. Cost: one sweep of the deployed
space on every stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from marc.replay.sweep import Sweep
from marc.report.style import INK, LINE, MUTED, Look
from marc_paper.study.artifacts import Artifact, Estimate, Figure, Row, Table, columns
from marc_paper.study.drawing import Axis, Page
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "hazard"
_STEPS = 160
"""Weights at which the exact curve is drawn."""

_COLUMNS = columns(
    "stream | group | views | no memory: percent | gain at w: points fixed | loses at w",
    "no loss up to w: number | best w: number oracle | G*: points oracle",
)


@final
@dataclass(frozen=True)
class _Curve:
    """The fixed gain of one stream against the weight."""

    weights: tuple[float, ...]
    """Drawn ones, ascending; those of the grid are among them."""
    gains: NDArray[np.float64]
    """(orders, weights)."""
    loses: bool
    """Whether the mean over orders is below zero at the weight of the plan."""


def _curve_of(sweep: Sweep, space: str, capacity: int, weight: float) -> _Curve:
    """The exact curve of every order: no weight between those of the grid is interpolated."""
    positive = [0.01, *(each for each in sweep.weights if each > 0)]
    between = np.geomspace(min(positive), max(positive), _STEPS).tolist()
    weights = tuple(sorted({0.0, *sweep.weights, *between}))
    paths = [sweep.weight_path(space, capacity, seed) for seed in sweep.seeds]
    gains = np.array([[path.at(each) for each in weights] for path in paths])
    loses = sweep.fixed(space, capacity, weight).gain < 0
    return _Curve(weights, gains - sweep.base_correct.mean(), loses)


def _safe_weight(sweep: Sweep, space: str, capacity: int) -> float:
    """The largest weight of the grid up to which no weight of the grid loses, mean over orders."""
    safe = 0.0
    for weight in sweep.weights:
        if sweep.fixed(space, capacity, weight).gain < 0:
            break
        safe = weight
    return safe


def _hazard_row(
    stream: tuple[str, str, int], sweep: Sweep, space: str, capacity: int, weight: float
) -> Row:
    """One stream (name, group, views); its best weight is that of the mean curve."""
    name, group, views = stream
    fixed = sweep.fixed(space, capacity, weight)
    means = [sweep.fixed(space, capacity, each).gain for each in sweep.weights]
    return (
        *(name, group, str(views), fixed.base_accuracies[0]),
        Estimate.paired_gain(sweep, fixed),
        "yes" if fixed.gain < 0 else "no",
        _safe_weight(sweep, space, capacity),
        sweep.weights[int(np.argmax(means))],
        Estimate.of(sweep.oracle(space, capacity)),
    )


def _draw(curves: Mapping[str, _Curve], weight: float) -> Any:
    """One panel a stream, all on the same axes of weight and each on its own of gain."""
    columns = min(len(curves), min((4, 3), key=lambda each: -len(curves) % each))
    n_rows = -(-len(curves) // columns)
    figure, grid = Page.panels(n_rows, columns, height=1.75)
    for place, axes in enumerate(grid.flat):
        if place >= len(curves):
            axes.set_visible(False)
    for axes, (stream, curve) in zip(grid.flat, curves.items(), strict=False):
        _panel(axes, curve, weight)
        loses = " – loses" if curve.loses else ""
        axes.set_title(f"{stream}{loses}", fontsize=8, fontweight="bold" if loses else "normal")
    for place, axes in enumerate(grid.flat):
        if place + columns < len(curves):
            axes.set_xlabel("")
    for row in grid:
        row[0].set_ylabel("gain, points")
    return figure


def _panel(axes: Any, curve: _Curve, weight: float) -> None:
    gains = 100 * curve.gains
    mean = gains.mean(axis=0)
    color, dash = (Look.PALETTE[1], (0, (4, 1.6))) if curve.loses else (Look.PALETTE[0], "-")
    axes.axvline(weight, color=MUTED, linewidth=0.9, linestyle=(0, (1, 1.4)))
    axes.fill_between(
        curve.weights, gains.min(axis=0), gains.max(axis=0), color=color, alpha=0.18, linewidth=0
    )
    axes.plot(curve.weights, mean, color=color, linestyle=dash, linewidth=1.3)
    at = float(mean[curve.weights.index(weight)])
    axes.plot(
        *([weight], [at]),
        marker="v" if curve.loses else "o",
        color=color,
        markeredgecolor=INK,
        markersize=4.5,
    )
    Axis.weight(axes, curve.weights)
    axes.tick_params(labelsize=Page.SMALL)
    axes.grid(color=LINE, linewidth=0.4)
    _window(axes, gains, at)


def _window(axes: Any, gains: NDArray[np.float64], at: float) -> None:
    """Room for the peak and for the gain at the fixed weight; a deep fall runs out of the panel."""
    top = max(float(gains.max()), 0.5)
    low = min(float(gains.min()), 0.0)
    bottom = max(low, -1.6 * top, -10.0) if at >= 0 else max(low, 2.0 * at, at - 10.0)
    bottom = min(bottom, 1.25 * at)
    axes.set_ylim(bottom - 0.08 * (top - bottom), top + 0.12 * (top - bottom))


def _make(work: Work) -> Sequence[Artifact]:
    plan = work.plan
    space, capacity, weight = plan.spaces.deployed, plan.grids.capacity, plan.grids.weight
    curves, rows = {}, []
    for name, entry in plan.streams.items():
        views = plan.usual_views(name)
        sweep = work.sweep(name, [space], views)
        curves[name] = _curve_of(sweep, space, capacity, weight)
        rows.append(_hazard_row((name, entry.group, views), sweep, space, capacity, weight))
    loses = [name for name, curve in curves.items() if curve.loses]
    return [
        Figure.of(
            plan,
            _NAME,
            partial(_draw, curves, weight),
            {
                "streams": {
                    name: {"weights": each.weights, "gains": each.gains}
                    for name, each in curves.items()
                },
                "weight": weight,
                "loses": loses,
            },
            views=_views(plan),
            lost=_lost(loses, weight),
        ),
        Table.of(
            plan, f"{_NAME}-weights", _COLUMNS, rows, plan.protocol("space capacity weight seeds")
        ),
    ]


_EXPERIMENT = Experiment.of(
    _NAME, _make, lambda plan: Piece.sweeps(plan.streams, [plan.spaces.deployed], plan.usual_views)
)


def _views(plan: Plan) -> str:
    """The views of `usual_views` in words."""
    if not plan.group("domain", "extra"):
        return "one view"
    return f"one view (up to {plan.grids.few_views} on streams of group domain or extra)"


def _lost(streams: Sequence[str], weight: float) -> str:
    if not streams:
        return f"No stream loses at w = {weight:g}."
    return f"At w = {weight:g} the memory loses on {', '.join(streams)}."
