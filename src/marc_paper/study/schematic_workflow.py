"""The four-stage workflow as a drawing, and the strokes that the schematic figures share.

Coordinates are inches from the lower left corner, so that a size on paper can be read in the code.
Nothing is filled with an opaque colour: a page of any background shows through.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from marc.report.style import INK, MUTED, PALETTE

WIDTH = 7.2
"""Inches: the text width of a page."""

CLIP_COLOR, RETRIEVAL_COLOR = PALETTE[0], PALETTE[1]
"""Blue for what happens in CLIP's space, orange for the retrieval space, in every schematic."""

SOLID = "-"
DASHED = (0, (4, 2))
DOTTED = (0, (1, 1.6))
Dash = str | tuple[int, tuple[float, ...]]
Point = tuple[float, float]

_HEAD_LENGTH, _HEAD_WIDTH = 0.085, 0.075


class Rect(NamedTuple):
    """A rectangle, in inches."""

    left: float
    bottom: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The x of the right side."""
        return self.left + self.width

    @property
    def top(self) -> float:
        """The y of the upper side."""
        return self.bottom + self.height

    @property
    def middle(self) -> Point:
        """The point halfway between the sides."""
        return self.left + self.width / 2, self.bottom + self.height / 2


def board(height: float) -> tuple[Any, Any]:
    """An empty figure as wide as a page, and axes that cover it and count in inches."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import PlaceHolderLayoutEngine

    # the style lays figures out; layout="none" would be forgotten after the first save
    engine = PlaceHolderLayoutEngine(adjust_compatible=True, colorbar_gridspec=True)
    figure = Figure(figsize=(WIDTH, height), layout=engine)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(0, height))
    axes.set_axis_off()
    return figure, axes


def write(axes: Any, at: Point, words: str, *, align: str = "center", **look: Any) -> None:
    """Words at a point, centred on its height; mathematics stands between dollar signs."""
    look = {"fontsize": 7.5, "va": "center", "linespacing": 1.25, **look}
    # the style turns mathematics off, because names of data may hold dollar signs
    axes.text(*at, words, ha=align, parse_math=True, **look)


