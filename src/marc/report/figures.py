"""The figures: the numbers of each, the table under it, and the drawing.

matplotlib is loaded when one is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marc.replay.sweep import Score, Sweep
from marc.replay.weights import accuracy_at
from marc.report.setting import Subject
from marc.report.style import INK, MUTED, Look
from marc.report.text import percent, points
from marc.scores import BINS, reliability

_percent, _points = partial(percent, page=True), partial(points, page=True)
_CURVE = 121  # weights at which a curve is drawn; the marks are exact
_PARTS = 10
_MARKS = {"fixed": "o", "oracle": "*", "held-out": "D"}
_SIZES = {"fixed": 5.5, "oracle": 9.0, "held-out": 5.5}
_WIDTH, _HEIGHT = 4.5, 2.9  # inches of a figure without its legend
_ROW = 0.19  # inches of a row of the legend
_COLUMNS = 3  # of the legend, at most
_PLAIN = Look(INK, "o", (0, (2, 1.5)), 1.4)  # without memory


class _Table(NamedTuple):
    """Cells as they are printed; the first column names the row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def draw_figures(subject: Subject, others: Sequence[Sweep]) -> list[tuple[str, Any, _Table]]:
    """Every figure that the subject allows, by name, and the table under it; inside `drawing`."""
    every: list[tuple[str, Callable[..., Any], Any]]
    every = [("warm-up", _draw_along_stream, _along_stream(subject))]
    if subject.is_measured:
        every.append(("reliability", _draw_reliability, _reliability(subject)))
    shown = spaces = subject.shown_spaces
    if subject.sweep is not None:
        spaces = _ordered_spaces(subject)
        every = [
            ("by-weight", _draw_by_weight, _by_weight(subject, others)),
            ("by-purity", _draw_by_purity, _by_purity(subject)),
            ("by-capacity", _draw_by_capacity, _by_capacity(subject)),
            *every,
        ]
    looks = Look.of(tuple(dict.fromkeys([*shown, *spaces])), len(shown))
    return [(name, draw(data, looks), data.table) for name, draw, data in every]


@dataclass(frozen=True)
class _Measure:
    """What the figures show: gain where labels are known, and else how many answers change."""

    label: str
    sign: int
    """From `accuracy - base accuracy` to the measure: agreement that is lost is change."""

    def text(self, value: float | None) -> str:
        """A value as it stands in a table."""
        return _points(value) if self.sign > 0 else _percent(value)


def _measure_of(subject: Subject) -> _Measure:
    if subject.labels is None:
        return _Measure("answers changed, percent", -1)
    return _Measure("gain over no memory, points", 1)


def _ordered_spaces(subject: Subject) -> tuple[str, ...]:
    """The two spaces that are shown, then the others, the most gaining first."""
    sweep = subject.sweep
    assert sweep is not None
    setting = subject.method.capacity, subject.weight
    rest = [space for space in sweep.spaces if space not in subject.shown_spaces]
    rest.sort(key=lambda space: -sweep.fixed(space, *setting).gain)
    return (*(space for space in subject.shown_spaces if space in sweep.spaces), *rest)


@dataclass(frozen=True)
class _Curves:
    """A measure along an axis."""

    label: str
    """What is measured, and its unit."""
    x: Sequence[float] | NDArray[Any]
    curves: dict[str, NDArray[np.float64]]
    table: _Table
    marks: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    """By selection word, by space: the weight and the measure there."""


def _by_weight(subject: Subject, others: Sequence[Sweep]) -> _Curves:
    """Gain against w for every space, with the fixed, the oracle and the held-out choice."""
    sweep, measure, capacity = subject.sweep, _measure_of(subject), subject.method.capacity
    assert sweep is not None
    spaces = _ordered_spaces(subject)
    fixed = subject.weight
    largest = max(100.0, fixed, *sweep.weights)
    drawn = np.unique([0.0, *np.geomspace(0.1, largest, _CURVE), *sweep.weights, fixed])
    place = sweep.capacities.index(capacity)
    scores = subject.selections(others)
    grid = dict(zip(sweep.spaces, sweep.accuracy[:, place], strict=True))
    columns = ["space", *scores, *(f"w = {weight:.4g}" for weight in sweep.weights)]
    base, curves, rows = sweep.base_accuracy.mean(), {}, []
    for space in spaces:
        chosen = [
            f"{measure.text(measure.sign * row[space].gain)}{_at(row[space])}"
            if space in row
            else ""
            for row in scores.values()
        ]
        lower, upper = (ends[:, place] for ends in sweep.intervals[space])
        curve = accuracy_at(lower, upper, tuple(drawn)).mean(axis=0) - base
        curves[space] = measure.sign * curve
        gains = grid[space].mean(axis=-1) - base
        rows.append([space, *chosen, *(measure.text(measure.sign * gain) for gain in gains)])
    marks = {
        word: {
            space: (float(np.median(score.weights)), measure.sign * score.gain)
            for space, score in row.items()
        }
        for word, row in scores.items()
    }
    return _Curves(measure.label, drawn, curves, _Table(columns, rows), marks)


