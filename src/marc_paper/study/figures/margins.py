"""Margins of the predictor and of the memory, image by image: fig:s_margin.

Where would the memory put an error right? The base margin mu and the memory's delta are taken
against the best other class of each, which may differ. So the fused answer is right wherever
mu + w delta > 0, and it may be right below that line too: images above it are fewer than the
repairs, and every regression lies below. Cost: the sweeps of the control spaces that most
experiments share, and one pass of the memory in each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from marc.method import MARC
from marc.report.style import INK, MUTED, Look
from marc_paper.analysis.interaction import Margins, RepairSets
from marc_paper.study.artifacts import Artifact, Figure, Row, Table, columns
from marc_paper.study.drawing import Page
from marc_paper.study.plan import Plan
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "margins"

_COLUMNS = columns(
    "stream | space | no memory: percent | gain: points fixed | errors: count",
    "correctable: count fixed | correctable of errors: percent fixed",
    "repairs: count fixed | right: count | at risk: count fixed",
    "regressions: count fixed | regressions of right: percent fixed",
)

_RIGHT, _WRONG = Look.PALETTE[0], Look.PALETTE[1]

_Mask = NDArray[np.bool_]


@final
@dataclass(frozen=True)
class _SpaceMargins:
    """Both margins in one space by stored row, and what became of each answer, (N,) each."""

    base: NDArray[np.float64]
    memory: NDArray[np.float64]
    base_correct: _Mask
    correct: _Mask
    weight: float

    @property
    def above(self) -> _Mask:
        """Where mu + w delta > 0: fusion is right here, whichever class is the rival."""
        return self.base + self.weight * self.memory > 0

    @property
    def correctable(self) -> _Mask:
        """Errors of the predictor that the memory's margin outweighs."""
        return ~self.base_correct & self.above & (self.memory > 0)

    @property
    def counts(self) -> dict[str, int]:
        """Images of each kind; the gain is (repairs - regressions) / images."""
        changes = RepairSets.of(self.base_correct, {"memory": self.correct})
        return {
            "images": len(self.base),
            "errors": int((~self.base_correct).sum()),
            "correctable": int(self.correctable.sum()),
            "repairs": int(changes.repairs["memory"].sum()),
            "right": int(self.base_correct.sum()),
            "at risk": int((self.base_correct & ~self.above).sum()),
            "regressions": int(changes.regressions["memory"].sum()),
        }


def _shown_spaces(plan: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys((plan.spaces.own, plan.spaces.strong)))


def _asked_spaces(plan: Plan) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*plan.spaces.controls, *_shown_spaces(plan))))


def _space_margins(work: Work) -> dict[str, _SpaceMargins]:
    """Margins on the main stream in its first order, by space."""
    plan = work.plan
    capacity, weight, seed = plan.grids.capacity, plan.grids.weight, plan.seeds.orders[0]
    stream = work.stream(plan.main).in_order(seed)
    sweep = work.sweep(plan.main, _asked_spaces(plan))
    place = np.argsort(stream.order)
    found = {}
    for space in sweep.spaces:
        each = Margins.of(MARC(space, capacity), stream)
        found[space] = _SpaceMargins(
            base=each.base[place],
            memory=each.memory[place],
            base_correct=sweep.base_correct,
            correct=sweep.correct(space, capacity, weight, seed),
            weight=weight,
        )
    return found


def _row_of(stream: str, space: str, found: _SpaceMargins) -> Row:
    counts = found.counts
    return (
        *(stream, space, float(found.base_correct.mean())),
        (counts["repairs"] - counts["regressions"]) / counts["images"],
        *(counts["errors"], counts["correctable"]),
        _share(counts["correctable"], counts["errors"]),
        *(counts["repairs"], counts["right"], counts["at risk"], counts["regressions"]),
        _share(counts["regressions"], counts["right"]),
    )


def _share(part: int, whole: int) -> float | None:
    """A fraction; nothing where there is nothing to be a fraction of."""
    return part / whole if whole else None


