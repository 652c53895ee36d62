"""The memory without the predictor's scores: tab:s_cachealone.

The evidence of the memory answers alone. The predictor still gave the labels under which images
were stored, so this is no independent classifier.
Cost: one replay for each main stream, order and space: the predictor's own, the deployed and the
strong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from marc.stats import mcnemar_log10
from marc_paper.study.artifacts import Row, Table, columns
from marc_paper.study.plan import Plan
from marc_paper.study.tables.over_orders import Runs
from marc_paper.study.tables.paired import changes
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "memory-alone"
_NO_MEMORY = "no memory"

_COLUMNS = columns(
    "stream | space | accuracy: percent fixed | no memory: percent | difference: points fixed",
    "discordant, first order: count | McNemar p, first order: log10 p",
)


def _spaces_of(plan: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys((plan.spaces.own, plan.spaces.deployed, plan.spaces.strong)))


def _no_memory_row(stream: str, accuracy: float) -> Row:
    """The predictor alone, the same in every order."""
    return (stream, _NO_MEMORY, accuracy, accuracy, None, None, None)


def _alone_row(stream: str, space: str, runs: Runs) -> Row:
    """One space: its accuracy alone, against no memory on the same images."""
    first = runs.answers[0]
    counts = changes(first.correct, first.base_correct)
    return (
        *(stream, space, runs.accuracy, runs.no_memory, runs.gain),
        *(sum(counts), mcnemar_log10(*counts)),
    )


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    rows: list[Row] = []
    for stream in plan.group("main"):
        runs = {
            space: Runs.of(work, stream, "marc", **_settings(plan, space))
            for space in _spaces_of(plan)
        }
        rows.append(_no_memory_row(stream, runs[plan.spaces.own].no_memory))
        rows += [_alone_row(stream, space, found) for space, found in runs.items()]
    return [
        Table.of(plan, _NAME, _COLUMNS, rows, plan.protocol("capacity views seeds", use_base=False))
    ]


def _pieces(plan: Plan) -> list[Piece]:
    asked = [_settings(plan, space) for space in _spaces_of(plan)]
    streams = plan.group("main")
    return Piece.runs(
        plan.seeds.orders, ((stream, "marc", 1, each) for stream in streams for each in asked)
    )


def _settings(plan: Plan, space: str) -> dict[str, Any]:
    # any weight above 0 gives the same answers
    return {"space": space, "capacity": plan.grids.capacity, "weight": 1.0, "use_base": False}


_EXPERIMENT = Experiment.of(_NAME, _make, _pieces)
