"""Where purity can choose a space, stream by stream: tab:cd16, tab:s_scope, tab:s_scope8.

Purity ranks spaces only where they differ in it. Each stream has its range of purity, whether the
first place is resolved, what is chosen with labels and without, and what that loses. A second table
has the ceiling of every space. Cost: what `tables/selection_rules.py` uses, nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence

from marc.stats import spearman
from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.cells import cell_text
from marc_paper.study.choosing import (
    NOT_SIMULTANEOUS,
    PSEUDO_PURITY,
    PURITY,
    ceilings,
    first_ceilings,
    lead_text,
    mean_known,
    purities,
)
from marc_paper.study.experiment import Experiment
from marc_paper.study.tables.selection_rules import Compared, candidate_sets, compared, pieces
from marc_paper.study.work import Work

_NAME = "selection-streams"

_COLUMNS = columns(
    "stream | candidates | views | purity range: points | purity resolved | ties: count oracle",
    "correlation, first order: correlation oracle | correlation: correlation oracle",
    "correlation without ties: correlation oracle | best | purity selects",
    "regret: points oracle | pseudo-purity selects | regret of pseudo-purity: points oracle",
)
_CEILINGS = columns(
    "stream | views | space | purity@10: percent | no memory: percent",
    "G*, first order: points oracle | G*, all orders: points oracle",
)


def _stream_row(found: Compared, named: str, spaces: Sequence[str], capacity: int) -> Row:
    """One stream, with some spaces to choose from."""
    purity = found.scores(PURITY, spaces)
    gains = ceilings(found.sweep, capacity, spaces)
    first = first_ceilings(found.sweep, capacity, spaces)
    chosen = found.choice(PURITY, spaces, capacity)
    pseudo = found.choice(PSEUDO_PURITY, spaces, capacity)
    values, outcome = list(purity.values()), list(gains.values())
    intervals = purities({space: found.geometry[space] for space in spaces}, "purity", 10)
    return (
        *(found.stream, named, str(found.views)),
        max(values) - min(values),
        lead_text(intervals),
        sum(gain == 0 for gain in outcome),
        spearman(values, list(first.values())),
        chosen.rank_correlation,
        spearman(values, outcome, only_positive=True),
        chosen.best,
        *(chosen.chosen, chosen.regret),
        *(pseudo.chosen, pseudo.regret),
    )


def _ceiling_rows(found: Compared, capacity: int) -> list[Row]:
    """One row a space."""
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


def _make(work: Work) -> Sequence[Table]:
    """The table of streams, and the table of ceilings."""
    plan = work.plan
    streams, capacity = compared(work), plan.grids.capacity
    sets = candidate_sets(plan)
    rows = {
        named: [_stream_row(each, named, spaces, capacity) for each in streams]
        for named, spaces in sets.items()
    }
    settings = {"capacity": capacity, "seeds": plan.seeds.orders}
    return [
        Table(
            name=_NAME,
            title="Where purity can choose a space",
            caption=f"G* at K = {capacity}, mean over orders. Range: highest minus lowest "
            "purity@10. Resolved: the lead in purity is above the sum of both half-widths of the "
            "95 % intervals, which stand for the error radii; else the spaces that are too close. "
            f"{NOT_SIMULTANEOUS} "
            "Ties: spaces that no weight helps. Correlation: Spearman's of purity@10 with G*; "
            "leaving ties out conditions on the outcome. Regret: what the selected space loses in "
            "G*.",
            columns=_COLUMNS,
            rows=tuple(row for found in rows.values() for row in found),
            answers=("tab:cd16", "tab:s_scope", "tab:s_scope8"),
            settings=settings,
            notes=tuple(_mean_note(named, found) for named, found in rows.items()),
        ),
        Table(
            name=f"{_NAME}-ceilings",
            title="The ceiling of every space on every stream",
            caption=f"G* at K = {capacity}: the best weight of the grid, chosen with the labels of "
            "the stream. Purity with its 95 % interval, before anything is adapted.",
            columns=_CEILINGS,
            rows=tuple(row for each in streams for row in _ceiling_rows(each, capacity)),
            answers=("tab:s_scope", "tab:s_scope8"),
            settings=settings,
        ),
    ]


EXPERIMENT = Experiment(
    _NAME,
    "Where purity can choose a space",
    ("tab:cd16", "tab:s_scope", "tab:s_scope8"),
    _make,
    pieces,
)


def _mean_note(named: str, rows: Sequence[Row]) -> str:
    """Mean correlations over streams, apart by whether the first place is resolved."""
    names = [column.name for column in _COLUMNS]
    resolved, value = names.index("purity resolved"), names.index("correlation")
    parts = []
    for word, wanted in (("resolved", True), ("not resolved", False)):
        found = [row[value] for row in rows if (row[resolved] == "yes") == wanted]
        if found:
            mean = mean_known(float(each) for each in found)  # type: ignore[arg-type]
            parts.append(f"{cell_text(mean, 'correlation')} over {len(found)} {word}")
    return f"Mean correlation, candidates {named}: {'; '.join(parts)}."
