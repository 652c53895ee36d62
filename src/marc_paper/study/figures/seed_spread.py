"""Whether stream orders agree on the ranking of spaces: fig:s_seedspread, sec:s_eurosat.

On each stream of other classes, the gain of every control space in every order. Two spaces whose
ranges overlap are not ranked by one order. Cost: one sweep of the control spaces on every domain
stream, shared with `tables/transfer.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from marc.replay.sweep import Score, Sweep
from marc.report.style import MUTED, Look
from marc.stats import seed_interval
from marc_paper.study.artifacts import Artifact, Estimate, Figure, Row, Table, columns
from marc_paper.study.drawing import Page, looks_of
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "seed-spread"
_HALF_WIDTH = 0.5
"""Points: that of a panel is no less."""

_Gains = Mapping[str, Sequence[float]]
"""By space, one gain an order."""

_COLUMNS = columns(
    "stream | views | space | no memory: percent | accuracy: percent fixed",
    "lowest gain: points fixed | highest gain: points fixed | lowest G*: points oracle",
    "highest G*: points oracle",
)
_PAIRS = columns(
    "stream | views | space | other | ranges of G* overlap | orders led in G*: text oracle",
    "ranges of gain overlap | orders led in gain: text fixed",
)


def _gains_of(score: Score) -> list[float]:
    return np.subtract(score.accuracies, score.base_accuracies).tolist()


def _overlap(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether two ranges share a value.

    >>> _overlap([1.0, 3.0], [2.0, 5.0]), _overlap([1.0, 2.0], [3.0, 4.0])
    (True, False)
    """
    return max(min(first), min(second)) <= min(max(first), max(second))


def _compared(first: Sequence[float], second: Sequence[float]) -> str:
    """Whether two ranges overlap: yes, no, or equal where both are one and the same value.

    >>> _compared([1.0, 3.0], [2.0, 5.0]), _compared([0.0, 0.0], [0.0, 0.0])
    ('yes', 'equal')
    """
    if np.ptp([*first, *second]) == 0:
        return "equal"
    return "yes" if _overlap(first, second) else "no"


def _led(first: Sequence[float], second: Sequence[float], seeds: Sequence[int | None]) -> str:
    """The orders in which the first gains more; those in which both gain the same are named.

    >>> _led([1.0, 3.0, 2.0], [2.0, 2.0, 2.0], [0, 1, 2])
    '1; same: 2'
    """
    above = [str(seed) for a, b, seed in zip(first, second, seeds, strict=True) if a > b]
    same = [str(seed) for a, b, seed in zip(first, second, seeds, strict=True) if a == b]
    text = ", ".join(above) or "none"
    return f"{text}; same: {', '.join(same)}" if same else text


def _space_rows(stream: str, views: int, sweep: Sweep, capacity: int, weight: float) -> list[Row]:
    rows: list[Row] = []
    for space in sweep.spaces:
        fixed, oracle = sweep.fixed(space, capacity, weight), sweep.oracle(space, capacity)
        low, high = _gains_of(fixed), _gains_of(oracle)
        rows.append(
            (
                *(stream, str(views), space, fixed.base_accuracies[0]),
                Estimate.within(seed_interval(fixed.accuracies)),
                *(min(low), max(low), min(high), max(high)),
            )
        )
    return rows


def _pair_rows(
    stream: str, views: int, oracle: _Gains, fixed: _Gains, seeds: Sequence[int | None]
) -> list[Row]:
    rows: list[Row] = []
    for pair in combinations(oracle, 2):
        cells: list[str] = []
        for gains in (oracle, fixed):
            first, second = (gains[space] for space in pair)
            cells += [_compared(first, second), _led(first, second, seeds)]
        rows.append((stream, str(views), *pair, *cells))
    return rows


