"""Purity less anti-hubs, fitted on one stream and tried on others: sec:s_discarded, eq:composite.

C = P - lambda A, at ten neighbours. As lambda grows, two spaces change places only where their
values cross, so n spaces have at most n (n - 1) / 2 + 1 rankings. The best of them on the first
main stream is tried on the others without being fitted again. Cost: the sweeps and the geometry of
`tables/spaces.py`, nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import final

import numpy as np
from numpy.typing import NDArray

from marc.spaces.geometry import Geometry
from marc.stats import spearman
from marc_paper.study.artifacts import Row, Table, columns
from marc_paper.study.choosing import ceilings
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "composite"
_KAPPA = 10

_COLUMNS = columns(
    "candidates | stream | role | rankings: count | lambda: number | lambda from: number",
    "lambda to: number | correlation of purity: correlation oracle",
    "correlation of composite: correlation oracle | lowest: correlation oracle",
    "highest: correlation oracle",
)

_Floats = NDArray[np.float64]


@final
@dataclass(frozen=True)
class _Geometries:
    """Some spaces of one stream: purity, anti-hub fraction and G*, (spaces,) each."""

    purity: _Floats
    antihubs: _Floats
    gains: _Floats

    @classmethod
    def of(cls, geometry: Mapping[str, Geometry], gains: Mapping[str, float]) -> _Geometries:
        """The spaces that have a gain, in that order; a study's streams have labels."""
        measures = [geometry[space].measures[_KAPPA] for space in gains]
        return cls(
            np.array([each.purity.estimate for each in measures]),  # type: ignore[union-attr]
            np.array([each.antihub_fraction for each in measures]),
            np.array(list(gains.values())),
        )

    def correlation(self, penalty: float) -> float:
        """Spearman's of the composite with G*."""
        return spearman(self.purity - penalty * self.antihubs, self.gains)

    @property
    def crossings(self) -> list[float]:
        """Where two spaces change places: every lambda above 0, ascending."""
        found = set()
        for i, j in combinations(range(len(self.purity)), 2):
            slope = self.antihubs[i] - self.antihubs[j]
            if slope != 0:
                found.add(float((self.purity[i] - self.purity[j]) / slope))
        return sorted(value for value in found if value > 0)

    @property
    def parts_ties(self) -> bool:
        """Whether any lambda above 0, however small, parts spaces that tie in purity."""
        pairs = combinations(zip(self.purity, self.antihubs, strict=True), 2)
        return any(a[0] == b[0] and a[1] != b[1] for a, b in pairs)

    def between(self, low: float, high: float) -> list[float]:
        """One lambda for each ranking between two ends; `high` may be infinite."""
        inner = [value for value in self.crossings if low < value < high]
        ends = [low, *inner, high]
        return [_inside(*pair) for pair in pairwise(ends)]


@final
@dataclass(frozen=True)
class _Fit:
    """The lambda of the highest correlation, and the ends between which the ranking is the same."""

    penalty: float
    low: float
    high: float
    n_rankings: int


def _fit(stream: _Geometries) -> _Fit:
    """Try every ranking; of equal correlations the smallest lambda counts.

    Purity alone is lambda = 0. It ranks as the smallest lambda above 0 do, unless spaces tie in it:
    then it is a ranking of its own.
    """
    spans = list(pairwise([0.0, *stream.crossings, math.inf]))
    tried = [(_inside(*span), *span) for span in spans]
    alone = (0.0, 0.0, 0.0)
    tried = [alone, *tried] if stream.parts_ties else [(0.0, *spans[0]), *tried[1:]]
    best = max(tried, key=lambda each: (_known(stream.correlation(each[0])), -each[0]))
    return _Fit(*best, n_rankings=len(tried))


def _composite_rows(named: str, streams: Mapping[str, _Geometries]) -> list[Row]:
    """The first stream is fitted, the others are not."""
    names = list(streams)
    fitted = _fit(streams[names[0]])
    rows: list[Row] = []
    for stream, found in streams.items():
        is_first = stream == names[0]
        tried = [fitted.penalty, *found.between(fitted.low, fitted.high)]
        inside = [found.correlation(penalty) for penalty in tried]
        rows.append(
            (
                *(named, stream, "fitted" if is_first else "not fitted again"),
                fitted.n_rankings if is_first else None,
                fitted.penalty,
                fitted.low,
                None if math.isinf(fitted.high) else fitted.high,
                found.correlation(0.0),
                found.correlation(fitted.penalty),
                min(inside),
                max(inside),
            )
        )
    return rows


def _make(work: Work) -> Sequence[Table]:
    plan, capacity = work.plan, work.plan.grids.capacity
    streams = {
        name: (
            ceilings(work.sweep(name, plan.spaces.all), capacity),
            work.geometry(name, plan.spaces.all),
        )
        for name in plan.group("main")
    }
    rows = []
    for named, spaces in plan.candidate_sets().items():
        chosen = {
            name: _Geometries.of(geometry, {space: gains[space] for space in spaces})
            for name, (gains, geometry) in streams.items()
        }
        rows += _composite_rows(named, chosen)
    return [
        Table.of(
            plan,
            _NAME,
            _COLUMNS,
            rows,
            {"capacity": capacity, "views": 1, "seeds": plan.seeds.orders},
        )
    ]


def _missing(plan: Plan) -> str:
    if len(plan.group("main")) > 1:
        return ""
    return "a fit is tried on another stream of group main, and there is none"


_EXPERIMENT = Experiment.of(_NAME, _make, Piece.main, _missing)


def _inside(low: float, high: float) -> float:
    return (2 * low or 1.0) if math.isinf(high) else (low + high) / 2


def _known(value: float) -> float:
    return -math.inf if math.isnan(value) else value
