"""Views and memory with another predictor: the ResNet-50 rows of tab:ood and sec:s_substitution.

Does the memory help a weaker predictor, and do views? Cost: two replays for each order of each
stream of group predictor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.plan import Plan
from marc_paper.study.tables.over_orders import Mean, Runs, span
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "second-predictor"

_COLUMNS = columns(
    "stream | predictor | views | no memory: percent | from views alone: points fixed",
    "accuracy: percent fixed | gain: points fixed | over one view without memory: points fixed",
)

_ByViews = Mapping[int, Runs]


def _predictor_rows(name: str, predictor: str, streams: Sequence[_ByViews]) -> list[Row]:
    """One view, then many if there are any; several streams are averaged."""
    rows: list[Row] = []
    for place in range(max(len(runs) for runs in streams)):
        here = [list(runs.items())[min(place, len(runs) - 1)] for runs in streams]
        runs = [each for _, each in here]
        first = [each[1].base_correct for each in streams]
        alone: Estimate | None = None
        if place:
            alone = Estimate.over_streams(
                [(a.base_correct, b) for a, b in zip(runs, first, strict=True)]
            )
        rows.append(
            (
                *(name, predictor, span([views for views, _ in here])),
                *(Mean(runs).no_memory, alone, Mean(runs).accuracy, Mean(runs).gain),
                Estimate.over_streams([(a.correct, b) for a, b in zip(runs, first, strict=True)]),
            )
        )
    return rows


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    streams = plan.group("predictor")
    settings = _settings(plan)
    runs = {
        stream: {
            views: Runs.of(work, stream, "marc", views, **settings)
            for views in _budgets(plan, stream)
        }
        for stream in streams
    }
    rows: list[Row] = []
    for stream in streams:
        rows += _predictor_rows(stream, _predictor(plan, stream), [runs[stream]])
    for name, several in plan.averages(streams).items():
        seen = sorted({_predictor(plan, stream) for stream in several})
        rows += _predictor_rows(name, ", ".join(seen), [runs[stream] for stream in several])
    return [Table.of(plan, _NAME, _COLUMNS, rows, {**settings, "seeds": plan.seeds.orders})]


def _pieces(plan: Plan) -> list[Piece]:
    asked = [(each, views) for each in plan.group("predictor") for views in _budgets(plan, each)]
    settings = _settings(plan)
    return Piece.runs(plan.seeds.orders, ((each, "marc", m, settings) for each, m in asked))


def _missing(plan: Plan) -> str:
    return "" if plan.group("predictor") else "there is no stream of group predictor"


_EXPERIMENT = Experiment.of(_NAME, _make, _pieces, _missing)


def _budgets(plan: Plan, stream: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys((1, plan.most_views(stream))))


def _predictor(plan: Plan, stream: str) -> str:
    return plan.streams[stream].predictor or plan.predictor


def _settings(plan: Plan) -> dict[str, Any]:
    return plan.marc_settings(plan.spaces.deployed, plan.grids.benchmark_capacity)
