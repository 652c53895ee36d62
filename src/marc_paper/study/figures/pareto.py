"""The picture of the cost table: accuracy against seconds an image, with the Pareto front.

It is drawn by the experiment of `tables/cost.py`, whose numbers it shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from marc.report.style import INK, MUTED, Look
from marc_paper.study.drawing import legend_below, looks_of, panels
from marc_paper.study.plan import Plan

_BELOW = ("TDA", "MARC, deployed")
"""Systems whose numbers rather stand below their points, so that others have room above."""

_SIDES = {"above": (0, 1), "below": (0, -1), "right": (1, 0), "left": (-1, 0)}
"""Where a number may stand beside its point: to the right, upwards."""
_FONT = 8.0  # points
_MARK, _GAP = 7.0, 3.5  # points: the width of a mark, and from there to a number

_Box = tuple[float, float, float, float]
"""The left, bottom, right and upper end of a rectangle, in points."""


@final
@dataclass(frozen=True)
class Point:
    """One system."""

    label: str
    views: int
    seconds: float
    low: float
    """Of the fastest session."""
    high: float
    accuracy: float
    is_front: bool


def draw(points: Sequence[Point], looks: Mapping[str, Look], axis: str) -> Any:
    """Lines join the view budgets of a system, bars span the sessions, grey is the front."""
    figure, grid = panels(1, 1, height=3.4)
    axes = grid[0, 0]
    _time_axis(axes, [bound for each in points for bound in (each.low, each.high)])
    front = sorted((each.seconds, 100 * each.accuracy) for each in points if each.is_front)
    axes.step(*zip(*front, strict=True), where="post", color=MUTED, linewidth=5, alpha=0.25)
    for label, look in looks.items():
        mine = sorted((each for each in points if each.label == label), key=lambda p: p.views)
        times, heights = [each.seconds for each in mine], [100 * each.accuracy for each in mine]
        bars = [
            [each.seconds - each.low for each in mine],
            [each.high - each.seconds for each in mine],
        ]
        axes.errorbar(
            *(times, heights),
            xerr=bars,
            color=look.color,
            linestyle=look.dash,
            linewidth=look.width,
            marker=look.marker,
            markersize=_MARK,
            markeredgewidth=1.5,
            elinewidth=1,
            zorder=3 + (label == "TDA"),  # often where the same views are without memory
        )
    axes.margins(y=0.14)
    axes.set_xlabel(axis)
    axes.set_ylabel("accuracy, percent")
    legend_below(figure, looks, marker=True)
    _numbers(figure, axes, points)
    return figure


def _sides(
    places: Sequence[tuple[float, float]], texts: Sequence[str], wanted: Sequence[str]
) -> list[str]:
    """On which side of each place its text stands, so that it meets no mark and no other text.

    The highest place chooses first: the side that is wanted, then the others. Where no side is
    free, the one of the fewest collisions is taken.

    Args:
        places: where the marks are, in points.
        texts: what is written beside each.
        wanted: the side that each text would rather have, a key of `_SIDES`.
    """
    reach = _MARK + 1.9 * _GAP  # a text is nearer to its own mark than to any other
    taken = [_box(place, (reach, reach)) for place in places]
    found = dict.fromkeys(range(len(places)), "")
    for each in sorted(found, key=lambda place: -places[place][1]):
        order = dict.fromkeys((wanted[each], *_SIDES))
        boxes = {side: _text_box(places[each], texts[each], side) for side in order}
        found[each] = min(order, key=lambda side: sum(_meet(boxes[side], box) for box in taken))
        taken.append(boxes[found[each]])
    return list(found.values())


def _text_box(place: tuple[float, float], text: str, side: str) -> _Box:
    """What a number beside a place covers."""
    across, up = _SIDES[side]
    size = 0.64 * _FONT * len(text), 0.75 * _FONT  # the digits of the font of the style
    room = _MARK / 2 + _GAP
    middle = (place[0] + across * (room + size[0] / 2), place[1] + up * (room + size[1] / 2))
    return _box(middle, size)


def _box(middle: tuple[float, float], size: tuple[float, float]) -> _Box:
    (x, y), (width, height) = middle, size
    return x - width / 2, y - height / 2, x + width / 2, y + height / 2


def _meet(one: _Box, other: _Box) -> bool:
    apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    return not apart


def _numbers(figure: Any, axes: Any, points: Sequence[Point]) -> None:
    """The views of each point; places on paper are known when all else is laid out."""
    figure.draw_without_rendering()
    ends = [(each.seconds, 100 * each.accuracy) for each in points]
    places = (axes.transData.transform(ends) * 72 / figure.dpi).tolist()
    texts = [f"{each.views}" for each in points]
    wanted = ["below" if each.label in _BELOW else "above" for each in points]
    aligned = {-1: ("right", "top"), 0: ("center", "center_baseline"), 1: ("left", "bottom")}
    for end, text, side in zip(ends, texts, _sides(places, texts, wanted), strict=True):
        across, up = _SIDES[side]
        room = _MARK / 2 + _GAP
        axes.annotate(
            *(text, end),
            xytext=(across * room, up * room),
            textcoords="offset points",
            ha=aligned[across][0],
            va=aligned[up][1],
            fontsize=_FONT,
            color=INK,
        )


def _time_axis(axes: Any, seconds: Sequence[float]) -> None:
    """A logarithmic axis in milliseconds: 1, 2 and 5 in each decade that is shown."""
    low, high = min(seconds) / 1.3, max(seconds) * 1.3
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 4 else (1,)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    axes.set_xscale("log")
    axes.set_xticks(ticks, [f"{1000 * tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(low, high)


def looks(plan: Plan) -> dict[str, Look]:
    """A look for each kind of system: MARC has that of its space, others markers of no space."""
    spaces = looks_of(plan)
    return {
        "no memory": Look(MUTED, "d", "-", 1.2),
        "TDA": Look(INK, "x", "-", 1.2),
        "COSMIC": Look(INK, "H", "-", 1.2),
        "MARC, deployed": spaces[plan.spaces.deployed],
        "MARC, strong": spaces[plan.spaces.strong],
    }
