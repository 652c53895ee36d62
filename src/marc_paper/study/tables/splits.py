"""The gain of the deployed memory with one view and with few, on every stream: tab:s_ood_sub.

Asked is whether the gain shrinks on every stream once a few views are averaged.
Cost: two sweeps of one space on every stream that has several views.
"""

from __future__ import annotations

from collections.abc import Sequence

from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.budgets import Arm, Budget
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "splits"
_GROUPS = ("main", "shift", "domain", "extra")

_COLUMNS = columns(
    "group | stream | capacity | few views | no memory, one view: percent",
    "memory, one view: percent fixed | no memory, few views: percent",
    "memory, few views: percent fixed | gain, one view: points fixed",
    "gain, few views: points fixed | shrink: points fixed",
)


def _split_row(names: Sequence[str], one: Budget, few: Budget) -> Row:
    """Accuracies and gains at one view and at few, means over the orders that are given."""
    return (
        *names,
        *(
            cell
            for each in (one, few)
            for cell in (
                float(each.base.mean()),
                Estimate.over_orders(each.correct[Arm.DEPLOYED].mean(axis=1).tolist()),
            )
        ),
        *(Estimate.paired(each.correct[Arm.DEPLOYED], each.base) for each in (one, few)),
        Estimate.paired(few.gains(Arm.DEPLOYED), one.gains(Arm.DEPLOYED)),
    )


def _first_order(budget: Budget) -> Budget:
    """The same budget with its first order alone."""
    correct = {arm: answers[:1] for arm, answers in budget.correct.items()}
    return Budget(budget.views, budget.base, correct)


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    first: list[Row] = []
    every: list[Row] = []
    for stream in _streams(plan):
        few, capacity = plan.few_views(stream), _capacity(plan, stream)
        arms = [Arm.deployed(plan)]
        budgets = [Budget.read(work, stream, views, arms, capacity) for views in (1, few)]
        names = (plan.streams[stream].group, stream, str(capacity), str(few))
        first.append(_split_row(names, *map(_first_order, budgets)))
        every.append(_split_row(names, *budgets))
    common = {**plan.protocol("space weight"), "few_views": plan.grids.few_views}
    notes = Budget.one_view_note(plan.group(*_GROUPS), _streams(plan))
    orders = plan.seeds.orders
    return [
        Table.of(plan, name, _COLUMNS, rows, {**common, "seeds": seeds}, notes=notes)
        for name, rows, seeds in ((_NAME, first, orders[:1]), (f"{_NAME}-orders", every, orders))
    ]


def _missing(plan: Plan) -> str:
    if plan.grids.few_views < 2:
        return f"grids.few_views is {plan.grids.few_views}, and few views are two or more"
    return "" if _streams(plan) else "no stream of this plan has several views"


def _pieces(plan: Plan) -> list[Piece]:
    arms = [Arm.deployed(plan)]
    asked = {stream: (1, plan.few_views(stream)) for stream in _streams(plan)}
    return [piece for each, views in asked.items() for piece in Budget.pieces(each, views, arms)]


_EXPERIMENT = Experiment.of(_NAME, _make, _pieces, _missing)


def _streams(plan: Plan) -> list[str]:
    """Streams that have several views, group by group."""
    names = [name for group in _GROUPS for name in plan.group(group)]
    return [name for name in names if plan.few_views(name) > 1]


def _capacity(plan: Plan, stream: str) -> int:
    """K of benchmarks for shifts of the main classes, K of comparisons for other classes."""
    grids = plan.grids
    is_domain = plan.streams[stream].group in ("domain", "extra")
    return grids.capacity if is_domain else grids.benchmark_capacity
