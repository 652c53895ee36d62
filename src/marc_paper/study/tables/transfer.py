"""What it costs to choose the weight on other streams: tab:s_transfer, sec:s_transfer.

G* chooses the weight with the labels of the stream it is measured on. Here the weight is chosen on
another stream, or on the mean curve of all others of a group, and applied unchanged. Does purity
still rank the spaces? Cost: one sweep of the control spaces, and their geometry, on every stream of
the groups main, shift and domain; all are shared with other experiments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from marc.replay.sweep import Score, Sweep
from marc.stats import spearman
from marc_paper.analysis.regrets import Rule
from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.choosing import sources_of
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "transfer"
_PAIRS, _DOMAINS = "one other main stream", "other domain streams"
_SHIFTS = "other main and shift streams"
_FAMILIES = {_PAIRS: "pairs", _DOMAINS: "domain", _SHIFTS: "shift"}

_CELLS = columns(
    "chosen on | stream | views | space | w: number | purity@10: percent | no memory: percent",
    "G*: points oracle | gain: points held-out | cost: points held-out",
)
_RANKED = columns(
    "chosen on | stream | views | no memory: percent | span of G*: points oracle",
    "span: points held-out | cost of span: points held-out",
    "correlation of G*: correlation oracle | correlation: correlation held-out",
)
_SUMMARY = columns(
    "chosen on | cells: count | mean cost: points held-out | largest cost: points held-out",
    "largest cost at | lowest gain: points held-out | lowest gain at | streams: count",
    "mean correlation of G*: correlation oracle | mean correlation: correlation held-out",
    "streams above zero: count held-out",
)


@final
@dataclass(frozen=True)
class _Transfer:
    """The weights of all spaces on one stream, chosen there and chosen elsewhere."""

    chosen_on: str
    stream: str
    views: int
    purity: Mapping[str, float]
    oracle: Mapping[str, Score]
    held_out: Mapping[str, Score]

    def costs(self, space: str) -> list[float]:
        """By order: the oracle accuracy minus the held-out one; never below 0."""
        accuracies = self.oracle[space].accuracies, self.held_out[space].accuracies
        return np.subtract(*accuracies).tolist()

    def correlation(self, scores: Mapping[str, Score]) -> float:
        """Spearman's, of purity and gains over the spaces."""
        return spearman(list(self.purity.values()), [scores[each].gain for each in self.purity])


def _transfer(
    chosen_on: str,
    stream: tuple[str, int],
    purity: Mapping[str, float],
    sweep: Sweep,
    sources: Sequence[Sweep],
    capacity: int,
) -> _Transfer:
    """Every space of `purity` on one stream (name, views), weights chosen on the sources."""
    oracle = {space: sweep.oracle(space, capacity) for space in purity}
    held_out = {space: sweep.held_out(space, sources, capacity) for space in purity}
    return _Transfer(chosen_on, *stream, purity, oracle, held_out)


def _cell_rows(found: _Transfer) -> list[Row]:
    rows: list[Row] = []
    for space, purity in found.purity.items():
        oracle, held_out = found.oracle[space], found.held_out[space]
        rows.append(
            (
                *(found.chosen_on, found.stream, str(found.views), space, held_out.weights[0]),
                *(purity, oracle.base_accuracies[0], Estimate.of(oracle), Estimate.of(held_out)),
                Estimate.over_orders(found.costs(space)),
            )
        )
    return rows


def _ranked_row(found: _Transfer) -> Row:
    """How far the spaces lie apart, and whether purity ranks them, under both choices."""
    spans = [
        max(each.gain for each in scores.values()) - min(each.gain for each in scores.values())
        for scores in (found.oracle, found.held_out)
    ]
    correlations = found.correlation(found.oracle), found.correlation(found.held_out)
    where = found.chosen_on, found.stream, str(found.views)
    no_memory = next(iter(found.oracle.values())).base_accuracies[0]
    return *where, no_memory, *spans, spans[0] - spans[1], *correlations


def _summary_row(chosen_on: str, found: Sequence[_Transfer]) -> Row:
    cells = [(each, space) for each in found for space in each.purity]
    costs = [float(np.mean(each.costs(space))) for each, space in cells]
    gains = [each.held_out[space].gain for each, space in cells]
    names = [f"{each.stream}, {space}" for each, space in cells]
    dearest, lowest = int(np.argmax(costs)), int(np.argmin(gains))
    held_out = [each.correlation(each.held_out) for each in found]
    return (
        *(chosen_on, len(cells), float(np.mean(costs))),
        *(costs[dearest], names[dearest]),
        *(gains[lowest], names[lowest]),
        len(found),
        Estimate.mean_known(each.correlation(each.oracle) for each in found),
        Estimate.mean_known(held_out),
        sum(value > 0 for value in held_out),
    )


def _families(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The streams of each way to choose; all others of a family are the sources of one."""
    main, near = plan.group("main"), plan.group("main", "shift")
    found = {
        _PAIRS: main,
        _DOMAINS: plan.group("domain"),
        # two main streams alone are already a pair
        _SHIFTS: () if near == main and len(main) == 2 else near,
    }
    return {name: streams for name, streams in found.items() if len(streams) > 1}


def _make(work: Work) -> Sequence[Table]:
    by_family = {name: _transfers(work, name, each) for name, each in _families(work.plan).items()}
    known = {name: found for name, found in by_family.items() if found}
    plan = work.plan
    settings = {"capacity": plan.grids.capacity, "seeds": plan.seeds.orders}
    tables = [
        Table.of(
            plan,
            f"{_NAME}-{_FAMILIES[family]}",
            _CELLS,
            [row for each in found for row in _cell_rows(each)],
            settings,
        )
        for family, found in known.items()
    ]
    ranked = Table.of(
        plan,
        f"{_NAME}-ranked",
        _RANKED,
        [_ranked_row(each) for found in known.values() for each in found],
        settings,
    )
    summary = Table.of(
        plan,
        f"{_NAME}-summary",
        _SUMMARY,
        [_summary_row(family, found) for family, found in known.items()],
        settings,
    )
    return [*tables, ranked, summary] if known else []


def _pieces(plan: Plan) -> list[Piece]:
    streams = dict.fromkeys(stream for each in _families(plan).values() for stream in each)
    return Piece.sweeps(streams, plan.spaces.controls, plan.usual_views, also=("geometry",))


def _missing(plan: Plan) -> str:
    if _families(plan):
        return ""
    return "weights are chosen on another stream of the groups main, shift or domain: there is none"


_EXPERIMENT = Experiment.of(_NAME, _make, _pieces, _missing)


def _transfers(work: Work, family: str, streams: Sequence[str]) -> list[_Transfer]:
    plan, spaces = work.plan, work.plan.spaces.controls
    views = {stream: plan.usual_views(stream) for stream in streams}
    sweeps = {stream: work.sweep(stream, spaces, views[stream]) for stream in streams}
    found = []
    for stream in streams:
        geometry = work.geometry(stream, spaces)
        purity = {space: Rule.score(geometry, space, Rule.PURITY) for space in spaces}
        others = sources_of(sweeps, stream)
        groups = {other: [other] for other in others} if family == _PAIRS else {family: others}
        for chosen_on, names in groups.items():
            if names:
                chosen = [sweeps[name] for name in names]
                where = (stream, views[stream])
                found.append(
                    _transfer(chosen_on, where, purity, sweeps[stream], chosen, plan.grids.capacity)
                )
    return found
