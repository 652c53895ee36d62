"""One setting at a time around the deployed one: fig:s_sens_ab, and the five like it.

How far may K, w, beta and alpha be from where they stand before the gain is lost? The memory's
capacity and weight are read off the usual sweeps. Beta and alpha shape both memories, so that each
of their values admits other images and needs a sweep of its own. Cost: one sweep of one or two
spaces a stream for every beta and alpha that is not the usual one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.encoders.cards import safe_name
from marc.method import MARC
from marc.replay.sweep import Score
from marc.report.style import INK, Look
from marc_paper.study.artifacts import Artifact, Estimate, Figure, Row, Table, columns
from marc_paper.study.drawing import Axis, Page, looks_of
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "sensitivity"
_USUAL = {"beta": MARC.beta, "alpha": MARC.alpha}
_LABELS = {
    ("main", 0, "deployed"): "fig:s_sens_ab",
    ("main", 0, "strong"): "fig:s_sens_al",
    ("main", 1, "deployed"): "fig:s_sens_vb",
    ("main", 1, "strong"): "fig:s_sens_vl",
    ("shift", 0, "deployed"): "fig:s_sens_rb",
    ("shift", 1, "deployed"): "fig:s_sens_kb",
}

_COLUMNS = columns("stream | space | setting | value | no memory: percent | gain: points fixed")

_Curves = Mapping[str, Mapping[float, Score]]
"""By setting: the score at each of its values, the others as deployed."""


def _subjects(plan: Plan) -> dict[str, tuple[str, ...]]:
    spaces = plan.spaces
    both = tuple(dict.fromkeys((spaces.deployed, spaces.strong)))
    return {
        stream: both if plan.streams[stream].group == "main" else (spaces.deployed,)
        for stream in plan.group("main", "shift")
    }


def _tried(plan: Plan, name: str) -> tuple[float, ...]:
    """The values of beta or alpha, the usual one among them."""
    grid = plan.grids.betas if name == "beta" else plan.grids.alphas
    return tuple(sorted({*grid, _USUAL[name]}))


def _changed(name: str, value: float) -> dict[str, Any]:
    """Settings of a sweep; none at the usual value, so that the usual sweep is shared."""
    return {} if value == _USUAL[name] else {name: value}


def _curves(work: Work, stream: str, spaces: Sequence[str]) -> dict[str, _Curves]:
    """By space: the fixed scores along each setting."""
    grids = work.plan.grids
    capacity, weight = grids.capacity, grids.weight
    usual = work.sweep(stream, spaces)
    found: dict[str, dict[str, dict[float, Score]]] = {
        space: {
            "K": {each: usual.fixed(space, each, weight) for each in grids.capacities},
            "w": {each: usual.fixed(space, capacity, each) for each in grids.weights},
            "beta": {},
            "alpha": {},
        }
        for space in spaces
    }
    for name in _USUAL:
        for value in _tried(work.plan, name):
            sweep = work.sweep(stream, spaces, **_changed(name, value))
            for space in spaces:
                found[space][name][value] = sweep.fixed(space, capacity, weight)
    return dict(found)


def _rows_of(stream: str, space: str, found: _Curves) -> list[Row]:
    return [
        (stream, space, name, f"{value:g}", score.base_accuracies[0], Estimate.of(score))
        for name, scores in found.items()
        for value, score in scores.items()
    ]


def _gains(scores: Mapping[float, Score]) -> NDArray[np.float64]:
    """Gain at each value in each order, (values, orders)."""
    return np.array(
        [np.subtract(each.accuracies, each.base_accuracies) for each in scores.values()]
    )


def _draw(
    shown: Mapping[str, Mapping[float, NDArray[np.float64]]],
    deployed: Mapping[str, float],
    look: Look,
) -> Any:
    """Four panels with one axis of gains: `shown` holds the gains of all orders by value."""
    figure, [row] = Page.panels(1, 4, height=2.1, sharey=True)
    for axes, (name, by_value) in zip(row, shown.items(), strict=True):
        values, found = list(by_value), 100 * np.stack(list(by_value.values()))
        _AXES[name](axes, values)
        axes.fill_between(
            *(values, found.min(axis=1), found.max(axis=1)),
            color=look.color,
            alpha=0.2,
            linewidth=0,
        )
        axes.plot(values, found.mean(axis=1), color=look.color, marker=look.marker, markersize=3)
        _mark(axes, deployed[name], float(100 * by_value[deployed[name]].mean()))
        axes.tick_params(labelsize=7.5)
    row[0].set_ylabel("gain, points (fixed)")
    return figure


def _mark(axes: Any, value: float, gain: float) -> None:
    axes.axvline(value, color=INK, linewidth=0.8, linestyle=(0, (1, 1.4)))
    axes.plot([value], [gain], "o", markersize=9, markerfacecolor="none", color=INK)


def _capacities(axes: Any, values: Sequence[float]) -> None:
    Axis.capacity(axes, [int(value) for value in values])


def _betas(axes: Any, values: Sequence[float]) -> None:
    axes.set_xlabel("sharpness beta")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    Axis.zero_line(axes)


def _alphas(axes: Any, values: Sequence[float]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xlabel("scale alpha")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
    Axis.zero_line(axes)


_AXES = {"K": _capacities, "w": Axis.weight, "beta": _betas, "alpha": _alphas}


def _make(work: Work) -> Sequence[Artifact]:
    plan = work.plan
    figures: list[Artifact] = []
    rows: list[Row] = []
    for stream, spaces in _subjects(plan).items():
        for space, found in _curves(work, stream, spaces).items():
            rows += _rows_of(stream, space, found)
            figures.append(_figure(plan, stream, space, found))
    settings = {**plan.protocol("capacity weight"), **_USUAL, **plan.protocol("views seeds")}
    return [*figures, Table.of(plan, _NAME, _COLUMNS, rows, settings, around=_around(plan))]


def _deployed_settings(plan: Plan) -> dict[str, float]:
    """Where the other settings stand while one is varied."""
    return {"K": plan.grids.capacity, "w": plan.grids.weight, **_USUAL}


def _around(plan: Plan) -> str:
    return ", ".join(f"{name} = {value:g}" for name, value in _deployed_settings(plan).items())


def _label_of(plan: Plan, stream: str, space: str) -> tuple[str, ...]:
    group = plan.streams[stream].group
    role = "deployed" if space == plan.spaces.deployed else "strong"
    label = _LABELS.get((group, plan.group(group).index(stream), role))
    return () if label is None else (label,)


def _figure(plan: Plan, stream: str, space: str, found: _Curves) -> Figure:
    shown = {name: dict(zip(scores, _gains(scores), strict=True)) for name, scores in found.items()}
    deployed = _deployed_settings(plan)
    base = next(iter(found["K"].values())).base_accuracies[0]
    return Figure.of(
        plan,
        f"{_NAME}-{stream}-{safe_name(space)}",
        partial(_draw, shown, deployed, looks_of(plan)[space]),
        {"deployed": deployed, "no memory": base, "gains": shown},
        like="sensitivity-figure",
        answers=_label_of(plan, stream, space),
        space=space,
        stream=stream,
        around=_around(plan),
        base=100 * base,
    )


def _pieces(plan: Plan) -> list[Piece]:
    each: list[dict[str, Any]] = [
        {},
        *(_changed(name, value) for name in _USUAL for value in _tried(plan, name)),
    ]
    distinct = {tuple(settings.items()): settings for settings in each}
    return [
        piece
        for stream, spaces in _subjects(plan).items()
        for settings in distinct.values()
        for piece in Piece.sweeps([stream], spaces, **settings)
    ]


_EXPERIMENT = Experiment.of(_NAME, _make, _pieces)
