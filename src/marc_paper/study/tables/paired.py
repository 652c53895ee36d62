"""Gains with every kind of interval: tab:s_ci_spaces16.

On each stream the same images are answered with and without memory in every space, so a gain is a
paired difference: repairs minus regressions. The oracle gain has an interval in which the weight
is chosen again, accuracies have Wilson's, and orders a t-interval.
Cost: one sweep of every space on every stream of the plan, and the bootstrap of each oracle gain.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from marc.replay.sweep import Sweep
from marc.stats import Interval, envelope_bootstrap, mcnemar_log10, paired_interval, wilson
from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.plan import Draws
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "paired"

_COLUMNS = columns(
    "stream | space | no memory: percent | accuracy at K, w: percent fixed",
    "gain at K, w: points fixed | discordant: count | repairs: count | regressions: count",
    "McNemar p: log10 p | G*: points oracle | gain at K, w, over orders: points fixed",
)


def changes(correct: NDArray[np.bool_], reference: NDArray[np.bool_]) -> tuple[int, int]:
    """How many images (T,) are right that were wrong in the reference, and the other way round.

    >>> changes(np.array([True, True, False]), np.array([False, False, True]))
    (2, 1)
    """
    return int((correct & ~reference).sum()), int((reference & ~correct).sum())


def envelope_interval(
    sweep: Sweep, space: str, capacity: int, n_replicates: int, seed: int
) -> Interval:
    """The oracle gain over the grid of weights at one capacity, with its interval over images."""
    place = sweep.capacities.index(capacity)
    lower, upper = (ends[:, place] for ends in sweep.intervals[space])
    return envelope_bootstrap(
        *(lower, upper, sweep.base_correct),
        weights=sweep.weights,
        n_replicates=n_replicates,
        seed=seed,
    )


def _paired_rows(
    stream: str, sweep: Sweep, capacity: int, weight: float, draws: Draws, seed: int
) -> list[Row]:
    """One row a space, the highest gain first; all but the last column of the first order.

    `seed` is that of the bootstrap.
    """
    first, n_images = sweep.of_orders(sweep.seeds[:1]), len(sweep.base_correct)
    no_memory = Estimate.within(wilson(int(sweep.base_correct.sum()), n_images))
    fixed = {space: first.fixed(space, capacity, weight).gain for space in sweep.spaces}
    rows: list[Row] = []
    for space in sorted(sweep.spaces, key=lambda space: -fixed[space]):
        correct = first.correct(space, capacity, weight, sweep.seeds[0])
        repairs, regressions = changes(correct, sweep.base_correct)
        best = envelope_interval(first, space, capacity, draws.bootstraps, seed)
        every = sweep.fixed(space, capacity, weight)
        gains = np.subtract(every.accuracies, every.base_accuracies).tolist()
        rows.append(
            (
                *(stream, space, no_memory),
                Estimate.within(wilson(int(correct.sum()), n_images)),
                Estimate.within(paired_interval(repairs, regressions, n_images)),
                *(repairs + regressions, repairs, regressions),
                mcnemar_log10(repairs, regressions),
                *(Estimate.within(best), Estimate.across_orders(gains)),
            )
        )
    return rows


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    main = plan.group("main")
    others = [name for name in plan.streams if name not in main]
    tables = [_table(work, _NAME, main)]
    if others:
        tables.append(_table(work, f"{_NAME}-others", others))
    return tables


def _table(work: Work, name: str, streams: Sequence[str]) -> Table:
    plan = work.plan
    capacity, weight = plan.grids.capacity, plan.grids.weight
    rows: list[Row] = []
    for stream in streams:
        sweep = work.sweep(stream, plan.spaces.all)
        rows += _paired_rows(stream, sweep, capacity, weight, plan.draws, plan.seeds.draws)
    return Table.of(
        plan,
        name,
        _COLUMNS,
        rows,
        plan.protocol("capacity weight views seeds", bootstraps=plan.draws.bootstraps),
    )


_EXPERIMENT = Experiment.of(_NAME, _make, lambda plan: Piece.sweeps(plan.streams, plan.spaces.all))
