"""The figures, each a function of the numbers it shows; matplotlib is loaded when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from marc.report.curves import AlongStream, ByCapacity, ByPurity, ByWeight
from marc.report.style import INK, MUTED, Look

_MARKS = {"fixed": "o", "oracle": "*", "held-out": "D"}
_SIZES = {"fixed": 5.5, "oracle": 9.0, "held-out": 5.5}
_WIDTH, _HEIGHT = 4.5, 2.9  # inches of a figure without its legend
_ROW = 0.19  # inches of a row of the legend


def draw_by_weight(data: ByWeight, looks: Mapping[str, Look]) -> Any:
    """Gain against w, with marks for how the weight was chosen."""
    words = list(data.marks)
    figure, axes = _axes(len(data.curves) + len(words))
    for space, curve in reversed(data.curves.items()):  # the first lie on top
        _line(axes, data.weights, 100 * curve, looks[space])
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
    _weight_axis(axes, float(data.weights[-1]))
    axes.set_ylabel(f"{data.measure.name}, {data.measure.unit}")
    signs = {word: _sign(_MARKS[word], word == "oracle") for word in words}
    _legend(figure, {**_keys(data.curves, looks), **signs})
    return figure


def draw_by_capacity(data: ByCapacity, looks: Mapping[str, Look]) -> Any:
    """Gain against K."""
    figure, axes = _axes(len(data.curves))
    for space, curve in reversed(data.curves.items()):
        _line(axes, data.capacities, 100 * curve, looks[space], marker=True)
    axes.set_xscale("log", base=2)
    axes.set_xticks(data.capacities, [str(capacity) for capacity in data.capacities])
    axes.minorticks_off()
    axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
    axes.set_xlabel("capacity K, entries per pseudo-class")
    axes.set_ylabel(f"{data.measure.name}, {data.measure.unit}")
    _legend(figure, _keys(data.curves, looks, marker=True))
    return figure


def draw_by_purity(data: ByPurity, looks: Mapping[str, Look]) -> Any:
    """Gain against pseudo-purity and, where labels are known, against purity."""
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
    grid[0].set_ylabel(f"{data.measure.name}, {data.measure.unit}")
    _legend(figure, {space: _dot(looks[space]) for space in data.spaces})
    return figure


def draw_along_stream(data: AlongStream, looks: Mapping[str, Look]) -> Any:
    """A share in each part of the stream."""
    figure, axes = _axes(len(data.series))
    plain = Look(INK, "o", (0, (2, 1.5)), 1.4)
    shown = {name: looks.get(name, plain) for name in data.series}
    for name, curve in reversed(data.series.items()):
        parts = np.arange(1, len(curve) + 1)
        _line(axes, parts, 100 * curve, shown[name], marker=True)
    axes.set_xticks(parts)
    axes.set_xlabel(f"part of the stream, of {len(parts)}")
    axes.set_ylabel(data.label)
    _legend(figure, _keys(data.series, shown, marker=True))
    return figure


def _axes(n_names: int) -> tuple[Any, Any]:
    """A figure of one panel."""
    figure, panels = _panels(n_names, 1)
    return figure, panels[0]


def _panels(n_names: int, columns: int) -> tuple[Any, Any]:
    """A figure of a row of panels that leaves room for a legend of so many names."""
    from matplotlib.figure import Figure

    rows = -(-n_names // _legend_columns(n_names))
    figure = Figure(figsize=(_WIDTH, _HEIGHT + _ROW * rows))
    return figure, figure.subplots(1, columns, sharey=True, squeeze=False)[0]


def _line(axes: Any, x: Any, y: Any, look: Look, *, marker: bool = False) -> None:
    axes.plot(
        x,
        y,
        color=look.color,
        linestyle=look.dash,
        linewidth=look.width,
        marker=look.marker if marker else None,
        markersize=4.5,
    )


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
    from matplotlib.lines import Line2D

    def key(look: Look) -> Any:
        sign = look.marker if marker else None
        style: dict[str, Any] = {
            "color": look.color,
            "linestyle": look.dash,
            "linewidth": look.width,
        }
        return Line2D([], [], marker=sign, markersize=4.5, **style)

    return {name: key(looks[name]) for name in names}


def _dot(look: Look) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="none", marker=look.marker, color=look.color, markersize=6)


def _sign(marker: str, hollow: bool) -> Any:
    from matplotlib.lines import Line2D

    face = "none" if hollow else MUTED
    style: dict[str, Any] = {
        "color": MUTED,
        "markerfacecolor": face,
        "markersize": 8 if hollow else 5.5,
    }
    return Line2D([], [], linestyle="none", marker=marker, **style)


def _legend_columns(n_names: int) -> int:
    return min(n_names, 3)


def _legend(figure: Any, entries: Mapping[str, Any]) -> None:
    names = [_shortened(name) for name in entries]
    columns = _legend_columns(len(names))
    figure.legend(list(entries.values()), names, loc="outside lower center", ncols=columns)


def _shortened(name: str, limit: int = 22) -> str:
    """A name that fits a legend; one that starts with an underscore would be left out of it."""
    name = name if len(name) <= limit else name[: limit - 1] + "…"
    return f"\u200b{name}" if name.startswith("_") else name
