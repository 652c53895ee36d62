"""Hold a study against the paper: what meets it, what differs, and why the rest has no match.

A value is compared only where data set, predictor, prompts, spaces and protocol are the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, final

from marc_paper.study.experiments import EXPERIMENTS
from marc_paper.study.folder import StoredStudy
from marc_paper.study.plan import Plan, plan_from
from marc_paper.study.work import Experiment
from marc_paper.verify.addresses import EXPECTED
from marc_paper.verify.expected import MEAN, Expected, Place
from marc_paper.verify.streams import NoMatch, Streams
from marc_paper.verify.tolerances import DEVIATION

_Status = Literal["meets", "differs", "no match"]

_StoredTable = Mapping[str, Any]
"""A table as a study writes it."""

_SCALES = {"percent": 100.0, "points": 100.0}
_OTHER_NAMES = {"substitution": "view-budget"}
"""Experiments of tables that are not called after them."""


@final
@dataclass(frozen=True)
class Finding:
    """What a study says to one printed number."""

    expected: Expected
    status: _Status
    reason: str = ""
    """Why there is no match."""
    got: float | None = None
    """In the printed unit; of a p-value the logarithm."""
    difference: float | None = None
    """Of the study from the paper; on a grid in steps, of factors and p-values in log10."""


def verify(
    study: StoredStudy,
    experiments: Sequence[Experiment] = EXPERIMENTS,
    everything: Sequence[Expected] = EXPECTED,
) -> list[Finding]:
    """One finding for each printed number.

    Args:
        study: as it lies on disk.
        experiments: all there are, to say why a table is missing.
        everything: what the paper prints.
    """
    streams = Streams.of(plan_from(study.config["plan"]), study.streams)
    return [_judge(expected, streams, study, experiments) for expected in everything]


def _judge(
    expected: Expected, streams: Streams, study: StoredStudy, experiments: Sequence[Experiment]
) -> Finding:
    try:
        got = _value(expected, streams, study, experiments)
    except NoMatch as reason:
        return Finding(expected, "no match", str(reason))
    status: _Status = "meets" if expected.meets(got) else "differs"
    return Finding(expected, status, "", got, expected.distance(got))


def _value(
    expected: Expected, streams: Streams, study: StoredStudy, experiments: Sequence[Experiment]
) -> float:
    """The study's value in the printed unit; the reasons against it stand in their order."""
    place = expected.place
    if place.never and place.never.first:
        raise NoMatch(place.never.reason)
    streams.check(expected)
    if place.never:
        raise NoMatch(place.never.reason)
    table = _table(place, streams, study, experiments)
    row = _find_row(table, place, streams)
    _check_protocol(table, place, streams)
    value = _number(table, row, place)
    if place.less:
        other = replace(place, row={**place.row, **place.less})
        value -= _number(table, _find_row(table, other, streams), place)
    if expected.is_deviation and value == 0 and expected.value > DEVIATION.floor:
        raise NoMatch("no deviation at all: orders share one draw of views")
    return value


def _table(
    place: Place, streams: Streams, study: StoredStudy, experiments: Sequence[Experiment]
) -> _StoredTable:
    name = _experiment_of(place.table, experiments)
    if name not in study.records:
        reasons = [each.missing(streams.plan) for each in experiments if each.name == name]
        if any(reasons):
            raise NoMatch(f"the experiment {name} is not possible with this plan: {reasons[0]}")
        raise NoMatch(f"the experiment {name} was not made")
    if place.table not in study.tables:
        raise NoMatch(f"the experiment {name} made no table {place.table} of this plan")
    table: _StoredTable = study.tables[place.table]
    if dict(table.get("streams", {})) != streams.about:
        raise NoMatch(f"the table {place.table} was made with other streams than the plan has")
    return table


def _experiment_of(table: str, experiments: Sequence[Experiment]) -> str:
    """The experiment that makes a table: the one whose name it begins with."""
    for begin, name in _OTHER_NAMES.items():
        if table.startswith(begin):
            return name
    names = [each.name for each in experiments if f"{table}-".startswith(f"{each.name}-")]
    return max(names, key=len, default=table)


def _find_row(table: _StoredTable, place: Place, streams: Streams) -> Sequence[Any]:
    """The only row of a place."""
    names = [column["name"] for column in table["columns"]]
    wanted = streams.row(place)
    if place.dataset and "stream" in names:
        wanted["stream"] = streams.named(place.dataset, place.predictor)
    rows = list(table["rows"])
    for name, cell in wanted.items():
        if name not in names:
            raise NoMatch(f"the table {table['name']} has no column {name}")
        rows = [row for row in rows if _same(row[names.index(name)], cell)]
        if not rows:
            link = "for" if name in ("space", "stream") else "with"
            raise NoMatch(f"the table {table['name']} has no row {link} {name} {cell}")
    if len(rows) > 1:
        raise NoMatch(f"the table {table['name']} has {len(rows)} such rows")
    found: Sequence[Any] = rows[0]
    return found


def _same(cell: Any, wanted: Any) -> bool:
    """Whether a cell is what is asked for; a number may be written as text."""
    return bool(cell == wanted) or (None not in (cell, wanted) and str(cell) == str(wanted))


def _check_protocol(table: _StoredTable, place: Place, streams: Streams) -> None:
    settings = table["settings"]
    if place.dataset and "stream" in settings:
        name = streams.named(place.dataset, place.predictor)
        if settings["stream"] != name:
            raise NoMatch(f"the table {table['name']} is about {settings['stream']}, not {name}")
    if place.groups and place.datasets and MEAN not in place.row.values():
        streams.cover(place)
    given = {**settings, "orders": len(settings.get("seeds", ()))}
    for name, wanted in place.settings.items():
        if given.get(name) != wanted:
            raise NoMatch(f"the protocol differs: {name} {given.get(name)}, not {wanted}")
    for path, wanted in place.plan.items():
        _check_plan(streams.plan, path, wanted)


def _check_plan(plan: Plan, path: str, wanted: Any) -> None:
    part, _, name = path.partition(".")
    given = getattr(getattr(plan, part), name)
    if part == "spaces" and isinstance(wanted, tuple):
        if set(given) != set(wanted):
            raise NoMatch(
                f"the protocol differs: {path} has {len(given)} spaces that are not the paper's "
                f"{len(wanted)}"
            )
    elif part == "spaces" and given != wanted:
        raise NoMatch(f"the study's {name} space is {given}, not {wanted}")
    elif given != wanted:
        raise NoMatch(f"the protocol differs: {path} is {given}, not {wanted}")


def _number(table: _StoredTable, row: Sequence[Any], place: Place) -> float:
    names = [column["name"] for column in table["columns"]]
    if place.column not in names:
        raise NoMatch(f"the table {table['name']} has no column {place.column}")
    at = names.index(place.column)
    cell = row[at]
    parts = cell if isinstance(cell, Mapping) else {"value": cell}
    value = parts.get(place.part)
    if not isinstance(value, (int, float)) or math.isnan(value):
        raise NoMatch(f"empty: the table {table['name']} has no {place.part} here")
    unit = table["columns"][at]["unit"]
    return float(value) * _SCALES.get(unit, 1.0)
