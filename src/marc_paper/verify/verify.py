"""Hold a study against the paper: what meets it, what differs, and why the rest has no match.

A value is compared only where data set, predictor, prompts, spaces and protocol are the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, final

from marc.pictures import NAMED_SETS
from marc_paper.printed.sheets import common
from marc_paper.study.experiments import EXPERIMENTS
from marc_paper.study.folder import StoredStudy
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment
from marc_paper.verify.expected import EXPECTED, MEAN, STREAM, Expected, Place
from marc_paper.verify.tolerances import KINDS

_Status = Literal["meets", "differs", "no match"]

_About = Mapping[str, str]
"""What a table says of a stream: its data set, predictor, prompts and group."""
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
    printed: Sequence[Expected] = EXPECTED,
) -> list[Finding]:
    """One finding for each printed number.

    Args:
        study: as it lies on disk.
        experiments: all there are, to say why a table is missing.
        printed: what the paper prints.
    """
    streams = _Streams.of(Plan.of(study.config["plan"]), study.streams)
    return [_judge(expected, streams, study, experiments) for expected in printed]


def _judge(
    expected: Expected, streams: _Streams, study: StoredStudy, experiments: Sequence[Experiment]
) -> Finding:
    try:
        got = _value(expected, streams, study, experiments)
    except _NoMatch as reason:
        return Finding(expected, "no match", str(reason))
    status: _Status = "meets" if expected.meets(got) else "differs"
    return Finding(expected, status, "", got, expected.distance(got))


def _value(
    expected: Expected, streams: _Streams, study: StoredStudy, experiments: Sequence[Experiment]
) -> float:
    """The study's value in the printed unit; the reasons against it in their order."""
    place = expected.place
    if place.never and place.never.first:
        raise _NoMatch(place.never.reason)
    streams.check(expected)
    if place.never:
        raise _NoMatch(place.never.reason)
    table = _table(place, streams, study, experiments)
    row = _find_row(table, place, streams)
    _check_protocol(table, place, streams)
    value = _number(table, row, place)
    if place.less:
        other = replace(place, row={**place.row, **place.less})
        value -= _number(table, _find_row(table, other, streams), place)
    if expected.is_deviation and value == 0 and expected.value > KINDS["deviation"].floor:
        raise _NoMatch("no deviation at all: orders share one draw of views")
    return value


def _table(
    place: Place, streams: _Streams, study: StoredStudy, experiments: Sequence[Experiment]
) -> _StoredTable:
    name = _experiment_of(place.table, experiments)
    if name not in study.records:
        reasons = [each.missing(streams.plan) for each in experiments if each.name == name]
        if any(reasons):
            raise _NoMatch(f"the experiment {name} is not possible with this plan: {reasons[0]}")
        raise _NoMatch(f"the experiment {name} was not made")
    if place.table not in study.tables:
        raise _NoMatch(f"the experiment {name} made no table {place.table} of this plan")
    table: _StoredTable = study.tables[place.table]
    if dict(table.get("streams", {})) != streams.about:
        raise _NoMatch(f"the table {place.table} was made with other streams than the plan has")
    return table


def _experiment_of(table: str, experiments: Sequence[Experiment]) -> str:
    """The experiment that makes a table: the one whose name it begins with."""
    for begin, name in _OTHER_NAMES.items():
        if table.startswith(begin):
            return name
    names = [each.name for each in experiments if f"{table}-".startswith(f"{each.name}-")]
    return max(names, key=len, default=table)


def _find_row(table: _StoredTable, place: Place, streams: _Streams) -> Sequence[Any]:
    """The only row of a place."""
    names = [column["name"] for column in table["columns"]]
    cells = streams.row(place)
    if place.dataset and "stream" in names:
        cells["stream"] = streams.named(place.dataset, place.predictor)
    rows = list(table["rows"])
    for name, cell in cells.items():
        if name not in names:
            raise _NoMatch(f"the table {table['name']} has no column {name}")
        rows = [row for row in rows if _same(row[names.index(name)], cell)]
        if not rows:
            link = "for" if name in ("space", "stream") else "with"
            raise _NoMatch(f"the table {table['name']} has no row {link} {name} {cell}")
    if len(rows) > 1:
        raise _NoMatch(f"the table {table['name']} has {len(rows)} such rows")
    row: Sequence[Any] = rows[0]
    return row


def _same(cell: Any, other: Any) -> bool:
    """Whether two cells are the same; a number may be written as text."""
    return bool(cell == other) or (None not in (cell, other) and str(cell) == str(other))


def _check_protocol(table: _StoredTable, place: Place, streams: _Streams) -> None:
    settings, kind = table["settings"], streams.plan.seeds.kind
    if kind != "shuffled":
        raise _NoMatch(f"the protocol differs: the orders are {kind}, not shuffled")
    if place.dataset and "stream" in settings:
        name = streams.named(place.dataset, place.predictor)
        if settings["stream"] != name:
            raise _NoMatch(f"the table {table['name']} is about {settings['stream']}, not {name}")
    if place.groups and place.datasets and MEAN not in place.row.values():
        streams.cover(place)
    given = {**settings, "orders": len(settings.get("seeds", ()))}
    for name, value in place.settings.items():
        if given.get(name) != value:
            raise _NoMatch(f"the protocol differs: {name} {given.get(name)}, not {value}")
    for path, value in place.plan.items():
        _check_plan(streams.plan, path, value)


