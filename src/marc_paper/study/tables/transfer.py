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
from marc_paper.analysis.regrets import score
from marc_paper.study.artifacts import Column, Estimate, Row, Table
from marc_paper.study.choosing import PURITY, mean_known, sources_of, usual_views
from marc_paper.study.experiment import Experiment
from marc_paper.study.pieces import Piece, geometry_pieces, sweep_pieces
from marc_paper.study.plan import Plan
from marc_paper.study.work import Work

NAME = "transfer"
ANSWERS = ("tab:s_transfer", "sec:s_transfer")
PAIRS, DOMAINS = "one other main stream", "other domain streams"
SHIFTS = "other main and shift streams"
FAMILIES = {PAIRS: "pairs", DOMAINS: "domain", SHIFTS: "shift"}

CELLS = (
    Column("chosen on"),
    Column("stream"),
    Column("views"),
    Column("space"),
    Column("w", "number"),
    Column("purity@10", "percent"),
    Column("no memory", "percent"),
    Column("G*", "points", "oracle"),
    Column("gain", "points", "held-out"),
    Column("cost", "points", "held-out"),
)
RANKED = (
    Column("chosen on"),
    Column("stream"),
    Column("views"),
    Column("no memory", "percent"),
    Column("span of G*", "points", "oracle"),
    Column("span", "points", "held-out"),
    Column("cost of span", "points", "held-out"),
    Column("correlation of G*", "correlation", "oracle"),
    Column("correlation", "correlation", "held-out"),
)
SUMMARY = (
    Column("chosen on"),
    Column("cells", "count"),
    Column("mean cost", "points", "held-out"),
    Column("largest cost", "points", "held-out"),
    Column("largest cost at"),
    Column("lowest gain", "points", "held-out"),
    Column("lowest gain at"),
    Column("streams", "count"),
    Column("mean correlation of G*", "correlation", "oracle"),
    Column("mean correlation", "correlation", "held-out"),
    Column("streams above zero", "count", "held-out"),
)


@final
@dataclass(frozen=True)
class Transfer:
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


def transfer(
    chosen_on: str,
    stream: tuple[str, int],
    purity: Mapping[str, float],
    sweep: Sweep,
    sources: Sequence[Sweep],
    capacity: int,
) -> Transfer:
    """Every space of `purity` on one stream (name, views), weights chosen on the sources."""
    oracle = {space: sweep.oracle(space, capacity) for space in purity}
    held_out = {space: sweep.held_out(space, sources, capacity) for space in purity}
    return Transfer(chosen_on, *stream, purity, oracle, held_out)


def cell_rows(found: Transfer) -> list[Row]:
    """One row a space."""
    rows: list[Row] = []
    for space, purity in found.purity.items():
        oracle, held_out = found.oracle[space], found.held_out[space]
        rows.append(
            (
                found.chosen_on,
                found.stream,
                str(found.views),
                space,
                held_out.weights[0],
                purity,
                oracle.base_accuracies[0],
                Estimate.of(oracle),
                Estimate.of(held_out),
                Estimate.over_orders(found.costs(space)),
            )
        )
    return rows


def ranked_row(found: Transfer) -> Row:
    """How far the spaces lie apart, and whether purity ranks them, under both choices."""
    spans = [
        max(each.gain for each in scores.values()) - min(each.gain for each in scores.values())
        for scores in (found.oracle, found.held_out)
    ]
    correlations = found.correlation(found.oracle), found.correlation(found.held_out)
    where = found.chosen_on, found.stream, str(found.views)
    no_memory = next(iter(found.oracle.values())).base_accuracies[0]
    return *where, no_memory, *spans, spans[0] - spans[1], *correlations


def summary_row(chosen_on: str, found: Sequence[Transfer]) -> Row:
    """All cells of one way to choose."""
    cells = [(each, space) for each in found for space in each.purity]
    costs = [float(np.mean(each.costs(space))) for each, space in cells]
    gains = [each.held_out[space].gain for each, space in cells]
    names = [f"{each.stream}, {space}" for each, space in cells]
    dearest, lowest = int(np.argmax(costs)), int(np.argmin(gains))
    held_out = [each.correlation(each.held_out) for each in found]
    return (
        chosen_on,
        len(cells),
        float(np.mean(costs)),
        *(costs[dearest], names[dearest]),
        *(gains[lowest], names[lowest]),
        len(found),
        mean_known(each.correlation(each.oracle) for each in found),
        mean_known(held_out),
        sum(value > 0 for value in held_out),
    )


