"""How accuracy climbs while a memory fills: the numbers of fig:s_warmup.

The stream is cut into tenths. A memory that fills answers the last tenth better than the first;
without memory the tenths differ by chance alone.
Cost: the sweeps of `tables/view_budget.py`, nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from marc_paper.study.artifacts import Column, Estimate, Row, Table, columns
from marc_paper.study.budgets import (
    DEPLOYED,
    STRONG,
    Arm,
    Budget,
    arms_of,
    budget_pieces,
    read_budget,
)
from marc_paper.study.experiment import Experiment
from marc_paper.study.plan import Plan
from marc_paper.study.work import Work

_NAME = "warm-up"
NO_MEMORY = "no memory"
_PARTS = 10

Curves = Mapping[str, NDArray[np.float64]]
"""By name, accuracy in each part of the stream, (orders, parts)."""

_VALUES = (
    Column(NO_MEMORY, "percent"),
    Column(DEPLOYED, "percent", "fixed"),
    Column(STRONG, "percent", "fixed"),
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


def curves_of(budget: Budget, orders: NDArray[np.int64], n_parts: int) -> Curves:
    """Accuracy along the stream without memory and with each memory."""
    answers = {NO_MEMORY: budget.base, **budget.correct}
    return {name: _along(correct, orders, n_parts) for name, correct in answers.items()}


def climb(curve: NDArray[np.float64]) -> NDArray[np.float64]:
    """The last part minus the first, (orders,), from accuracy (orders, parts)."""
    return curve[:, -1] - curve[:, 0]


def _part_rows(curves: Curves) -> list[Row]:
    """One row a part of the stream."""
    n_parts = curves[NO_MEMORY].shape[1]
    return [
        (str(part + 1), *_values({name: curve[:, part] for name, curve in curves.items()}))
        for part in range(n_parts)
    ]


def _climb_rows(budgets: Mapping[int, Curves]) -> list[Row]:
    """One row a view budget: how far each curve climbs."""
    return [
        (str(views), *_values({name: climb(curve) for name, curve in curves.items()}))
        for views, curves in budgets.items()
    ]


def _values(found: Mapping[str, NDArray[np.float64]]) -> list[Estimate]:
    """Means over orders of what was found, (orders,) each, then of the gains."""
    base = found[NO_MEMORY]
    return [
        Estimate.over_orders(each.tolist())
        for each in (
            *(found[name] for name in (NO_MEMORY, DEPLOYED, STRONG)),
            *(found[name] - base for name in (DEPLOYED, STRONG)),
        )
    ]


def orders_of(work: Work, stream: str) -> NDArray[np.int64]:
    """The row at each position in every order of the plan, (orders, N)."""
    entry = work.stream(stream)
    return np.stack([entry.in_order(seed).order for seed in work.plan.seeds.orders])


def parts_of(n_images: int) -> int:
    """Tenths, or fewer parts of a shorter stream."""
    return min(_PARTS, n_images)


def _make(work: Work) -> Sequence[Table]:
    """Accuracy along the stream at one view, and how far it climbs at every view budget."""
    plan = work.plan
    stream, capacity, weight = plan.main, plan.grids.benchmark_capacity, plan.grids.weight
    orders = orders_of(work, stream)
    n_parts = parts_of(orders.shape[1])
    budgets = {
        views: curves_of(read_budget(work, stream, views, _arms(plan), capacity), orders, n_parts)
        for views in plan.budgets(stream)
    }
    settings = {
        "stream": stream,
        "capacity": capacity,
        "weight": weight,
        "parts": n_parts,
        "seeds": plan.seeds.orders,
    }
    about = (
        f"{stream}, K = {capacity}, w = {weight:g}, {n_parts} equal parts of the stream. ±: "
        "standard deviation over orders."
    )
    return [
        Table(
            name=_NAME,
            title="Accuracy along the stream",
            caption=f"{about} One view.",
            columns=(Column("part"), *_VALUES),
            rows=tuple(_part_rows(budgets[1])),
            answers=("fig:s_warmup",),
            settings={**settings, "views": 1},
        ),
        Table(
            name=f"{_NAME}-climb",
            title="How far accuracy climbs along the stream at every view budget",
            caption=f"{about} Accuracy in the last part minus that in the first.",
            columns=(
                Column("views"),
                *(Column(column.name, "points", column.word) for column in _VALUES),
            ),
            rows=tuple(_climb_rows(budgets)),
            answers=("fig:s_warmup",),
            settings=settings,
            notes=("Views are one draw; the paper draws them again with the seed.",),
        ),
    ]


EXPERIMENT = Experiment(
    _NAME,
    "Accuracy while the memory fills",
    ("fig:s_warmup",),
    _make,
    pieces=lambda plan: budget_pieces(plan.main, plan.budgets(plan.main), _arms(plan)),
)


def _arms(plan: Plan) -> list[Arm]:
    return [arm for arm in arms_of(plan) if arm.name in (DEPLOYED, STRONG)]
