"""The work of a sweep: checked, shared between its spaces, and cut into pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.admission import Policy
from marc.errors import MarcError, instance, integer, one_of
from marc.method import MARC
from marc.replay.device import choose_gpu
from marc.replay.evidence import KernelValues, Plan, read_all
from marc.replay.lifetimes import History, check_capacities
from marc.replay.replay import admit
from marc.replay.sweep import Intervals, Sweep
from marc.replay.weights import check_weights
from marc.scores import Int
from marc.stream import Stream
from marc.types import CAPACITIES, WEIGHTS, Trajectory

if TYPE_CHECKING:
    from marc.replay.on_gpu import Rows

Piece = Mapping[str, NDArray[Any]]
"""A piece of a sweep's work, as `SweepJob.piece` gives it."""

_Cells = tuple[Int, NDArray[np.float64]]
"""Cells (n,), and the lower and upper ends of their right weights, (2, capacities, n)."""


@dataclass(frozen=True)
class SweepJob:
    """A sweep that was checked; each of its spaces is one independent piece of work."""

    SETTINGS: ClassVar = ("admission_capacity", "alpha", "beta", "view_entropy", "refine_labels")
    """Settings of `MARC` that a sweep can hold at other values; the others change its output."""

    stream: Stream
    method: MARC
    capacities: tuple[int, ...]
    weights: tuple[float, ...]
    seeds: tuple[int | None, ...]
    gpu: str | None = None
    """Where it is computed, as torch names it; None is the CPU."""

    @classmethod
    def plan(
        cls,
        stream: Stream,
        capacities: Sequence[int] = CAPACITIES,
        weights: Sequence[float] = WEIGHTS,
        seeds: Sequence[int | None] | None = (0, 1, 2),
        policy: str | Policy = "entropy",
        device: str = "cpu",
        **settings: Any,
    ) -> SweepJob:
        """Check all settings of a sweep; nothing is computed yet."""
        for name in settings:
            hint = "marc.replay(MARC(...), stream) for the others"
            one_of("setting of a sweep", name, cls.SETTINGS, hint)
        if stream.row_labels is None:
            raise MarcError(
                "a sweep measures accuracy, and this stream has no labels",
                hint="marc run SOURCE for predictions, or add 'labels' to the pack",
            )
        method = MARC("predictor", policy=policy, **settings)
        method.check_replayable()
        orders = (None,) if seeds is None else tuple(seeds)
        if not orders or len(set(orders)) < len(orders):
            got = orders or "no seeds"
            raise MarcError("a sweep needs distinct orders", got=got, hint="seeds=(0, 1, 2)")
        drawn = tuple(None if seed is None else integer("seed", seed, 0) for seed in orders)
        grid = check_capacities(capacities), check_weights(tuple(weights))
        return cls(stream, method, *grid, drawn, choose_gpu(device))

    @cached_property
    def trajectories(self) -> list[Trajectory]:
        """What each order's memory is offered: the part that all spaces share."""
        orders = [self.stream if s is None else self.stream.in_order(s) for s in self.seeds]
        draws = [self.method.seed if seed is None else seed for seed in self.seeds]
        return [each.trajectory for each in admit(self.method, orders, draws, self.gpu)]

    @cached_property
    def histories(self) -> list[History]:
        """What each order's memory holds and when."""
        n_classes = self.stream.n_classes
        return [History.trace(each, self.capacities, n_classes) for each in self.trajectories]

    @property
    def settings(self) -> dict[str, Any]:
        """What decides the trajectories and the kernel, by name."""
        config = self.method.config()
        return {"policy": config["policy"], **{name: config[name] for name in self.SETTINGS}}

    @property
    def device(self) -> str:
        """`cpu` or `cuda`: it decides the last bits of sums."""
        return "cpu" if self.gpu is None else self.gpu.partition(":")[0]

    def space(self, space: str) -> Intervals:
        """The right weights of every image, for every capacity and order, in one space."""
        pieces = range(self.n_pieces(space))
        return self.joined(self.piece(space, number) for number in pieces)

    def n_pieces(self, space: str) -> int:
        """How many pieces of work a space is; each can be done anywhere, in any order."""
        return Plan.of(self.stream.features.dim(space), self.histories).n_pieces

    def piece(self, space: str, number: int) -> Piece:
        """One piece of a space: `lower` and `upper` ends (capacities, n) of some cells.

        A cell is an image in an order; `cells` (n,) count them order by order, (orders, N).
        """
        values = KernelValues(self.stream.features.keys(space), self.method.alpha, self.method.beta)
        done = self._judged(values, number) if self.gpu is None else self._on_gpu(values, number)
        cells, ends = (np.concatenate(parts, axis=-1) for parts in zip(*done, strict=True))
        in_order = np.argsort(cells)  # threads end in any order
        lower, upper = ends[:, :, in_order]
        return {"cells": cells[in_order], "lower": lower, "upper": upper}

    def _judged(self, values: KernelValues, number: int) -> list[_Cells]:
        from marc.replay._kernels import correct_weights

        features, labels = self.stream.features, self.stream.row_labels
        assert labels is not None  # `plan` has checked
        done: list[_Cells] = []

        def judge(order: int, items: Int, evidence: NDArray[np.float32]) -> None:
            base = np.ascontiguousarray(features.base.logits[items].T)
            ends = np.empty((2, len(self.capacities), len(items)))
            correct_weights(base, evidence, labels[items], *ends)
            done.append((order * len(labels) + items, ends))

        read_all(values, self.histories, judge, number)
        return done

    def _on_gpu(self, values: KernelValues, number: int) -> list[_Cells]:
        from marc.replay import on_gpu

        assert self.gpu is not None
        labels = self.stream.row_labels
        assert labels is not None
        judged = on_gpu.right_weights(
            self.gpu, values, self.histories, self._base_on_gpu, labels, number
        )
        return [(order * len(labels) + items, ends) for order, items, ends in judged]

    @cached_property
    def _base_on_gpu(self) -> Rows:
        """Base logits on the card, which all spaces share."""
        from marc.replay.on_gpu import Rows

        assert self.gpu is not None
        return Rows(self.gpu, self.stream.features.base.logits)

    def joined(self, pieces: Iterable[Piece]) -> Intervals:
        """All pieces of a space, in any order, as `space` gives it."""
        intervals = self.room()
        for piece in pieces:
            self.put(intervals, piece)
        return intervals

    def room(self) -> Intervals:
        """Room for the intervals of a space, to be filled by `put`."""
        shape = (len(self.seeds), len(self.capacities), len(self.stream.features.ids))
        return np.empty(shape), np.empty(shape)

    @staticmethod
    def put(intervals: Intervals, piece: Piece) -> None:
        """Fill in a piece."""
        for ends, name in zip(intervals, ("lower", "upper"), strict=True):
            order, item = np.divmod(piece["cells"], ends.shape[-1])
            ends[order, :, item] = piece[name].T

    def result(self, intervals: Mapping[str, Intervals]) -> Sweep:
        """The sweep over the spaces that are done."""
        features = self.stream.features
        return Sweep(
            capacities=self.capacities,
            weights=self.weights,
            seeds=self.seeds,
            intervals=dict(intervals),
            base_correct=features.base.label == self.stream.row_labels,
            stream=self.stream.name,
            images=features.images,
            settings=self.settings,
            ordering=self.stream.ordering.name,
            device=self.device,
        )


def sweep(
    stream: Stream,
    spaces: Sequence[str] | None = None,
    capacities: Sequence[int] = CAPACITIES,
    weights: Sequence[float] = WEIGHTS,
    seeds: Sequence[int | None] | None = (0, 1, 2),
    policy: str | Policy = "entropy",
    device: str = "cpu",
    **settings: Any,
) -> Sweep:
    """`marc.sweep` (`results/verb.py`, with all arguments) where no folder and no Ray is asked for.

    Scores MARC at every space x capacity x weight x order, as if each had been run online.
    """
    instance("stream", stream, Stream)
    spaces = [spaces] if isinstance(spaces, str) else spaces
    spaces = stream.spaces if spaces is None else tuple(spaces)
    if not spaces or len(set(spaces)) < len(spaces):
        raise MarcError("a sweep needs distinct spaces", got=spaces, allowed=stream.spaces)
    job = SweepJob.plan(stream, capacities, weights, seeds, policy, device, **settings)
    return job.result({space: job.space(space) for space in spaces})