def _at(score: Score) -> str:
    return " at w = " + "/".join(f"{weight:.4g}" for weight in dict.fromkeys(score.weights))


def _by_capacity(subject: Subject) -> _Curves:
    """Gain against K for every space at the setting's weight."""
    sweep, measure, weight = subject.sweep, _measure_of(subject), subject.weight
    assert sweep is not None
    curves = {
        space: np.array(
            [measure.sign * sweep.fixed(space, k, weight).gain for k in sweep.capacities]
        )
        for space in _ordered_spaces(subject)
    }
    columns = ["space", *(f"K = {capacity}" for capacity in sweep.capacities)]
    rows = [[space, *map(measure.text, curve)] for space, curve in curves.items()]
    return _Curves(measure.label, sweep.capacities, curves, _Table(columns, rows))


@dataclass(frozen=True)
class _ByPurity:
    """The measure of every space beside how its neighbourhoods look."""

    label: str
    spaces: tuple[str, ...]
    pseudo_purity: NDArray[np.float64]
    purity: NDArray[np.float64] | None
    value: NDArray[np.float64]
    table: _Table


def _by_purity(subject: Subject) -> _ByPurity:
    """Gain at the setting against purity and against pseudo-purity."""
    sweep, measure = subject.sweep, _measure_of(subject)
    assert sweep is not None
    spaces, setting = _ordered_spaces(subject), (subject.method.capacity, subject.weight)
    geometry = [subject.geometry[space] for space in spaces]
    pseudo = np.array([each.pseudo_purity for each in geometry])
    known = subject.labels is not None
    purity = np.array([each.purity for each in geometry], dtype=np.float64) if known else None
    value = np.array([measure.sign * sweep.fixed(space, *setting).gain for space in spaces])
    columns = ["space", f"pseudo-purity@{subject.neighbors}, %"]
    columns += [f"purity@{subject.neighbors}, %"] if known else []
    columns += [measure.label]
    columns += ["oracle, all K and w"] if known else []
    rows = []
    for space, each, gain in zip(spaces, geometry, value, strict=True):
        row = [space, _percent(each.pseudo_purity), measure.text(gain)]
        if known:
            row.insert(2, _percent(each.purity))
            row.append(_points(sweep.oracle(space, over="all").gain))
        rows.append(row)
    return _ByPurity(measure.label, spaces, pseudo, purity, value, _Table(columns, rows))


def _along_stream(subject: Subject) -> _Curves:
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
        [f"{start}–{end - 1}", *(_percent(curve[place]) for curve in series.values())]
        for place, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]
    return _Curves(label, 1 + np.arange(n_parts), series, _Table(["positions", *series], rows))


def _reliability(subject: Subject) -> _Curves:
    """Accuracy against confidence in equal-width bins, first order, with memory and without."""
    run, truth = subject.inputs.run, subject.labels
    assert run is not None  # `is_measured`
    answers = {
        "no memory": (run.arrays["base_confidence"], subject.base_prediction == truth),
        subject.method.space: (run.arrays["confidence"][0], subject.right[0]),
    }
    edges, found = np.linspace(0, 1, BINS + 1), {n: reliability(*a) for n, a in answers.items()}
    columns, rows = ["confidence, %"], []
    for name in found:
        columns += [f"{name}: answers", "mean confidence, %", "right, %"]
    for place, (low, high) in enumerate(pairwise(edges)):
        if any(count[place] for count, _, _ in found.values()):
            cells = [
                [str(count[place]), _percent(sure[place]), _percent(right[place])]
                for count, sure, right in found.values()
            ]
            rows.append([f"{100 * low:.1f}–{100 * high:.1f}", *(c for each in cells for c in each)])
    curves = {name: right for name, (_, _, right) in found.items()}
    middle = (edges[:-1] + edges[1:]) / 2
    return _Curves("right answers, percent", middle, curves, _Table(columns, rows))


def _draw_reliability(data: _Curves, looks: Mapping[str, Look]) -> Any:
    figure, (axes,) = _panels(len(data.curves))
    shown = {name: looks.get(name, _PLAIN) for name in data.curves}
    axes.plot([0, 100], [0, 100], color=MUTED, linewidth=0.8, zorder=1)
    for name, curve in reversed(data.curves.items()):
        filled = ~np.isnan(curve)
        _line(axes, 100 * np.asarray(data.x)[filled], 100 * curve[filled], shown[name], marker=True)
    axes.set_xlabel(f"confidence, percent, in {BINS} bins")
    axes.set_ylabel(data.label)
    _legend(figure, _keys(data.curves, shown, marker=True))
    return figure


