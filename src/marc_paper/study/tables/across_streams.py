"""Whether geometry predicts which streams gain: sec:s_discarded, its last part.

Purity ranks spaces on one stream. Here one space, the deployed one, is measured on every stream:
do the streams of higher purity gain more? Cost: one sweep and one geometry of the deployed space on
every stream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from marc.replay.sweep import Score
from marc.spaces.geometry import Geometry
from marc.stats import spearman
from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "across-streams"
_FEWEST = 3
"""Streams; two are always in perfect order."""

_VALUES = columns(
    "stream | views | images: count | purity@5: percent | purity@10: percent",
    "anti-hubs@5: percent | anti-hubs@10: percent | skewness@5: number | skewness@10: number",
    "no memory: percent | gain: points fixed | G*: points oracle",
)
_CORRELATIONS = columns(
    "measure | streams: count | correlation with gain: correlation fixed",
    "correlation with G*: correlation oracle",
)


@final
@dataclass(frozen=True)
class _Found:
    """The deployed space on one stream."""

    views: int
    geometry: Geometry
    fixed: Score
    oracle: Score

    @property
    def measures(self) -> dict[str, float]:
        """What is known before adaptation, by name."""
        found = {kappa: self.geometry.measures[kappa] for kappa in (5, 10)}
        purities = {
            f"purity@{kappa}": each.purity.estimate  # type: ignore[union-attr]  # with labels
            for kappa, each in found.items()
        }
        antihubs = {f"anti-hubs@{kappa}": each.antihub_fraction for kappa, each in found.items()}
        skewness = {f"skewness@{kappa}": each.hub_skewness for kappa, each in found.items()}
        return {**purities, **antihubs, **skewness, "no memory": self.fixed.base_accuracies[0]}


def _value_row(stream: str, found: _Found) -> Row:
    return (
        *(stream, str(found.views), found.geometry.n_images),
        *found.measures.values(),
        Estimate.of(found.fixed),
        Estimate.of(found.oracle),
    )


def _correlation_rows(streams: Mapping[str, _Found]) -> list[Row]:
    fixed = [each.fixed.gain for each in streams.values()]
    oracle = [each.oracle.gain for each in streams.values()]
    rows: list[Row] = []
    for name in next(iter(streams.values())).measures:
        values = [each.measures[name] for each in streams.values()]
        rows.append((name, len(values), spearman(values, fixed), spearman(values, oracle)))
    return rows


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    space, capacity, weight = plan.spaces.deployed, plan.grids.capacity, plan.grids.weight
    streams = {}
    for name in _streams(plan):
        views = plan.usual_views(name)
        sweep = work.sweep(name, [space], views)
        streams[name] = _Found(
            views,
            work.geometry(name, [space])[space],
            sweep.fixed(space, capacity, weight),
            sweep.oracle(space, capacity),
        )
    settings = plan.protocol("space capacity weight seeds")
    values = [_value_row(name, found) for name, found in streams.items()]
    return [
        Table.of(
            plan, _NAME, _CORRELATIONS, _correlation_rows(streams), settings, n_streams=len(streams)
        ),
        Table.of(plan, f"{_NAME}-values", _VALUES, values, settings),
    ]


def _missing(plan: Plan) -> str:
    if len(_streams(plan)) >= _FEWEST:
        return ""
    return f"streams are ranked, and there are fewer than {_FEWEST} of main, shift and domain"


_EXPERIMENT = Experiment.of(
    _NAME,
    _make,
    lambda plan: Piece.sweeps(
        _streams(plan), [plan.spaces.deployed], plan.usual_views, also=("geometry",)
    ),
    _missing,
)


def _streams(plan: Plan) -> tuple[str, ...]:
    # another predictor's view of the same images would count them twice
    return plan.group("main", "shift", "domain", "extra")
