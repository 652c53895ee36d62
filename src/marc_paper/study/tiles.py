"""Queries and their nearest keys as rows of tiles: pictures, frames, marks, cosines and weights.

Coordinates are inches from the lower left corner, so that a size on paper can be read in the code.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marc.report.style import INK, LINE, MUTED, PALETTE
from marc_paper.study.drawing import SMALL, WIDTH
from marc_paper.study.queries import short

_Pictures = Mapping[int, NDArray[np.uint8]]

_Dash = str | tuple[int, tuple[float, ...]]
_SOLID, _DASHED = "-", (0, (4, 2))
_TILE, _STEP = 0.5, 0.575
_QUERY = 0.92
_LEFT = 1.36  # of the first key
_ROW, _GAP = 0.80, 0.16  # of a space, and between queries
_LEGEND = 0.42
_LETTER = 0.062  # the width of one in the smallest text
_SAME, _OTHER, _PREDICTED = PALETTE[2], PALETTE[1], PALETTE[3]
_EDGE: dict[str, Any] = {"markersize": 5.5, "markeredgecolor": "white", "markeredgewidth": 0.8}
_MARKS: dict[str, dict[str, Any]] = {
    "true class": {"marker": "o", "color": _SAME, **_EDGE},
    "base prediction": {"marker": "s", "color": _PREDICTED, **_EDGE},
}


class _Rect(NamedTuple):
    left: float
    bottom: float
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def top(self) -> float:
        return self.bottom + self.height

    @property
    def middle(self) -> tuple[float, float]:
        return self.left + self.width / 2, self.bottom + self.height / 2


def draw(queries: Sequence[Mapping[str, Any]], pictures: _Pictures) -> Any:
    """Two rows a query, one for each space; see `marc_paper.study.figures.neighbours.shown`."""
    n_rows = sum(len(query["spaces"]) for query in queries)
    height = n_rows * _ROW + (len(queries) - 1) * _GAP + _LEGEND + 0.05
    figure, axes = _board(height)
    largest = max(max(each["weights"]) for q in queries for each in q["spaces"].values())
    top = height - 0.05
    for query in queries:
        _query(axes, query, top, pictures)
        for space, keys in query["spaces"].items():
            axes.text(
                *(_LEFT - 0.13, top - _TILE / 2, short(space, 11)),
                rotation=90,
                ha="center",
                va="center",
                fontsize=SMALL,
            )
            for place in range(len(keys["rows"])):
                at = _Rect(_LEFT + place * _STEP, top - _TILE, _TILE, _TILE)
                _key(axes, at, keys, place, largest, pictures)
            top -= _ROW
        top -= _GAP
    _legend(figure, largest)
    return figure


def _board(height: float) -> tuple[Any, Any]:
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


def _query(axes: Any, query: Mapping[str, Any], top: float, pictures: _Pictures) -> None:
    at = _Rect(0.05, top - _QUERY, _QUERY, _QUERY)
    _picture(axes, at, pictures.get(query["row"]), query["id"].rpartition("/")[2])
    _frame(axes, at, INK, _SOLID, 1.0)
    words = {"true class": query["true class"], "base": query["base prediction"]}
    for line, (name, value) in enumerate(words.items()):
        y = at.bottom - 0.04 - 0.26 * line
        look: dict[str, Any] = {"ha": "left", "va": "top"}
        axes.text(at.left, y, f"{name}:", fontsize=SMALL, color=MUTED, **look)
        written = axes.text(at.left, y - 0.12, short(value, 16), fontsize=7.5, **look)
        _clip(axes, written, _Rect(at.left, 0, _LEFT - 0.3, top))


def _key(
    axes: Any,
    at: _Rect,
    keys: Mapping[str, Any],
    place: int,
    largest: float,
    pictures: _Pictures,
) -> None:
    same, stored = keys["of the true class"][place], keys["stored as"][place]
    _picture(axes, at, pictures.get(keys["rows"][place]), keys["true labels"][place])
    _frame(axes, at, _SAME if same else _OTHER, _SOLID if same else _DASHED, 1.8 if same else 1.2)
    if stored in _MARKS:
        axes.plot([at.right - 0.07], [at.top - 0.07], **_MARKS[stored])
    axes.text(
        *(at.middle[0], at.bottom - 0.035, f"{keys['cosines'][place]:.2f}"),
        ha="center",
        va="top",
        fontsize=SMALL,
    )
    _bar(axes, at, keys["weights"][place] / largest)


def _picture(axes: Any, at: _Rect, picture: NDArray[np.uint8] | None, words: str) -> None:
    """A picture cut to a square, or a grey tile with words."""
    extent = (at.left, at.right, at.bottom, at.top)
    if picture is not None:
        side = min(picture.shape[:2])
        first, left = (int(size - side) // 2 for size in picture.shape[:2])
        square = picture[first : first + side, left : left + side]
        axes.imshow(square, extent=extent, aspect="auto")
        return
    axes.fill_between([at.left, at.right], at.bottom, at.top, color=LINE, linewidth=0)
    lines = textwrap.wrap(words, int(at.width / _LETTER))[: int(at.height / 0.25)]
    written = axes.text(*at.middle, "\n".join(lines), ha="center", va="center", fontsize=SMALL)
    _clip(axes, written, at)


def _clip(axes: Any, written: Any, at: _Rect) -> None:
    """Names of wide letters end at a side."""
    from matplotlib.transforms import Bbox, TransformedBbox

    box = Bbox.from_extents(at.left, at.bottom, at.right, at.top)
    written.set_clip_box(TransformedBbox(box, axes.transData))
    written.set_clip_on(True)


def _frame(axes: Any, at: _Rect, color: str, dash: _Dash, width: float) -> None:
    x = [at.left, at.right, at.right, at.left, at.left]
    y = [at.bottom, at.bottom, at.top, at.top, at.bottom]
    axes.plot(x, y, color="white", linewidth=width + 0.8)
    axes.plot(x, y, color=color, linestyle=dash, linewidth=width, solid_joinstyle="miter")


def _bar(axes: Any, at: _Rect, share: float) -> None:
    y = at.bottom - 0.185
    for width, color in ((at.width, LINE), (share * at.width, INK)):
        axes.fill_between([at.left, at.left + width], y, y + 0.035, color=color, linewidth=0)


def _legend(figure: Any, largest: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    keys = {
        "key of the true class": Patch(facecolor="none", edgecolor=_SAME, linewidth=1.8),
        "key of another class": Patch(
            facecolor="none", edgecolor=_OTHER, linewidth=1.2, linestyle=_DASHED
        ),
        **{
            f"stored as the {name}": Line2D([], [], linestyle="", **look)
            for name, look in _MARKS.items()
        },
        f"kernel weight, full bar {largest:.2f}": Patch(facecolor=INK, linewidth=0),
    }
    figure.legend(keys.values(), keys, loc="lower center", ncols=3, fontsize=7.5)
