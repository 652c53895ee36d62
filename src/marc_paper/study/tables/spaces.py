"""Every space with the same memory: tab:spaces16.

On each main stream the same retained images are read in every retrieval space, so only the
similarities change. Cost: one sweep and one geometry of every space on every main stream, which
most other experiments share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from marc.replay.sweep import Sweep
from marc.spaces.geometry import Geometry
from marc.stats import spearman
from marc_paper.analysis.regrets import choice_of, score
from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.choosing import ANTIHUB, PURITY, ceilings, first_ceilings
from marc_paper.study.experiment import Experiment
from marc_paper.study.work import Work, main_pieces

_NAME = "spaces"

COLUMNS = columns(
    "stream | space | purity@10: percent | anti-hubs@10: percent | no memory: percent",
    "gain at K, w: points fixed | G*, first order: points oracle",
    "G*, all orders: points oracle",
)


def space_rows(
    stream: str, sweep: Sweep, geometry: Mapping[str, Geometry], capacity: int, weight: float
) -> list[Row]:
    """One row a space, the highest oracle gain of the first order first."""
    rows: list[Row] = []
    first = first_ceilings(sweep, capacity)
    for space in sorted(sweep.spaces, key=lambda space: -first[space]):
        measures = geometry[space].measures[10]
        fixed, oracle = sweep.fixed(space, capacity, weight), sweep.oracle(space, capacity)
        rows.append(
            (
                stream,
                space,
                Estimate.within(measures.purity),
                measures.antihub_fraction,
                float(sweep.base_correct.mean()),
                Estimate.of(fixed),
                first[space],
                Estimate.of(oracle),
            )
        )
    return rows


def summary_rows(
    stream: str, sweep: Sweep, geometry: Mapping[str, Geometry], capacity: int
) -> list[Row]:
    """How purity and anti-hubs rank the gains, and what choosing by them loses."""
    rows: list[Row] = []
    for rule in (PURITY, ANTIHUB):
        scores = {space: score(geometry, space, rule) for space in sweep.spaces}
        by_order = [ceilings(sweep.of_orders([seed]), capacity) for seed in sweep.seeds]
        first = choice_of(stream, scores, by_order[0])
        correlations = [spearman(list(scores.values()), list(g.values())) for g in by_order]
        mean = Estimate.over_orders(correlations)
        rows.append((stream, rule, first.rank_correlation, mean, first.chosen, first.regret))
    return rows


def _make(work: Work) -> Sequence[Table]:
    """The table of spaces, and the table of how their geometry ranks them."""
    plan = work.plan
    capacity, weight = plan.grids.capacity, plan.grids.weight
    rows: list[Row] = []
    summary: list[Row] = []
    for stream in plan.group("main"):
        sweep = work.sweep(stream, plan.spaces.all)
        geometry = work.geometry(stream, plan.spaces.all)
        rows += space_rows(stream, sweep, geometry, capacity, weight)
        summary += summary_rows(stream, sweep, geometry, capacity)
    settings = {"capacity": capacity, "weight": weight, "views": 1, "seeds": plan.seeds.orders}
    return [
        Table(
            name=_NAME,
            title="The same memory in every space",
            caption=f"K = {capacity}, one view. Purity and anti-hubs at ten neighbours, before "
            f"anything is adapted. Fixed: w = {weight:g}. G*: the best weight of the grid, chosen "
            "with the labels of the stream.",
            columns=COLUMNS,
            rows=tuple(rows),
            answers=("tab:spaces16",),
            settings=settings,
        ),
        Table(
            name=f"{_NAME}-ranked",
            title="How geometry ranks the gains",
            caption="Spearman's correlation with midranks over the spaces, of a measure taken "
            f"before adaptation with G* at K = {capacity}. Regret: what the space of the best "
            "measure loses in G* of the first order.",
            columns=columns(
                "stream | measure | correlation, first order: correlation oracle",
                "correlation, all orders: correlation oracle | chosen | regret: points oracle",
            ),
            rows=tuple(summary),
            answers=("tab:spaces16",),
            settings=settings,
        ),
    ]


EXPERIMENT = Experiment(
    _NAME, "Every space with the same memory", ("tab:spaces16",), _make, main_pieces
)