def _draw(spaces: Mapping[str, _SpaceMargins]) -> Any:
    """A panel a space on the same axes: right answers, errors, and the line of the weight."""
    figure, [row] = Page.panels(1, len(spaces), height=3.3, sharex=True, sharey=True)
    for axes, (space, found) in zip(row, spaces.items(), strict=True):
        _points(axes, found)
        axes.set_title(_title(space, found.counts), fontsize=8)
        axes.set_xlabel("base margin mu")
    _limits(row[0], list(spaces.values()))
    for axes, found in zip(row, spaces.values(), strict=True):
        _line(axes, found.weight)
    row[0].set_ylabel("memory margin delta")
    _legend(figure, next(iter(spaces.values())).weight)
    return figure


def _points(axes: Any, found: _SpaceMargins) -> None:
    size = 3.0 if len(found.base) < 500 else 1.8
    for chosen, marker, color in (
        (found.base_correct, "o", _RIGHT),
        (~found.base_correct, "x", _WRONG),
    ):
        axes.plot(
            *(found.base[chosen], found.memory[chosen], marker),
            color=color,
            markersize=size,
            markeredgewidth=0.5 if marker == "x" else 0,
            alpha=0.55,
            rasterized=True,
        )
    axes.axhline(0, color=MUTED, linewidth=0.6)
    axes.axvline(0, color=MUTED, linewidth=0.6)


def _limits(axes: Any, spaces: Sequence[_SpaceMargins]) -> None:
    """Every point of every panel, with a little room; the panels share their axes."""
    for values, limit in (
        (np.concatenate([each.base for each in spaces]), axes.set_xlim),
        (np.concatenate([each.memory for each in spaces]), axes.set_ylim),
    ):
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        room = 0.04 * max(high - low, 1e-6)
        limit(low - room, high + room)


def _line(axes: Any, weight: float) -> None:
    if weight > 0:
        left, right = axes.get_xlim()
        top = axes.get_ylim()[1]
        across = np.array([left, 0.0, right])
        axes.fill_between(
            *(across[:2], np.minimum(-across[:2] / weight, top), top),
            color=_WRONG,
            alpha=0.1,
            linewidth=0,
            zorder=0,
        )
        axes.plot(across, -across / weight, color=INK, linewidth=1.2, scalex=False, scaley=False)


def _title(space: str, counts: Mapping[str, int]) -> str:
    return (
        f"{space}\n{_percent(counts['correctable'], counts['errors'])} of errors correctable, "
        f"{_percent(counts['regressions'], counts['right'])} of right answers lost"
    )


def _percent(part: int, whole: int) -> str:
    fraction = _share(part, whole)
    return "none" if fraction is None else f"{100 * fraction:.1f} %"


def _legend(figure: Any, weight: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    keys = [
        Line2D([], [], color=_RIGHT, marker="o", linestyle="none", markersize=4),
        Line2D([], [], color=_WRONG, marker="x", linestyle="none", markersize=4),
        Line2D([], [], color=INK, linewidth=1.2),
        Patch(facecolor=_WRONG, alpha=0.15),
    ]
    names = ["right without memory", "wrong", f"mu + {weight:g} delta = 0", "correctable"]
    figure.legend(keys, names, loc="outside lower center", ncols=4, fontsize=8)


def _make(work: Work) -> Sequence[Artifact]:
    plan = work.plan
    found = _space_margins(work)
    shown = {space: found[space] for space in _shown_spaces(plan)}
    rows = [_row_of(plan.main, space, each) for space, each in found.items()]
    settings = plan.protocol("capacity weight views seeds", seeds=plan.seeds.orders[:1])
    return [_figure(plan, shown), Table.of(plan, _NAME, _COLUMNS, rows, settings)]


def _figure(plan: Plan, shown: Mapping[str, _SpaceMargins]) -> Figure:
    return Figure.of(
        plan,
        _NAME,
        partial(_draw, shown),
        {
            space: {
                "mu": each.base,
                "delta": each.memory,
                "right without memory": each.base_correct,
                "right": each.correct,
                "counts": each.counts,
            }
            for space, each in shown.items()
        },
    )


_EXPERIMENT = Experiment.of(
    _NAME, _make, lambda plan: Piece.sweeps([plan.main], _asked_spaces(plan))
)
