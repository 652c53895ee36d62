"""MARC and COSMIC over the same orders: tab:s_ci_cosmic.

Both see the same images, views, second encoder and orders. COSMIC's two weights are fixed in one
table and chosen on the labels of the stream, as its authors do, in the other. Cost: one replay and
two online loops of COSMIC for each order of the first main stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from marc.stats import mcnemar_log10
from marc.types import Answers
from marc_paper.study.artifacts import Column, Estimate, Row, Table, Word, columns
from marc_paper.study.plan import Plan
from marc_paper.study.tables.over_orders import Runs
from marc_paper.study.tables.paired import changes
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "matched-orders"
_WORDS: dict[Word, str] = {"fixed": _NAME, "oracle": f"{_NAME}-oracle"}
"""Tables, by how the weights of COSMIC are chosen."""
_WEIGHTS = ("clip_weight", "dino_weight")


def _columns(word: Word) -> tuple[Column, ...]:
    """Columns where the weights of COSMIC were chosen in some way."""
    return (
        *columns(
            "order | no memory, MARC: percent | MARC: percent fixed", "no memory, COSMIC: percent"
        ),
        Column("COSMIC", "percent", word),
        Column("advantage", "points", word),
        *columns("discordant: count | p: log10 p"),
        *(Column(name.replace("_", " "), "number", word) for name in _WEIGHTS if word == "oracle"),
    )


def _order_row(order: str, ours: Answers, theirs: Answers) -> Row:
    counts = changes(ours.correct, theirs.correct)
    return (
        order,
        *(ours.base_accuracy, ours.accuracy),
        *(theirs.base_accuracy, theirs.accuracy),
        Estimate.paired(ours.correct, theirs.correct),
        sum(counts),
        mcnemar_log10(*counts),
        *(theirs.chosen[name] for name in _WEIGHTS if theirs.chosen),
    )


def _pooled_rows(ours: Runs, theirs: Runs) -> list[Row]:
    """All orders together: an interval over images, and one over orders if there are several."""
    empty = (None,) * (2 + len(theirs.answers[0].chosen))
    accuracies = (ours.no_memory, ours.accuracy, theirs.no_memory, theirs.accuracy)
    rows: list[Row] = [("pooled, clustered by image", *accuracies, ours.against(theirs), *empty)]
    if len(ours.answers) > 1:
        advantages: list[float] = (ours.correct.mean(axis=1) - theirs.correct.mean(axis=1)).tolist()
        mean = Estimate.across_orders(advantages)
        rows.append(("mean over orders", *accuracies, mean, *empty))
    return rows


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    views = plan.graph_views(plan.main)
    ours = Runs.of(work, plan.main, "marc", views, **_ours(plan))
    tables = []
    for word, name in _WORDS.items():
        theirs = Runs.of(work, plan.main, "cosmic", views, **_theirs(plan, word))
        pairs = zip(plan.seeds.orders, ours.answers, theirs.answers, strict=True)
        rows = [_order_row(str(seed), a, b) for seed, a, b in pairs]
        settings = {"stream": plan.main, **_ours(plan), "views": views, "seeds": plan.seeds.orders}
        settings["cosmic"] = _theirs(plan, word)
        rows += _pooled_rows(ours, theirs)
        tables.append(Table.of(plan, name, _columns(word), rows, settings, views=views))
    return tables


def _pieces(plan: Plan) -> list[Piece]:
    views = plan.graph_views(plan.main)
    theirs = [(plan.main, "cosmic", views, _theirs(plan, word)) for word in _WORDS]
    return Piece.runs(plan.seeds.orders, [(plan.main, "marc", views, _ours(plan)), *theirs])


_EXPERIMENT = Experiment.of(_NAME, _make, _pieces)


def _ours(plan: Plan) -> dict[str, Any]:
    return plan.marc_settings(plan.spaces.deployed, plan.grids.benchmark_capacity)


def _theirs(plan: Plan, word: Word) -> dict[str, Any]:
    oracle = {"oracle": True} if word == "oracle" else {}
    return {**plan.peer_settings("cosmic"), **oracle}
