"""The figures: the numbers of each, the table under it, and the drawing.

matplotlib is loaded when one is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.replay.sweep import Sweep
from marc.report.curves import Cells, Curves, keys, legend, line, panels
from marc.report.setting import Subject
from marc.report.style import INK, MUTED, Look
from marc.report.sweep_figures import ordered_spaces, sweep_figures
from marc.report.text import percent
from marc.scores import BINS, reliability

_percent = partial(percent, page=True)
_PARTS = 10
_PLAIN = Look(INK, "o", (0, (2, 1.5)), 1.4)  # without memory


def draw_figures(subject: Subject, others: Sequence[Sweep]) -> list[tuple[str, Any, Cells]]:
    """Every figure that the subject allows, by name, and the table under it; inside `drawing`."""
    every: list[tuple[str, Callable[..., Any], Any]]
    every = [("warm-up", _draw_along_stream, _along_stream(subject))]
    if subject.is_measured:
        every.append(("reliability", _draw_reliability, _reliability(subject)))
    shown = spaces = subject.shown_spaces
    if subject.sweep is not None:
        spaces = ordered_spaces(subject)
        every = [*sweep_figures(subject, others), *every]
    looks = Look.of(tuple(dict.fromkeys([*shown, *spaces])), len(shown))
    return [(name, draw(data, looks), data.table) for name, draw, data in every]


def _along_stream(subject: Subject) -> Curves:
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
    return Curves(label, 1 + np.arange(n_parts), series, Cells(["positions", *series], rows))


def _reliability(subject: Subject) -> Curves:
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
    return Curves("right answers, percent", middle, curves, Cells(columns, rows))


def _draw_reliability(data: Curves, looks: Mapping[str, Look]) -> Any:
    figure, (axes,) = panels(len(data.curves))
    shown = {name: looks.get(name, _PLAIN) for name in data.curves}
    axes.plot([0, 100], [0, 100], color=MUTED, linewidth=0.8, zorder=1)
    for name, curve in reversed(data.curves.items()):
        filled = ~np.isnan(curve)
        line(axes, 100 * np.asarray(data.x)[filled], 100 * curve[filled], shown[name], marker=True)
    axes.set_xlabel(f"confidence, percent, in {BINS} bins")
    axes.set_ylabel(data.label)
    legend(figure, keys(data.curves, shown, marker=True))
    return figure


def _draw_along_stream(data: Curves, looks: Mapping[str, Look]) -> Any:
    figure, (axes,) = panels(len(data.curves))
    shown = {name: looks.get(name, _PLAIN) for name in data.curves}
    for name, curve in reversed(data.curves.items()):
        line(axes, data.x, 100 * curve, shown[name], marker=True)
    axes.set_xticks(data.x)
    axes.set_xlabel(f"part of the stream, of {len(data.x)}")
    axes.set_ylabel(data.label)
    legend(figure, keys(data.curves, shown, marker=True))
    return figure
