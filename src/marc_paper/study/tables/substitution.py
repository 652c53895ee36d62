"""What views take from the gain of a memory, order by order: tab:s_substitution_seeds.

The experiment of `tables/view_budget.py` makes these tables from the sweeps that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc_paper.study.artifacts import Cell, Estimate, Row, Table, columns
from marc_paper.study.budgets import AUGMENTATION, DEPLOYED, ONE_DRAW, Budget, pairs, shared_share
from marc_paper.study.plan import Plan


def _contrast_rows(budgets: Sequence[Budget], seeds: Sequence[int]) -> list[Row]:
    """Gain and Sub(1, M) of the deployed memory, order by order, then their mean."""
    one = budgets[0].gains(DEPLOYED)
    rows: list[Row] = []
    for budget in budgets:
        gains = budget.gains(DEPLOYED)
        base = float(budget.base.mean())
        rows += _by_order(("gain", str(budget.views)), seeds, base, gains, np.zeros_like(gains))
    for budget in budgets[1:]:
        names = ("Sub(1, M)", str(budget.views))
        rows += _by_order(names, seeds, None, budget.gains(DEPLOYED), one)
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
    sets = pairs(one, many, DEPLOYED)
    augmented = int(sets[0].repairs[AUGMENTATION].sum())
    found = [int(each.repairs[DEPLOYED].sum()) for each in sets]
    shared = [each.shared_repairs(AUGMENTATION, DEPLOYED) for each in sets]
    shares = [shared_share(each, DEPLOYED) for each in sets]
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


def contrast_tables(
    plan: Plan, budgets: Sequence[Budget], settings: Mapping[str, Any]
) -> list[Table]:
    """Gains and contrasts, and shared repairs, from the budgets of one, few and many views."""
    seeds = plan.seeds.orders
    many = budgets[-1].views
    intervals = "Mean: ± is the standard deviation over orders, the interval a t-interval over them"
    return [
        Table(
            name="substitution",
            title="Gain of the memory with one, few and many views, order by order",
            caption=f"{plan.main}, {plan.spaces.deployed}, K = {settings['capacity']}, "
            f"w = {plan.grids.weight:g}. Sub(1, M): gain at M views minus gain at one view. "
            f"{intervals}; of one order: 95 %, paired over images.",
            columns=columns("quantity | views | order | no memory: percent | value: points fixed"),
            rows=tuple(_contrast_rows(budgets, seeds)),
            answers=("tab:s_substitution_seeds",),
            settings=settings,
            notes=(ONE_DRAW,),
        ),
        Table(
            name="substitution-repairs",
            title="Errors of one view that views and the memory repair, order by order",
            caption=f"{plan.main}: augmentation is {many} views without memory, retrieval one view "
            f"with {plan.spaces.deployed}, K = {settings['capacity']}, w = {plan.grids.weight:g}; "
            f"both against one view without memory. {intervals}.",
            columns=columns("quantity | order | images: count | share of augmentation: percent"),
            rows=tuple(_repair_rows(budgets[0], budgets[-1], seeds)),
            answers=("tab:s_substitution_seeds",),
            settings={**settings, "images": len(budgets[0].base)},
            notes=(ONE_DRAW,),
        ),
    ]
