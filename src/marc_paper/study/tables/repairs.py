"""Which errors views and memories repair, and which answers they break: tab:s_repair_regression.

Every change is counted against the predictor at one view without memory. Then what views and a
memory share, and what an oracle over both would reach (the paper's oracle coverage analysis).
Cost: a sweep of three spaces of the main stream at one view and at the most views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from marc_paper.analysis.interaction import RepairSets
from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.budgets import Arm, Budget
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Work

_NAME = "repairs"

_COLUMNS = columns(
    "source | views | space | weight | no memory: percent | accuracy: percent fixed",
    "repairs: count | regressions: count | net change: points fixed",
)
_SHARED_COLUMNS = columns(
    "memory | space | weight | shared repairs: count | augmentation only: count",
    "memory only: count | share of augmentation: percent | shared regressions: count",
    "cross sets: count",
)
_COVERAGE_COLUMNS = columns(
    "memory | space | weight | no memory: percent | augmentation: percent",
    "memory alone: percent fixed | combination: percent fixed | coverage: percent oracle",
    "coverage with reference: percent oracle",
)


@final
@dataclass(frozen=True)
class _Source:
    """Answers that are set against the reference."""

    name: str
    views: int
    arm: Arm | None
    base: NDArray[np.bool_]
    """The same views without memory, (N,)."""
    correct: NDArray[np.bool_]
    """(orders, N); one order where the order does not matter."""


def _views_and_memories(one: Budget, many: Budget, arms: Sequence[Arm]) -> list[_Source]:
    """Views alone, each memory alone, and each memory with the views."""
    alone = _Source(Budget.AUGMENTATION, many.views, None, many.base, many.base[np.newaxis])
    return [
        alone,
        *(_Source(arm.name, 1, arm, one.base, one.correct[arm.name]) for arm in arms),
        *(
            _Source(
                f"{Budget.AUGMENTATION} and {a.name}",
                many.views,
                a,
                many.base,
                many.correct[a.name],
            )
            for a in arms
        ),
    ]


def _source_rows(reference: NDArray[np.bool_], sources: Sequence[_Source]) -> list[Row]:
    base = float(reference.mean())
    rows: list[Row] = [("reference", "1", None, None, base, base, 0, 0, 0.0)]
    for source in sources:
        sets = [RepairSets.of(reference, {source.name: each}) for each in source.correct]
        arm = source.arm
        rows.append(
            (
                source.name,
                str(source.views),
                arm.space if arm else None,
                f"{arm.weight:g}" if arm else None,
                float(source.base.mean()),
                Estimate.over_orders(source.correct.mean(axis=1).tolist()),
                Estimate.over_orders([int(each.repairs[source.name].sum()) for each in sets]),
                Estimate.over_orders([int(each.regressions[source.name].sum()) for each in sets]),
                Estimate.over_orders([each.accuracy_change(source.name) for each in sets]),
            )
        )
    return rows


def _shared_row(one: Budget, many: Budget, arm: Arm) -> Row:
    """What many views and one memory at one view repair and break together."""
    sets = one.repairs(many, arm.name)
    shared = [each.shared_repairs(Budget.AUGMENTATION, arm.name) for each in sets]
    only = {
        source: [
            int(each.repairs[source].sum()) - both for each, both in zip(sets, shared, strict=True)
        ]
        for source in (Budget.AUGMENTATION, arm.name)
    }
    return (
        *(arm.name, arm.space, f"{arm.weight:g}", Estimate.over_orders(shared)),
        Estimate.over_orders(only[Budget.AUGMENTATION]),
        Estimate.over_orders(only[arm.name]),
        Estimate.over_orders(
            [each.shared_fraction(Budget.AUGMENTATION, arm.name) for each in sets]
        ),
        Estimate.over_orders(
            [each.shared_regressions(Budget.AUGMENTATION, arm.name) for each in sets]
        ),
        sum(_crossed(each, arm.name) for each in sets),
    )


def _crossed(sets: RepairSets, arm: str) -> int:
    """Images that one source repairs and the other breaks: none, by definition."""
    return sum(
        int((sets.repairs[first] & sets.regressions[second]).sum())
        for first, second in ((Budget.AUGMENTATION, arm), (arm, Budget.AUGMENTATION))
    )


def _coverage_row(one: Budget, many: Budget, arm: Arm) -> Row:
    """What an oracle over both sources reaches, and what their combination does."""
    kept = [
        RepairSets.of(
            one.base, {"reference": one.base, Budget.AUGMENTATION: many.base, arm.name: correct}
        )
        for correct in one.correct[arm.name]
    ]
    return (
        *(arm.name, arm.space, f"{arm.weight:g}", float(one.base.mean())),
        float(many.base.mean()),
        Estimate.over_orders(one.correct[arm.name].mean(axis=1).tolist()),
        Estimate.over_orders(many.correct[arm.name].mean(axis=1).tolist()),
        Estimate.over_orders([each.coverage for each in one.repairs(many, arm.name)]),
        Estimate.over_orders([each.coverage for each in kept]),
    )


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    stream, arms, capacity = plan.main, Arm.all_of(plan), plan.grids.benchmark_capacity
    one, many = (Budget.read(work, stream, views, arms, capacity) for views in _ends(plan))
    settings = {
        "stream": stream,
        "capacity": capacity,
        "many_views": many.views,
        "images": len(one.base),
        "seeds": plan.seeds.orders,
    }
    values: dict[str, Any] = {"n_images": len(one.base), "many": many.views}
    sources = _views_and_memories(one, many, arms)
    shared = [_shared_row(one, many, arm) for arm in arms]
    coverage = [_coverage_row(one, many, arm) for arm in arms]
    return [
        Table.of(plan, _NAME, _COLUMNS, _source_rows(one.base, sources), settings, **values),
        Table.of(plan, f"{_NAME}-shared", _SHARED_COLUMNS, shared, settings, **values),
        Table.of(plan, f"{_NAME}-coverage", _COVERAGE_COLUMNS, coverage, settings, **values),
    ]


def _ends(plan: Plan) -> tuple[int, int]:
    return 1, plan.most_views(plan.main)


_EXPERIMENT = Experiment.of(
    _NAME,
    _make,
    lambda plan: Budget.pieces(plan.main, _ends(plan), Arm.all_of(plan)),
    Plan.needs_views,
)
