"""The controlled change of the retrieval encoder as a drawing: one memory, read in two spaces.

The places of the items are chosen by hand. What follows from them (who is near, the evidence, the
answer) is computed, so that the parts of the drawing agree with each other. Nothing is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from marc.report.style import INK, MUTED, PALETTE
from marc_paper.study.schematic_workflow import (
    CLIP_COLOR,
    DASHED,
    RETRIEVAL_COLOR,
    Point,
    Rect,
    arrow,
    board,
    box,
    join,
    line,
    panel,
    picture,
    write,
)

STORED = {1: "a", 2: "a", 3: "a", 4: "a", 5: "b", 6: "b", 7: "b", 8: "b"}
"""The numbered items of the memory and their stored pseudo-labels, the same in both spaces."""

BASE = {"a": 0.9, "b": 1.2}
"""The base logits of the drawn query, whose class is a: CLIP alone answers b."""

IN_CLIP = {
    **{1: (0.6, 0.42), 2: (-0.8, -0.32), 3: (0.82, 0.02), 4: (-0.62, 0.4)},
    **{5: (-0.31, 0.08), 6: (0.27, 0.2), 7: (0.08, -0.31), 8: (0.56, -0.38)},
}
"""Where the items lie in CLIP's space, in inches from the query."""

IN_RETRIEVAL = {
    **{1: (0.22, 0.24), 2: (-0.3, 0.1), 3: (0.1, -0.31), 4: (-0.5, -0.36)},
    **{5: (0.72, 0.4), 6: (0.82, -0.02), 7: (0.58, -0.38), 8: (-0.74, 0.38)},
}
"""Where the same items lie in the space of another encoder."""

_N_NEAREST = 3
_SHARPNESS = 8.0  # of the drawn kernel, per square inch
_WEIGHT = 0.5
_RADIUS = 0.105  # of an item, in inches
_CLASS_COLORS = {"a": PALETTE[2], "b": PALETTE[3]}
_UNIT = 0.72  # inches of a bar for a logit of 1


class Space(NamedTuple):
    """A retrieval space as drawn: a row of the parts c and d."""

    name: str
    places: Mapping[int, Point]
    color: str
    hatch: str
    bottom: float


SPACES = (
    Space("CLIP", IN_CLIP, CLIP_COLOR, "/////", 1.94),
    Space("DINOv2-L", IN_RETRIEVAL, RETRIEVAL_COLOR, ".....", 0.18),
)
"""The two spaces, from the top."""


def evidence(places: Mapping[int, Point]) -> dict[str, float]:
    """The evidence of each class: the sum over its stored items, of which near ones count more."""
    sums = dict.fromkeys(BASE, 0.0)
    for item, place in places.items():
        sums[STORED[item]] += float(np.exp(-_SHARPNESS * np.hypot(*place) ** 2))
    return sums


def fused(places: Mapping[int, Point]) -> dict[str, float]:
    """The base logit of each class plus its weighted evidence."""
    return {name: BASE[name] + _WEIGHT * value for name, value in evidence(places).items()}


def nearest(places: Mapping[int, Point]) -> list[int]:
    """The items nearest to the query, the nearest first."""
    return sorted(places, key=lambda item: float(np.hypot(*places[item])))[:_N_NEAREST]


def draw_intervention() -> Any:
    """One memory read in two spaces: other neighbours, other evidence, another answer."""
    figure, axes = board(4.2)
    panel(axes, Rect(0.08, 2.56, 2.1, 1.56), "a", "frozen CLIP decides")
    panel(axes, Rect(0.08, 0.08, 2.1, 2.2), "b", "one memory for all spaces")
    panel(axes, Rect(2.5, 0.08, 2.22, 4.04), "c", "each space, its neighbours")
    panel(axes, Rect(5.04, 0.08, 2.08, 4.04), "d", "evidence and answer")
    _draw_decisions(axes)
    _draw_memory(axes)
    _draw_keys(axes)
    start = 2.34, 1.01
    line(axes, [(2.18, start[1]), start])
    for space in SPACES:
        y = space.bottom + 0.83
        arrow(axes, [start, (start[0], y), (2.6, y)], color=space.color)
        _draw_neighbors(axes, space)
        arrow(axes, [(4.62, y), (5.14, y)], color=space.color)
        write(axes, (4.88, y + 0.14), "$L_t^s$", fontsize=8)
        _draw_answer(axes, space)
    join(axes, start)
    return figure


def _draw_decisions(axes: Any) -> None:
    """Part a: base logits, pseudo-label and priority; the last two go to the memory."""
    clip = Rect(0.82, 2.88, 0.5, 0.92)
    picture(axes, Rect(0.18, 3.14, 0.4, 0.4))
    write(axes, (0.38, 3.66), "$x_t$", fontsize=8)
    arrow(axes, [(0.58, 3.34), (clip.left, 3.34)])
    box(axes, clip, "frozen\nCLIP", color=CLIP_COLOR)
    for y, symbol in ((3.66, "$b_t$"), (3.34, r"$\hat y_t$"), (3.02, r"$\pi_t$")):
        arrow(axes, [(clip.right, y), (1.58, y)])
        box(axes, Rect(1.58, y - 0.13, 0.36, 0.26), symbol, fontsize=8)
    write(axes, (0.17, 2.7), "The encoder $g_s$ has no say here.", align="left", fontsize=7)
    line(axes, [(1.94, 3.34), (2.08, 3.34), (2.08, 3.02)], dash=DASHED)
    join(axes, (2.08, 3.02))
    line(axes, [(1.94, 3.02), (2.08, 3.02)], dash=DASHED)
    arrow(axes, [(2.08, 3.02), (2.08, 2.28)], dash=DASHED)
    write(axes, (2.0, 2.42), "written, after the memory is read", align="right", fontsize=7)


