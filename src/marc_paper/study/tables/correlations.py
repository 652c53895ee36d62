"""How geometry ranks: tab:s_correlations, tab:s_spaces16_seeds, tab:s_rho_checks, tab:s_rho_ci.

Purity is held against the ceiling of the gain, anti-hubs against the best capacity K*. The ranks
are taken again in each order, without ties, among spaces of like gain, with another predictor, and
on small calibration batches. Spaces are a chosen set, so a correlation describes and tests nothing.
Cost: sweeps and geometries of every space on streams of groups main and predictor, and calibration
batches of every space on main streams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from marc.replay.sweep import Sweep
from marc.spaces.geometry import Geometry
from marc_paper.analysis.regrets import BatchValues, Choice, Rule
from marc_paper.study.artifacts import Cell, Estimate, Row, Table, columns
from marc_paper.study.choosing import ceilings, first_ceilings
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "correlations"
_NEAR = (0.2, 0.6)
"""Near-matched spaces gain at least and at most these shares of the highest gain."""
_FEWEST = 3
"""Spaces without which a part of them is not ranked."""

_CONTROLS = columns(
    "stream | measure | spaces: count | with ceiling, all images: correlation oracle",
    "with ceiling, batches: correlation oracle",
    "with K*, all images: correlation oracle | with K*, batches: correlation oracle",
    "images of a batch: count",
)
_ORDERS = columns(
    "stream | order | no memory: percent | correlation: correlation oracle | leader",
    "G* of leader: points oracle | chosen | regret: points oracle",
)
_CHECKS = columns(
    "stream | predictor | set | spaces: count | correlation: correlation oracle",
    "chosen | regret: points oracle | no memory: percent | lowest G*: points oracle",
    "highest G*: points oracle",
)
_INTERVALS = columns(
    "stream | measure | spaces: count | all images: correlation oracle",
    "batches: correlation oracle | images of a batch: count",
)

_Gains = dict[str, float]


def _control_rows(stream: str, sweep: Sweep, batches: BatchValues) -> list[Row]:
    best = {space: sweep.oracle(space) for space in batches.spaces}
    ceilings = {space: found.gain for space, found in best.items()}
    capacities = {space: float(found.capacity) for space, found in best.items()}
    return [
        (
            *(stream, rule, len(best)),
            *_judged_cells(batches, rule, ceilings, stream),
            *_judged_cells(batches, rule, capacities, stream),
            batches.sizes[-1],
        )
        for rule in (Rule.PURITY, Rule.ANTIHUB)
    ]


def _interval_rows(stream: str, gains: _Gains, batches: BatchValues) -> list[Row]:
    return [
        (
            *(stream, rule, len(gains)),
            *_judged_cells(batches, rule, gains, stream),
            batches.sizes[-1],
        )
        for rule in (Rule.PURITY, Rule.ANTIHUB)
    ]


def _judged_cells(
    batches: BatchValues, rule: str, outcome: Mapping[str, float], stream: str
) -> tuple[Cell, Cell]:
    """A rank correlation on all images, and on the largest batches with its interval."""
    judged = batches.judged(rule, outcome, stream)
    on_batches = Estimate.within(judged.rank_correlation[batches.sizes[-1]])
    return judged.choice.rank_correlation, on_batches


def _order_rows(
    stream: str, sweep: Sweep, geometry: Mapping[str, Geometry], capacity: int
) -> list[Row]:
    """The ranking of each order, its leader, and what choosing by purity loses; then the mean."""
    by_order = [ceilings(sweep.of_orders([seed]), capacity) for seed in sweep.seeds]
    choices = [_chosen_by_purity(stream, gains, geometry) for gains in by_order]
    no_memory = float(sweep.base_correct.mean())
    highest = [gains[choice.best] for gains, choice in zip(by_order, choices, strict=True)]
    rows: list[Row] = [
        (
            *(stream, str(seed), no_memory, choice.rank_correlation),
            *(choice.best, gain, choice.chosen, choice.regret),
        )
        for seed, choice, gain in zip(sweep.seeds, choices, highest, strict=True)
    ]
    mean: Row = (
        *(stream, "mean", no_memory),
        Estimate.over_orders([each.rank_correlation for each in choices]),
        "/".join(dict.fromkeys(each.best for each in choices)),
        Estimate.over_orders(highest),
        "/".join(dict.fromkeys(each.chosen for each in choices)),
        Estimate.over_orders([each.regret for each in choices]),
    )
    return [*rows, mean]


def _parts_by_gain(gains: _Gains) -> dict[str, _Gains]:
    """All spaces, those that gain, and the near-matched ones; small parts are left out.

    >>> list(_parts_by_gain({"a": 0.2, "b": 0.1, "c": 0.08, "d": 0.05, "e": 0.0}))
    ['all', 'positive gain', 'near-matched']
    """
    least, most = (share * max(gains.values()) for share in _NEAR)
    positive = {space: gain for space, gain in gains.items() if gain > 0}
    near = {space: gain for space, gain in positive.items() if least <= gain <= most}
    parts = {"positive gain": positive, "near-matched": near}
    return {"all": gains} | {name: part for name, part in parts.items() if len(part) >= _FEWEST}


def _check_rows(
    stream: str, predictor: str, sweep: Sweep, geometry: Mapping[str, Geometry], capacity: int
) -> list[Row]:
    """How purity ranks each set of candidates in the first order."""
    rows: list[Row] = []
    for name, gains in _parts_by_gain(first_ceilings(sweep, capacity)).items():
        choice = _chosen_by_purity(stream, gains, geometry)
        rows.append(
            (
                *(stream, predictor, name, len(gains)),
                *(choice.rank_correlation, choice.chosen, choice.regret),
                float(sweep.base_correct.mean()),
                *(min(gains.values()), max(gains.values())),
            )
        )
    return rows


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    capacity, spaces, main = plan.grids.capacity, plan.spaces.all, plan.group("main")
    rows: dict[str, list[Row]] = {name: [] for name in ("controls", "orders", "checks", "all")}
    notes: list[str] = []
    for stream in plan.group("main", "predictor"):
        sweep, geometry = work.sweep(stream, spaces), work.geometry(stream, spaces)
        predictor = plan.streams[stream].predictor or plan.predictor
        rows["checks"] += _check_rows(stream, predictor, sweep, geometry, capacity)
        if stream not in main:
            continue
        rows["orders"] += _order_rows(stream, sweep, geometry, capacity)
        batches = work.batches(stream, spaces)
        rows["all"] += _interval_rows(stream, first_ceilings(sweep, capacity), batches)
        controls = work.batches(stream, plan.spaces.controls)
        rows["controls"] += _control_rows(stream, sweep, controls)
        notes += batches.notes(stream, plan.draws.sizes)
    every = plan.protocol("capacity views seeds")
    first = every | {"seeds": plan.seeds.orders[:1]}
    drawn = {"batches": plan.draws.batches}
    of_controls = plan.protocol("views seeds") | drawn
    least, most = (f"{100 * share:g}" for share in _NEAR)
    near: dict[str, Any] = {"least": least, "most": most, "fewest": _FEWEST}
    return [
        Table.of(plan, _NAME, _CONTROLS, rows["controls"], of_controls, notes=notes),
        Table.of(plan, f"{_NAME}-orders", _ORDERS, rows["orders"], every),
        Table.of(plan, f"{_NAME}-checks", _CHECKS, rows["checks"], first, **near),
        Table.of(plan, f"{_NAME}-batches", _INTERVALS, rows["all"], first | drawn, notes=notes),
    ]


def _pieces(plan: Plan) -> list[Piece]:
    main, others, spaces = plan.group("main"), plan.group("predictor"), plan.spaces.all
    return [
        *Piece.sweeps(main, spaces, also=("geometry", "batches")),
        *Piece.sweeps(others, spaces, also=("geometry",)),
    ]


_EXPERIMENT = Experiment.of(_NAME, _make, _pieces)


def _chosen_by_purity(stream: str, gains: _Gains, geometry: Mapping[str, Geometry]) -> Choice:
    return Choice.of(
        stream, {space: Rule.score(geometry, space, Rule.PURITY) for space in gains}, gains
    )
