"""What the figures of the study share: one width, one look a space, axes and legends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marc.report.style import INK, MUTED, Look
from marc_paper.study.plan import Plan

_MARKERS = ("o", "s", "^", "D", "v", "P", "<", ">", "p", "h")
_DASHES = ("-", (0, (4, 1.6)), (0, (1, 1.4)), (0, (6, 1.5, 1, 1.5)))


def looks_of(plan: Plan) -> dict[str, Look]:
    """A look for each space, the same in every figure: no two share colour and dash.

    The predictor's own space is black with crosses, so that it is found at once.
    """
    looks = {}
    others = [space for space in plan.spaces.all if space != plan.spaces.own]
    for place, space in enumerate(others):
        color = Look.PALETTE[place % len(Look.PALETTE)]
        dash = _DASHES[place // len(Look.PALETTE) % len(_DASHES)]
        looks[space] = Look(color, _MARKERS[place % len(_MARKERS)], dash, 1.3)
    looks[plan.spaces.own] = Look(INK, "X", "-", 1.6)
    return {space: looks[space] for space in plan.spaces.all}


class Page:
    """A page of the paper, and what stands on it."""

    WIDTH = 7.2
    """Inches."""
    SMALL = 7
    """Points of the smallest text."""

    @staticmethod
    def panels(rows: int, columns: int, height: float = 2.4, **options: Any) -> tuple[Any, Any]:
        """A figure of the width of a page and its axes (rows, columns); height is that of a row."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(Page.WIDTH, height * rows))
        return figure, figure.subplots(rows, columns, squeeze=False, **options)

    @staticmethod
    def legend_below(figure: Any, looks: Mapping[str, Look], *, marker: bool = False) -> None:
        """A legend of spaces under the panels; the figure grows by the room that it takes."""
        from matplotlib.lines import Line2D

        keys = [
            Line2D(
                *([], []),
                color=look.color,
                linestyle=look.dash,
                linewidth=look.width,
                marker=look.marker if marker else None,
                markersize=4,
            )
            for look in looks.values()
        ]
        columns = min(5, len(looks))
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + 0.19 * -(-len(looks) // columns) + 0.1)
        names = [f"\u200b{name}" if name.startswith("_") else name for name in looks]
        figure.legend(keys, names, loc="outside lower center", ncols=columns, fontsize=8)

    @staticmethod
    def short(text: str, length: int) -> str:
        """A name cut to a length, with a dot where something is missing.

        >>> Page.short("tabby cat", 7), Page.short("cat", 7)
        ('tabby ·', 'cat')
        """
        return text if len(text) <= length else text[: length - 1] + "·"


class Axis:
    """Axes that several figures share."""

    @staticmethod
    def capacity(axes: Any, capacities: Sequence[int]) -> None:
        """Capacities, evenly in ratio, and a line at zero gain."""
        axes.set_xscale("log", base=2)
        axes.set_xticks(capacities, [str(capacity) for capacity in capacities])
        axes.minorticks_off()
        axes.set_xlabel("capacity K")
        Axis.zero_line(axes)

    @staticmethod
    def weight(axes: Any, weights: Sequence[float]) -> None:
        """Weights from 0 on, evenly in ratio from 0.1, and a line at zero gain."""
        axes.set_xscale("symlog", linthresh=0.1, linscale=0.55)
        largest = max(0.1, *weights)
        ticks = [0.0, *(10.0**power for power in range(-1, int(np.ceil(np.log10(largest))) + 1))]
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlim(-0.02, 1.25 * largest)  # room for whole marks at both ends
        axes.set_xlabel("weight w")
        Axis.zero_line(axes)

    @staticmethod
    def zero_line(axes: Any) -> None:
        """Where the memory neither gains nor loses."""
        axes.axhline(0, color=MUTED, linewidth=0.8, zorder=1)
