"""Two capacities where many views are averaged: tab:s_cd_capacity.

Asked is whether the capacity that is better at one view stays better at the most views.
Cost: one sweep of the deployed space on every domain stream at its most views.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.budgets import Arm, Budget
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "large-views"

_COLUMNS = columns(
    "stream | views | no memory: percent | at capacity: percent fixed",
    "at benchmark capacity: percent fixed | change: points fixed | ratio: ratio",
)

_Capacities = tuple[Budget, Budget]
"""The deployed memory on one stream at the same views, at the two capacities."""


def _dispersion_ratio(change: float, *deviations: float | None) -> float | None:
    """How many pooled deviations a change is; None where they are unknown or zero.

    >>> round(_dispersion_ratio(54.37 - 50.18, 0.87, 1.24), 1)
    3.9
    """
    known = [each for each in deviations if each is not None]
    if not any(known):
        return None
    return abs(change) / math.sqrt(sum(each * each for each in known) / len(known))


def _capacity_row(stream: str, sides: _Capacities) -> Row:
    first, second = (each.correct[Arm.DEPLOYED] for each in sides)
    cells = [Estimate.over_orders(each.mean(axis=1).tolist()) for each in (first, second)]
    change = Estimate.paired(second, first)
    ratio = _dispersion_ratio(change.value, *(each.sd for each in cells))
    base = float(sides[0].base.mean())
    return (stream, str(sides[0].views), base, *cells, change, ratio)


def _mean_row(streams: Sequence[_Capacities]) -> Row:
    """The mean over streams of values that are not rounded; deviations are over orders."""
    cells = [
        Estimate.over_orders(
            np.mean(
                [each[side].correct[Arm.DEPLOYED].mean(axis=1) for each in streams], axis=0
            ).tolist()
        )
        for side in (0, 1)
    ]
    pairs = [
        (second.correct[Arm.DEPLOYED], first.correct[Arm.DEPLOYED]) for first, second in streams
    ]
    base = float(np.mean([first.base.mean() for first, _ in streams]))
    return ("mean", None, base, *cells, Estimate.over_streams(pairs), None)


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    grids, arm = plan.grids, Arm.deployed(plan)
    found = {
        stream: (
            Budget.read(work, stream, views, [arm], grids.capacity),
            Budget.read(work, stream, views, [arm], grids.benchmark_capacity),
        )
        for stream, views in _streams(plan).items()
    }
    rows = [_capacity_row(stream, sides) for stream, sides in found.items()]
    if len(rows) > 1:
        rows.append(_mean_row(list(found.values())))
    settings = plan.protocol("space weight capacity", benchmark_capacity=grids.benchmark_capacity)
    notes = Budget.one_view_note(plan.group("domain"), _streams(plan))
    settings |= plan.protocol("seeds")
    return [Table.of(plan, _NAME, _COLUMNS, rows, settings, notes=notes)]


def _missing(plan: Plan) -> str:
    if plan.grids.capacity == plan.grids.benchmark_capacity:
        return f"grids.capacity and grids.benchmark_capacity are both {plan.grids.capacity}"
    return "" if _streams(plan) else "no stream of group domain has several views"


_EXPERIMENT = Experiment.of(
    _NAME,
    _make,
    lambda plan: Piece.sweeps(_streams(plan), [plan.spaces.deployed], plan.most_views),
    _missing,
)


def _streams(plan: Plan) -> Mapping[str, int]:
    most = {stream: plan.most_views(stream) for stream in plan.group("domain")}
    return {stream: views for stream, views in most.items() if views > 1}
