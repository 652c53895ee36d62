"""All paired tests as one family: the paragraphs on multiplicity of sec:s_ci.

Every stream, space and order gives one paired test at (K, w). How many find nothing, and how many
survive when the number of tests is accounted for?
Cost: the sweeps of `tables/paired.py`, nothing more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from marc.replay.sweep import Sweep
from marc.stats import Interval, benjamini_hochberg_log10, mcnemar_log10, paired_interval
from marc_paper.study.artifacts import Estimate, Row, Table, columns
from marc_paper.study.tables.paired import changes
from marc_paper.study.work import Experiment, Piece, Work

_NAME = "multiplicity"
_PROCEDURES = columns(
    "procedure | level | tests: count | rejected: count | not rejected: count",
    "threshold: log10 p | allowance: number",
)
_STREAMS = columns(
    "stream | no memory: percent | tests: count | gains: count | losses: count",
    "no detectable effect: count",
)
_UNDETECTED = columns(
    "stream | space | order | no memory: percent | gain at K, w: points fixed",
    "discordant: count | McNemar p: log10 p",
)

_LISTED = 60
"""Tests without a detectable effect that are listed one by one."""
_LEVEL = 0.05


@final
@dataclass(frozen=True)
class _PairedTest:
    """One paired test: a space against no memory on one stream in one order."""

    stream: str
    space: str
    order: int | None
    """The seed of the order."""
    no_memory: float
    gain: Interval
    n_discordant: int
    log10_p: float

    @property
    def includes_zero(self) -> bool:
        """Whether no effect was detected: the interval of the gain includes zero."""
        return self.gain.low <= 0 <= self.gain.high


def _paired_tests(stream: str, sweep: Sweep, capacity: int, weight: float) -> list[_PairedTest]:
    """Every test of one stream at one capacity and weight, space by space."""
    base = sweep.base_correct
    tests: list[_PairedTest] = []
    for space in sweep.spaces:
        for seed in sweep.seeds:
            counts = changes(sweep.correct(space, capacity, weight, seed), base)
            tests.append(
                _PairedTest(
                    *(stream, space, seed, float(base.mean())),
                    gain=paired_interval(*counts, len(base)),
                    n_discordant=sum(counts),
                    log10_p=mcnemar_log10(*counts),
                )
            )
    return tests


def _procedure_rows(tests: Sequence[_PairedTest]) -> list[Row]:
    """What each way of accounting for the number of tests rejects."""
    n_tests, logs = len(tests), np.array([test.log10_p for test in tests])
    adjusted = benjamini_hochberg_log10(logs)

    def row(
        procedure: str,
        level: float,
        n_rejected: int,
        threshold: float | None = None,
        allowance: float | None = None,
    ) -> Row:
        counts = (n_tests, n_rejected, n_tests - n_rejected)
        return (procedure, f"{level:g}", *counts, threshold, allowance)

    without_zero = sum(not test.includes_zero for test in tests)
    rows = [
        row("paired interval without zero", _LEVEL, without_zero),
        row("uncorrected", _LEVEL, _at_most(logs, _LEVEL), math.log10(_LEVEL)),
    ]
    for level in (_LEVEL, 0.01):
        n_rejected = _at_most(adjusted, level)
        # with nothing rejected, the smallest p-value would have had to be below this
        threshold = math.log10(level * max(1, n_rejected) / n_tests)
        rows.append(row("Benjamini-Hochberg", level, n_rejected, threshold, level * n_rejected))
    each = _LEVEL / n_tests
    rows.append(row("Bonferroni", _LEVEL, _at_most(logs, each), math.log10(each)))
    return rows


def _stream_rows(tests: Sequence[_PairedTest]) -> list[Row]:
    """By stream: how many tests found a gain, a loss, or nothing."""
    rows: list[Row] = []
    for stream in dict.fromkeys(test.stream for test in tests):
        own = [test for test in tests if test.stream == stream]
        n_none = sum(test.includes_zero for test in own)
        n_gains = sum(test.gain.low > 0 for test in own)
        rows.append(
            (stream, own[0].no_memory, len(own), n_gains, len(own) - n_gains - n_none, n_none)
        )
    return rows


def _undetected_rows(tests: Sequence[_PairedTest]) -> list[Row]:
    """The tests whose interval includes zero, as many as are listed."""
    found = [test for test in tests if test.includes_zero]
    return [
        (
            *(test.stream, test.space, str(test.order), test.no_memory),
            Estimate.within(test.gain),
            test.n_discordant,
            test.log10_p,
        )
        for test in found[:_LISTED]
    ]


def _make(work: Work) -> Sequence[Table]:
    plan = work.plan
    capacity, weight = plan.grids.capacity, plan.grids.weight
    tests: list[_PairedTest] = []
    for stream in plan.streams:  # one sweep is held at a time
        tests += _paired_tests(stream, work.sweep(stream, plan.spaces.all), capacity, weight)
    settings = plan.protocol("capacity weight views seeds")
    procedures = _procedure_rows(tests)
    tables = [
        Table.of(plan, _NAME, _PROCEDURES, procedures, settings, n_tests=len(tests)),
        Table.of(plan, f"{_NAME}-streams", _STREAMS, _stream_rows(tests), settings),
    ]
    n_found = sum(test.includes_zero for test in tests)
    if n_found:
        rows = _undetected_rows(tests)
        more = n_found - len(rows)
        notes = [f"{n_found} in all; {more} more are not listed."] if more else []
        name = f"{_NAME}-undetected"
        tables.append(Table.of(plan, name, _UNDETECTED, rows, settings, notes=notes))
    return tables


_EXPERIMENT = Experiment.of(_NAME, _make, lambda plan: Piece.sweeps(plan.streams, plan.spaces.all))


def _at_most(logs: NDArray[np.float64], level: float) -> int:
    return int((logs <= math.log10(level)).sum())
