"""Queries that the strong space repairs, with their nearest retained keys: fig:s_qualitative.

The rule: base prediction wrong, memory margin below zero in the predictor's own space and above
zero in the strong one, fused prediction right in the strong one. Of the images that satisfy it in
the first order, one is shown from the middle of each quarter, so that the stream decides and not
the eye. Both spaces read the same retained items.
Cost: two sweeps that other experiments share, three passes over the admission memory, and as many
pictures as there are tiles.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marc.method import MARC
from marc.report.style import INK, LINE, MUTED, Look
from marc.report.thumbnails import pictures_of
from marc.scores import Int
from marc.stream import Stream
from marc_paper.analysis.interaction import Margins
from marc_paper.study.artifacts import Artifact, Figure, Row, Table, columns
from marc_paper.study.drawing import Page
from marc_paper.study.queries import ChosenQuery, FirstOrder, Reading
from marc_paper.study.work import Experiment, Work

_Pictures = Mapping[int, NDArray[np.uint8]]

_Dash = str | tuple[int, tuple[float, ...]]
_SOLID, _DASHED = "-", (0, (4, 2))
_TILE, _STEP = 0.5, 0.575
_QUERY = 0.92
_LEFT = 1.36  # of the first key
_ROW, _GAP = 0.80, 0.16  # of a space, and between queries
_LEGEND = 0.42
_LETTER = 0.062  # the width of one in the smallest text
_SAME, _OTHER, _PREDICTED = Look.PALETTE[2], Look.PALETTE[1], Look.PALETTE[3]
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


def _draw(queries: Sequence[Mapping[str, Any]], pictures: _Pictures) -> Any:
    """Two rows a query, one for each space; see `_tile_values`."""
    n_rows = sum(len(query["spaces"]) for query in queries)
    height = n_rows * _ROW + (len(queries) - 1) * _GAP + _LEGEND + 0.05
    figure, axes = _board(height)
    largest = max(max(each["weights"]) for q in queries for each in q["spaces"].values())
    top = height - 0.05
    for query in queries:
        _query(axes, query, top, pictures)
        for space, keys in query["spaces"].items():
            axes.text(
                *(_LEFT - 0.13, top - _TILE / 2, Page.short(space, 11)),
                rotation=90,
                ha="center",
                va="center",
                fontsize=Page.SMALL,
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
    figure = Figure(figsize=(Page.WIDTH, height), layout=engine)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, Page.WIDTH), ylim=(0, height))
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
        axes.text(at.left, y, f"{name}:", fontsize=Page.SMALL, color=MUTED, **look)
        written = axes.text(at.left, y - 0.12, Page.short(value, 16), fontsize=7.5, **look)
        _clip(axes, written, _Rect(at.left, 0, _LEFT - 0.3, top))


def _key(
    axes: Any, at: _Rect, keys: Mapping[str, Any], place: int, largest: float, pictures: _Pictures
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
        fontsize=Page.SMALL,
    )
    _bar(axes, at, keys["weights"][place] / largest)


def _picture(axes: Any, at: _Rect, picture: NDArray[np.uint8] | None, words: str) -> None:
    extent = (at.left, at.right, at.bottom, at.top)
    if picture is not None:
        side = min(picture.shape[:2])
        first, left = (int(size - side) // 2 for size in picture.shape[:2])
        square = picture[first : first + side, left : left + side]
        axes.imshow(square, extent=extent, aspect="auto")
        return
    axes.fill_between([at.left, at.right], at.bottom, at.top, color=LINE, linewidth=0)
    lines = textwrap.wrap(words, int(at.width / _LETTER))[: int(at.height / 0.25)]
    written = axes.text(*at.middle, "\n".join(lines), ha="center", va="center", fontsize=Page.SMALL)
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


_NAME = "neighbours"
_N_QUERIES = 4
_N_NEAREST = 10

_COLUMNS = columns(
    "stream | query | space | true class | base prediction | keys: count",
    "nearest shown: count | of the true class: count | stored as the true class: count",
    "stored as the base prediction: count | cosine, nearest: number",
    "cosine, last shown: number | memory margin: number",
)


def _rows_of(stream: str, query: ChosenQuery, labels: Int, names: Sequence[str]) -> list[Row]:
    """One row a space: what the nearest keys are to the query. `labels` are by stored row."""
    rows: list[Row] = []
    for space, reading in query.readings.items():
        near = reading.first(_N_NEAREST)
        evidence = reading.evidence(len(names))[np.newaxis]
        rows.append(
            (
                *(stream, query.id, space, names[query.true], names[query.predicted]),
                *(len(reading.items), len(near.items)),
                int((labels[near.items] == query.true).sum()),
                int((near.stored == query.true).sum()),
                int((near.stored == query.predicted).sum()),
                *(float(near.cosines[0]), float(near.cosines[-1])),
                float(Margins.true(evidence, np.array([query.true]))[0]),
            )
        )
    return rows


def _named_by_rule(work: Work, stream: Stream) -> NDArray[np.bool_]:
    """Which stored rows satisfy the rule of this figure, (N,)."""
    plan = work.plan
    own, strong, capacity = plan.spaces.own, plan.spaces.strong, plan.grids.capacity
    sweep = work.sweep(plan.main, (own, strong))
    right = sweep.correct(strong, capacity, plan.grids.weight, plan.seeds.orders[0])
    memory = {space: Margins.of(MARC(space, capacity), stream).memory for space in (own, strong)}
    named = ~sweep.base_correct & right
    named[stream.order] &= (memory[own] < 0) & (memory[strong] > 0)
    return named


def _spread_evenly(positions: Int, count: int) -> Int:
    """The middle one of each of `count` equal parts; all where there are no more than that.

    >>> _spread_evenly(np.arange(20), 4).tolist(), _spread_evenly(np.array([3, 9]), 4).tolist()
    ([2, 7, 12, 17], [3, 9])
    """
    n_positions = len(positions)
    if n_positions <= count:
        return positions
    return positions[(2 * np.arange(count) + 1) * n_positions // (2 * count)]


def _make(work: Work) -> Sequence[Artifact]:
    plan = work.plan
    own, strong, capacity = plan.spaces.own, plan.spaces.strong, plan.grids.capacity
    order = FirstOrder.of(work)
    stream = order.stream
    positions = order.positions(_named_by_rule(work, stream))
    rule = (
        f"base prediction wrong, memory margin below 0 in {own} and above 0 in {strong}, "
        f"fused right in {strong}, "
        f"K = {capacity}, w = {plan.grids.weight:g}, order {plan.seeds.orders[0]}"
    )
    if not len(positions):
        return [FirstOrder.none_chosen(plan, _NAME, f"{_NAME}-tiles", rule)]
    queries = [
        order.query_at(int(position), (own, strong), capacity)
        for position in _spread_evenly(positions, _N_QUERIES)
    ]
    about = f"Evenly spaced in stream order among {len(positions):,} images of {plan.main}: {rule}."
    labels, names = stream.row_labels, stream.features.class_names
    assert labels is not None  # a study has checked
    rows = [row for query in queries for row in _rows_of(plan.main, query, labels, names)]
    pictures = _pictures(stream, plan.streams[plan.main].source, queries)
    tiles = _tile_values(queries, labels, names)
    settings = plan.protocol("capacity weight views seeds", seeds=plan.seeds.orders[:1])
    return [
        Figure.of(
            plan,
            f"{_NAME}-tiles",
            partial(_draw, tiles, pictures),
            {"queries": tiles},
            about=about,
            n_nearest=_N_NEAREST,
        ),
        Table.of(plan, _NAME, _COLUMNS, rows, settings, about=about),
    ]


def _pictures(
    stream: Stream, source: str, queries: Sequence[ChosenQuery]
) -> dict[int, NDArray[np.uint8]]:
    """The pictures of the queries and their nearest keys, by row, where there are any."""
    of_row = pictures_of(stream, source)
    rows = {query.row for query in queries}
    for query in queries:
        for reading in query.readings.values():
            rows |= set(reading.first(_N_NEAREST).items.tolist())
    found = {row: of_row(row) for row in sorted(rows)}
    return {row: picture for row, picture in found.items() if picture is not None}


def _tile_values(
    queries: Sequence[ChosenQuery], labels: Int, names: Sequence[str]
) -> list[dict[str, Any]]:
    """Everything that the tiles show, as plain values."""
    return [
        {
            "id": query.id,
            "row": query.row,
            "position": query.position,
            "true class": names[query.true],
            "base prediction": names[query.predicted],
            "spaces": {
                space: _nearest(query, reading.first(_N_NEAREST), labels, names)
                for space, reading in query.readings.items()
            },
        }
        for query in queries
    ]


def _nearest(
    query: ChosenQuery, near: Reading, labels: Int, names: Sequence[str]
) -> dict[str, list[Any]]:
    role = {query.predicted: "base prediction", query.true: "true class"}
    true = labels[near.items]
    return {
        "rows": near.items.tolist(),
        "cosines": near.cosines.tolist(),
        "weights": near.weights.tolist(),
        "true labels": [names[label] for label in true],
        "stored labels": [names[label] for label in near.stored],
        "of the true class": (true == query.true).tolist(),
        "stored as": [role.get(label, "another class") for label in near.stored.tolist()],
    }


_EXPERIMENT = Experiment.of(_NAME, _make, FirstOrder.pieces, FirstOrder.needs_two_spaces)