def box(
    axes: Any, rect: Rect, words: str = "", *, color: str = INK, dash: Dash = SOLID, **look: Any
) -> None:
    """A rounded frame with a tint of its colour, and words in its middle."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import FancyBboxPatch

    rounded = "round,pad=0,rounding_size=0.06"
    frame: dict[str, Any] = {
        "edgecolor": color,
        "facecolor": to_rgba(color, 0.07),
        "linestyle": dash,
    }
    axes.add_patch(FancyBboxPatch(rect[:2], *rect[2:], boxstyle=rounded, linewidth=0.9, **frame))
    if words:
        write(axes, rect.middle, words, **look)


def panel(axes: Any, rect: Rect, mark: str, title: str) -> None:
    """A part of a drawing: a faint frame, its number or letter, and its title."""
    from matplotlib.patches import FancyBboxPatch

    rounded = "round,pad=0,rounding_size=0.08"
    frame: dict[str, Any] = {
        "edgecolor": MUTED,
        "facecolor": "none",
        "linewidth": 0.5,
        "zorder": 0.5,
    }
    axes.add_patch(FancyBboxPatch(rect[:2], *rect[2:], boxstyle=rounded, **frame))
    left, foot = rect.left + 0.09, rect.top - 0.17
    write(axes, (left, foot), mark, align="left", va="baseline", fontsize=8.5, fontweight="bold")
    write(axes, (left + 0.13, foot), title, align="left", va="baseline", fontsize=8)


def line(axes: Any, points: Sequence[Point], *, color: str = INK, dash: Dash = SOLID) -> None:
    """A line through the points."""
    x, y = zip(*points, strict=True)
    look: dict[str, Any] = {"linestyle": dash, "dash_capstyle": "butt", "solid_joinstyle": "round"}
    axes.plot(x, y, color=color, linewidth=1.1, **look)


def arrow(axes: Any, points: Sequence[Point], *, color: str = INK, dash: Dash = SOLID) -> None:
    """A line through the points with a head at the last one."""
    from matplotlib.patches import Polygon

    tip = np.array(points[-1])
    along = tip - points[-2]
    along = along / np.hypot(*along)
    foot = tip - _HEAD_LENGTH * along
    across = np.array([-along[1], along[0]]) * _HEAD_WIDTH / 2
    line(axes, [*points[:-1], (float(foot[0]), float(foot[1]))], color=color, dash=dash)
    axes.add_patch(Polygon([tip, foot + across, foot - across], color=color, linewidth=0))


def join(axes: Any, at: Point, *, color: str = INK) -> None:
    """A dot where a line divides."""
    axes.plot([at[0]], [at[1]], "o", color=color, markersize=3.2)


def picture(axes: Any, rect: Rect) -> None:
    """A picture of hills under a sun: an image of the stream."""
    from matplotlib.patches import Circle, Polygon

    def place(x: float, y: float) -> Point:
        return rect.left + x * rect.width, rect.bottom + y * rect.height

    hills = [(0.06, 0.08), (0.34, 0.62), (0.52, 0.32), (0.68, 0.5), (0.94, 0.08)]
    box(axes, rect)
    axes.add_patch(Polygon([place(*hill) for hill in hills], color=MUTED, linewidth=0))
    axes.add_patch(Circle(place(0.73, 0.76), 0.09 * rect.width, color=MUTED, linewidth=0))


def draw_workflow() -> Any:
    """The four stages of MARC, from an image and its views to the answer."""
    figure, axes = board(3.9)
    panel(axes, Rect(1.1, 2.0, 2.0, 1.82), "1", "predict with the views")
    panel(axes, Rect(3.52, 2.0, 2.08, 1.2), "2", "set a priority")
    panel(axes, Rect(1.1, 0.4, 4.5, 1.4), "3", "retrieve in another space")
    panel(axes, Rect(5.85, 0.4, 1.27, 3.42), "4", "fuse")
    _draw_inputs(axes)
    _draw_prediction(axes)
    _draw_clip_memory(axes)
    _draw_retrieval(axes)
    _draw_fusion(axes)
    _draw_key(axes)
    return figure


def _draw_inputs(axes: Any) -> None:
    views = Rect(0.1, 2.55, 0.54, 0.54)
    for step in (0.06, 0.12):
        # of the views behind the first, two sides are seen
        left, right, top = views.left + step, views.right + step, views.top + step
        line(axes, [(left, top), (right, top), (right, views.bottom + step)], color=MUTED)
    picture(axes, views)
    write(axes, (0.43, 3.45), "image $x_t$\nin $M$ views")
    arrow(axes, [(0.82, 2.82), (1.2, 2.82)])
    picture(axes, Rect(0.1, 0.73, 0.54, 0.54))
    write(axes, (0.43, 1.42), "$x_t$ as it is")
    arrow(axes, [(0.7, 1.0), (1.2, 1.0)])


def _draw_prediction(axes: Any) -> None:
    box(axes, Rect(1.2, 2.1, 0.62, 1.46), "frozen\nCLIP\n$f$", color=CLIP_COLOR)
    chips = {3.4: "logits $b_t$", 2.72: "key $k_t^C$", 2.27: "label $\\hat y_t$"}
    for y, words in chips.items():
        box(axes, Rect(2.12, y - 0.16, 0.88, 0.32), words, fontsize=8)
        arrow(axes, [(1.82, y), (2.12, y)])
    write(axes, (2.56, 3.06), "mean of the most\nconfident views", fontsize=7, color=MUTED)


def _draw_clip_memory(axes: Any) -> None:
    memory = Rect(3.62, 2.1, 0.98, 0.82)
    _draw_memory(axes, memory, "CLIP memory", color=CLIP_COLOR, marker="s")
    write(axes, (memory.middle[0], 2.21), "read, then write", fontsize=7, color=MUTED)
    arrow(axes, [(3.0, 2.72), (memory.left, 2.72)])
    arrow(axes, [(3.0, 2.27), (memory.left, 2.27)], dash=DASHED)
    box(axes, Rect(4.9, 2.48, 0.62, 0.44), "priority\n$\\pi_t$", color=CLIP_COLOR)
    arrow(axes, [(memory.right, 2.7), (4.9, 2.7)], color=CLIP_COLOR)
    join(axes, (5.3, 3.4))
    arrow(axes, [(5.3, 3.4), (5.3, 2.92)])
    write(axes, (4.95, 2.24), "weight 0 in\nthe answer", fontsize=7, color=MUTED)


def _draw_retrieval(axes: Any) -> None:
    encoder = Rect(1.2, 0.6, 0.92, 0.8)
    memory = Rect(3.62, 0.5, 1.26, 1.12)
    words = "frozen\nretrieval\nencoder $g_s$"
    box(axes, encoder, words, color=RETRIEVAL_COLOR)
    box(axes, Rect(2.42, 0.84, 0.58, 0.32), "key $q_t$", fontsize=8)
    arrow(axes, [(encoder.right, 1.0), (2.42, 1.0)])
    arrow(axes, [(3.0, 1.0), (memory.left, 1.0)])
    _draw_memory(axes, memory, "retrieval memory", color=RETRIEVAL_COLOR, marker="o")
    write(axes, (memory.middle[0], 0.79), "keys $k_i=g_s(x_i)$")
    write(axes, (memory.middle[0], 0.61), "read, then write", fontsize=7, color=MUTED)
    join(axes, (3.31, 2.27))
    arrow(axes, [(3.31, 2.27), (3.31, 1.3), (memory.left, 1.3)], dash=DASHED)
    priority = [(5.3, 2.48), (5.3, 1.3), (memory.right, 1.3)]
    arrow(axes, priority, color=CLIP_COLOR, dash=DOTTED)


def _draw_fusion(axes: Any) -> None:
    x, sum_y, weight_y, radius = 6.1, 2.12, 1.4, 0.12
    arrow(axes, [(3.0, 3.4), (x, 3.4), (x, sum_y + radius)])
    arrow(axes, [(4.88, 0.8), (x, 0.8), (x, weight_y - radius)], color=RETRIEVAL_COLOR)
    arrow(axes, [(x, weight_y + radius), (x, sum_y - radius)], color=RETRIEVAL_COLOR)
    _draw_sign(axes, (x, sum_y), radius, "$+$")
    _draw_sign(axes, (x, weight_y), radius, "$w$")
    write(axes, (5.35, 0.95), "$L_t^s$", fontsize=9)
    write(axes, (6.63, 2.56), "$b_t+w\\,L_t^s$", fontsize=9)
    arrow(axes, [(x + radius, sum_y), (6.42, sum_y)])
    box(axes, Rect(6.42, sum_y - 0.24, 0.6, 0.48), "answer\n$\\tilde y_t$", fontsize=8)


def _draw_sign(axes: Any, at: Point, radius: float, sign: str) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle(at, radius, facecolor="none", edgecolor=INK, linewidth=0.9))
    write(axes, at, sign, fontsize=8)


def _draw_memory(axes: Any, rect: Rect, name: str, *, color: str, marker: str) -> None:
    """A memory with its slots: a row for each pseudo-class, filled from the left."""
    box(axes, rect, color=color)
    x, y = rect.middle[0], rect.top - 0.13
    write(axes, (x, y), name)
    for row, (class_name, filled) in enumerate({"a": 4, "b": 2}.items()):
        height = y - 0.2 - 0.17 * row
        write(axes, (x - 0.34, height), f"${class_name}$")
        for slot in range(4):
            face = color if slot < filled else "none"
            at = x - 0.16 + 0.16 * slot
            look: dict[str, Any] = {
                "markersize": 6,
                "markeredgewidth": 0.8,
                "markeredgecolor": color,
            }
            axes.plot([at], [height], marker, markerfacecolor=face, **look)


def _draw_key(axes: Any) -> None:
    """What the three kinds of line mean."""
    kinds: list[tuple[float, str, str, Dash]] = [
        (0.1, "computed or read", INK, SOLID),
        (1.76, "pseudo-label of CLIP, written to both memories", INK, DASHED),
        (5.02, "priority: decides what is kept", CLIP_COLOR, DOTTED),
    ]
    for left, words, color, dash in kinds:
        arrow(axes, [(left, 0.18), (left + 0.38, 0.18)], color=color, dash=dash)
        write(axes, (left + 0.45, 0.18), words, align="left")
