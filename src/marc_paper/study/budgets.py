"""Right answers of a few memories at one view budget, which the experiments on views share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from marc_paper.analysis.interaction import RepairSets
from marc_paper.study.plan import Plan
from marc_paper.study.work import Piece, Work


@final
@dataclass(frozen=True)
class Arm:
    """A memory that is set against no memory."""

    OWN, DEPLOYED, STRONG = "own memory", "deployed memory", "strong memory"
    OWN_AT_ONE = "own memory, w = 1"

    name: str
    space: str
    weight: float

    @classmethod
    def all_of(cls, plan: Plan) -> tuple[Arm, ...]:
        """The memories of the plan; that of the own space at two weights, if they are two."""
        spaces, weight = plan.spaces, plan.grids.weight
        own = (cls(Arm.OWN_AT_ONE, spaces.own, 1.0), cls(Arm.OWN, spaces.own, weight))
        strong = cls(Arm.STRONG, spaces.strong, weight)
        return (*(own[:1] if weight == 1 else own), cls.deployed(plan), strong)

    @classmethod
    def deployed(cls, plan: Plan) -> Arm:
        """The memory in the deployed space."""
        return cls(Arm.DEPLOYED, plan.spaces.deployed, plan.grids.weight)


@final
@dataclass(frozen=True)
class Budget:
    """Right answers at one view budget, by stored row."""

    AUGMENTATION = "augmentation"

    views: int
    base: NDArray[np.bool_]
    """Without memory, (N,)."""
    correct: Mapping[str, NDArray[np.bool_]]
    """By the name of an arm, (orders, N)."""

    @classmethod
    def read(
        cls, work: Work, stream: str, views: int, arms: Sequence[Arm], capacity: int
    ) -> Budget:
        """The answers of some memories of one capacity."""
        sweep = work.sweep(stream, _spaces(arms), views)
        correct = {
            arm.name: np.stack(
                [sweep.correct(arm.space, capacity, arm.weight, seed) for seed in sweep.seeds]
            )
            for arm in arms
        }
        return cls(views, sweep.base_correct, correct)

    @staticmethod
    def pieces(stream: str, budgets: Iterable[int], arms: Sequence[Arm]) -> list[Piece]:
        """The pieces of `read` at some budgets."""
        return [p for views in budgets for p in Piece.sweeps([stream], _spaces(arms), views)]

    def repairs(self, many: Budget, arm: str) -> list[RepairSets]:
        """What many views, and a memory at these views, repair and break: one for each order."""
        return [
            RepairSets.of(self.base, {Budget.AUGMENTATION: many.base, arm: correct})
            for correct in self.correct[arm]
        ]

    def gains(self, arm: str) -> NDArray[np.int8]:
        """What a memory changes: 1 a repair, -1 a regression, 0 nothing, (orders, N)."""
        return self.correct[arm].astype(np.int8) - self.base.astype(np.int8)

    @staticmethod
    def one_view_note(streams: Iterable[str], used: Collection[str]) -> list[str]:
        """Which streams are left out as they have one view."""
        left_out = [stream for stream in streams if stream not in used]
        return [f"Left out, as they have one view: {', '.join(left_out)}."] if left_out else []


def _spaces(arms: Sequence[Arm]) -> list[str]:
    return list(dict.fromkeys(arm.space for arm in arms))
