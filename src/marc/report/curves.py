"""What a figure of curves is made from, and how its panels, lines and legend are drawn.

matplotlib is loaded when one is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marc.report.style import Look

_WIDTH, _HEIGHT = 4.8, 2.9  # inches of a figure without its legend
_ROW = 0.19  # inches of a row of the legend
_COLUMNS = 3  # of the legend, at most
_LABEL = 0.145  # inches from a label at the end of a line to the next
_BELOW = 0.6  # inches of a figure that its axes do not have


class Cells(NamedTuple):
    """Cells as they are printed; the first column names the row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Curves:
    """A measure along an axis."""

    label: str
    """What is measured, and its unit."""
    x: Sequence[float] | NDArray[Any]
    curves: dict[str, NDArray[np.float64]]
    table: Cells
    marks: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    """By selection word, by space: the weight and the measure there."""


def panels(n_legend: int, columns: int = 1, *, n_labels: int = 0) -> tuple[Any, Any]:
    """A figure of a row of panels with room for a legend, and for labels at the ends of lines."""
    from matplotlib.figure import Figure

    rows = -(-n_legend // _COLUMNS)
    height = max(_HEIGHT, _BELOW + _LABEL * n_labels) + _ROW * rows
    figure = Figure(figsize=(_WIDTH, height))
    return figure, figure.subplots(1, columns, sharey=True, squeeze=False)[0]


def line(axes: Any, x: Any, y: Any, look: Look, *, marker: bool = False, every: int = 1) -> None:
    """Draw a curve as its space looks."""
    mark = {"marker": look.marker, "markersize": 4.5, "markevery": every} if marker else {}
    axes.plot(x, y, gid=look.name, **mark, **look.line)


def label_ends(
    axes: Any, curves: Mapping[str, tuple[Any, Any]], looks: Mapping[str, Look], *, marker: bool
) -> None:
    """Name each line where it ends, with its key; the last thing that is drawn in axes."""
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    ends = np.array([y[-1] for _, y in curves.values()])
    height = axes.figure.get_figheight() - _BELOW
    places = spread((ends - low) / (high - low), _LABEL / height)
    free = {"transform": axes.transAxes, "clip_on": False}
    for (name, (x, y)), place in zip(curves.items(), places.tolist(), strict=True):
        look = looks[name]
        thin = {"arrowstyle": "-", "color": look.color, "linewidth": 0.5, "gid": look.name}
        axes.annotate(
            _shortened(name, 20),
            (x[-1], y[-1]),
            (1.145, place),
            textcoords="axes fraction",
            verticalalignment="center",
            fontsize=8,
            gid=look.name,
        )
        start = {"textcoords": "axes fraction", "arrowprops": {**thin, "shrinkA": 0, "shrinkB": 2}}
        axes.annotate("", (x[-1], y[-1]), (1.04, place), annotation_clip=False, **start)
        axes.plot([1.04, 1.125], [place, place], gid=look.name, **look.line, **free)
        if marker:
            axes.plot(
                *([1.0825], [place], look.marker),
                color=look.color,
                markersize=4.5,
                gid=look.name,
                **free,
            )


def spread(wanted: NDArray[np.float64], gap: float) -> NDArray[np.float64]:
    """Places from 0 to 1 at least `gap` apart, in the order of those wanted and nearest to them.

    Neighbours that would overlap share their displacement (pool adjacent violators).
    """
    n = len(wanted)
    gap = min(gap, 1 / max(n - 1, 1))
    order, steps = np.argsort(wanted, kind="stable"), gap * np.arange(n)
    pools: list[tuple[float, int]] = []
    for value in (wanted[order] - steps).tolist():
        mean, count = value, 1
        while pools and pools[-1][0] > mean:
            before, size = pools.pop()
            mean, count = (before * size + mean * count) / (size + count), size + count
        pools.append((mean, count))
    means, counts = zip(*pools, strict=True)
    places = np.empty(n)
    places[order] = np.clip(np.repeat(means, counts), 0, max(1 - steps[-1], 0)) + steps
    return places


def mark_key(marker: str | None, **style: Any) -> Any:
    """A line or a mark of a legend, drawn nowhere else."""
    from matplotlib.lines import Line2D

    return Line2D([], [], marker=marker, **style)


def legend(figure: Any, entries: Mapping[str, Any]) -> None:
    """Put a legend below the panels."""
    names = [_shortened(name) for name in entries]
    # a name that starts with an underscore would be left out
    names = [f"\u200b{name}" if name.startswith("_") else name for name in names]
    columns = min(len(names), _COLUMNS)
    figure.legend(list(entries.values()), names, loc="outside lower center", ncols=columns)


def _shortened(name: str, limit: int = 22) -> str:
    """A name that fits a legend."""
    return name if len(name) <= limit else name[: limit - 1] + "…"