def _check_plan(plan: Plan, path: str, expected: Any) -> None:
    part, _, name = path.partition(".")
    given = getattr(getattr(plan, part), name)
    if part == "spaces" and isinstance(expected, tuple):
        if set(given) != set(expected):
            raise _NoMatch(
                f"the protocol differs: {path} has {len(given)} spaces that are not the paper's "
                f"{len(expected)}"
            )
    elif part == "spaces" and given != expected:
        raise _NoMatch(f"the study's {name} space is {given}, not {expected}")
    elif given != expected:
        raise _NoMatch(f"the protocol differs: {path} is {given}, not {expected}")


def _number(table: _StoredTable, row: Sequence[Any], place: Place) -> float:
    names = [column["name"] for column in table["columns"]]
    if place.column not in names:
        raise _NoMatch(f"the table {table['name']} has no column {place.column}")
    index = names.index(place.column)
    cell = row[index]
    parts = cell if isinstance(cell, Mapping) else {"value": cell}
    value = parts.get(place.part)
    if not isinstance(value, (int, float)) or math.isnan(value):
        raise _NoMatch(f"empty: the table {table['name']} has no {place.part} here")
    unit = table["columns"][index]["unit"]
    return float(value) * _SCALES.get(unit, 1.0)


class _NoMatch(Exception):  # noqa: N818  (it is a finding about a study, not a failure of ours)
    """Why a printed value cannot be compared."""


@final
@dataclass(frozen=True)
class _Streams:
    """The streams of a plan."""

    plan: Plan
    about: Mapping[str, _About]
    """What each stream is."""
    sizes: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """How many images and classes each has."""

    @classmethod
    def of(cls, plan: Plan, sizes: Mapping[str, Mapping[str, object]] | None = None) -> _Streams:
        """The streams as a plan describes them, and their sizes."""
        return cls(plan, plan.describe(), sizes or {})

    def named(self, dataset: str, predictor: str) -> str:
        """The stream of a data set under a predictor and the paper's prompts."""
        there = [name for name, about in self.about.items() if about["dataset"] == dataset]
        if not there:
            raise _NoMatch(f"the study has no stream of {dataset}")
        predictors = {name: self.about[name]["predictor"] for name in there}
        # a predictor is compared by the name of its image encoder
        same = [name for name in there if predictors[name].removesuffix("-text") == predictor]
        if not same:
            other = predictors[there[0]]
            raise _NoMatch(f"the stream {there[0]} is predicted by {other}, not {predictor}")
        prompts = _prompts_of(dataset)
        for name in same:
            if _plain_prompts(self.about[name]["prompts"]) == _plain_prompts(prompts):
                self._check_size(name, dataset)
                return name
        other = self.about[same[0]]["prompts"] or "not stated"
        raise _NoMatch(f"the prompts of the stream {same[0]} are {other}, not {prompts}")

    def _check_size(self, name: str, dataset: str) -> None:
        """Refuse a part of a data set, or something else under its name."""
        size, published = self.sizes.get(name), NAMED_SETS[dataset]
        if not size:
            return
        images, classes = int(str(size["images"])), size["classes"]
        # a few pictures may be unreadable
        if abs(images - published.images) > published.images // 100 or classes != published.classes:
            raise _NoMatch(
                f"the stream {name} has {images:,} images of {classes} classes, not the "
                f"{published.images:,} of {published.classes} of {dataset}"
            )

    def check(self, expected: Expected) -> None:
        """All streams behind a value are there."""
        place = expected.place
        for dataset in dict.fromkeys((place.dataset, *place.datasets)):
            if dataset:
                self.named(dataset, place.predictor)

    def row(self, place: Place) -> dict[str, object]:
        """The cells that tell a row, with the names that the study gives its streams."""
        return {name: self._cell(place, cell) for name, cell in place.row.items()}

    def _cell(self, place: Place, cell: object) -> object:
        if cell == MEAN:
            return self.mean(place)
        if isinstance(cell, str) and cell.startswith(STREAM):
            return self.named(cell.removeprefix(STREAM), place.predictor)
        return cell

    def mean(self, place: Place) -> str:
        """The name of the average over exactly the data sets of a place."""
        streams = self.plan.group(*place.groups)
        for name, several in Plan.averages(self.plan, streams).items():
            if self._are(several, place.datasets):
                return name
        raise _NoMatch(
            f"the study has no average over exactly {len(place.datasets)} streams: "
            f"{', '.join(place.datasets)}"
        )

    def cover(self, place: Place) -> None:
        """A value over all streams of some groups is over the paper's."""
        streams = self.plan.group(*place.groups)
        if not self._are(streams, place.datasets):
            raise _NoMatch(
                f"the protocol differs: it is over {len(streams)} streams of the study, not over "
                f"the paper's {len(place.datasets)}"
            )

    def _are(self, streams: Iterable[str], datasets: tuple[str, ...]) -> bool:
        return sorted(self.plan.streams[name].dataset for name in streams) == sorted(datasets)


def _prompts_of(dataset: str) -> str:
    """The prompt sets of a data set, joined by +.

    The paper does not list its prompts. These give its one-view accuracies without memory.

    >>> _prompts_of("imagenet-a"), _prompts_of("dtd")
    ('tip-7+cupl', 'dtd+cupl')
    """
    return f"{common()['templates'].get(dataset, 'tip-7')}+cupl"


def _plain_prompts(text: str) -> frozenset[str]:
    """Prompt sets as they are compared: in any order, files by their name.

    >>> sorted(_plain_prompts("texts/CuPL.json + tip-7"))
    ['cupl', 'tip-7']
    """
    parts = (part.strip().replace("\\", "/").rpartition("/")[2] for part in text.split("+"))
    return frozenset(part.lower().removesuffix(".json") for part in parts if part)