def _draw_memory(axes: Any) -> None:
    """Part b: the retained items and their stored labels."""
    for y, name in ((1.8, "a"), (1.48, "b")):
        write(axes, (0.17, y), f"stored as ${name}$", align="left")
        items = [item for item, label in STORED.items() if label == name]
        for place, item in enumerate(items):
            _draw_item(axes, (1.14 + 0.28 * place, y), item)
    same = "The same samples, labels and\npriorities in every space."
    write(axes, (0.17, 1.06), same, align="left", fontsize=7)
    write(axes, (0.17, 0.66), "Only the keys are new:", align="left", fontsize=7)
    write(axes, (1.13, 0.36), "$k_i=g_s(x_i)$", fontsize=9)


def _draw_keys(axes: Any) -> None:
    """What the star and the two parts of a bar mean."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    _draw_query(axes, (2.72, 3.77))
    write(axes, (2.85, 3.77), "query $q_t=g_s(x_t)$", align="left")
    swatches = [(5.2, MUTED, "")]
    swatches += [(5.9 + 0.28 * row, space.color, space.hatch) for row, space in enumerate(SPACES)]
    for left, color, hatch in swatches:
        look: dict[str, Any] = {
            "edgecolor": color,
            "facecolor": to_rgba(color, 0.2),
            "linewidth": 0.8,
        }
        axes.add_patch(Rectangle((left, 3.7), 0.22, 0.14, hatch=hatch, **look))
    write(axes, (5.49, 3.77), r"$b_t\;\;+$", align="left", fontsize=8)
    write(axes, (6.47, 3.77), r"$w\,L_t^s$", align="left", fontsize=8)


def _draw_neighbors(axes: Any, space: Space) -> None:
    """Part c: the items around the query, with a line to each of the nearest."""
    from matplotlib.patches import Circle

    rect = Rect(2.6, space.bottom, 2.02, 1.66)
    box(axes, rect, color=space.color)
    near = nearest(space.places)
    listed = ", ".join(str(item) for item in sorted(near))
    write(axes, (rect.left + 0.08, rect.top - 0.13), f"{space.name} space", align="left")
    write(axes, (rect.right - 0.08, rect.top - 0.13), f"nearest: {listed}", align="right")
    center = np.array([rect.middle[0], rect.bottom + 0.74])
    _draw_query(axes, (float(center[0]), float(center[1])))
    for item, place in space.places.items():
        _draw_item(axes, (float(center[0] + place[0]), float(center[1] + place[1])), item)
    for item in near:
        step = np.array(space.places[item])
        along = step / np.hypot(*step)
        ends = center + 0.09 * along, center + step - (_RADIUS + 0.01) * along
        line(axes, [tuple(end) for end in ends], color=space.color)
    reach = float(np.hypot(*space.places[near[-1]])) + _RADIUS + 0.03
    look: dict[str, Any] = {
        "facecolor": "none",
        "edgecolor": MUTED,
        "linestyle": DASHED,
        "linewidth": 0.7,
    }
    axes.add_patch(Circle(tuple(center), reach, **look))


def _draw_answer(axes: Any, space: Space) -> None:
    """Part d: for each class its base logit and its evidence, end to end."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    rect = Rect(5.14, space.bottom, 1.88, 1.66)
    box(axes, rect, color=space.color)
    found, total = evidence(space.places), fused(space.places)
    favoured, answer = max(found, key=found.__getitem__), max(total, key=total.__getitem__)
    left = rect.left + 0.08
    side = {"a": "the right", "b": "the wrong"}[favoured]
    ending = {"a": ": corrected", "b": ", as CLIP alone"}[answer]
    write(axes, (left, rect.top - 0.13), f"evidence for ${favoured}$, {side} class", align="left")
    write(axes, (left, rect.bottom + 0.17), f"answer ${answer}${ending}", align="left")
    for y, name in ((rect.bottom + 1.06, "a"), (rect.bottom + 0.62, "b")):
        left = rect.left + 0.26
        write(axes, (rect.left + 0.13, y), f"${name}$", fontsize=8.5)
        parts = ((BASE[name], MUTED, ""), (_WEIGHT * found[name], space.color, space.hatch))
        for length, color, hatch in parts:
            look: dict[str, Any] = {
                "edgecolor": color,
                "facecolor": to_rgba(color, 0.2),
                "linewidth": 0.8,
            }
            axes.add_patch(Rectangle((left, y - 0.13), _UNIT * length, 0.26, hatch=hatch, **look))
            left += _UNIT * length
        if name == answer:
            axes.plot([left + 0.09], [y], "<", color=INK, markersize=5)


def _draw_item(axes: Any, at: Point, item: int) -> None:
    """A numbered item: a circle when it is stored as a, a square when it is stored as b."""
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Circle, Rectangle

    name = STORED[item]
    color = _CLASS_COLORS[name]
    look: dict[str, Any] = {"edgecolor": color, "facecolor": to_rgba(color, 0.25), "linewidth": 1.1}
    side = 1.8 * _RADIUS
    corner = at[0] - side / 2, at[1] - side / 2
    axes.add_patch(
        Circle(at, _RADIUS, **look) if name == "a" else Rectangle(corner, side, side, **look)
    )
    write(axes, at, str(item), fontsize=7)


def _draw_query(axes: Any, at: Point) -> None:
    axes.plot([at[0]], [at[1]], "*", color=INK, markersize=9)
