"""Rules that choose a space by one measurement: tab:s_selection.

A rule takes the space of the highest purity, or of the lowest skewness, before anything is adapted.
On how many streams does it find a space of the highest gain, and what does it lose on the others?
Cost: one sweep and one geometry of every space on every main and domain stream, all shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

from marc.replay.sweep import Sweep
from marc.spaces.geometry import Geometry
from marc.stats import spearman
from marc_paper.analysis.regrets import Choice, Regret, choice_of, parse_rule, score
from marc_paper.study.artifacts import Row, Table, columns
from marc_paper.study.choosing import (
    ANTIHUB,
    PSEUDO_PURITY,
    PURITY,
    ceilings,
    mean_known,
)
from marc_paper.study.experiment import Experiment
from marc_paper.study.plan import Plan
from marc_paper.study.work import Piece, Work, sweep_pieces

_NAME = "selection-rules"
_RULES = ("purity@5", PURITY, PSEUDO_PURITY, "hub_skewness@10", ANTIHUB)

_COLUMNS = columns(
    "candidates | rule | labels | hits: count oracle | streams: count",
    "mean regret: points oracle | worst regret: points oracle | worst on",
    "mean correlation: correlation oracle | mean correlation with purity@10: correlation",
)


@final
@dataclass(frozen=True)
class Compared:
    """Every space on one stream, before and after."""

    stream: str
    views: int
    sweep: Sweep
    geometry: Mapping[str, Geometry]

    def scores(self, rule: str, spaces: Sequence[str]) -> dict[str, float]:
        """A rule's value of some spaces, higher is better."""
        return {space: score(self.geometry, space, rule) for space in spaces}

    def choice(self, rule: str, spaces: Sequence[str], capacity: int) -> Choice:
        """What a rule chooses among some spaces, judged by G*, mean over orders."""
        gains = ceilings(self.sweep, capacity, spaces)
        return choice_of(self.stream, self.scores(rule, spaces), gains)


def compared(work: Work) -> list[Compared]:
    """The main streams and those of other classes, in the order of the plan."""
    plan, spaces = work.plan, work.plan.spaces.all
    found = []
    for stream in plan.group("main", "domain"):
        views = plan.usual_views(stream)
        sweep = work.sweep(stream, spaces, views)
        found.append(Compared(stream, views, sweep, work.geometry(stream, spaces)))
    return found


def candidate_sets(plan: Plan) -> dict[str, tuple[str, ...]]:
    """All spaces, and the few that are compared in every detail, where these are fewer."""
    spaces = plan.spaces
    few = {} if set(spaces.controls) == set(spaces.all) else {"controls": spaces.controls}
    return {"all": spaces.all, **few}


def _rule_row(
    named: str, spaces: Sequence[str], rule: str, streams: Sequence[Compared], capacity: int
) -> Row:
    """One rule over all streams."""
    found = Regret(rule, tuple(each.choice(rule, spaces, capacity) for each in streams))
    worst = max(found.choices, key=lambda choice: choice.regret)
    alike = [
        spearman(list(each.scores(rule, spaces).values()), list(pure.values()))
        for each in streams
        for pure in [each.scores(PURITY, spaces)]
    ]
    return (
        *(named, rule, "yes" if parse_rule(rule)[0] == "purity" else "no"),
        *(found.hits, len(streams), found.mean, found.worst),
        worst.stream if worst.regret > 0 else None,
        mean_known(choice.rank_correlation for choice in found.choices),
        mean_known(alike),
    )


def _make(work: Work) -> Sequence[Table]:
    """One table of all rules."""
    plan = work.plan
    streams, capacity = compared(work), plan.grids.capacity
    rows = [
        _rule_row(named, spaces, rule, streams, capacity)
        for named, spaces in candidate_sets(plan).items()
        for rule in _RULES
    ]
    return [
        Table(
            name=_NAME,
            title="Rules that choose a space by one measurement",
            caption=f"Judged by G* at K = {capacity}, mean over orders: one view on main streams, "
            f"up to {plan.grids.few_views} on streams of other classes. Of skewness and anti-hubs "
            "the lowest is chosen. A hit loses nothing. Correlations are Spearman's over the "
            "spaces of a stream, mean over streams; skewness and anti-hubs count as better where "
            "they are lower.",
            columns=_COLUMNS,
            rows=tuple(rows),
            answers=("tab:s_selection",),
            settings={
                "capacity": capacity,
                "views": {each.stream: each.views for each in streams},
                "seeds": plan.seeds.orders,
            },
        )
    ]


def pieces(plan: Plan) -> list[Piece]:
    """One sweep and one geometry of every space on every main and domain stream."""
    streams = plan.group("main", "domain")
    return sweep_pieces(streams, plan.spaces.all, plan.usual_views, also=("geometry",))


EXPERIMENT = Experiment(_NAME, "Rules that choose a space", ("tab:s_selection",), _make, pieces)
