"""The few spaces that are compared in every detail: tab:swap and tab:s_newspaces_results.

Each space has its own best capacity K*. There it is read at the fixed weight and at the best one,
and once more at a common K with a weight that was chosen on other streams. The text of sec:s_swap
also sets one memory in the predictor's own space against two memories side by side.
Cost: the sweeps and geometries of `tables/spaces.py`, a bootstrap for each control, and replays of
the parallel memories on the first main stream at each capacity, two weights and every order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from marc.replay.sweep import Score, Sweep
from marc.spaces.geometry import Geometry
from marc_paper.study.artifacts import Cell, Estimate, Row, Table, columns
from marc_paper.study.choosing import sources_of
from marc_paper.study.plan import Plan
from marc_paper.study.tables.over_orders import Runs
from marc_paper.study.tables.paired import envelope_interval
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "controls"
_SPAN = "span"
_CLIP_WEIGHT = 1.0
"""At which the CLIP memory's own evidence is read, as it is for admission."""

_COLUMNS = columns(
    "stream | space | purity@10: percent | anti-hubs@10: percent | K*: count | w*: number",
    "w*, each order | no memory: percent | accuracy at K*, w: percent oracle",
    "gain at K*, w: points oracle | G* at K*: points oracle | G^tr at K: points held-out",
    "w^tr: number",
)
_ALL_COLUMNS = columns(
    "stream | space | purity@10: percent | anti-hubs@10: percent | K*: count | w*: number",
    "no memory: percent | G* ceiling: points oracle",
)
_PARALLEL_COLUMNS = columns(
    "stream | space | K | w | no memory: percent | single memory: percent fixed",
    "parallel memories: percent fixed | gain of parallel memories: points fixed",
    "parallel minus single: points fixed",
)


def _control_rows(
    stream: str, sweeps: Mapping[str, Sweep], geometry: Mapping[str, Geometry], plan: Plan
) -> list[Row]:
    sweep = sweeps[stream]
    sources = [sweeps[name] for name in sources_of(sweeps, stream)]
    ceilings: list[float] = []
    transferred: list[float] = []
    rows: list[Row] = []
    for space in plan.spaces.controls:
        best = sweep.oracle(space)
        fixed = sweep.fixed(space, best.capacity, plan.grids.weight)
        held_out = sweep.held_out(space, sources, plan.grids.capacity) if sources else None
        ceilings.append(best.gain)
        transferred += [held_out.gain] if held_out else []
        rows.append(
            (
                *(stream, space, *_geometry_cells(geometry[space])),
                best.capacity,
                sweep.best_setting(space, best.capacity)[1],
                "/".join(f"{weight:g}" for weight in best.weights),
                best.base_accuracies[0],
                Estimate.over_orders(fixed.accuracies),
                Estimate.of(fixed),
                _ceiling(sweep, best, plan),
                Estimate.of(held_out) if held_out else None,
                held_out.weights[0] if held_out else None,
            )
        )
    spans = max(ceilings) - min(ceilings), max(transferred) - min(transferred) if sources else None
    return [*rows, (stream, _SPAN, *[None] * 8, *spans, None)]


def _ceiling(sweep: Sweep, best: Score, plan: Plan) -> Estimate:
    """The gain of an oracle with its deviation over orders and its interval over images."""
    found = envelope_interval(
        *(sweep, best.space, best.capacity, plan.draws.bootstraps, plan.seeds.draws)
    )
    return replace(Estimate.of(best), low=found.low, high=found.high)


def _all_rows(stream: str, sweep: Sweep, geometry: Mapping[str, Geometry]) -> list[Row]:
    first = sweep.of_orders(sweep.seeds[:1])
    scores = [first.oracle(space) for space in first.spaces]
    return [
        (
            *(stream, best.space, *_geometry_cells(geometry[best.space])),
            *(best.capacity, best.weights[0], best.base_accuracies[0], best.gain),
        )
        for best in sorted(scores, key=lambda each: each.gain)
    ]


def _parallel_rows(work: Work, sweep: Sweep) -> list[Row]:
    """One memory in the predictor's own space, and the CLIP memory's evidence beside it."""
    plan = work.plan
    stream, own, orders = plan.main, plan.spaces.own, plan.seeds.orders
    rows: list[Row] = []
    for settings in _parallel_settings(plan):
        capacity, weight = settings["capacity"], settings["weight"]
        parallel = Runs.of(work, stream, "marc", **settings)
        single = np.stack([sweep.correct(own, capacity, weight, seed) for seed in orders])
        rows.append(
            (
                *(stream, own, str(capacity), f"{weight:g}"),
                parallel.no_memory,
                Estimate.over_orders(single.mean(axis=1).tolist()),
                parallel.accuracy,
                parallel.gain,
                Estimate.paired(parallel.correct, single),
            )
        )
    return rows


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    sweeps = {name: work.sweep(name, plan.spaces.all) for name in plan.group("main")}
    controls: list[Row] = []
    best_rows: list[Row] = []
    for stream, sweep in sweeps.items():
        geometry = work.geometry(stream, plan.spaces.all)
        controls += _control_rows(stream, sweeps, geometry, plan)
        best_rows += _all_rows(stream, sweep, geometry)
    settings = plan.protocol("capacity weight views seeds", bootstraps=plan.draws.bootstraps)
    lacks = ["G^tr is missing where no other main stream has other images."]
    notes = lacks if any(row[-2] is None for row in controls) else []
    first = plan.protocol("views seeds", seeds=plan.seeds.orders[:1])
    sweep = sweeps[plan.main]
    return [
        Table.of(plan, _NAME, _COLUMNS, controls, settings, notes=notes),
        Table.of(plan, f"{_NAME}-all", _ALL_COLUMNS, best_rows, first),
        Table.of(
            plan,
            f"{_NAME}-parallel",
            _PARALLEL_COLUMNS,
            _parallel_rows(work, sweep),
            plan.protocol("views seeds", clip_weight=_CLIP_WEIGHT),
            best=sweep.oracle(plan.spaces.own).capacity,
        ),
    ]


def _pieces(plan: Plan) -> list[Piece]:
    runs = ((plan.main, "marc", 1, each) for each in _parallel_settings(plan))
    return Piece.main(plan) + Piece.runs(plan.seeds.orders, runs)


def _parallel_settings(plan: Plan) -> list[dict[str, Any]]:
    # K* is known only afterwards; w = 1 reads both memories alike
    weights = dict.fromkeys((_CLIP_WEIGHT, plan.grids.weight))
    return [
        {
            "space": plan.spaces.own,
            "capacity": capacity,
            "weight": weight,
            "clip_weight": _CLIP_WEIGHT,
        }
        for capacity in plan.grids.capacities
        for weight in weights
    ]


def _geometry_cells(geometry: Geometry) -> tuple[Cell, Cell]:
    measures = geometry.measures[10]
    return Estimate.within(measures.purity), measures.antihub_fraction


_EXPERIMENT = Experiment.of(_NAME, _make, _pieces)