def _draw(streams: Mapping[str, _Gains], looks: Mapping[str, Look], label: str) -> Any:
    """One panel a stream, one line a space, its orders from top to bottom."""
    columns = min(len(streams), min((3, 2), key=lambda each: -len(streams) % each))
    n_spaces = len(next(iter(streams.values())))
    n_rows = -(-len(streams) // columns)
    figure, grid = Page.panels(n_rows, columns, height=0.75 + 0.21 * n_spaces, sharey=True)
    for axes in list(grid.flat)[len(streams) :]:
        axes.set_visible(False)
    for place, (axes, (stream, gains)) in enumerate(zip(grid.flat, streams.items(), strict=False)):
        for line, (space, values) in enumerate(gains.items()):
            _line(axes, line, 100 * np.asarray(values), looks[space])
        axes.axvline(0, color=MUTED, linewidth=0.8, zorder=1)
        _widen(axes)
        axes.set_yticks(range(n_spaces), list(gains))
        axes.set_ylim(n_spaces - 0.4, -0.6)
        axes.set_title(stream, fontsize=8)
        axes.tick_params(labelsize=Page.SMALL)
        if place + columns >= len(streams):
            axes.set_xlabel(label)
    return figure


def _line(axes: Any, line: int, values: Any, look: Look) -> None:
    axes.plot(
        *([values.min(), values.max()], [line, line]),
        color=look.color,
        linewidth=9,
        alpha=0.25,
        solid_capstyle="butt",
    )
    axes.plot(
        *(values, line + np.linspace(-0.16, 0.16, len(values)), look.marker),
        color=look.color,
        markersize=4.5,
        # a white edge would hide the thin arms of a cross
        markeredgecolor=look.color if look.marker == "X" else "white",
        markeredgewidth=0.4,
    )


def _widen(axes: Any) -> None:
    """Differences far below a point are not blown up to the width of a panel."""
    low, high = axes.get_xlim()
    if high - low < 2 * _HALF_WIDTH:
        middle = (low + high) / 2
        axes.set_xlim(middle - _HALF_WIDTH, middle + _HALF_WIDTH)


def _make(work: Work) -> Sequence[Artifact]:
    plan = work.plan
    capacity, weight, spaces = plan.grids.capacity, plan.grids.weight, _spaces(plan)
    oracle: dict[str, dict[str, list[float]]] = {}
    fixed: dict[str, dict[str, list[float]]] = {}
    rows: list[Row] = []
    pairs: list[Row] = []
    for stream in plan.group("domain"):
        views = plan.usual_views(stream)
        sweep = work.sweep(stream, spaces, views)
        oracle[stream] = {space: _gains_of(sweep.oracle(space, capacity)) for space in spaces}
        fixed[stream] = {space: _gains_of(sweep.fixed(space, capacity, weight)) for space in spaces}
        rows += _space_rows(stream, views, sweep, capacity, weight)
        pairs += _pair_rows(stream, views, oracle[stream], fixed[stream], sweep.seeds)
    settings = {"capacity": capacity, "weight": weight, "seeds": plan.seeds.orders}
    return [
        _figure(plan, _NAME, "oracle G*", oracle),
        _figure(plan, f"{_NAME}-fixed", "fixed gain", fixed),
        Table.of(plan, f"{_NAME}-ranges", _COLUMNS, rows, settings),
        Table.of(plan, f"{_NAME}-pairs", _PAIRS, pairs, settings),
    ]


def _missing(plan: Plan) -> str:
    if not plan.group("domain"):
        return "there is no stream of group domain"
    return "" if len(plan.seeds.orders) > 1 else "one order has no spread"


_EXPERIMENT = Experiment.of(
    _NAME,
    _make,
    lambda plan: Piece.sweeps(plan.group("domain"), _spaces(plan), plan.usual_views),
    _missing,
)


def _figure(plan: Plan, name: str, label: str, streams: Mapping[str, _Gains]) -> Figure:
    pair = plan.spaces.deployed, plan.spaces.strong
    found = {name: _compared(*(gains[space] for space in pair)) for name, gains in streams.items()}
    close = [stream for stream, answer in found.items() if answer == "yes"]
    equal = [stream for stream, answer in found.items() if answer == "equal"]
    return Figure.of(
        plan,
        name,
        partial(_draw, streams, looks_of(plan), f"{label}, points"),
        {
            "seeds": plan.seeds.orders,
            "gains": streams,
            "overlap": close,
            "equal": equal,
            "pair": pair,
        },
        ranked=_ranked(pair, close, equal) if len(set(pair)) > 1 else "",
    )


def _ranked(pair: tuple[str, str], close: Sequence[str], equal: Sequence[str]) -> str:
    text = f"Ranges of {pair[0]} and {pair[1]} overlap on {', '.join(close) or 'no stream'}"
    return f"{text}; they are equal on {', '.join(equal)}." if equal else f"{text}."


def _spaces(plan: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*plan.spaces.controls, plan.spaces.deployed, plan.spaces.strong)))
