"""Optional components, one after the other: tab:s_components_ood.

Does pseudo-label refinement, a negative memory or adaptive fusion improve the reduced system?
Each is added to what came before. The strict system without CLIP memory stands beside them.
Cost: five replays for each order of each main and shift stream, and as many again at the largest
view budget of the first main stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from marc_paper.study.artifacts import Row, Table, columns
from marc_paper.study.plan import Plan
from marc_paper.study.tables.over_orders import Mean, Runs
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "components"
_REDUCED, _STRICT = "reduced system", "strict one memory"
_NEGATIVE_WEIGHT, _GAMMA = 0.117, 1.0
"""lambda_-, as TDA was released with it, and gamma; the paper prints neither."""

_STEPS: Mapping[str, Mapping[str, Any]] = {
    _REDUCED: {},
    "refinement": {"refine_labels": True},
    "negative memory": {"refine_labels": True, "negative_weight": _NEGATIVE_WEIGHT},
    "adaptive fusion": {
        "refine_labels": True,
        "negative_weight": _NEGATIVE_WEIGHT,
        "gamma": _GAMMA,
    },
    _STRICT: {"admission_capacity": 0},
}
"""Settings beside the usual ones; the components are cumulative, in the paper's order."""

_REFERENCE = {
    "refinement": _REDUCED,
    "negative memory": "refinement",
    "adaptive fusion": "negative memory",
    _STRICT: _REDUCED,
}
"""What each step is compared with."""

_COLUMNS = columns(
    "stream | views | component | no memory: percent | accuracy: percent fixed",
    "gain: points fixed | change: points fixed",
)


def _component_rows(name: str, views: int, streams: Sequence[Mapping[str, Runs]]) -> list[Row]:
    rows: list[Row] = []
    for step in _STEPS:
        mean, change = Mean([each[step] for each in streams]), None
        if step in _REFERENCE:
            change = mean.against(Mean([each[_REFERENCE[step]] for each in streams]))
        values = (mean.no_memory, mean.accuracy, mean.gain, change)
        rows.append((name, str(views), step, *values))
    return rows


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    streams = plan.group("main", "shift")
    runs = {stream: _runs(work, stream, 1) for stream in streams}
    rows = [row for stream in streams for row in _component_rows(stream, 1, [runs[stream]])]
    for name, several in plan.averages(streams).items():
        rows += _component_rows(name, 1, [runs[stream] for stream in several])
    many = plan.most_views(plan.main)
    if many > 1:
        rows += _component_rows(plan.main, many, [_runs(work, plan.main, many)])
    settings = _settings(plan)
    return [
        Table.of(
            plan,
            _NAME,
            _COLUMNS,
            rows,
            {**settings, **plan.protocol("seeds", negative_weight=_NEGATIVE_WEIGHT, gamma=_GAMMA)},
            negative_weight=_NEGATIVE_WEIGHT,
            gamma=_GAMMA,
        )
    ]


def _pieces(plan: Plan) -> list[Piece]:
    asked = [(stream, 1) for stream in plan.group("main", "shift")]
    asked.append((plan.main, plan.most_views(plan.main)))
    usual = _settings(plan)
    steps = [{**usual, **step} for step in _STEPS.values()]
    return Piece.runs(
        plan.seeds.orders, ((stream, "marc", m, step) for stream, m in asked for step in steps)
    )


_EXPERIMENT = Experiment.of(_NAME, _make, _pieces)


def _settings(plan: Plan) -> dict[str, Any]:
    return plan.marc_settings(plan.spaces.deployed, plan.grids.benchmark_capacity)


def _runs(work: Work, stream: str, views: int) -> dict[str, Runs]:
    return {
        name: Runs.of(work, stream, "marc", views, **_settings(work.plan), **step)
        for name, step in _STEPS.items()
    }
