"""How accuracy climbs while a memory fills: the numbers of fig:s_warmup, and fig:s_substitution.

The stream is cut into tenths. A memory that fills answers the last tenth better than the first;
without memory the tenths differ by chance alone. A figure shows how accuracy and gain move with
the view budget, and how they climb along the stream.
Cost: the sweeps of `tables/view_budget.py`, nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.report.style import MUTED, Look
from marc_paper.study.artifacts import Column, Estimate, Figure, Row, Table, columns
from marc_paper.study.budgets import Arm, Budget
from marc_paper.study.drawing import Axis, Page, looks_of
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Work

_NAME = "warm-up"
_NO_MEMORY = "no memory"
_PARTS = 10

_Curves = Mapping[str, NDArray[np.float64]]
"""By name, accuracy in each part of the stream, (orders, parts)."""

_VALUES = (
    Column(_NO_MEMORY, "percent"),
    Column(Arm.DEPLOYED, "percent", "fixed"),
    Column(Arm.STRONG, "percent", "fixed"),
    *columns("deployed gain: points fixed | strong gain: points fixed"),
)


def _along(
    correct: NDArray[np.bool_], orders: NDArray[np.int64], n_parts: int
) -> NDArray[np.float64]:
    """Accuracy in equal parts of each order, (orders, parts).

    Args:
        correct: by stored row, (orders, N) or (N,).
        orders: the row at each position, (orders, N).
        n_parts: of which the first ones are one image longer where they cannot be equal.
    """
    answers = np.broadcast_to(correct, orders.shape)
    arrived = np.take_along_axis(answers, orders, axis=1)
    return np.stack([p.mean(axis=1) for p in np.array_split(arrived, n_parts, axis=1)], axis=1)


def _curves_of(budget: Budget, orders: NDArray[np.int64], n_parts: int) -> _Curves:
    """Accuracy along the stream without memory and with each memory."""
    answers = {_NO_MEMORY: budget.base, **budget.correct}
    return {name: _along(correct, orders, n_parts) for name, correct in answers.items()}


def _climb(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """The last part minus the first, (orders,), from accuracy (orders, parts)."""
    return curve[:, -1] - curve[:, 0]


def _part_rows(curves: _Curves) -> list[Row]:
    n_parts = curves[_NO_MEMORY].shape[1]
    return [
        (str(part + 1), *_values({name: curve[:, part] for name, curve in curves.items()}))
        for part in range(n_parts)
    ]


def _climb_rows(budgets: Mapping[int, _Curves]) -> list[Row]:
    """One row a view budget: how far each curve climbs."""
    return [
        (str(views), *_values({name: _climb(curve) for name, curve in curves.items()}))
        for views, curves in budgets.items()
    ]


def _values(found: Mapping[str, NDArray[np.float64]]) -> list[Estimate]:
    """Means over orders of what was found, (orders,) each, then of the gains."""
    base = found[_NO_MEMORY]
    return [
        Estimate.over_orders(each.tolist())
        for each in (
            *(found[name] for name in (_NO_MEMORY, Arm.DEPLOYED, Arm.STRONG)),
            *(found[name] - base for name in (Arm.DEPLOYED, Arm.STRONG)),
        )
    ]


def _orders_of(work: Work, stream: str) -> NDArray[np.int64]:
    """The row at each position in every order of the plan, (orders, N)."""
    entry = work.stream(stream)
    return np.stack([entry.in_order(seed).order for seed in work.plan.seeds.orders])


def _parts_of(n_images: int) -> int:
    return min(_PARTS, n_images)


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    stream, capacity, weight = plan.main, plan.grids.benchmark_capacity, plan.grids.weight
    orders = _orders_of(work, stream)
    n_parts = _parts_of(orders.shape[1])
    budgets = {
        views: _curves_of(Budget.read(work, stream, views, _arms(plan), capacity), orders, n_parts)
        for views in plan.budgets(stream)
    }
    settings = {
        "stream": stream,
        "capacity": capacity,
        "weight": weight,
        "parts": n_parts,
        "seeds": plan.seeds.orders,
    }
    return [
        Table.of(
            plan,
            _NAME,
            (Column("part"), *_VALUES),
            _part_rows(budgets[1]),
            {**settings, "views": 1},
            n_parts=n_parts,
        ),
        Table.of(
            plan,
            f"{_NAME}-climb",
            (Column("views"), *(Column(column.name, "points", column.word) for column in _VALUES)),
            _climb_rows(budgets),
            settings,
            n_parts=n_parts,
        ),
    ]


_EXPERIMENT = Experiment.of(
    _NAME, _make, lambda plan: Budget.pieces(plan.main, plan.budgets(plan.main), _arms(plan))
)


def _arms(plan: Plan) -> list[Arm]:
    return [arm for arm in Arm.all_of(plan) if arm.name in (Arm.DEPLOYED, Arm.STRONG)]


_CURVES = "view-budget-curves"
_WATCHED = (_NO_MEMORY, Arm.DEPLOYED, Arm.STRONG)

_PANELS = (
    ("(a) accuracy against views", "accuracy, %"),
    ("(b) gain against views", "gain, points"),
    ("(c) accuracy along the stream, one view", "accuracy, %"),
    ("(d) climb from the first part to the last", "climb, points"),
)
"""Titles and vertical axes."""

_Lines = Mapping[str, NDArray[np.float64]]
"""By name, what one panel shows, (orders, points of the line)."""


def _accuracies(budgets: Sequence[Budget]) -> dict[str, NDArray[np.float64]]:
    """Accuracy without memory (1, budgets) and with each memory (orders, budgets)."""
    base = np.array([[budget.base.mean() for budget in budgets]])
    with_memory = {
        arm: np.stack([budget.correct[arm].mean(axis=1) for budget in budgets], axis=1)
        for arm in budgets[0].correct
    }
    return {_NO_MEMORY: base, **with_memory}


def _gains(accuracy: _Lines) -> dict[str, NDArray[np.float64]]:
    base = accuracy[_NO_MEMORY]
    return {arm: values - base for arm, values in accuracy.items() if arm != _NO_MEMORY}


def _climbs(curves: Sequence[_Curves]) -> dict[str, NDArray[np.float64]]:
    return {name: np.stack([_climb(each[name]) for each in curves], axis=1) for name in _WATCHED}


def _lines_of(budgets: Sequence[Budget], orders: NDArray[np.int64]) -> tuple[_Lines, ...]:
    """What the four panels show, from answers at each budget and the orders (orders, N)."""
    n_parts = _parts_of(orders.shape[1])
    curves = [_curves_of(budget, orders, n_parts) for budget in budgets]
    accuracy = _accuracies(budgets)
    along = {name: curves[0][name] for name in _WATCHED}
    return accuracy, _gains(accuracy), along, _climbs(curves)


def _draw(
    views: Sequence[int], lines: Sequence[_Lines], looks: Mapping[str, Look], legend: Sequence[str]
) -> Any:
    """Four panels; `legend` says of each look what it is."""
    figure, grid = Page.panels(2, 2, height=2.3)
    n_parts = lines[2][_NO_MEMORY].shape[1]
    parts = range(1, n_parts + 1)
    for axes, panel, (title, unit) in zip(grid.flat, lines, _PANELS, strict=True):
        is_along = axes is grid[1, 0]
        for name, values in panel.items():
            _line(axes, parts if is_along else views, 100 * values, looks[name])
        axes.set_title(title)
        axes.set_ylabel(unit)
        if is_along:
            axes.set_xticks(parts)
            axes.set_xlabel(f"part of the stream, of {n_parts}")
        else:
            _view_axis(axes, views)
    for axes in grid[:, 1]:
        Axis.zero_line(axes)
    Page.legend_below(figure, dict(zip(legend, looks.values(), strict=True)), marker=True)
    return figure


def _line(axes: Any, places: Sequence[int], values: NDArray[np.float64], look: Look) -> None:
    low, high = values.min(axis=0), values.max(axis=0)
    axes.fill_between(places, low, high, color=look.color, alpha=0.15, linewidth=0)
    axes.plot(
        *(places, values.mean(axis=0)),
        color=look.color,
        linestyle=look.dash,
        linewidth=look.width,
        marker=look.marker,
        markersize=3.5,
    )


def _view_axis(axes: Any, views: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(views, [str(each) for each in views])
    axes.minorticks_off()
    axes.set_xlabel("views M")


def _looks_and_legend(plan: Plan) -> tuple[dict[str, Look], list[str]]:
    """A look for each line, and what the legend calls it."""
    spaces = looks_of(plan)
    # markers that no space has, so that two lines never differ by colour alone
    looks = {_NO_MEMORY: Look(MUTED, "+", (0, (4, 1.6)), 1.3)}
    looks |= {arm.name: spaces[arm.space] for arm in Arm.all_of(plan)}
    looks[Arm.OWN_AT_ONE] = replace(looks[Arm.OWN_AT_ONE], marker="x")
    if Arm.OWN in looks:  # at w = 1 the two are one
        looks[Arm.OWN] = replace(looks[Arm.OWN], marker="x", dash=(0, (1, 1.4)))
    return looks, [_NO_MEMORY, *(f"{arm.space}, w = {arm.weight:g}" for arm in Arm.all_of(plan))]


def _make_figure(work: Work) -> Sequence[Figure]:
    plan = work.plan
    stream, capacity, views = plan.main, plan.grids.benchmark_capacity, plan.budgets(plan.main)
    budgets = [Budget.read(work, stream, each, Arm.all_of(plan), capacity) for each in views]
    lines = _lines_of(budgets, _orders_of(work, stream))
    looks, legend = _looks_and_legend(plan)
    names = ("accuracy", "gain", "along the stream", "climb")
    return [
        Figure.of(
            plan,
            _CURVES,
            partial(_draw, views, lines, looks, legend),
            {"views": views, **dict(zip(names, lines, strict=True))},
        )
    ]


_FIGURE = Experiment.of(
    _CURVES,
    _make_figure,
    lambda plan: Budget.pieces(plan.main, plan.budgets(plan.main), Arm.all_of(plan)),
    Plan.needs_views,
)
