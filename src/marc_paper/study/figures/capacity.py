"""Gain against capacity for every space: fig:s_capacity.

Curves are oracle envelopes over the weight grid, so a space that no weight helps lies at zero.
Cost: the sweeps of `tables/spaces.py`, nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.replay.sweep import Sweep
from marc.report.style import Look
from marc_paper.study.artifacts import Figure
from marc_paper.study.drawing import Axis, Page, looks_of
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "capacity"


def _envelopes(sweep: Sweep) -> dict[str, NDArray[np.float64]]:
    """By space: the oracle gain at each capacity in each order, (orders, capacities)."""
    return {
        space: np.stack(
            [
                np.subtract(score.accuracies, score.base_accuracies)
                for score in (sweep.oracle(space, capacity) for capacity in sweep.capacities)
            ],
            axis=-1,
        )
        for space in sweep.spaces
    }


def _draw(
    capacities: Sequence[int],
    streams: Mapping[str, Mapping[str, NDArray[np.float64]]],
    looks: Mapping[str, Look],
) -> Any:
    """Two panels a stream, strong spaces and weak ones; a ring marks the best capacity."""
    figure, grid = Page.panels(len(streams), 2, height=2.3)
    for row, (stream, curves) in zip(grid, streams.items(), strict=True):
        ranked = sorted(curves, key=lambda space: -curves[space].mean(axis=0).max())
        half = (len(ranked) + 1) // 2
        for axes, names in zip(row, (ranked[:half], ranked[half:]), strict=True):
            for space in names:
                _curve(axes, capacities, 100 * curves[space], looks[space])
            Axis.capacity(axes, capacities)
        row[0].set_ylabel(f"{stream}: G*, points")
        row[0].set_title("higher half of the spaces")
        row[1].set_title("lower half")
    Page.legend_below(figure, looks, marker=True)
    return figure


def _curve(axes: Any, capacities: Sequence[int], gains: NDArray[np.float64], look: Look) -> None:
    mean = gains.mean(axis=0)
    axes.fill_between(
        capacities, gains.min(axis=0), gains.max(axis=0), color=look.color, alpha=0.15, linewidth=0
    )
    axes.plot(
        *(capacities, mean),
        color=look.color,
        linestyle=look.dash,
        marker=look.marker,
        markersize=3,
        linewidth=1.2,
    )
    best = int(mean.round(12).argmax())  # of equal ones the smallest capacity
    axes.plot(
        *([capacities[best]], [mean[best]], "o"),
        markersize=8,
        markerfacecolor="none",
        color=look.color,
    )


def _make(work: Work) -> Sequence[Figure]:
    plan = work.plan
    streams = {name: _envelopes(work.sweep(name, plan.spaces.all)) for name in plan.group("main")}
    capacities = plan.grids.capacities
    return [
        Figure.of(
            plan,
            _NAME,
            partial(_draw, capacities, streams, looks_of(plan)),
            {"capacities": capacities, "gains": streams},
        )
    ]


_EXPERIMENT = Experiment.of(
    _NAME, _make, lambda plan: Piece.sweeps(plan.group("main"), plan.spaces.all)
)
