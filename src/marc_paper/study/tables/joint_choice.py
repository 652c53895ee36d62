"""Space, capacity and weight chosen without the labels of the stream: tab:s_joint_selection.

The space is the one of the highest pseudo-purity on the unlabelled images; capacity and weight are
the best of the other main streams in that space. How much of what an oracle over everything gains
is kept? Pseudo-purity leans towards the predictor's own space, so the choice is also made without
it. Cost: the sweeps and the geometry of `tables/spaces.py`, nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from marc.replay.sweep import Score, Sweep
from marc.spaces.geometry import Geometry
from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.choosing import lead_text, purities, sources_of
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "joint-choice"
_ALL, _WITHOUT_OWN = "all", "without the predictor's own"

_COLUMNS = columns(
    "stream | candidates | chosen | lead resolved | chosen on | K: count | w: number",
    "no memory: percent | accuracy, first order: percent held-out | accuracy: percent held-out",
    "gain, first order: points held-out | gain: points held-out | best",
    "oracle, first order: percent oracle | oracle: percent oracle",
    "regret, first order: points held-out | regret: points held-out",
    "share of oracle gain: percent held-out",
)


def _best_of_all(sweep: Sweep) -> Score:
    """The oracle over spaces, capacities and weights; of equal ones the first space."""
    return max((sweep.oracle(space) for space in sweep.spaces), key=lambda score: score.accuracy)


def _choice_row(
    stream: str,
    candidates: Mapping[str, Geometry],
    named: str,
    sweep: Sweep,
    sources: Mapping[str, Sweep],
) -> Row:
    """What is chosen among some spaces, judged against the oracle over all of the sweep."""
    measured = purities(candidates, "pseudo_purity", 10)
    chosen = max(measured, key=lambda space: measured[space].estimate)
    score = sweep.held_out(chosen, list(sources.values()))
    oracle = _best_of_all(sweep)
    first = _best_of_all(sweep.of_orders(sweep.seeds[:1]))
    regrets = [a - b for a, b in zip(oracle.accuracies, score.accuracies, strict=True)]
    return (
        *(stream, named, chosen, lead_text(measured), ", ".join(sources)),
        *(score.capacity, score.weights[0], score.base_accuracies[0]),
        score.accuracies[0],
        Estimate.over_orders(score.accuracies),
        score.accuracies[0] - score.base_accuracies[0],
        Estimate.paired_gain(sweep, score),
        f"{oracle.space}, K = {oracle.capacity}",
        first.accuracy,
        Estimate.over_orders(oracle.accuracies),
        first.accuracy - score.accuracies[0],
        Estimate.over_orders(regrets),
        score.gain / oracle.gain if oracle.gain > 0 else math.nan,
    )


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    sweeps = {name: work.sweep(name, plan.spaces.all) for name in plan.group("main")}
    rows: list[Row] = []
    for stream, sweep in sweeps.items():
        geometry = work.geometry(stream, plan.spaces.all)
        others = {space: each for space, each in geometry.items() if space != plan.spaces.own}
        sources = {name: sweeps[name] for name in sources_of(sweeps, stream)}
        if not sources:
            continue
        for named, candidates in ((_ALL, geometry), (_WITHOUT_OWN, others)):
            if candidates:
                rows.append(_choice_row(stream, candidates, named, sweep, sources))
    grids = plan.grids
    size = len(plan.spaces.all) * len(grids.capacities) * len(grids.weights)
    return [
        Table.of(
            plan,
            _NAME,
            _COLUMNS,
            rows,
            {"views": 1, "seeds": plan.seeds.orders, "configurations": size},
            n_settings=size,
        )
    ]


def _missing(plan: Plan) -> str:
    if len(plan.group("main")) > 1:
        return ""
    return "settings are chosen on another stream of group main, and there is none"


_EXPERIMENT = Experiment.of(_NAME, _make, Piece.main, _missing)
