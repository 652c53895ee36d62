"""How many images a choice of space needs: tab:s_bootstrap_selection.

Purity, and pseudo-purity, which needs no labels, are measured on small calibration batches of each
main stream. Does a batch rank the spaces by their gain, and does it choose one of the highest?
Cost: the sweeps of `tables/spaces.py`, and calibration batches of every space on every main stream.
"""

from __future__ import annotations

from collections.abc import Sequence

from marc.report.text import percent
from marc_paper.analysis.regrets import BatchRegret, Rule
from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.choosing import first_ceilings
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "batches"
_MEASURES = (Rule.PURITY, Rule.PSEUDO_PURITY)
_ALL = "all"
"""In the column n: every image of the stream."""

_COLUMNS = columns(
    "stream | measure | n | correlation: correlation oracle | zero regret: ratio oracle"
)


def _batch_rows(stream: str, measure: str, judged: BatchRegret) -> list[Row]:
    rows: list[Row] = [
        (stream, measure, str(size), Estimate.within(correlation), judged.zero_regret[size])
        for size, correlation in judged.rank_correlation.items()
    ]
    choice = judged.choice
    return [*rows, (stream, measure, _ALL, choice.rank_correlation, float(choice.hit))]


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    capacity, draws = plan.grids.capacity, plan.draws
    rows: list[Row] = []
    notes: list[str] = []
    for stream in plan.group("main"):
        gains = first_ceilings(work.sweep(stream, plan.spaces.all), capacity)
        values = work.batches(stream, plan.spaces.all)
        for measure in _MEASURES:
            judged = values.judged(measure, gains, stream)
            rows += _batch_rows(stream, measure, judged)
            notes.append(_choice_note(measure, judged))
        notes += values.notes(stream, draws.sizes)
    return [
        Table.of(
            plan,
            _NAME,
            _COLUMNS,
            rows,
            plan.protocol("capacity views seeds", seeds=plan.seeds.orders[:1], draws=draws.batches),
            notes=notes,
        )
    ]


_EXPERIMENT = Experiment.of(
    _NAME, _make, lambda plan: Piece.sweeps(plan.group("main"), plan.spaces.all, also=("batches",))
)


def _choice_note(measure: str, judged: BatchRegret) -> str:
    choice = judged.choice
    said = f"On all images of {choice.stream}, {measure} chooses {choice.chosen}"
    if choice.hit:
        return f"{said}, which has the highest G*."
    return f"{said} and loses {percent(choice.regret)} points of G* to {choice.best}."
