"""Queries that are shown one by one, chosen by a rule and not by hand, and what each one read.

A rule names images by what was answered, never by what their neighbours look like. Among the named
ones a place in the stream decides: the last, or a few that are spread evenly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from marc.method import MARC
from marc.replay.replay import admit
from marc.scores import Int, kernel
from marc.stream import Stream
from marc.types import Trajectory
from marc_paper.study.artifacts import Table, captions, columns
from marc_paper.study.plan import Plan
from marc_paper.study.work import Piece, Work

_ALPHA, _BETA = MARC.alpha, MARC.beta
"""The kernel of every sweep that does not say otherwise."""


@final
@dataclass(frozen=True)
class Reading:
    """The retained keys as one query reads them in one space, the strongest first; (n,) each."""

    items: Int
    stored: Int
    """The labels under which they are kept."""
    cosines: NDArray[np.float64]
    weights: NDArray[np.float64]
    """alpha phi_beta of the cosines: what each adds to the evidence for its stored label."""

    def evidence(self, n_classes: int) -> NDArray[np.float64]:
        """L of every class, (C,)."""
        total = np.bincount(self.stored, self.weights, minlength=n_classes)
        return np.asarray(total, dtype=np.float64)

    def first(self, count: int) -> Reading:
        """The strongest few."""
        return Reading(
            items=self.items[:count],
            stored=self.stored[:count],
            cosines=self.cosines[:count],
            weights=self.weights[:count],
        )


def _read_at(
    keys: NDArray[np.float32], trajectory: Trajectory, position: int, capacity: int
) -> Reading:
    """What the query at a position reads in the space of `keys` (N, D); equal cosines by row."""
    held = trajectory.retained(position, capacity)
    items = np.array([item for each in held.values() for item in each], dtype=np.int64)
    stored = np.repeat(list(held), [len(each) for each in held.values()]).astype(np.int64)
    cosines = keys[items].astype(np.float64) @ keys[trajectory.order[position]]
    nearest = np.lexsort((items, -cosines))
    cosines = cosines[nearest]
    weights = np.asarray(_ALPHA * kernel(cosines, _BETA), dtype=np.float64)
    return Reading(items[nearest], stored[nearest], cosines, weights)


@final
@dataclass(frozen=True)
class ChosenQuery:
    """One query, what is known of it, and what it read in some spaces."""

    row: int
    position: int
    """Its place in the order."""
    id: str
    true: int
    predicted: int
    """The base prediction."""
    readings: Mapping[str, Reading]
    """By space; the retained items are the same in all of them."""


class FirstOrder(NamedTuple):
    """The main stream in the first order of the plan, and what it offers to the memory."""

    stream: Stream
    trajectory: Trajectory

    @classmethod
    def of(cls, work: Work) -> FirstOrder:
        """That of a plan's main stream."""
        plan = work.plan
        seed = plan.seeds.orders[0]
        stream = work.stream(plan.main).in_order(seed)
        [admitted] = admit(MARC(plan.spaces.own, plan.grids.capacity), [stream], [seed])
        return cls(stream, admitted.trajectory)

    def positions(self, named: NDArray[np.bool_]) -> Int:
        """Positions of the rows that a rule names (N,), in the order in which they come."""
        return np.flatnonzero(named[self.stream.order])

    def query_at(self, position: int, spaces: Sequence[str], capacity: int) -> ChosenQuery:
        """The query at a position, read in some spaces."""
        stream = self.stream
        row, features, labels = int(stream.order[position]), stream.features, stream.row_labels
        assert labels is not None  # a study has checked
        return ChosenQuery(
            row=row,
            position=position,
            id=features.ids[row],
            true=int(labels[row]),
            predicted=int(features.base.label[row]),
            readings={
                space: _read_at(features.keys(space), self.trajectory, position, capacity)
                for space in spaces
            },
        )

    @staticmethod
    def pieces(plan: Plan) -> list[Piece]:
        """One sweep of the predictor's own and of the strong space on the main stream."""
        return Piece.sweeps([plan.main], (plan.spaces.own, plan.spaces.strong))

    @staticmethod
    def needs_two_spaces(plan: Plan) -> str:
        """What is missing where the strong space is the predictor's own."""
        own, strong = plan.spaces.own, plan.spaces.strong
        said = f"the own and the strong space of this plan are one: {own}"
        return said if own == strong else ""

    @staticmethod
    def none_chosen(plan: Plan, name: str, figure: str, rule: str) -> Table:
        """What is given instead of a figure where no image satisfies its rule."""
        words = captions()["figures"][figure]
        return Table(
            name=name,
            title=words["title"],
            caption="No figure: what it would show is chosen by a rule that no image satisfies.",
            columns=columns("stream | rule | images: count"),
            rows=((plan.main, rule, 0),),
            answers=tuple(words["answers"]),
        )
