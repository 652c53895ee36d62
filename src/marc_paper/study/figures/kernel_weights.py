"""The kernel weights of one query in two spaces: fig:s_kernel.

The query is the last of the first order that the base prediction and the fused prediction in the
predictor's own space get wrong and the fused prediction in the strong space gets right: the last,
because the memory is then as full as it becomes. Both spaces read the same retained items.
Cost: two sweeps that other experiments share, and one pass over the admission memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.report.style import INK, MUTED, Look
from marc.scores import Int
from marc_paper.study.artifacts import Artifact, Figure, Row, Table, columns
from marc_paper.study.drawing import Page
from marc_paper.study.plan import Plan
from marc_paper.study.queries import ChosenQuery, FirstOrder, Reading
from marc_paper.study.work import Experiment, Work

_NAME = "kernel-weights"
_ACTIVE = 0.1
"""A key is active from this share of the largest weight on."""
_N_CLASSES = 3
"""Classes of the most evidence that are drawn, beside the true and the predicted one."""

_KINDS = ("the true class", "the base prediction", "another class")
"""What the stored label of a key is to the query."""
_COLORS = (Look.PALETTE[2], Look.PALETTE[1], MUTED)
_MARKERS = ("o", "s", ".")
_HATCHES = ("", "////", "....")

_COLUMNS = columns(
    "stream | space | query | keys: count | active keys: count | active, true class: count",
    "active, base prediction: count | largest weight: number | evidence, true class: number",
    "evidence, best other: number | true class | base prediction | best other class",
)


def _kinds_of(stored: Int, query: ChosenQuery) -> Int:
    """The place in `_KINDS` of stored labels."""
    return np.where(stored == query.true, 0, np.where(stored == query.predicted, 1, 2))


def _is_active(weights: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which keys count: those of at least `_ACTIVE` of the largest weight."""
    return weights >= _ACTIVE * weights.max()


def _count_row(stream: str, space: str, query: ChosenQuery, names: Sequence[str]) -> Row:
    """What one space reads: how many keys count, and the evidence that all add up to."""
    reading = query.readings[space]
    active = _is_active(reading.weights)
    kinds = _kinds_of(reading.stored, query)[active]
    evidence = reading.evidence(len(names))
    other = int(np.where(np.arange(len(names)) == query.true, -np.inf, evidence).argmax())
    return (
        *(stream, space, query.id),
        *(len(active), int(active.sum())),
        *(int((kinds == 0).sum()), int((kinds == 1).sum())),
        *(float(reading.weights.max()), float(evidence[query.true]), float(evidence[other])),
        *(names[query.true], names[query.predicted], names[other]),
    )


def _leading_classes(evidence: NDArray[np.float64], true: int, predicted: int) -> list[int]:
    """The classes of the most evidence, and the true and the predicted one, by their evidence."""
    ranked = [int(each) for each in np.argsort(-evidence, kind="stable")]
    shown = {*ranked[:_N_CLASSES], true, predicted}
    return [each for each in ranked if each in shown]


def _draw(query: ChosenQuery, names: Sequence[str]) -> Any:
    """Above the weights of all keys by rank, below the evidence that they add up to."""
    readings = query.readings
    figure, grid = Page.panels(2, len(readings), height=1.9, height_ratios=(2.2, 1), sharex="row")
    lowest = min(reading.weights.min() for reading in readings.values())
    highest = max(reading.weights.max() for reading in readings.values())
    for (above, below), (space, reading) in zip(grid.T, readings.items(), strict=True):
        _weights(above, reading, query)
        above.set_ylim(lowest / 1.5, 1.5 * highest)
        above.set_title(_counted(space, reading, query), fontsize=8, linespacing=1.3)
        _evidence(below, reading, query, names)
    grid[0, 0].set_ylabel("kernel weight")
    _legend(figure)
    return figure


def _counted(space: str, reading: Reading, query: ChosenQuery) -> str:
    active = _is_active(reading.weights)
    kinds = _kinds_of(reading.stored, query)[active]
    counts = [f"{(kinds == kind).sum():,}" for kind in range(len(_KINDS))]
    return (
        f"{space}: {active.sum():,} of {len(active):,} keys active\n"
        f"true class {counts[0]}, base prediction {counts[1]}, other {counts[2]}"
    )


