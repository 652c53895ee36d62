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
from marc.report.answered import Answered
from marc.report.curves import Cells, Curves, label_ends, line, panels
from marc.report.setting import Subject
from marc.report.stepped import Stepped
from marc.report.style import INK, MUTED, Look
from marc.report.sweep_figures import ordered_spaces, sweep_figures
from marc.report.text import percent
from marc.scores import BINS, reliability

_percent = partial(percent, page=True)
_PARTS = 10
_FINE = 50  # parts of a curve of weights
_NO_MEMORY = "no memory"
_PLAIN = Look(INK, "o", (0, (2, 1.5)), 1.4)


def looks_of(subject: Subject | Stepped) -> dict[str, Look]:
    """A look for every name that is drawn on a page, the same wherever it is."""
    if isinstance(subject, Stepped):
        return Look.of(tuple(dict.fromkeys([subject.name, *subject.voices])), 1)
    spaces = subject.shown_spaces if subject.sweep is None else ordered_spaces(subject)
    return Look.of(
        tuple(dict.fromkeys([*subject.shown_spaces, *spaces])), len(subject.shown_spaces)
    )


def draw_figures(
    subject: Subject | Stepped, others: Sequence[Sweep]
) -> list[tuple[str, Any, Cells]]:
    """Every figure that the subject allows, by name, and the table under it; inside `drawing`."""
    every: list[tuple[str, Callable[..., Any], Any]]
    every = [("warm-up", _draw_along_stream, _along_stream(subject))]
    if subject.is_measured:
        every.append(("reliability", _draw_reliability, _reliability(subject)))
    if isinstance(subject, Stepped):
        if learned := _learned_weights(subject):
            every = [("weights", _draw_weights, learned), *every]
    elif subject.sweep is not None:
        every = [*sweep_figures(subject, others), *every]
    looks = {_NO_MEMORY: _PLAIN, **looks_of(subject)}
    return [(name, draw(data, looks), data.table) for name, draw, data in every]


def _learned_weights(subject: Stepped) -> Curves | None:
    """The weight of each space along the first order; None where no weight ever changes."""
    weights = {v: subject.weights(v) for v in subject.voices if v in subject.spaces}
    if not any(np.ptp(along) for along in weights.values()):
        return None
    length = len(subject.said)
    curves = {voice: _part_means(along, _FINE) for voice, along in weights.items()}
    rows = [
        [voice, *(f"{mean:.3f}" for mean in _part_means(along, _PARTS))]
        for voice, along in weights.items()
    ]
    table = Cells(["positions", *_part_names(length)], rows)
    ends = np.cumsum([len(part) for part in np.array_split(np.arange(length), _FINE)])
    return Curves("weight in the sum", ends[: len(next(iter(curves.values())))], curves, table)


def _part_means(along: NDArray[Any], n_parts: int) -> NDArray[np.float64]:
    """Means over parts of equal length of the last axis, and over the others."""
    parts = np.array_split(along, min(n_parts, along.shape[-1]), axis=-1)
    return np.array([part.mean() for part in parts])


def _part_names(length: int) -> list[str]:
    """The positions of each part, in words."""
    parts = np.array_split(np.arange(length), min(_PARTS, length))
    return [f"{part[0]}–{part[-1]}" for part in parts]


def _along_stream(subject: Subject | Stepped) -> Curves:
    """Accuracy in tenths of the stream, or the share of answers changed without labels."""
    stream, truth, run = subject.inputs.stream, subject.labels, subject.inputs.run
    orders = np.stack([stream.in_order(seed).order for seed in subject.seeds])

    def parts(by_row: NDArray[np.bool_]) -> NDArray[np.float64]:
        return _part_means(np.take_along_axis(by_row, orders[: len(by_row)], axis=1), _PARTS)

    if truth is None:
        assert run is not None  # a sweep has labels
        series = {subject.name: parts(run.arrays["prediction"] != subject.base_prediction)}
    else:
        base = np.broadcast_to(subject.base_prediction == truth, (len(orders), len(truth)))
        series = {_NO_MEMORY: parts(base), subject.name: parts(subject.right)}
        if isinstance(subject, Subject) and subject.against is not None:
            series[subject.against] = parts(subject.right_beside)
    label = "answers changed, percent" if truth is None else "right answers, percent"
    names = _part_names(len(orders[0]))
    rows = [
        [name, *(_percent(curve[place]) for curve in series.values())]
        for place, name in enumerate(names)
    ]
    return Curves(label, 1 + np.arange(len(names)), series, Cells(["positions", *series], rows))


def _reliability(subject: Answered) -> Curves:
    """Accuracy against confidence in equal-width bins, first order, with memory and without."""
    run, truth = subject.inputs.run, subject.labels
    assert run is not None  # `is_measured`
    answers = {
        _NO_MEMORY: (run.arrays["base_confidence"], subject.base_prediction == truth),
        subject.name: (run.arrays["confidence"][0], subject.right[0]),
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
    figure, (axes,) = panels(0)
    axes.plot([0, 100], [0, 100], color=MUTED, linewidth=0.8, zorder=1)
    drawn = {}
    for name, curve in reversed(data.curves.items()):
        filled = ~np.isnan(curve)
        drawn[name] = 100 * np.asarray(data.x)[filled], 100 * curve[filled]
        line(axes, *drawn[name], looks[name], marker=True)
    axes.set_xlabel(f"confidence, percent, in {BINS} bins")
    axes.set_ylabel(data.label)
    label_ends(axes, drawn, looks, marker=True)
    return figure


def _draw_along_stream(data: Curves, looks: Mapping[str, Look]) -> Any:
    figure, (axes,) = panels(0)
    drawn = {name: (data.x, 100 * curve) for name, curve in data.curves.items()}
    for name, curve in reversed(drawn.items()):
        line(axes, *curve, looks[name], marker=True)
    axes.set_xticks(data.x)
    axes.set_xlabel(f"part of the stream, of {len(data.x)}")
    axes.set_ylabel(data.label)
    label_ends(axes, drawn, looks, marker=True)
    return figure


def _draw_weights(data: Curves, looks: Mapping[str, Look]) -> Any:
    figure, (axes,) = panels(0, n_labels=len(data.curves))
    drawn = {voice: (data.x, curve) for voice, curve in data.curves.items()}
    for voice, curve in reversed(drawn.items()):  # the heaviest lie on top
        line(axes, *curve, looks[voice], marker=True, every=7)
    axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    axes.set_xlabel("images so far")
    axes.set_ylabel(data.label)
    label_ends(axes, drawn, looks, marker=True)
    return figure
