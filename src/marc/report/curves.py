"""The numbers behind the figures, each with the table that stands under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marc.replay.sweep import Score, Sweep
from marc.replay.weights import accuracy_at
from marc.report.setting import NEIGHBORS, Subject
from marc.report.tables import Table, percent, points, weight_text

_CURVE = 121  # weights at which a curve is drawn; the marks are exact
_PARTS = 10

_Curves = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class _Measure:
    """What the figures show: gain where labels are known, and else how many answers change."""

    name: str
    unit: str
    sign: int
    """From `accuracy - base accuracy` to the measure: agreement that is lost is change."""

    def text(self, value: float | None) -> str:
        """A value as it stands in a table."""
        return points(value) if self.sign > 0 else percent(value)


_GAIN = _Measure("gain over no memory", "points", 1)
_CHANGED = _Measure("answers changed", "percent", -1)


def _measure_of(subject: Subject) -> _Measure:
    """Gain if the labels are known."""
    return _CHANGED if subject.labels is None else _GAIN


def ordered_spaces(subject: Subject) -> tuple[str, ...]:
    """The two spaces that are shown, then the others, the most gaining first."""
    sweep = subject.sweep
    assert sweep is not None
    setting = subject.method.capacity, subject.weight
    rest = [space for space in sweep.spaces if space not in subject.shown_spaces]
    rest.sort(key=lambda space: -sweep.fixed(space, *setting).gain)
    return (*(space for space in subject.shown_spaces if space in sweep.spaces), *rest)


@dataclass(frozen=True)
class ByWeight:
    """The measure at every weight, for one capacity."""

    measure: _Measure
    capacity: int
    weights: NDArray[np.float64]
    curves: _Curves
    marks: Mapping[str, Mapping[str, tuple[float, float]]]
    """By selection word, by space: the weight and the measure there."""
    table: Table


def by_weight(subject: Subject, others: Sequence[Sweep]) -> ByWeight:
    """Gain against w for every space, with the fixed, the oracle and the held-out choice."""
    sweep, measure, capacity = subject.sweep, _measure_of(subject), subject.method.capacity
    assert sweep is not None
    spaces = ordered_spaces(subject)
    fixed = subject.weight
    largest = max(100.0, fixed, *sweep.weights)
    drawn = np.unique([0.0, *np.geomspace(0.1, largest, _CURVE), *sweep.weights, fixed])
    place = sweep.capacities.index(capacity)
    scores = selections(subject, others)
    grid = dict(zip(sweep.spaces, sweep.accuracy[:, place], strict=True))
    columns = ["space", *scores, *(f"w = {weight_text(weight)}" for weight in sweep.weights)]
    rows = []
    for space in spaces:
        chosen = [
            f"{measure.text(measure.sign * row[space].gain)}{_at(row[space])}"
            if space in row
            else ""
            for row in scores.values()
        ]
        gains = grid[space].mean(axis=-1) - sweep.base_accuracy.mean()
        rows.append([space, *chosen, *(measure.text(measure.sign * gain) for gain in gains)])
    curves = {space: measure.sign * _mean_gain(sweep, space, place, drawn) for space in spaces}
    marks = {
        word: {
            space: (float(np.median(score.weights)), measure.sign * score.gain)
            for space, score in row.items()
        }
        for word, row in scores.items()
    }
    return ByWeight(measure, capacity, drawn, curves, marks, Table.of(columns, rows))


def _mean_gain(
    sweep: Sweep, space: str, place: int, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Gain at some weights and one capacity, mean over orders."""
    lower, upper = (ends[:, place] for ends in sweep.intervals[space])
    return accuracy_at(lower, upper, tuple(weights)).mean(axis=0) - sweep.base_accuracy.mean()


def selections(subject: Subject, others: Sequence[Sweep]) -> dict[str, dict[str, Score]]:
    """Scores by how the weight was chosen; an oracle needs labels, and held-out other streams."""
    sweep, capacity = subject.sweep, subject.method.capacity
    assert sweep is not None
    spaces = sweep.spaces
    scores = {"fixed": {each: sweep.fixed(each, capacity, subject.weight) for each in spaces}}
    if subject.labels is not None:
        scores["oracle"] = {each: sweep.oracle(each, capacity, over="all") for each in spaces}
        if others:
            # a choice can be made only in spaces that the other streams were swept in, too
            common = [each for each in spaces if all(each in other.spaces for other in others)]
            scores["held-out"] = {each: sweep.held_out(each, others, capacity) for each in common}
    return scores