def _weights(axes: Any, reading: Reading, query: ChosenQuery) -> None:
    weights = reading.weights
    kinds = _kinds_of(reading.stored, query)
    rank = np.arange(1, len(weights) + 1)
    for kind in (2, 1, 0):
        axes.plot(
            *(rank[kinds == kind], weights[kinds == kind], _MARKERS[kind]),
            color=_COLORS[kind],
            markersize=3 if kind == 2 else 4.5,
            markeredgewidth=0.4,
            markeredgecolor="white" if kind < 2 else _COLORS[2],
        )
    axes.axhline(_ACTIVE * weights.max(), color=INK, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.set(xscale="log", yscale="log", xlabel="rank of the key by weight")
    for axis in (axes.xaxis, axes.yaxis):
        # the usual powers of ten are mathematics, which the style does not read
        axis.set_major_formatter(lambda value, place: f"{value:g}")


def _evidence(axes: Any, reading: Reading, query: ChosenQuery, names: Sequence[str]) -> None:
    evidence = reading.evidence(len(names))
    leading = _leading_classes(evidence, query.true, query.predicted)
    kinds = _kinds_of(np.array(leading), query)
    bars = axes.barh(range(len(leading)), evidence[leading], height=0.7)
    for bar, kind in zip(bars, kinds, strict=True):
        bar.set(facecolor=_COLORS[kind], edgecolor="white", hatch=_HATCHES[kind], linewidth=0)
    for place, value in enumerate(evidence[leading]):
        axes.annotate(
            *(f"{value:.2f}", (value, place)),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=Page.SMALL,
        )
    axes.set_yticks(
        range(len(leading)), [Page.short(names[each], 14) for each in leading], fontsize=7.5
    )
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.14)
    axes.set_xlabel("evidence")


def _legend(figure: Any) -> None:
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    keys: list[Any] = []
    for color, marker, hatch in zip(_COLORS, _MARKERS, _HATCHES, strict=True):
        dot = Line2D([], [], color=color, marker=marker, linestyle="", markersize=5)
        keys.append((dot, Patch(facecolor=color, edgecolor="white", hatch=hatch, linewidth=0)))
    keys.append(Line2D([], [], color=INK, linewidth=0.8, linestyle=(0, (4, 2))))
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + 0.3)
    figure.legend(
        keys,
        [*(f"stored as {kind}" for kind in _KINDS), f"{100 * _ACTIVE:g} % of the largest"],
        loc="outside lower center",
        ncols=4,
        fontsize=8,
        handler_map={tuple: HandlerTuple(ndivide=None, pad=0.4)},
    )


def _make(work: Work) -> Sequence[Artifact]:
    plan = work.plan
    name, own, strong = plan.main, plan.spaces.own, plan.spaces.strong
    setting = plan.grids.capacity, plan.grids.weight, plan.seeds.orders[0]
    sweep = work.sweep(name, (own, strong))
    wrong = ~sweep.base_correct & ~sweep.correct(own, *setting)
    named = wrong & sweep.correct(strong, *setting)
    capacity, weight, seed = setting
    rule = (
        f"base prediction wrong, fused wrong in {own} and right in {strong}, "
        f"K = {capacity}, w = {weight:g}, order {seed}"
    )
    order = FirstOrder.of(work)
    positions = order.positions(named)
    if not len(positions):
        return [FirstOrder.none_chosen(plan, f"{_NAME}-counts", _NAME, rule)]
    query = order.query_at(int(positions[-1]), (own, strong), capacity)
    about = f"The query is the last of {len(positions):,} images of {name}: {rule}."
    names = order.stream.features.class_names
    table = Table.of(
        plan,
        f"{_NAME}-counts",
        _COLUMNS,
        [_count_row(name, space, query, names) for space in query.readings],
        {"capacity": capacity, "weight": weight, "views": 1, "seeds": (seed,)},
        about=about,
        active=100 * _ACTIVE,
    )
    return [_figure(plan, query, names, about), table]


def _figure(plan: Plan, query: ChosenQuery, names: Sequence[str], about: str) -> Figure:
    true, predicted = names[query.true], names[query.predicted]
    return Figure.of(
        plan,
        _NAME,
        partial(_draw, query, names),
        {
            "query": {"id": query.id, "row": query.row, "position": query.position},
            "true class": true,
            "base prediction": predicted,
            "spaces": {
                space: {
                    "items": reading.items,
                    "stored labels": [names[each] for each in reading.stored],
                    "cosines": reading.cosines,
                    "weights": reading.weights,
                }
                for space, reading in query.readings.items()
            },
        },
        about=about,
        true=true,
        predicted=predicted,
        active=100 * _ACTIVE,
        n_classes=_N_CLASSES,
    )


_EXPERIMENT = Experiment.of(_NAME, _make, FirstOrder.pieces, FirstOrder.needs_two_spaces)
