"""Accuracy against seconds an image: tab:pareto, tab:s_timing and the Pareto front.

Encoding, scoring the views and the memory itself are timed apart, all systems in each session.
Times are of the machine that makes the study, and no two sessions agree to the last digit. Cost:
one run of each system over the first order, and each system over the timed images once a session.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, final

import numpy as np

from marc.report.style import INK, MUTED, Look
from marc.stats import ratio_interval
from marc.types import Answers
from marc_paper.study.artifacts import Artifact, Column, Estimate, Figure, Row, Table, columns
from marc_paper.study.drawing import Page, looks_of
from marc_paper.study.plan import Plan
from marc_paper.study.tables.timing import Configuration, Part, Times
from marc_paper.study.work import Experiment, Piece, Work

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
class _Point:
    """One system."""

    label: str
    views: int
    seconds: float
    low: float
    """Of the fastest session."""
    high: float
    accuracy: float
    is_front: bool


def _draw(points: Sequence[_Point], looks: Mapping[str, Look], axis: str) -> Any:
    """Lines join the view budgets of a system, bars span the sessions, grey is the front."""
    figure, grid = Page.panels(1, 1, height=3.4)
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
    Page.legend_below(figure, looks, marker=True)
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


def _numbers(figure: Any, axes: Any, points: Sequence[_Point]) -> None:
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


def _looks(plan: Plan) -> dict[str, Look]:
    """A look for each kind of system: MARC has that of its space, others markers of no space."""
    spaces = looks_of(plan)
    return {
        "no memory": Look(MUTED, "d", "-", 1.2),
        "TDA": Look(INK, "x", "-", 1.2),
        "COSMIC": Look(INK, "H", "-", 1.2),
        "MARC, deployed": spaces[plan.spaces.deployed],
        "MARC, strong": spaces[plan.spaces.strong],
    }


_NAME = "cost"

_COLUMNS = columns(
    "configuration | space | views | encoding: seconds | scoring: seconds | memory: seconds",
    "total: seconds | no memory: percent | accuracy: percent fixed | on the front",
)


def _on_front(seconds: Sequence[float], accuracies: Sequence[float]) -> list[bool]:
    """Whether each system is on the front: nobody is as fast and as accurate, and better in one.

    >>> _on_front([1.0, 2.0, 3.0], [0.5, 0.7, 0.6])
    [True, True, False]
    """
    points = list(zip(seconds, accuracies, strict=True))
    return [
        not any(
            other != point and other[0] <= point[0] and other[1] >= point[1] for other in points
        )
        for point in points
    ]


def _cost_rows(
    systems: Sequence[Configuration], times: Sequence[Times], answers: Sequence[Answers]
) -> list[Row]:
    """Means over sessions, and who is on the front."""
    totals = [float(each.total.mean()) for each in times]
    front = _on_front(totals, [each.accuracy for each in answers])
    return [
        (
            *(system.label, system.space, str(system.views)),
            None if spent.encoding is None else float(spent.encoding.mean()),
            *(float(spent.scoring.mean()), float(spent.memory.mean()), total),
            *(answer.base_accuracy, answer.accuracy, "yes" if is_front else ""),
        )
        for system, spent, total, answer, is_front in zip(
            systems, times, totals, answers, front, strict=True
        )
    ]


def _ratio_rows(
    systems: Sequence[Configuration], times: Sequence[Times], answers: Sequence[Answers]
) -> list[Row]:
    """How many times as long another system takes than MARC, and what MARC gains over it."""
    place = {(each.label, each.views): number for number, each in enumerate(systems)}
    many = max(views for label, views in place if label == "no memory")
    graph = next(views for label, views in place if label == "COSMIC")
    asked = [("COSMIC over MARC, same views", ("COSMIC", graph), (Configuration.DEPLOYED, graph))]
    if many > 1:
        for label in (Configuration.DEPLOYED, Configuration.STRONG):
            name = f"many views without memory over {label}, one view"
            asked.append((name, ("no memory", many), (label, 1)))
    rows: list[Row] = []
    for name, slow, fast in asked:
        a, b = place[slow], place[fast]
        ratio = Estimate.within(ratio_interval(times[a].total, times[b].total))
        rows.append((name, ratio, Estimate.paired(answers[b].correct, answers[a].correct)))
    return rows


def _make(work: Work) -> Sequence[Artifact]:
    plan = work.plan
    systems = Configuration.all_of(plan)
    seed = plan.seeds.orders[0]
    answers = [
        work.run(plan.main, each.method, seed, each.views, **each.settings) for each in systems
    ]
    times, reason = Times.measure(work, systems)
    rows = _cost_rows(systems, times, answers)
    common: dict[str, Any] = {"settings": _settings(work), "notes": _notes(reason)}
    return [
        Table.of(plan, _NAME, _COLUMNS, rows, **common),
        _sessions_table(plan, systems, times, common),
        Table.of(
            plan,
            f"{_NAME}-ratios",
            columns("comparison | ratio: ratio | accuracy of MARC over it: points fixed"),
            _ratio_rows(systems, times, answers),
            **common,
        ),
        _figure(plan, systems, times, rows, reason),
    ]


def _pieces(plan: Plan) -> list[Piece]:
    # times are shared with nobody
    runs = (
        (plan.main, each.method, each.views, each.settings) for each in Configuration.all_of(plan)
    )
    return Piece.runs(plan.seeds.orders[:1], runs)


_EXPERIMENT = Experiment.of(_NAME, _make, _pieces)


def _sessions_table(
    plan: Plan, systems: Sequence[Configuration], times: Sequence[Times], common: Mapping[str, Any]
) -> Table:
    n_sessions = len(times[0].memory)
    return Table.of(
        plan,
        f"{_NAME}-sessions",
        (
            *_COLUMNS[:3],
            *(Column(f"session {number + 1}", "seconds") for number in range(n_sessions)),
            Column("spread", "seconds"),
        ),
        [
            (
                *(each.label, each.space, str(each.views)),
                *spent.total.tolist(),
                float(np.ptp(spent.total)),
            )
            for each, spent in zip(systems, times, strict=True)
        ],
        **common,
    )


def _figure(
    plan: Plan,
    systems: Sequence[Configuration],
    times: Sequence[Times],
    rows: Sequence[Row],
    reason: str,
) -> Figure:
    points = [
        _Point(
            *(each.label, each.views),
            float(spent.total.mean()),
            *(float(spent.total.min()), float(spent.total.max())),
            accuracy=float(row[8]),  # type: ignore[arg-type]
            is_front=row[9] == "yes",
        )
        for each, spent, row in zip(systems, times, rows, strict=True)
    ]
    axis = "milliseconds an image" + (", encoding not counted" if reason else "")
    return Figure.of(
        plan,
        "pareto",
        partial(_draw, points, _looks(plan), axis),
        {"points": [asdict(point) for point in points], "axis": axis},
    )


def _settings(work: Work) -> dict[str, Any]:
    plan = work.plan
    part = Part.beginning(work.stream(plan.main), plan.timing)
    return {
        "stream": plan.main,
        "capacity": plan.grids.benchmark_capacity,
        "weight": plan.grids.weight,
        "seeds": plan.seeds.orders[:1],
        "timed images": part.n_timed,
        "warm-up images": part.n_warm,
        "sessions": plan.timing.sessions,
    }


def _notes(reason: str) -> list[str]:
    if reason:
        return [f"Encoding was not timed: {reason}. Totals are scoring and memory alone."]
    return [
        "Encoding: views are made and embedded one picture at a time, over "
        f"{Times.N_PICTURES} pictures at most that were decoded before; a retrieval encoder sees "
        "the plain picture."
    ]
