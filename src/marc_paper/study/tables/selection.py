"""Rules that choose a space by one measurement, and where they can: tab:s_selection, tab:cd16, ...

A rule takes the space of the highest purity, or of the lowest skewness, before anything is adapted.
On how many streams does it find a space of the highest gain, and what does it lose on the others?
Purity ranks spaces only where they differ in it, so a second experiment (tab:cd16, tab:s_scope,
tab:s_scope8) has for each stream its range of purity, whether the first place is resolved, what is
chosen with labels and without, what that loses, and the ceiling of every space.
Cost: one sweep and one geometry of every space on every main and domain stream, all shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from marc.replay.sweep import Sweep
from marc.spaces.geometry import Geometry
from marc.stats import spearman
from marc_paper.analysis.regrets import Choice, Regret, Rule
from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.choosing import ceilings, first_ceilings, lead_text, purities
from marc_paper.study.formats import cell_text
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "selection-rules"
_RULES = ("purity@5", Rule.PURITY, Rule.PSEUDO_PURITY, "hub_skewness@10", Rule.ANTIHUB)

_COLUMNS = columns(
    "candidates | rule | labels | hits: count oracle | streams: count",
    "mean regret: points oracle | worst regret: points oracle | worst on",
    "mean correlation: correlation oracle | mean correlation with purity@10: correlation",
)


@final
@dataclass(frozen=True)
class _Compared:
    """Every space on one stream, before and after."""

    stream: str
    views: int
    sweep: Sweep
    geometry: Mapping[str, Geometry]

    def scores(self, rule: str, spaces: Sequence[str]) -> dict[str, float]:
        """A rule's value of some spaces, higher is better."""
        return {space: Rule.score(self.geometry, space, rule) for space in spaces}

    def choice(self, rule: str, spaces: Sequence[str], capacity: int) -> Choice:
        """What a rule chooses among some spaces, judged by G*, mean over orders."""
        gains = ceilings(self.sweep, capacity, spaces)
        return Choice.of(self.stream, self.scores(rule, spaces), gains)


def _compared(work: Work) -> list[_Compared]:
    """The main streams and those of other classes, in the order of the plan."""
    plan, spaces = work.plan, work.plan.spaces.all
    found = []
    for stream in plan.group("main", "domain"):
        views = plan.usual_views(stream)
        sweep = work.sweep(stream, spaces, views)
        found.append(_Compared(stream, views, sweep, work.geometry(stream, spaces)))
    return found


def _rule_row(
    named: str, spaces: Sequence[str], rule: str, streams: Sequence[_Compared], capacity: int
) -> Row:
    found = Regret(rule, tuple(each.choice(rule, spaces, capacity) for each in streams))
    worst = max(found.choices, key=lambda choice: choice.regret)
    alike = [
        spearman(list(each.scores(rule, spaces).values()), list(pure.values()))
        for each in streams
        for pure in [each.scores(Rule.PURITY, spaces)]
    ]
    return (
        *(named, rule, "yes" if Rule.parse(rule)[0] == "purity" else "no"),
        *(found.hits, len(streams), found.mean, found.worst),
        worst.stream if worst.regret > 0 else None,
        Estimate.mean_known(choice.rank_correlation for choice in found.choices),
        Estimate.mean_known(alike),
    )


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    streams, capacity = _compared(work), plan.grids.capacity
    rows = [
        _rule_row(named, spaces, rule, streams, capacity)
        for named, spaces in plan.candidate_sets().items()
        for rule in _RULES
    ]
    return [
        Table.of(
            plan,
            _NAME,
            _COLUMNS,
            rows,
            {
                "capacity": capacity,
                "views": {each.stream: each.views for each in streams},
                "seeds": plan.seeds.orders,
            },
        )
    ]


def _pieces(plan: Plan) -> list[Piece]:
    streams = plan.group("main", "domain")
    return Piece.sweeps(streams, plan.spaces.all, plan.usual_views, also=("geometry",))


_EXPERIMENT = Experiment.of(_NAME, _make, _pieces)


_STREAMS = "selection-streams"

_STREAM_COLUMNS = columns(
    "stream | candidates | views | purity range: points | purity resolved | ties: count oracle",
    "correlation, first order: correlation oracle | correlation: correlation oracle",
    "correlation without ties: correlation oracle | best | purity selects",
    "regret: points oracle | pseudo-purity selects | regret of pseudo-purity: points oracle",
)
_CEILINGS = columns(
    "stream | views | space | purity@10: percent | no memory: percent",
    "G*, first order: points oracle | G*, all orders: points oracle",
)


def _stream_row(found: _Compared, named: str, spaces: Sequence[str], capacity: int) -> Row:
    purity = found.scores(Rule.PURITY, spaces)
    gains = ceilings(found.sweep, capacity, spaces)
    first = first_ceilings(found.sweep, capacity, spaces)
    chosen = found.choice(Rule.PURITY, spaces, capacity)
    pseudo = found.choice(Rule.PSEUDO_PURITY, spaces, capacity)
    values, outcome = list(purity.values()), list(gains.values())
    intervals = purities({space: found.geometry[space] for space in spaces}, "purity", 10)
    return (
        *(found.stream, named, str(found.views)),
        *(max(values) - min(values), lead_text(intervals), sum(gain == 0 for gain in outcome)),
        spearman(values, list(first.values())),
        chosen.rank_correlation,
        spearman(values, outcome, only_positive=True),
        chosen.best,
        *(chosen.chosen, chosen.regret),
        *(pseudo.chosen, pseudo.regret),
    )


def _ceiling_rows(found: _Compared, capacity: int) -> list[Row]:
    sweep = found.sweep
    first = first_ceilings(sweep, capacity)
    return [
        (
            *(found.stream, str(found.views), space),
            Estimate.within(found.geometry[space].measures[10].purity),
            float(sweep.base_correct.mean()),
            first[space],
            Estimate.of(sweep.oracle(space, capacity)),
        )
        for space in sweep.spaces
    ]


def _make_streams(work: Work) -> Sequence[Table]:
    plan = work.plan
    streams, capacity = _compared(work), plan.grids.capacity
    sets = plan.candidate_sets()
    rows = {
        named: [_stream_row(each, named, spaces, capacity) for each in streams]
        for named, spaces in sets.items()
    }
    settings = {"capacity": capacity, "seeds": plan.seeds.orders}
    return [
        Table.of(
            plan,
            _STREAMS,
            _STREAM_COLUMNS,
            [row for found in rows.values() for row in found],
            settings,
            notes=[_mean_note(named, found) for named, found in rows.items()],
        ),
        Table.of(
            plan,
            f"{_STREAMS}-ceilings",
            _CEILINGS,
            [row for each in streams for row in _ceiling_rows(each, capacity)],
            settings,
        ),
    ]


STREAMS = Experiment.of(_STREAMS, _make_streams, _pieces)


def _mean_note(named: str, rows: Sequence[Row]) -> str:
    """Mean correlations over streams, apart by whether the first place is resolved."""
    names = [column.name for column in _STREAM_COLUMNS]
    resolved, value = names.index("purity resolved"), names.index("correlation")
    parts = []
    for word, wanted in (("resolved", True), ("not resolved", False)):
        found = [row[value] for row in rows if (row[resolved] == "yes") == wanted]
        if found:
            mean = Estimate.mean_known(float(each) for each in found)  # type: ignore[arg-type]
            parts.append(f"{cell_text(mean, 'correlation')} over {len(found)} {word}")
    return f"Mean correlation, candidates {named}: {'; '.join(parts)}."
