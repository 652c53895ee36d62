"""What is measured on the streams of the lab."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import marc
from marc.replay.sweep import Score, Sweep
from marc.spaces.geometry import Geometry, measure, neighbors, pseudo_labels
from marc.spaces.selection import Measured, Selection, SelectionJob, plan_selection
from marc.stats import Interval, paired_difference
from marc.stream import Stream
from marc_lab.world import SHIFTS
from marc_paper.analysis.regrets import Choice, Regret, Rule

CAPACITY, WEIGHT = 16, 10.0
SEEDS = (0, 1, 2)
KINDS = ("fixed", "oracle", "held-out")
FEW = "-12"
IN_TURN = ("mixed", "drift")
"""Streams that have an order of their own."""
_SHOWN = {"mixed": (), "drift": ("clean", "neon")}  # shifts that no setting may be chosen on
Right = NDArray[np.bool_]


@dataclass(frozen=True)
class Cell:
    """One space on one stream."""

    purity: float
    pseudo_purity: float
    antihubs: float
    same_mistake: float
    """Where the predictor errs: share of the ten neighbours with the same wrong answer."""
    right_answer: float
    """Where the predictor errs: share of the ten neighbours whose answer is right for it."""
    right: Mapping[str, Right]
    """By kind of gain: whether each image is right, (orders, T)."""
    base: Right
    """Whether the predictor alone is right, (T,)."""

    def gain(self, kind: str) -> Interval:
        """The gain over no memory, with its paired interval."""
        return difference(self.right[kind], self.base)


@dataclass(frozen=True)
class Measurements:
    """Everything about one stream."""

    name: str
    n_classes: int
    cells: Mapping[str, Cell]
    geometry: Mapping[str, Geometry]
    job: SelectionJob
    measured: Mapping[str, Measured]
    images: frozenset[bytes]

    @property
    def base(self) -> float:
        """Accuracy without memory."""
        return float(next(iter(self.cells.values())).base.mean())

    def selection(self, spaces: Sequence[str], test: str) -> Selection:
        """The label-free ranking of some of the spaces."""
        return self.job.result([self.measured[space] for space in spaces], test)

    def choice(self, spaces: Sequence[str], kind: str, rule: str) -> Choice:
        """What a rule chooses among some of the spaces, and what that loses."""
        scores = {space: Rule.score(self.geometry, space, rule) for space in spaces}
        gains = {space: self.cells[space].gain(kind).estimate for space in spaces}
        return Choice.of(self.name, scores, gains)


def difference(right: Right, reference: Right) -> Interval:
    """Accuracy minus that of a reference; one without orders is the same in every order."""
    return paired_difference(right, np.broadcast_to(reference, right.shape))


def pooled_gain(cells: Sequence[Cell], kind: str) -> Interval:
    """The gain over the images of several streams of one length."""
    right = np.concatenate([cell.right[kind] for cell in cells], axis=1)
    return difference(right, np.concatenate([cell.base for cell in cells]))


def regret(streams: Sequence[Measurements], spaces: Sequence[str], kind: str, rule: str) -> Regret:
    """A rule judged on several streams."""
    return Regret(rule, tuple(stream.choice(spaces, kind, rule) for stream in streams))


def measure_all(suffix: str) -> tuple[list[Measurements], dict[str, dict[str, Measurements]]]:
    """The single shifts; and `mixed` and `drift`, each in its own order and shuffled."""
    streams = {name: _load(name + suffix) for name in (*SHIFTS, *IN_TURN)}
    sweeps = {name: _swept(stream, SEEDS) for name, stream in streams.items()}
    own = {name: _swept(streams[name], None) for name in IN_TURN}

    def others(name: str) -> list[Sweep]:
        hidden = _SHOWN.get(name, (name,))
        return [sweeps[shift] for shift in SHIFTS if shift not in hidden]

    shifts = [_measurements(streams[name], sweeps[name], others(name)) for name in SHIFTS]
    in_turn = {
        name: {
            "own": _measurements(streams[name], own[name], others(name)),
            "shuffled": _measurements(streams[name], sweeps[name], others(name)),
        }
        for name in IN_TURN
    }
    return shifts, in_turn


def share_no_image(streams: Sequence[Measurements]) -> bool:
    """Whether no picture is in two of the streams or twice in one."""
    together = frozenset().union(*(stream.images for stream in streams))
    return len(together) == sum(len(base_of(stream)) for stream in streams)


def stream_of(streams: Sequence[Measurements], name: str) -> Measurements:
    """The stream of a name."""
    return next(stream for stream in streams if stream.name == name)


def base_of(stream: Measurements) -> Right:
    """Whether the predictor alone is right on each image of a stream, (T,)."""
    return next(iter(stream.cells.values())).base


def _load(name: str) -> Stream:
    _say(f"{name}: drawing, embedding (once)")
    return marc.load_stream(f"lab/{name}")


def _swept(stream: Stream, seeds: tuple[int, ...] | None) -> Sweep:
    _say(f"{stream.name}: sweep")
    return marc.sweep(stream, seeds=seeds)


def _measurements(stream: Stream, sweep: Sweep, sources: list[Sweep]) -> Measurements:
    _say(f"{stream.name}: geometry and selection")
    geometry = {space: measure(stream, space, (10,), n_replicates=0) for space in stream.spaces}
    job = plan_selection(stream, sizes=())
    return Measurements(
        name=stream.name.removeprefix("lab/").removesuffix(FEW),
        n_classes=stream.n_classes,
        cells={space: _cell(stream, geometry[space], sweep, sources) for space in stream.spaces},
        geometry=geometry,
        job=job,
        measured={space: job.space(space) for space in stream.spaces},
        images=frozenset(key.tobytes() for key in stream.features.keys("pixels")),
    )


def _cell(stream: Stream, geometry: Geometry, sweep: Sweep, sources: list[Sweep]) -> Cell:
    space, at_ten = geometry.space, geometry.measures[10]
    assert at_ten.purity is not None
    assert stream.row_labels is not None
    answers, wrong = pseudo_labels(stream), ~sweep.base_correct
    near = answers[neighbors(stream.features.keys(space), 10)[wrong]]
    scores = (
        sweep.fixed(space, CAPACITY, WEIGHT),
        sweep.oracle(space),
        sweep.held_out(space, sources),
    )
    return Cell(
        purity=at_ten.purity.estimate,
        pseudo_purity=at_ten.pseudo_purity.estimate,
        antihubs=at_ten.antihub_fraction,
        same_mistake=float((near == answers[wrong, np.newaxis]).mean()),
        right_answer=float((near == stream.row_labels[wrong, np.newaxis]).mean()),
        right={kind: _right(sweep, each) for kind, each in zip(KINDS, scores, strict=True)},
        base=sweep.base_correct,
    )


def _right(sweep: Sweep, chosen: Score) -> Right:
    """Whether each image is right at the settings of a score, (orders, T)."""
    rows = [
        sweep.correct(chosen.space, chosen.capacity, weight, seed)
        for weight, seed in zip(chosen.weights, sweep.seeds, strict=True)
    ]
    return np.stack(rows)


def _say(what: str) -> None:
    print(f"\r{what:<60}", end="", file=sys.stderr, flush=True)
