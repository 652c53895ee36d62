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

_WIDTH, _HEIGHT = 4.5, 2.9  # inches of a figure without its legend
_ROW = 0.19  # inches of a row of the legend
_COLUMNS = 3  # of the legend, at most


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


def panels(n_names: int, columns: int = 1) -> tuple[Any, Any]:
    """A figure of a row of panels that leaves room for a legend of so many names."""
    from matplotlib.figure import Figure

    rows = -(-n_names // min(n_names, _COLUMNS))
    figure = Figure(figsize=(_WIDTH, _HEIGHT + _ROW * rows))
    return figure, figure.subplots(1, columns, sharey=True, squeeze=False)[0]


def line(axes: Any, x: Any, y: Any, look: Look, *, marker: bool = False) -> None:
    """Draw a curve as its space looks."""
    axes.plot(x, y, marker=look.marker if marker else None, markersize=4.5, **look.line)


def keys(names: Any, looks: Mapping[str, Look], *, marker: bool = False) -> dict[str, Any]:
    """Lines of a legend, by name."""
    shown = {name: looks[name] for name in names}
    return {
        name: mark_key(look.marker if marker else None, markersize=4.5, **look.line)
        for name, look in shown.items()
    }


def mark_key(marker: str | None, **style: Any) -> Any:
    """A line or a mark of a legend, drawn nowhere else."""
    from matplotlib.lines import Line2D

    return Line2D([], [], marker=marker, **style)


def legend(figure: Any, entries: Mapping[str, Any]) -> None:
    """Put a legend below the panels."""
    names = [_shortened(name) for name in entries]
    columns = min(len(names), _COLUMNS)
    figure.legend(list(entries.values()), names, loc="outside lower center", ncols=columns)


def _shortened(name: str, limit: int = 22) -> str:
    """A name that fits a legend; one that starts with an underscore would be left out of it."""
    name = name if len(name) <= limit else name[: limit - 1] + "…"
    return f"\u200b{name}" if name.startswith("_") else name
