"""Every admission policy in two spaces: tab:s_admission_policies.

Does the order of two spaces hold whichever images are retained? Cost: for each policy, two spaces
and each order of the first main stream one replay; the retrieval-aware policy runs online.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from marc.admission import POLICIES
from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.plan import Plan
from marc_paper.study.tables.over_orders import Mean, Runs
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "policies"
_USUAL = "entropy"

_COLUMNS = columns(
    "policy | no memory: percent | deployed: percent fixed | gain, deployed: points fixed",
    "strong: percent fixed | gain, strong: points fixed | gap: points fixed",
)


def _policy_row(name: str, deployed: Sequence[Runs], strong: Sequence[Runs]) -> Row:
    """A row from the runs of one policy in both spaces; those of several are averaged.

    Several policies answer the same images, so an interval over images would be too narrow: it
    is left out of their mean.
    """
    low, high = Mean(deployed), Mean(strong)
    changes = [low.gain, high.gain, high.against(low)]
    if len(deployed) > 1:
        changes = [Estimate(each.value, sd=each.sd) for each in changes]
    return (
        name,
        deployed[0].no_memory,
        *(low.accuracy, changes[0]),
        *(high.accuracy, changes[1]),
        changes[2],
    )


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    runs = {
        policy: [
            Runs.of(work, plan.main, "marc", **_settings_of(plan, space, policy))
            for space in (plan.spaces.deployed, plan.spaces.strong)
        ]
        for policy in POLICIES.own
    }
    rows = [_policy_row(policy, [low], [high]) for policy, (low, high) in runs.items()]
    lows, highs = zip(*runs.values(), strict=True)
    rows.append(_policy_row("mean of the policies", lows, highs))
    spaces, capacity = plan.spaces, plan.grids.benchmark_capacity
    settings = {
        **{"stream": plan.main, "deployed": spaces.deployed, "strong": spaces.strong},
        **{"capacity": capacity, **plan.protocol("weight views seeds")},
    }
    notes = [f"{name}: {POLICIES[name].summary}." for name in POLICIES.own]
    return [Table.of(plan, _NAME, _COLUMNS, rows, settings, notes=notes)]


def _settings_of(plan: Plan, space: str, policy: str) -> dict[str, Any]:
    """The settings of a policy; the usual one is left out, as everywhere in the study."""
    usual = plan.marc_settings(space, plan.grids.benchmark_capacity)
    return usual if policy == _USUAL else {**usual, "policy": policy}


def _pieces(plan: Plan) -> list[Piece]:
    spaces = dict.fromkeys((plan.spaces.deployed, plan.spaces.strong))
    asked = [_settings_of(plan, space, policy) for policy in POLICIES.own for space in spaces]
    return Piece.runs(plan.seeds.orders, ((plan.main, "marc", 1, each) for each in asked))


_EXPERIMENT = Experiment.of(_NAME, _make, _pieces)
