"""Every space with the same memory: tab:spaces16, and the text of sec:swap and sec:capacity.

On each main stream the same retained images are read in every retrieval space, so only the
similarities change. Cost: one sweep and one geometry of every space on every main stream, which
most other experiments share.

A second experiment gives the same features another geometry. Does a predictor's own space become
useful once it is centred or whitened, and does purity still rank the gains when the deployed space
is projected to fewer dimensions? Transforms are fitted on all unlabelled images of the stream, the
later ones included: transductive. Cost: one sweep and one geometry of every variant on every main
stream. Those of `grids.dims` that are not below the dimension of a stream's deployed space are left
out when it is read: what is declared, without reading a stream, may be more than is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from marc.replay.sweep import Sweep
from marc.spaces.geometry import Geometry
from marc.stats import spearman
from marc_paper.analysis.regrets import Choice, Rule
from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.choosing import ceilings, first_ceilings
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "spaces"

_SUMMARY = columns(
    "stream | measure | correlation, first order: correlation oracle",
    "correlation, all orders: correlation oracle | chosen | regret: points oracle",
)
_COLUMNS = columns(
    "stream | space | purity@10: percent | anti-hubs@10: percent | no memory: percent",
    "gain at K, w: points fixed | G*, first order: points oracle",
    "G*, all orders: points oracle",
)


def _space_rows(
    stream: str, sweep: Sweep, geometry: Mapping[str, Geometry], capacity: int, weight: float
) -> list[Row]:
    rows: list[Row] = []
    first = first_ceilings(sweep, capacity)
    for space in sorted(sweep.spaces, key=lambda space: -first[space]):
        measures = geometry[space].measures[10]
        fixed, oracle = sweep.fixed(space, capacity, weight), sweep.oracle(space, capacity)
        rows.append(
            (
                *(stream, space, Estimate.within(measures.purity), measures.antihub_fraction),
                *(float(sweep.base_correct.mean()), Estimate.of(fixed), first[space]),
                Estimate.of(oracle),
            )
        )
    return rows


def _summary_rows(
    stream: str, sweep: Sweep, geometry: Mapping[str, Geometry], capacity: int
) -> list[Row]:
    """How purity and anti-hubs rank the gains, and what choosing by them loses."""
    rows: list[Row] = []
    for rule in (Rule.PURITY, Rule.ANTIHUB):
        scores = {space: Rule.score(geometry, space, rule) for space in sweep.spaces}
        by_order = [ceilings(sweep.of_orders([seed]), capacity) for seed in sweep.seeds]
        first = Choice.of(stream, scores, by_order[0])
        correlations = [spearman(list(scores.values()), list(g.values())) for g in by_order]
        mean = Estimate.over_orders(correlations)
        rows.append((stream, rule, first.rank_correlation, mean, first.chosen, first.regret))
    return rows


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    capacity, weight = plan.grids.capacity, plan.grids.weight
    rows: list[Row] = []
    summary: list[Row] = []
    for stream in plan.group("main"):
        sweep = work.sweep(stream, plan.spaces.all)
        geometry = work.geometry(stream, plan.spaces.all)
        rows += _space_rows(stream, sweep, geometry, capacity, weight)
        summary += _summary_rows(stream, sweep, geometry, capacity)
    settings = plan.protocol("capacity weight views seeds")
    return [
        Table.of(plan, _NAME, _COLUMNS, rows, settings),
        Table.of(plan, f"{_NAME}-ranked", _SUMMARY, summary, settings),
    ]


_EXPERIMENT = Experiment.of(_NAME, _make, Piece.main)


_TRANSFORMED = "transformed"

_RANKED = columns(
    "stream | projection | variants: count | measure",
    "correlation, first order: correlation oracle",
    "correlation, all orders: correlation oracle | chosen | regret: points oracle",
)


def _reshaped(plan: Plan) -> list[str]:
    """The predictor's own space as it is, centred and whitened."""
    own = plan.spaces.own
    return [own, f"{own}+center", f"{own}+whiten"]


def _projections(deployed: str, dims: Sequence[int]) -> dict[str, list[str]]:
    """By kind: the deployed space as it is, then projected to some dimensions."""
    by_kind = {kind: [f"{deployed}+{kind}:{dim}" for dim in dims] for kind in ("pca", "random")}
    return {
        **{kind: [deployed, *names] for kind, names in by_kind.items()},
        "pca and random": [deployed, *by_kind["pca"], *by_kind["random"]],
    }


def _variants(plan: Plan, dims: Sequence[int]) -> list[str]:
    projected = _projections(plan.spaces.deployed, dims)["pca and random"]
    return list(dict.fromkeys([*_reshaped(plan), *projected]))


def _ranked_rows(
    stream: str,
    sweep: Sweep,
    geometry: Mapping[str, Geometry],
    sets: Mapping[str, Sequence[str]],
    capacity: int,
) -> list[Row]:
    """How purity and anti-hubs rank the gains inside each set of variants."""
    rows: list[Row] = []
    for name, spaces in sets.items():
        part = replace(sweep, intervals={space: sweep.intervals[space] for space in spaces})
        for row in _summary_rows(stream, part, geometry, capacity):
            rows.append((stream, name, len(spaces), *row[1:]))
    return rows


def _make_transformed(work: Work) -> Sequence[Table]:
    plan = work.plan
    capacity, weight, deployed = plan.grids.capacity, plan.grids.weight, plan.spaces.deployed
    rows: list[Row] = []
    ranked: list[Row] = []
    notes: list[str] = []
    for stream in plan.group("main"):
        dim = work.stream(stream).features.dim(deployed)
        dims = [each for each in plan.grids.dims if each < dim]
        spaces = _variants(plan, dims)
        sweep, geometry = work.sweep(stream, spaces), work.geometry(stream, spaces)
        found = _space_rows(stream, sweep, geometry, capacity, weight)
        rows += sorted(found, key=lambda row: spaces.index(str(row[1])))
        if dims:
            sets = _projections(deployed, dims)
            ranked += _ranked_rows(stream, sweep, geometry, sets, capacity)
        notes += _dims_note(stream, deployed, dim, plan.grids.dims[len(dims) :])
    settings = plan.protocol("capacity weight views seeds")
    tables = [Table.of(plan, _TRANSFORMED, _COLUMNS, rows, settings, notes=notes)]
    if ranked:
        name = f"{_TRANSFORMED}-ranked"
        tables.append(Table.of(plan, name, _RANKED, ranked, settings, notes=notes))
    return tables


def _dims_note(stream: str, deployed: str, dim: int, left_out: Sequence[int]) -> list[str]:
    if not left_out:
        return []
    named = ", ".join(map(str, left_out))
    return [f"{stream}: {deployed} has {dim} dimensions, so it is not projected to {named}."]


def _transformed_pieces(plan: Plan) -> list[Piece]:
    variants = _variants(plan, plan.grids.dims)
    return Piece.sweeps(plan.group("main"), variants, also=("geometry",))


TRANSFORMED = Experiment.of(_TRANSFORMED, _make_transformed, _transformed_pieces)
