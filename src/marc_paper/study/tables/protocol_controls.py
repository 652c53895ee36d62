"""Two choices of the protocol, changed: tab:s_protocol_controls.

How much hangs on the reading of the view entropy e_t, by which the CLIP memory keeps images, and
on a priority that sees no retrieval evidence? Cost: two replays and, for each of two spaces, a
replay and an online loop, for each order of the first main stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from marc_paper.study.artifacts import Row, Table, columns
from marc_paper.study.plan import Plan
from marc_paper.study.tables.over_orders import Runs
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "protocol-controls"

_COLUMNS = columns(
    "control | reference is | variant is | space | K | no memory: percent",
    "reference: percent fixed | variant: percent fixed | change: points fixed",
)


@final
@dataclass(frozen=True)
class _Control:
    """One setting of MARC, at its default and changed."""

    name: str
    setting: str
    reference: str
    variant: str
    space: str
    capacity: int

    def settings(self, plan: Plan, *, changed: bool) -> dict[str, Any]:
        """The settings of either side; the default is left out, as everywhere in the study."""
        usual = plan.marc_settings(self.space, self.capacity)
        return {**usual, self.setting: self.variant} if changed else usual


def _controls(plan: Plan) -> list[_Control]:
    """The entropy in its other reading, then the priority in both spaces."""
    # the reading of the released TDA keeps the most confident views: of one view it is this one
    entropy = _Control(
        *("view entropy", "view_entropy", "double_softmax", "posterior"),
        *(plan.spaces.deployed, plan.grids.capacity),
    )
    priorities = [
        _Control(
            *("priority", "policy", "entropy", "retrieval_aware"),
            *(space, plan.grids.benchmark_capacity),
        )
        for space in dict.fromkeys((plan.spaces.deployed, plan.spaces.strong))
    ]
    return [entropy, *priorities]


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    rows: list[Row] = []
    for control in _controls(plan):
        reference, variant = (
            Runs.of(work, plan.main, "marc", **control.settings(plan, changed=changed))
            for changed in (False, True)
        )
        rows.append(
            (
                *(control.name, control.reference, control.variant, control.space),
                *(str(control.capacity), reference.no_memory, reference.accuracy),
                *(variant.accuracy, variant.against(reference)),
            )
        )
    return [Table.of(plan, _NAME, _COLUMNS, rows, plan.protocol("stream weight views seeds"))]


def _pieces(plan: Plan) -> list[Piece]:
    sides = [
        each.settings(plan, changed=side) for each in _controls(plan) for side in (False, True)
    ]
    return Piece.runs(plan.seeds.orders, ((plan.main, "marc", 1, each) for each in sides))


_EXPERIMENT = Experiment.of(_NAME, _make, _pieces)