def _draw_by_weight(data: _Curves, looks: Mapping[str, Look]) -> Any:
    words = list(data.marks)
    figure, (axes,) = _panels(len(data.curves) + len(words))
    for space, curve in reversed(data.curves.items()):  # the first lie on top
        _line(axes, data.x, 100 * curve, looks[space])
    for word, marks in data.marks.items():
        for space, (weight, value) in marks.items():
            # a hollow mark for what needed labels: it is no result, only a bound
            face = "none" if word == "oracle" else looks[space].color
            axes.plot(
                *([weight], [100 * value], _MARKS[word]),
                color=looks[space].color,
                markerfacecolor=face,
                markersize=_SIZES[word],
                zorder=5,
            )
    _weight_axis(axes, float(data.x[-1]))
    axes.set_ylabel(data.label)
    signs = {
        word: _key(
            _MARKS[word],
            linestyle="none",
            color=MUTED,
            markerfacecolor="none" if word == "oracle" else MUTED,
            markersize=8 if word == "oracle" else 5.5,
        )
        for word in words
    }
    _legend(figure, {**_keys(data.curves, looks), **signs})
    return figure


def _draw_by_capacity(data: _Curves, looks: Mapping[str, Look]) -> Any:
    figure, (axes,) = _panels(len(data.curves))
    for space, curve in reversed(data.curves.items()):
        _line(axes, data.x, 100 * curve, looks[space], marker=True)
    axes.set_xscale("log", base=2)
    axes.set_xticks(data.x, [str(capacity) for capacity in data.x])
    axes.minorticks_off()
    axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    axes.set_xlabel("capacity K, entries per pseudo-class")
    axes.set_ylabel(data.label)
    _legend(figure, _keys(data.curves, looks, marker=True))
    return figure


def _draw_by_purity(data: _ByPurity, looks: Mapping[str, Look]) -> Any:
    panels = {"pseudo-purity, percent": data.pseudo_purity}
    if data.purity is not None:
        panels["purity, percent"] = data.purity
    figure, grid = _panels(len(data.spaces), len(panels))
    for axes, (name, shares) in zip(grid, panels.items(), strict=True):
        for space, share, value in zip(data.spaces, shares, data.value, strict=True):
            look = looks[space]
            size = 8 if look.width > 2 else 6
            axes.plot([100 * share], [100 * value], look.marker, color=look.color, markersize=size)
        axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
        axes.set_xlabel(name)
        axes.margins(0.12)
    grid[0].set_ylabel(data.label)
    keys = {
        space: _key(look.marker, linestyle="none", color=look.color, markersize=6)
        for space, look in ((space, looks[space]) for space in data.spaces)
    }
    _legend(figure, keys)
    return figure


def _draw_along_stream(data: _Curves, looks: Mapping[str, Look]) -> Any:
    figure, (axes,) = _panels(len(data.curves))
    shown = {name: looks.get(name, _PLAIN) for name in data.curves}
    for name, curve in reversed(data.curves.items()):
        _line(axes, data.x, 100 * curve, shown[name], marker=True)
    axes.set_xticks(data.x)
    axes.set_xlabel(f"part of the stream, of {len(data.x)}")
    axes.set_ylabel(data.label)
    _legend(figure, _keys(data.curves, shown, marker=True))
    return figure


def _panels(n_names: int, columns: int = 1) -> tuple[Any, Any]:
    """A figure of a row of panels that leaves room for a legend of so many names."""
    from matplotlib.figure import Figure

    rows = -(-n_names // min(n_names, _COLUMNS))
    figure = Figure(figsize=(_WIDTH, _HEIGHT + _ROW * rows))
    return figure, figure.subplots(1, columns, sharey=True, squeeze=False)[0]


def _line(axes: Any, x: Any, y: Any, look: Look, *, marker: bool = False) -> None:
    axes.plot(x, y, marker=look.marker if marker else None, markersize=4.5, **look.line)


def _weight_axis(axes: Any, largest: float) -> None:
    """Weights from 0 on, evenly in ratio from 0.1."""
    axes.set_xscale("symlog", linthresh=0.1, linscale=0.35)
    ticks = [0.0, *(10.0**power for power in range(-1, int(np.ceil(np.log10(largest))) + 1))]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(0, 1.15 * largest)
    axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    axes.set_xlabel("weight w of the evidence")


def _keys(names: Any, looks: Mapping[str, Look], *, marker: bool = False) -> dict[str, Any]:
    shown = {name: looks[name] for name in names}
    return {
        name: _key(look.marker if marker else None, markersize=4.5, **look.line)
        for name, look in shown.items()
    }


def _key(marker: str | None, **style: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], marker=marker, **style)


def _legend(figure: Any, entries: Mapping[str, Any]) -> None:
    names = [_shortened(name) for name in entries]
    columns = min(len(names), _COLUMNS)
    figure.legend(list(entries.values()), names, loc="outside lower center", ncols=columns)


def _shortened(name: str, limit: int = 22) -> str:
    """A name that fits a legend; one that starts with an underscore would be left out of it."""
    name = name if len(name) <= limit else name[: limit - 1] + "…"
    return f"\u200b{name}" if name.startswith("_") else name
