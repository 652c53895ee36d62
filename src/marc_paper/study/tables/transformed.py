"""Spaces with another geometry of the same features: the text of sec:swap and sec:capacity.

Does a predictor's own space become useful once it is centred or whitened, and does purity still
rank the gains when the deployed space is projected to fewer dimensions? Transforms are fitted on
all unlabelled images of the stream, the later ones included: transductive.
Cost: one sweep and one geometry of every variant on every main stream. Those of `grids.dims` that
are not below the dimension of a stream's deployed space are left out when it is read: `_pieces`,
which reads no stream, may declare more than is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from marc.replay.sweep import Sweep
from marc.spaces.geometry import Geometry
from marc_paper.study.artifacts import Row, Table, columns
from marc_paper.study.experiment import Experiment
from marc_paper.study.plan import Plan
from marc_paper.study.tables.spaces import COLUMNS, space_rows, summary_rows
from marc_paper.study.work import Piece, Work, sweep_pieces

_NAME = "transformed"
_ANSWERS = ("sec:swap", "sec:capacity")
_TRANSDUCTIVE = (
    "Transductive: means, whitenings and projections are fitted on all unlabelled images of the "
    "stream, the later ones included. Random projections use no statistics."
)

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
    """Every variant once."""
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
        for row in summary_rows(stream, part, geometry, capacity):
            rows.append((stream, name, len(spaces), *row[1:]))
    return rows


def _make(work: Work) -> Sequence[Table]:
    """The table of variants, and how geometry ranks the projected ones."""
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
        found = space_rows(stream, sweep, geometry, capacity, weight)
        rows += sorted(found, key=lambda row: spaces.index(str(row[1])))
        if dims:
            sets = _projections(deployed, dims)
            ranked += _ranked_rows(stream, sweep, geometry, sets, capacity)
        notes += _dims_note(stream, deployed, dim, plan.grids.dims[len(dims) :])
    tables = [_variants_table(plan, rows, notes)]
    return [*tables, _ranked_table(plan, ranked, notes)] if ranked else tables


def _dims_note(stream: str, deployed: str, dim: int, left_out: Sequence[int]) -> list[str]:
    if not left_out:
        return []
    named = ", ".join(map(str, left_out))
    return [f"{stream}: {deployed} has {dim} dimensions, so it is not projected to {named}."]


def _variants_table(plan: Plan, rows: Sequence[Row], notes: Sequence[str]) -> Table:
    return Table(
        name=_NAME,
        title="The same features with another geometry",
        caption=f"K = {plan.grids.capacity}, one view, the same retained images in every row. "
        f"Fixed: w = {plan.grids.weight:g}. G*: the best weight of the grid, chosen with the "
        f"labels of the stream. {_TRANSDUCTIVE}",
        columns=COLUMNS,
        rows=tuple(rows),
        answers=_ANSWERS,
        settings=_settings(plan),
        notes=tuple(notes),
    )


def _ranked_table(plan: Plan, rows: Sequence[Row], notes: Sequence[str]) -> Table:
    return Table(
        name=f"{_NAME}-ranked",
        title="How geometry ranks projections of one space",
        caption="Spearman's correlation with midranks of a measure with G* at "
        f"K = {plan.grids.capacity}, over {plan.spaces.deployed} and its projections to fewer "
        "dimensions. Regret: what the variant of the best measure loses in G* of the first "
        f"order. {_TRANSDUCTIVE}",
        columns=_RANKED,
        rows=tuple(rows),
        answers=_ANSWERS,
        settings=_settings(plan),
        notes=tuple(notes),
    )


def _settings(plan: Plan) -> dict[str, Any]:
    grids = plan.grids
    return {
        "capacity": grids.capacity,
        "weight": grids.weight,
        "views": 1,
        "seeds": plan.seeds.orders,
    }


def _pieces(plan: Plan) -> list[Piece]:
    variants = _variants(plan, plan.grids.dims)
    return sweep_pieces(plan.group("main"), variants, also=("geometry",))


EXPERIMENT = Experiment(_NAME, "Centred, whitened and projected spaces", _ANSWERS, _make, _pieces)
