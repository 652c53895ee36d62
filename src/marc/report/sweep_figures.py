"""The figures of a memory at every weight and capacity, in every space."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.replay.sweep import Score, Sweep
from marc.replay.weights import accuracy_at
from marc.report.curves import Cells, Curves, label_ends, legend, line, mark_key, panels
from marc.report.setting import Subject
from marc.report.style import MUTED, Look
from marc.report.text import percent, points

_percent, _points = partial(percent, page=True), partial(points, page=True)
_CURVE = 121  # weights at which a curve is drawn; the marks are exact
_MARKS = {"fixed": "o", "oracle": "*", "held-out": "D"}
_SIZES = {"fixed": 5.5, "oracle": 9.0, "held-out": 5.5}


def sweep_figures(
    subject: Subject, others: Sequence[Sweep]
) -> list[tuple[str, Callable[..., Any], Any]]:
    """Each by name: the function that draws it, and its data."""
    return [
        ("by-weight", _draw_by_weight, _by_weight(subject, others)),
        ("by-purity", _draw_by_purity, _by_purity(subject)),
        ("by-capacity", _draw_by_capacity, _by_capacity(subject)),
    ]


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


def ordered_spaces(subject: Subject) -> tuple[str, ...]:
    """The two spaces that are shown, then the others, the most gaining first."""
    sweep = subject.sweep
    assert sweep is not None
    setting = subject.method.capacity, subject.weight
    rest = [space for space in sweep.spaces if space not in subject.shown_spaces]
    rest.sort(key=lambda space: -sweep.fixed(space, *setting).gain)
    return (*(space for space in subject.shown_spaces if space in sweep.spaces), *rest)


def _by_weight(subject: Subject, others: Sequence[Sweep]) -> Curves:
    """Gain against w for every space, with the fixed, the oracle and the held-out choice."""
    sweep, measure, capacity = subject.sweep, _measure_of(subject), subject.method.capacity
    assert sweep is not None
    spaces = ordered_spaces(subject)
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
    return Curves(measure.label, drawn, curves, Cells(columns, rows), marks)


def _at(score: Score) -> str:
    return " at w = " + "/".join(f"{weight:.4g}" for weight in dict.fromkeys(score.weights))


def _by_capacity(subject: Subject) -> Curves:
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
    return Curves(measure.label, sweep.capacities, curves, Cells(columns, rows))


@dataclass(frozen=True)
class _ByPurity:
    """The measure of every space beside how its neighbourhoods look."""

    label: str
    spaces: tuple[str, ...]
    pseudo_purity: NDArray[np.float64]
    purity: NDArray[np.float64] | None
    value: NDArray[np.float64]
    table: Cells


def _by_purity(subject: Subject) -> _ByPurity:
    """Gain at the setting against purity and against pseudo-purity."""
    sweep, measure = subject.sweep, _measure_of(subject)
    assert sweep is not None
    spaces, setting = ordered_spaces(subject), (subject.method.capacity, subject.weight)
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
    return _ByPurity(measure.label, spaces, pseudo, purity, value, Cells(columns, rows))


def _draw_by_weight(data: Curves, looks: Mapping[str, Look]) -> Any:
    words = list(data.marks)
    figure, (axes,) = panels(len(words), n_labels=len(data.curves))
    drawn = {space: (data.x, 100 * curve) for space, curve in data.curves.items()}
    for space, curve in reversed(drawn.items()):  # the first lie on top
        line(axes, *curve, looks[space])
    for word, marks in data.marks.items():
        for space, (weight, value) in marks.items():
            # a hollow mark for what needed labels: it is no result, only a bound
            face = "none" if word == "oracle" else looks[space].color
            axes.plot(
                *([weight], [100 * value], _MARKS[word]),
                color=looks[space].color,
                markerfacecolor=face,
                markersize=_SIZES[word],
                gid=looks[space].name,
                zorder=5,
            )
    _weight_axis(axes, float(data.x[-1]))
    axes.set_ylabel(data.label)
    signs = {
        word: mark_key(
            _MARKS[word],
            linestyle="none",
            color=MUTED,
            markerfacecolor="none" if word == "oracle" else MUTED,
            markersize=8 if word == "oracle" else 5.5,
        )
        for word in words
    }
    label_ends(axes, drawn, looks, marker=False)
    legend(figure, signs)
    return figure


def _draw_by_capacity(data: Curves, looks: Mapping[str, Look]) -> Any:
    figure, (axes,) = panels(0, n_labels=len(data.curves))
    drawn = {space: (data.x, 100 * curve) for space, curve in data.curves.items()}
    for space, curve in reversed(drawn.items()):
        line(axes, *curve, looks[space], marker=True)
    axes.set_xscale("log", base=2)
    axes.set_xticks(data.x, [str(capacity) for capacity in data.x])
    axes.minorticks_off()
    axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    axes.set_xlabel("capacity K, entries per pseudo-class")
    axes.set_ylabel(data.label)
    label_ends(axes, drawn, looks, marker=True)
    return figure


def _draw_by_purity(data: _ByPurity, looks: Mapping[str, Look]) -> Any:
    shown = {"pseudo-purity, percent": data.pseudo_purity}
    if data.purity is not None:
        shown["purity, percent"] = data.purity
    figure, grid = panels(len(data.spaces), len(shown))
    for axes, (name, shares) in zip(grid, shown.items(), strict=True):
        for space, share, value in zip(data.spaces, shares, data.value, strict=True):
            look = looks[space]
            size = 8 if look.width > 2 else 6
            at = [100 * share], [100 * value]
            axes.plot(*at, look.marker, color=look.color, markersize=size, gid=look.name)
        axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
        axes.set_xlabel(name)
        axes.margins(0.12)
    grid[0].set_ylabel(data.label)
    marks = {
        space: mark_key(look.marker, linestyle="none", color=look.color, markersize=6)
        for space, look in ((space, looks[space]) for space in data.spaces)
    }
    legend(figure, marks)
    return figure


def _weight_axis(axes: Any, largest: float) -> None:
    """Weights from 0 on, evenly in ratio from 0.1."""
    axes.set_xscale("symlog", linthresh=0.1, linscale=0.35)
    ticks = [0.0, *(10.0**power for power in range(-1, int(np.ceil(np.log10(largest))) + 1))]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(0, 1.15 * largest)
    axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    axes.set_xlabel("weight w of the evidence")
