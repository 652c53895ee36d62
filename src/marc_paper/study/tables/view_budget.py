"""The gain of a memory at every view budget: tab:grid and tab:s_substitution_seeds.

Asked is whether a memory still gains once many views are averaged, and by how much less. Sub(1, M)
is the gain at M views minus the gain at one view, with space, capacity and weight held.
Cost: a sweep of three spaces of the main stream at every view budget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc_paper.study.artifacts import Cell, Column, Estimate, Row, Table, columns
from marc_paper.study.budgets import Arm, Budget
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Work


def _contrast_rows(budgets: Sequence[Budget], seeds: Sequence[int]) -> list[Row]:
    """Gain and Sub(1, M) of the deployed memory, order by order, then their mean."""
    one = budgets[0].gains(Arm.DEPLOYED)
    rows: list[Row] = []
    for budget in budgets:
        gains = budget.gains(Arm.DEPLOYED)
        base = float(budget.base.mean())
        rows += _by_order(("gain", str(budget.views)), seeds, base, gains, np.zeros_like(gains))
    for budget in budgets[1:]:
        names = ("Sub(1, M)", str(budget.views))
        rows += _by_order(names, seeds, None, budget.gains(Arm.DEPLOYED), one)
    return rows


def _by_order(
    names: tuple[str, str],
    seeds: Sequence[int],
    base: float | None,
    after: NDArray[np.int8],
    before: NDArray[np.int8],
) -> list[Row]:
    rows: list[Row] = [
        (*names, str(seed), base, Estimate.paired(after[[place]], before[[place]]))
        for place, seed in enumerate(seeds)
    ]
    return [
        *rows,
        (*names, "mean", base, Estimate.across_orders((after - before).mean(axis=1).tolist())),
    ]


def _repair_rows(one: Budget, many: Budget, seeds: Sequence[int]) -> list[Row]:
    """Errors that many views repair, that the deployed memory repairs, and both, by order."""
    sets = one.repairs(many, Arm.DEPLOYED)
    augmented = int(sets[0].repairs[Budget.AUGMENTATION].sum())
    found = [int(each.repairs[Arm.DEPLOYED].sum()) for each in sets]
    shared = [each.shared_repairs(Budget.AUGMENTATION, Arm.DEPLOYED) for each in sets]
    shares = [each.shared_fraction(Budget.AUGMENTATION, Arm.DEPLOYED) for each in sets]
    counts: dict[str, list[Cell]] = {
        "augmentation repairs": [*([augmented] * len(seeds)), augmented],
        "retrieval repairs": [*found, Estimate.across_orders(found)],
        "shared repairs": [*shared, Estimate.across_orders(shared)],
    }
    of_augmented: list[Cell] = [*shares, Estimate.across_orders(shares)]
    orders = [*map(str, seeds), "mean"]
    return [
        (quantity, order, count, share if quantity == "shared repairs" else None)
        for quantity, cells in counts.items()
        for order, count, share in zip(orders, cells, of_augmented, strict=True)
    ]


def _contrast_tables(
    plan: Plan, budgets: Sequence[Budget], settings: Mapping[str, Any]
) -> list[Table]:
    """Gains and contrasts, and shared repairs, from the budgets of one, few and many views."""
    seeds = plan.seeds.orders
    many = budgets[-1].views
    return [
        Table.of(
            plan,
            "substitution",
            columns("quantity | views | order | no memory: percent | value: points fixed"),
            _contrast_rows(budgets, seeds),
            settings,
        ),
        Table.of(
            plan,
            "substitution-repairs",
            columns("quantity | order | images: count | share of augmentation: percent"),
            _repair_rows(budgets[0], budgets[-1], seeds),
            {**settings, "images": len(budgets[0].base)},
            many=many,
        ),
    ]


_NAME = "view-budget"
_GAINS = {"deployed": Arm.DEPLOYED, "strong": Arm.STRONG}
"""Memories whose gains have columns."""

_CHANGE_COLUMNS = columns("quantity | first order: points fixed | all orders: points fixed")
_ORDER_COLUMNS = columns(
    "memory | views | space | weight | no memory: percent | accuracy: percent fixed",
    "gain: points fixed | Sub(1, M): points fixed",
)


def _columns_of(arms: Sequence[Arm]) -> tuple[Column, ...]:
    """Accuracies of the first order, then gains of the first order and of all."""
    return (
        *columns("views | no memory: percent"),
        *(Column(arm.name, "percent", "fixed") for arm in arms),
        *(
            Column(f"{name} gain, {orders}", "points", "fixed")
            for name in _GAINS
            for orders in ("first order", "all orders")
        ),
    )


def _budget_rows(budgets: Sequence[Budget]) -> list[Row]:
    return [
        (
            str(budget.views),
            float(budget.base.mean()),
            *(float(correct[0].mean()) for correct in budget.correct.values()),
            *(
                Estimate.paired(correct, budget.base)
                for arm in _GAINS.values()
                for correct in (budget.correct[arm][:1], budget.correct[arm])
            ),
        )
        for budget in budgets
    ]


def _change_rows(least: Budget, most: Budget) -> list[Row]:
    """What more views change: accuracy without memory and with each, then the gain of two."""
    alone = Estimate.paired(most.base, least.base)  # the same in every order
    rows: list[Row] = [("no memory", alone, alone)]
    for arm, after in most.correct.items():
        rows.append(_change_row(arm, after, least.correct[arm]))
    for name, arm in _GAINS.items():
        rows.append(_change_row(f"{name} gain", most.gains(arm), least.gains(arm)))
    return rows


def _change_row(quantity: str, after: NDArray[Any], before: NDArray[Any]) -> Row:
    """The first order, and all of them (orders, N)."""
    return (quantity, Estimate.paired(after[:1], before[:1]), Estimate.paired(after, before))


def _order_rows(budgets: Sequence[Budget], arms: Sequence[Arm]) -> list[Row]:
    """One row a memory and budget: accuracy, gain and Sub(1, M), means over orders."""
    one = budgets[0]
    rows: list[Row] = []
    for arm in arms:
        for budget in budgets:
            gains = budget.gains(arm.name)
            by_order = budget.correct[arm.name].mean(axis=1).tolist()
            rows.append(
                (
                    *(arm.name, str(budget.views), arm.space, f"{arm.weight:g}"),
                    *(float(budget.base.mean()), Estimate.over_orders(by_order)),
                    Estimate.paired(budget.correct[arm.name], budget.base),
                    None if budget is one else Estimate.paired(gains, one.gains(arm.name)),
                )
            )
    return rows


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    stream, arms, capacity = plan.main, Arm.all_of(plan), plan.grids.benchmark_capacity
    read = {views: Budget.read(work, stream, views, arms, capacity) for views in _budgets(plan)}
    budgets = [read[views] for views in plan.budgets(stream)]
    return [
        *_budget_tables(plan, budgets, arms),
        *_contrast_tables(plan, [read[views] for views in plan.anchors(stream)], _settings(plan)),
    ]


def _budget_tables(plan: Plan, budgets: Sequence[Budget], arms: Sequence[Arm]) -> list[Table]:
    settings, most = _settings(plan), budgets[-1].views
    return [
        Table.of(plan, _NAME, _columns_of(arms), _budget_rows(budgets), settings),
        Table.of(
            plan,
            f"{_NAME}-change",
            _CHANGE_COLUMNS,
            _change_rows(budgets[0], budgets[-1]),
            settings,
            most=most,
        ),
        Table.of(
            plan,
            f"{_NAME}-orders",
            _ORDER_COLUMNS,
            _order_rows(budgets, arms),
            {name: value for name, value in settings.items() if name != "weight"},
        ),
    ]


def _budgets(plan: Plan) -> list[int]:
    return sorted({*plan.budgets(plan.main), *plan.anchors(plan.main)})


def _settings(plan: Plan) -> dict[str, object]:
    return {
        "stream": plan.main,
        "capacity": plan.grids.benchmark_capacity,
        "weight": plan.grids.weight,
        "few_views": plan.few_views(plan.main),
        "many_views": plan.most_views(plan.main),
        "seeds": plan.seeds.orders,
    }


_EXPERIMENT = Experiment.of(
    _NAME,
    _make,
    lambda plan: Budget.pieces(plan.main, _budgets(plan), Arm.all_of(plan)),
    Plan.needs_views,
)