def _at(score: Score) -> str:
    """The weights of a score, several where an oracle chose for each order."""
    return " at w = " + "/".join(weight_text(weight) for weight in dict.fromkeys(score.weights))


@dataclass(frozen=True)
class ByCapacity:
    """The measure at every capacity, for one weight."""

    measure: _Measure
    weight: float
    capacities: tuple[int, ...]
    curves: _Curves
    table: Table


def by_capacity(subject: Subject) -> ByCapacity:
    """Gain against K for every space at the setting's weight."""
    sweep, measure, weight = subject.sweep, _measure_of(subject), subject.weight
    assert sweep is not None
    curves = {
        space: np.array(
            [measure.sign * sweep.fixed(space, k, weight).gain for k in sweep.capacities]
        )
        for space in ordered_spaces(subject)
    }
    columns = ["space", *(f"K = {capacity}" for capacity in sweep.capacities)]
    rows = [[space, *map(measure.text, curve)] for space, curve in curves.items()]
    return ByCapacity(measure, weight, sweep.capacities, curves, Table.of(columns, rows))


@dataclass(frozen=True)
class ByPurity:
    """The measure of every space beside how its neighbourhoods look."""

    measure: _Measure
    spaces: tuple[str, ...]
    pseudo_purity: NDArray[np.float64]
    purity: NDArray[np.float64] | None
    value: NDArray[np.float64]
    table: Table


def by_purity(subject: Subject) -> ByPurity:
    """Gain at the setting against purity and against pseudo-purity."""
    sweep, measure = subject.sweep, _measure_of(subject)
    assert sweep is not None
    spaces, setting = ordered_spaces(subject), (subject.method.capacity, subject.weight)
    geometry = [subject.geometry[space] for space in spaces]
    pseudo = np.array([each.pseudo_purity for each in geometry])
    known = subject.labels is not None
    purity = np.array([each.purity for each in geometry], dtype=np.float64) if known else None
    value = np.array([measure.sign * sweep.fixed(space, *setting).gain for space in spaces])
    columns = ["space", f"pseudo-purity@{NEIGHBORS}, %"]
    columns += [f"purity@{NEIGHBORS}, %"] if known else []
    columns += [f"{measure.name}, {measure.unit}"]
    columns += ["oracle, all K and w"] if known else []
    rows = []
    for space, each, gain in zip(spaces, geometry, value, strict=True):
        row = [space, percent(each.pseudo_purity), *([percent(each.purity)] if known else [])]
        row += [measure.text(gain)]
        rows.append(row + ([points(sweep.oracle(space, over="all").gain)] if known else []))
    return ByPurity(measure, spaces, pseudo, purity, value, Table.of(columns, rows))


@dataclass(frozen=True)
class AlongStream:
    """A share in each part of the stream, mean over orders."""

    label: str
    series: _Curves
    table: Table


def along_stream(subject: Subject) -> AlongStream:
    """Accuracy in tenths of the stream, or the share of answers changed without labels."""
    n_parts = min(_PARTS, len(subject.stream))
    stream, truth = subject.inputs.stream, subject.labels
    orders = np.stack([stream.in_order(seed).order for seed in subject.seeds])

    def parts(by_row: NDArray[np.bool_]) -> NDArray[np.float64]:
        along = np.take_along_axis(by_row, orders[: len(by_row)], axis=1)
        return np.array([part.mean() for part in np.array_split(along, n_parts, axis=1)])

    method, against, run = subject.method, subject.against, subject.inputs.run
    if truth is None:
        assert run is not None  # a sweep has labels
        series = {method.space: parts(run.arrays["prediction"] != subject.base_prediction)}
    else:
        base = np.broadcast_to(subject.base_prediction == truth, (len(orders), len(truth)))
        series = {"no memory": parts(base), method.space: parts(subject.right)}
        if against is not None:
            series[against] = parts(subject.right_beside)
    label = "answers changed, percent" if truth is None else "right answers, percent"
    ends = np.cumsum([len(part) for part in np.array_split(orders[0], n_parts)])
    starts = [0, *ends[:-1]]
    rows = [
        [f"{start}–{end - 1}", *(percent(curve[place]) for curve in series.values())]
        for place, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
    return AlongStream(label, series, Table.of(["positions", *series], rows))
