"""Accuracy against seconds an image: tab:pareto, tab:s_timing and the Pareto front.

Encoding, scoring the views and the memory itself are timed apart, all systems in each session.
Times are of the machine that makes the study, and no two sessions agree to the last digit. Cost:
one run of each system over the first order, and each system over the timed images once a session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from marc.stats import ratio_interval
from marc_paper.study.answers import Answers
from marc_paper.study.artifacts import Artifact, Column, Estimate, Figure, Row, Table, columns
from marc_paper.study.experiment import Experiment
from marc_paper.study.figures import pareto as figure
from marc_paper.study.plan import Plan
from marc_paper.study.tables.encoding_time import N_PICTURES
from marc_paper.study.tables.system_times import (
    DEPLOYED,
    STRONG,
    Configuration,
    Times,
    beginning,
    configurations,
    measure,
)
from marc_paper.study.work import Piece, Work, run_pieces

_NAME = "cost"
_ANSWERS = ("tab:pareto", "tab:s_timing")

_COLUMNS = columns(
    "configuration | space | views | encoding: seconds | scoring: seconds | memory: seconds",
    "total: seconds | no memory: percent | accuracy: percent fixed | on the front",
)


def _on_front(seconds: Sequence[float], accuracies: Sequence[float]) -> list[bool]:
    """Whether each system is on the front: nobody is as fast and as accurate, and better in one.

    >>> _on_front([1.0, 2.0, 3.0], [0.5, 0.7, 0.6])
    [True, True, False]
    """
    points = list(zip(seconds, accuracies, strict=True))
    return [
        not any(
            other != point and other[0] <= point[0] and other[1] >= point[1] for other in points
        )
        for point in points
    ]


def _cost_rows(
    systems: Sequence[Configuration], times: Sequence[Times], answers: Sequence[Answers]
) -> list[Row]:
    """Means over sessions, and who is on the front."""
    totals = [float(each.total.mean()) for each in times]
    front = _on_front(totals, [each.accuracy for each in answers])
    return [
        (
            *(system.label, system.space, str(system.views)),
            None if spent.encoding is None else float(spent.encoding.mean()),
            *(float(spent.scoring.mean()), float(spent.memory.mean()), total),
            *(answer.base_accuracy, answer.accuracy, "yes" if is_front else ""),
        )
        for system, spent, total, answer, is_front in zip(
            systems, times, totals, answers, front, strict=True
        )
    ]


def _ratio_rows(
    systems: Sequence[Configuration], times: Sequence[Times], answers: Sequence[Answers]
) -> list[Row]:
    """How many times as long another system takes than MARC, and what MARC gains over it."""
    place = {(each.label, each.views): number for number, each in enumerate(systems)}
    many = max(views for label, views in place if label == "no memory")
    graph = next(views for label, views in place if label == "COSMIC")
    asked = [("COSMIC over MARC, same views", ("COSMIC", graph), (DEPLOYED, graph))]
    if many > 1:
        for label in (DEPLOYED, STRONG):
            name = f"many views without memory over {label}, one view"
            asked.append((name, ("no memory", many), (label, 1)))
    rows: list[Row] = []
    for name, slow, fast in asked:
        a, b = place[slow], place[fast]
        ratio = Estimate.within(ratio_interval(times[a].total, times[b].total))
        rows.append((name, ratio, Estimate.paired(answers[b].correct, answers[a].correct)))
    return rows


def _make(work: Work) -> Sequence[Artifact]:
    """Costs, sessions, ratios and the picture of the front."""
    plan = work.plan
    systems = configurations(plan)
    seed = plan.seeds.orders[0]
    answers = [
        work.run(plan.main, each.method, seed, each.views, **each.settings) for each in systems
    ]
    times, reason = measure(work, systems)
    rows = _cost_rows(systems, times, answers)
    common: dict[str, Any] = {
        "answers": _ANSWERS,
        "settings": _settings(work),
        "notes": _notes(reason),
    }
    order = f"{plan.main}, first order."
    return [
        Table(
            name=_NAME,
            title="Accuracy and seconds an image",
            caption=f"{order} Means over {plan.timing.sessions} sessions, one image at a time. "
            "On the front: no other system is as fast and as accurate, and better in one.",
            columns=_COLUMNS,
            rows=tuple(rows),
            **common,
        ),
        _sessions_table(systems, times, order, common),
        Table(
            name=f"{_NAME}-ratios",
            title="How many times as long",
            caption=f"{order} Ratios of the total inside each session, with a t-interval over "
            "sessions. Accuracy: MARC minus the other system, paired over images; both stand in "
            f"the table {_NAME}, each with its accuracy without memory.",
            columns=columns("comparison | ratio: ratio | accuracy of MARC over it: points fixed"),
            rows=tuple(_ratio_rows(systems, times, answers)),
            **common,
        ),
        _figure(plan, systems, times, rows, reason),
    ]


def _pieces(plan: Plan) -> list[Piece]:
    # times are shared with nobody
    runs = ((plan.main, each.method, each.views, each.settings) for each in configurations(plan))
    return run_pieces(plan.seeds.orders[:1], runs)


EXPERIMENT = Experiment(_NAME, "Accuracy against seconds an image", _ANSWERS, _make, _pieces)


def _sessions_table(
    systems: Sequence[Configuration],
    times: Sequence[Times],
    order: str,
    common: Mapping[str, Any],
) -> Table:
    n_sessions = len(times[0].memory)
    return Table(
        name=f"{_NAME}-sessions",
        title="Seconds an image, session by session",
        caption=f"{order} Totals; every session times every system. Spread: the longest minus the "
        "shortest.",
        columns=(
            *_COLUMNS[:3],
            *(Column(f"session {number + 1}", "seconds") for number in range(n_sessions)),
            Column("spread", "seconds"),
        ),
        rows=tuple(
            (
                *(each.label, each.space, str(each.views)),
                *spent.total.tolist(),
                float(np.ptp(spent.total)),
            )
            for each, spent in zip(systems, times, strict=True)
        ),
        **common,
    )


def _figure(
    plan: Plan,
    systems: Sequence[Configuration],
    times: Sequence[Times],
    rows: Sequence[Row],
    reason: str,
) -> Figure:
    points = [
        figure.Point(
            *(each.label, each.views),
            float(spent.total.mean()),
            *(float(spent.total.min()), float(spent.total.max())),
            accuracy=float(row[8]),  # type: ignore[arg-type]
            is_front=row[9] == "yes",
        )
        for each, spent, row in zip(systems, times, rows, strict=True)
    ]
    axis = "milliseconds an image" + (", encoding not counted" if reason else "")
    return Figure(
        name="pareto",
        title="Accuracy against time",
        caption=f"{plan.main}, first order, fixed settings. Numbers are views; lines join the view "
        "budgets of a system, bars span the sessions. Grey: the Pareto front.",
        draw=partial(figure.draw, points, figure.looks(plan), axis),
        answers=_ANSWERS[:1],
        data={"points": [asdict(point) for point in points], "axis": axis},
    )


def _settings(work: Work) -> dict[str, Any]:
    plan = work.plan
    part = beginning(work.stream(plan.main), plan.timing)
    return {
        "stream": plan.main,
        "capacity": plan.grids.benchmark_capacity,
        "weight": plan.grids.weight,
        "seeds": plan.seeds.orders[:1],
        "timed images": part.n_timed,
        "warm-up images": part.n_warm,
        "sessions": plan.timing.sessions,
    }


def _notes(reason: str) -> tuple[str, ...]:
    encoding = (
        f"Encoding was not timed: {reason}. Totals are scoring and memory alone."
        if reason
        else f"Encoding: views are made and embedded one picture at a time, over {N_PICTURES} "
        "pictures at most that were decoded before; a retrieval encoder sees the plain picture."
    )
    return (
        "Times are of one machine and one day. They differ from session to session.",
        "Scoring: logits of every view, their selection and entropies. Methods that score views "
        "in their own way have it in the memory's time. Memory: features of one image in, an "
        "answer out, memories updated.",
        encoding,
    )
