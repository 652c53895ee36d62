"""How the figure of neighbourhoods is drawn: two planes, curves of purity, and anti-hubs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import ascii_uppercase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.report.style import INK, MUTED, PALETTE, Look
from marc.scores import Int
from marc_paper.study.artifacts import Estimate
from marc_paper.study.drawing import SMALL, WIDTH, legend_below

_ROW, _PLANE = 0.175, 2.6  # inches
_LETTER = 4.2  # points
_LONGEST = 22  # letters of a class name

_Planes = Mapping[str, tuple[NDArray[np.float64], float]]
"""By space: positions (n, 2), and the purity within these images."""


def draw(
    planes: _Planes,
    labels: Int,
    class_names: Mapping[int, str],
    n_neighbors: int,
    purities: Mapping[str, Mapping[int, Estimate]],
    antihubs: Mapping[str, tuple[float, int]],
    looks: Mapping[str, Look],
) -> Any:
    """Planes above, curves and anti-hubs below; classes are named above, spaces below."""
    from matplotlib.figure import Figure as Canvas

    lower = max(2.3, 0.6 + _ROW * len(antihubs))
    figure = Canvas(figsize=(WIDTH, _PLANE + lower + 0.5))
    grid = figure.subplots(2, 2, squeeze=False, gridspec_kw={"height_ratios": (_PLANE, lower)})
    for place, axes in enumerate(grid[0]):
        _blank(axes)
        if place < len(planes):
            space = list(planes)[place]
            _plane(axes, *planes[space], labels, f"({'ab'[place]}) {space}", n_neighbors)
    _curves(grid[1, 0], purities, looks)
    _antihubs(grid[1, 1], antihubs, looks)
    _class_legend(figure, class_names)
    legend_below(figure, looks, marker=True)
    return figure


def _class_looks(classes: Iterable[int]) -> dict[int, tuple[str, str]]:
    """A colour and a letter for each of up to eight classes, the lowest first.

    Shapes are those of spaces in every figure, so that classes have letters.
    """
    colors = (*PALETTE, INK, MUTED)
    return {
        label: (colors[place % len(colors)], ascii_uppercase[place % len(ascii_uppercase)])
        for place, label in enumerate(sorted(set(classes)))
    }


def _letter_mark(letter: str) -> Any:
    """The outline of a letter about its middle, as a marker of matplotlib."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath

    outline = TextPath((0, 0), letter, prop=FontProperties(family="DejaVu Sans", weight="bold"))
    box = outline.get_extents()
    middle = ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
    return Path(outline.vertices - middle, outline.codes)


def _plane(
    axes: Any,
    positions: NDArray[np.float64],
    purity: float,
    labels: Int,
    title: str,
    n_neighbors: int,
) -> None:
    for label, (color, letter) in _class_looks(labels.tolist()).items():
        chosen = positions[labels == label]
        axes.plot(
            *(chosen[:, 0], chosen[:, 1]),
            linestyle="none",
            marker=_letter_mark(letter),
            color=color,
            markersize=_LETTER,
            markeredgewidth=0,
            alpha=0.8,
        )
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_title(f"{title}: purity@{n_neighbors} {100 * purity:.1f} % here", fontsize=8.5)


def _blank(axes: Any) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)


def _curves(
    axes: Any, purities: Mapping[str, Mapping[int, Estimate]], looks: Mapping[str, Look]
) -> None:
    kappas: list[int] = []
    for space, curve in purities.items():
        look, kappas = looks[space], list(curve)
        known = [each for each in curve.values() if each.low is not None]
        if len(known) == len(curve):
            axes.fill_between(
                kappas,
                [100 * (each.low or 0.0) for each in known],
                [100 * (each.high or 0.0) for each in known],
                color=look.color,
                alpha=0.2,
                linewidth=0,
            )
        axes.plot(
            *(kappas, [100 * each.value for each in curve.values()]),
            color=look.color,
            linestyle=look.dash,
            marker=look.marker,
            markersize=3,
            linewidth=1.1,
        )
    axes.set_xscale("log")
    axes.set_xticks(kappas, [str(kappa) for kappa in kappas])
    axes.minorticks_off()
    axes.set_xlabel("neighbours")
    axes.set_ylabel("purity, %")
    axes.set_title("(c) all images", fontsize=8.5)


def _antihubs(
    axes: Any, antihubs: Mapping[str, tuple[float, int]], looks: Mapping[str, Look]
) -> None:
    ranked = sorted(antihubs, key=lambda space: antihubs[space][0])
    most = 100 * max((share for share, _ in antihubs.values()), default=0.0)
    for row, space in enumerate(ranked):
        share, capacity = antihubs[space]
        look = looks[space]
        axes.plot([0, 100 * share], [row, row], color=look.color, linewidth=1.0)
        axes.plot(
            *([100 * share], [row], look.marker), color=look.color, markersize=4.5, clip_on=False
        )
        axes.annotate(
            str(capacity),
            (1.0, row),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=SMALL + 0.5,
        )
    axes.set_yticks(range(len(ranked)), ranked, fontsize=SMALL)
    axes.set_ylim(len(ranked) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.2 * max(most, 1.0))
    axes.set_xlabel("anti-hubs, %")
    axes.set_title("(d) anti-hubs", loc="left", fontsize=8.5)
    axes.set_title("K*", loc="right", fontsize=8.5)


def _class_legend(figure: Any, class_names: Mapping[int, str]) -> None:
    from matplotlib.lines import Line2D

    found = _class_looks(class_names)
    keys = [
        Line2D([], [], color=color, marker=_letter_mark(letter), linestyle="none", markersize=6)
        for color, letter in found.values()
    ]
    figure.legend(
        keys,
        [_short(class_names[label]) for label in found],
        loc="outside upper center",
        ncols=4,
        fontsize=SMALL + 0.5,
        handletextpad=0.2,
    )


def _short(name: str) -> str:
    """A class name that fits; a leading underscore would hide it from a legend."""
    short = name if len(name) <= _LONGEST else name[: _LONGEST - 1] + "…"
    return f"\u200b{short}" if short.startswith("_") else short