def families(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The streams of each way to choose; all others of a family are the sources of one."""
    main, near = plan.group("main"), plan.group("main", "shift")
    found = {
        PAIRS: main,
        DOMAINS: plan.group("domain"),
        # two main streams alone are already a pair
        SHIFTS: () if near == main and len(main) == 2 else near,
    }
    return {name: streams for name, streams in found.items() if len(streams) > 1}


def make(work: Work) -> Sequence[Table]:
    """The cells of each family, the ranks on each stream, and a summary."""
    by_family = {name: _transfers(work, name, each) for name, each in families(work.plan).items()}
    known = {name: found for name, found in by_family.items() if found}
    capacity = work.plan.grids.capacity
    settings = {"capacity": capacity, "seeds": work.plan.seeds.orders}
    tables = [
        Table(
            name=f"{NAME}-{FAMILIES[family]}",
            title=f"Weights chosen on {family}",
            caption=f"K = {capacity}. The weight of the highest gain there, mean over streams and "
            "orders, is applied unchanged. Cost: G* minus the held-out gain, in the same orders.",
            columns=CELLS,
            rows=tuple(row for each in found for row in cell_rows(each)),
            answers=ANSWERS,
            settings=settings,
        )
        for family, found in known.items()
    ]
    ranked = Table(
        name=f"{NAME}-ranked",
        title="Ranks of spaces under weights chosen elsewhere",
        caption=f"K = {capacity}, the control spaces, gains as means over orders. Span: the "
        f"highest minus the lowest. Correlation: Spearman's with {PURITY}.",
        columns=RANKED,
        rows=tuple(ranked_row(each) for found in known.values() for each in found),
        answers=ANSWERS,
        settings=settings,
    )
    summary = Table(
        name=f"{NAME}-summary",
        title="What weights chosen elsewhere cost",
        caption=f"K = {capacity}. A cell is a control space on a stream. Correlations are "
        f"Spearman's with {PURITY} over the spaces of a stream, mean over streams. Each cell "
        "stands in a table of its own choice, with its accuracy without memory.",
        columns=SUMMARY,
        rows=tuple(summary_row(family, found) for family, found in known.items()),
        answers=ANSWERS,
        settings=settings,
    )
    return [*tables, ranked, summary] if known else []


def pieces(plan: Plan) -> list[Piece]:
    """One sweep and one geometry of the control spaces on every stream of a family."""
    streams = dict.fromkeys(stream for each in families(plan).values() for stream in each)
    found = geometry_pieces(streams, plan.spaces.controls)
    for stream in streams:
        found += sweep_pieces([stream], plan.spaces.controls, usual_views(plan, stream))
    return found


def missing(plan: Plan) -> str:
    """Nothing can be chosen elsewhere where no group has two streams."""
    if families(plan):
        return ""
    return "weights are chosen on another stream of the groups main, shift or domain: there is none"


EXPERIMENT = Experiment(
    name=NAME,
    title="Weights chosen on other streams",
    answers=ANSWERS,
    make=make,
    pieces=pieces,
    missing=missing,
)


def _transfers(work: Work, family: str, streams: Sequence[str]) -> list[Transfer]:
    plan, spaces = work.plan, work.plan.spaces.controls
    views = {stream: usual_views(plan, stream) for stream in streams}
    sweeps = {stream: work.sweep(stream, spaces, views[stream]) for stream in streams}
    found = []
    for stream in streams:
        geometry = work.geometry(stream, spaces)
        purity = {space: score(geometry, space, PURITY) for space in spaces}
        others = sources_of(sweeps, stream)
        groups = {other: [other] for other in others} if family == PAIRS else {family: others}
        for chosen_on, names in groups.items():
            if names:
                chosen = [sweeps[name] for name in names]
                where = (stream, views[stream])
                found.append(
                    transfer(chosen_on, where, purity, sweeps[stream], chosen, plan.grids.capacity)
                )
    return found
