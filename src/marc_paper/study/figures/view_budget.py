"""View budget and warm-up in four panels: fig:s_substitution.

Asked is how accuracy and gain move with the view budget, and how they climb along the stream.
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
from marc_paper.study.artifacts import Figure
from marc_paper.study.budgets import (
    DEPLOYED,
    OWN,
    OWN_AT_ONE,
    STRONG,
    Budget,
    arms_of,
    budget_pieces,
    read_budget,
)
from marc_paper.study.drawing import legend_below, looks_of, panels, zero_line
from marc_paper.study.experiment import Experiment, needs_views
from marc_paper.study.plan import Plan
from marc_paper.study.tables.warm_up import NO_MEMORY, Curves, climb, curves_of, orders_of, parts_of
from marc_paper.study.work import Work

_NAME = "view-budget-curves"
_WATCHED = (NO_MEMORY, DEPLOYED, STRONG)

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
    return {NO_MEMORY: base, **with_memory}


def _gains(accuracy: _Lines) -> dict[str, NDArray[np.float64]]:
    """Gain of every memory, (orders, budgets)."""
    base = accuracy[NO_MEMORY]
    return {arm: values - base for arm, values in accuracy.items() if arm != NO_MEMORY}


def _climbs(curves: Sequence[Curves]) -> dict[str, NDArray[np.float64]]:
    """How far accuracy climbs along the stream at each budget, (orders, budgets)."""
    return {name: np.stack([climb(each[name]) for each in curves], axis=1) for name in _WATCHED}


def _lines_of(budgets: Sequence[Budget], orders: NDArray[np.int64]) -> tuple[_Lines, ...]:
    """What the four panels show, from answers at each budget and the orders (orders, N)."""
    n_parts = parts_of(orders.shape[1])
    curves = [curves_of(budget, orders, n_parts) for budget in budgets]
    accuracy = _accuracies(budgets)
    along = {name: curves[0][name] for name in _WATCHED}
    return accuracy, _gains(accuracy), along, _climbs(curves)


def _draw(
    views: Sequence[int], lines: Sequence[_Lines], looks: Mapping[str, Look], legend: Sequence[str]
) -> Any:
    """Four panels; `legend` says of each look what it is."""
    figure, grid = panels(2, 2, height=2.3)
    n_parts = lines[2][NO_MEMORY].shape[1]
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
        zero_line(axes)
    legend_below(figure, dict(zip(legend, looks.values(), strict=True)), marker=True)
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
    looks = {NO_MEMORY: Look(MUTED, "+", (0, (4, 1.6)), 1.3)}
    looks |= {arm.name: spaces[arm.space] for arm in arms_of(plan)}
    looks[OWN_AT_ONE] = replace(looks[OWN_AT_ONE], marker="x")
    if OWN in looks:  # at w = 1 the two are one
        looks[OWN] = replace(looks[OWN], marker="x", dash=(0, (1, 1.4)))
    return looks, [NO_MEMORY, *(f"{arm.space}, w = {arm.weight:g}" for arm in arms_of(plan))]


def _make(work: Work) -> Sequence[Figure]:
    """The figure of the main stream."""
    plan = work.plan
    stream, capacity, views = plan.main, plan.grids.benchmark_capacity, plan.budgets(plan.main)
    budgets = [read_budget(work, stream, each, arms_of(plan), capacity) for each in views]
    lines = _lines_of(budgets, orders_of(work, stream))
    looks, legend = _looks_and_legend(plan)
    names = ("accuracy", "gain", "along the stream", "climb")
    return [
        Figure(
            name=_NAME,
            title="View budget and warm-up",
            caption=f"{stream}, K = {capacity}, weights as the legend says (fixed). (a) Accuracy "
            "at every view budget. (b) Gain over the same views without memory. (c) Accuracy in "
            "equal parts of the stream at one view: a memory climbs while it fills. (d) Accuracy "
            "in the last part minus that in the first, at every view budget. Lines are means over "
            "orders, bands the range over orders; views are one draw. Memories of the "
            f"predictor's own space, {plan.spaces.own}, are in (a) and (b); (c) and (d) leave them "
            "out.",
            draw=partial(_draw, views, lines, looks, legend),
            answers=("fig:s_substitution",),
            data={"views": views, **dict(zip(names, lines, strict=True))},
        )
    ]


EXPERIMENT = Experiment(
    _NAME,
    "View budget and warm-up, figure",
    ("fig:s_substitution",),
    _make,
    pieces=lambda plan: budget_pieces(plan.main, plan.budgets(plan.main), arms_of(plan)),
    missing=needs_views,
)
