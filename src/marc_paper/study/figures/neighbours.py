"""Queries that the strong space repairs, with their nearest retained keys: fig:s_qualitative.

The rule: base prediction wrong, memory margin below zero in the predictor's own space and above
zero in the strong one, fused prediction right in the strong one. Of the images that satisfy it in
the first order, one is shown from the middle of each quarter, so that the stream decides and not
the eye. Both spaces read the same retained items.
Cost: two sweeps that other experiments share, three passes over the admission memory, and as many
pictures as there are tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.method import MARC
from marc.report.thumbnails import pictures_of
from marc.scores import Int
from marc.stream import Stream
from marc_paper.analysis.interaction import margins, true_margin
from marc_paper.study.artifacts import Artifact, Figure, Row, Table, columns
from marc_paper.study.experiment import Experiment
from marc_paper.study.plan import Plan
from marc_paper.study.queries import (
    ChosenQuery,
    Reading,
    first_order,
    in_stream,
    needs_two_spaces,
    none_chosen,
    query_at,
    spread_evenly,
    two_space_pieces,
)
from marc_paper.study.tiles import draw
from marc_paper.study.work import Work

_NAME = "neighbours"
_TITLE = "Nearest retained keys of repaired queries"
_ANSWERS = ("fig:s_qualitative",)
_N_QUERIES = 4
_N_NEAREST = 10

_COLUMNS = columns(
    "stream | query | space | true class | base prediction | keys: count",
    "nearest shown: count | of the true class: count | stored as the true class: count",
    "stored as the base prediction: count | cosine, nearest: number",
    "cosine, last shown: number | memory margin: number",
)


def _rows_of(stream: str, query: ChosenQuery, labels: Int, names: Sequence[str]) -> list[Row]:
    """One row a space: what the nearest keys are to the query. `labels` are by stored row."""
    rows: list[Row] = []
    for space, reading in query.readings.items():
        near = reading.first(_N_NEAREST)
        evidence = reading.evidence(len(names))[np.newaxis]
        rows.append(
            (
                *(stream, query.id, space, names[query.true], names[query.predicted]),
                *(len(reading.items), len(near.items)),
                int((labels[near.items] == query.true).sum()),
                int((near.stored == query.true).sum()),
                int((near.stored == query.predicted).sum()),
                *(float(near.cosines[0]), float(near.cosines[-1])),
                float(true_margin(evidence, np.array([query.true]))[0]),
            )
        )
    return rows


def _named_by_rule(work: Work, stream: Stream) -> NDArray[np.bool_]:
    """Which stored rows satisfy the rule of this figure, (N,)."""
    plan = work.plan
    own, strong, capacity = plan.spaces.own, plan.spaces.strong, plan.grids.capacity
    sweep = work.sweep(plan.main, (own, strong))
    right = sweep.correct(strong, capacity, plan.grids.weight, plan.seeds.orders[0])
    memory = {space: margins(MARC(space, capacity), stream).memory for space in (own, strong)}
    named = ~sweep.base_correct & right
    named[stream.order] &= (memory[own] < 0) & (memory[strong] > 0)
    return named


def _make(work: Work) -> Sequence[Artifact]:
    """The tiles and their numbers; one row that says why where no image satisfies the rule."""
    plan = work.plan
    own, strong, capacity = plan.spaces.own, plan.spaces.strong, plan.grids.capacity
    stream, trajectory = first_order(work)
    positions = in_stream(_named_by_rule(work, stream), stream.order)
    rule = (
        f"base prediction wrong, memory margin below 0 in {own} and above 0 in {strong}, "
        f"fused right in {strong}, "
        f"K = {capacity}, w = {plan.grids.weight:g}, order {plan.seeds.orders[0]}"
    )
    if not len(positions):
        return [none_chosen(_NAME, _TITLE, plan.main, rule, _ANSWERS)]
    queries = [
        query_at(stream, trajectory, int(position), (own, strong), capacity)
        for position in spread_evenly(positions, _N_QUERIES)
    ]
    about = f"Evenly spaced in stream order among {len(positions):,} images of {plan.main}: {rule}."
    labels, names = stream.row_labels, stream.features.class_names
    assert labels is not None  # a study has checked
    rows = [row for query in queries for row in _rows_of(plan.main, query, labels, names)]
    pictures = _pictures(stream, plan.streams[plan.main].source, queries)
    return [_figure(queries, labels, names, pictures, about), _table(plan, rows, about)]


def _table(plan: Plan, rows: Sequence[Row], about: str) -> Table:
    return Table(
        name=_NAME,
        title=_TITLE,
        caption=f"{about} Nearest by cosine among the same retained items in both spaces. Memory "
        "margin: evidence for the true class minus the best other, over all keys.",
        columns=_COLUMNS,
        rows=tuple(rows),
        answers=_ANSWERS,
        settings={
            "capacity": plan.grids.capacity,
            "weight": plan.grids.weight,
            "views": 1,
            "seeds": plan.seeds.orders[:1],
        },
    )


def _pictures(
    stream: Stream, source: str, queries: Sequence[ChosenQuery]
) -> dict[int, NDArray[np.uint8]]:
    """The pictures of the queries and their nearest keys, by row, where there are any."""
    of_row = pictures_of(stream, source)
    rows = {query.row for query in queries}
    for query in queries:
        for reading in query.readings.values():
            rows |= set(reading.first(_N_NEAREST).items.tolist())
    found = {row: of_row(row) for row in sorted(rows)}
    return {row: picture for row, picture in found.items() if picture is not None}


def _figure(
    queries: Sequence[ChosenQuery],
    labels: Int,
    names: Sequence[str],
    pictures: Mapping[int, NDArray[np.uint8]],
    about: str,
) -> Figure:
    tiles = shown(queries, labels, names)
    return Figure(
        name=f"{_NAME}-tiles",
        title=_TITLE,
        caption=f"{about} Left: the query, its true class and its base prediction. Each row: its "
        f"{_N_NEAREST} nearest retained keys in one space, the nearest first, from the same "
        "memory. Frames tell the true label of a key, corner marks its stored label. The number is "
        "the cosine; the bar is the kernel weight, on one scale for all rows.",
        draw=partial(draw, tiles, pictures),
        answers=_ANSWERS,
        data={"queries": tiles},
    )


def shown(
    queries: Sequence[ChosenQuery], labels: Int, names: Sequence[str]
) -> list[dict[str, Any]]:
    """Everything that the tiles show, as plain values."""
    return [
        {
            "id": query.id,
            "row": query.row,
            "position": query.position,
            "true class": names[query.true],
            "base prediction": names[query.predicted],
            "spaces": {
                space: _nearest(query, reading.first(_N_NEAREST), labels, names)
                for space, reading in query.readings.items()
            },
        }
        for query in queries
    ]


def _nearest(
    query: ChosenQuery, near: Reading, labels: Int, names: Sequence[str]
) -> dict[str, list[Any]]:
    role = {query.predicted: "base prediction", query.true: "true class"}
    true = labels[near.items]
    return {
        "rows": near.items.tolist(),
        "cosines": near.cosines.tolist(),
        "weights": near.weights.tolist(),
        "true labels": [names[label] for label in true],
        "stored labels": [names[label] for label in near.stored],
        "of the true class": (true == query.true).tolist(),
        "stored as": [role.get(label, "another class") for label in near.stored.tolist()],
    }


EXPERIMENT = Experiment(
    _NAME, f"{_TITLE}, figure", _ANSWERS, _make, two_space_pieces, needs_two_spaces
)
