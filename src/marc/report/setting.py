"""What a page is about: one memory at one setting, read in its space and in another beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.loop import iter_steps
from marc.method import MARC
from marc.replay.evidence import KernelValues, read_all
from marc.replay.lifetimes import History
from marc.replay.replay import admit
from marc.replay.sweep import Score, Sweep
from marc.replay.sweep_job import SweepJob
from marc.report.answered import Answered
from marc.report.inputs import Inputs
from marc.results.sweep import load_sweep
from marc.scores import Int, fuse
from marc.stream import Stream
from marc.types import CAPACITIES, WEIGHTS, Trajectory

_Progress = Callable[[str], None]
_FIXED_CAPACITY, _FIXED_WEIGHT = 16, 10.0
"""The paper's setting, which a sweep is shown at."""


@dataclass(frozen=True)
class _Neighborhoods:
    """How a space groups the images: fractions of the nearest neighbours with the same label."""

    pseudo_purity: float
    """By the predictor's own answers: no labels needed."""
    purity: float | None
    """By the true labels, where they are known."""


@dataclass(frozen=True)
class Subject(Answered):
    """A memory at one setting along the orders of a stream, with every space that is compared."""

    neighbors: ClassVar[int] = 10
    """Neighbours by which purity is measured."""
    method: MARC
    """The setting; its seed is that of the first order."""
    sweep: Sweep | None
    """Every space; None if this policy cannot be swept. Of agreement with the predictor's own
    answers where labels are not known."""
    geometry: dict[str, _Neighborhoods]
    against: str | None
    """The space shown beside the method's; None if the stream has no other."""
    trajectory: Trajectory
    """What the memory was offered in the first order."""

    @classmethod
    def of(cls, inputs: Inputs, against: str | None, progress: _Progress) -> Subject:
        """Decide the setting and the two spaces, and compute what the folders do not hold."""
        if against is not None:
            inputs.stream.features.dim(
                against
            )  # refuse an unknown name before anything is computed
        sweep = _sweep_around(inputs, progress)
        geometry = {}
        for space in _compared_spaces(inputs, sweep, against):
            progress(f"neighbours in {space}")
            geometry[space] = _neighborhoods(inputs.stream, space)
        method = _method_of(inputs, sweep, geometry)
        seeds = tuple(inputs.folders[0].config["seeds"])
        trajectory = inputs.run_trajectory()
        if trajectory is None:  # a sweep stores none
            first = inputs.stream.in_order(seeds[0])
            trajectory = admit(method, [first], [seeds[0] or 0])[0].trajectory
        return cls(
            inputs=inputs,
            method=method,
            seeds=seeds,
            selection=inputs.folders[0].metrics["selection"],
            sweep=sweep,
            geometry=geometry,
            against=_space_beside(method.space, against, geometry),
            trajectory=trajectory,
        )

    @property
    def weight(self) -> float:
        """W of the setting."""
        assert self.method.weight != "auto"  # such a run is refused as input
        return self.method.weight

    @property
    def name(self) -> str:
        """The space."""
        return self.method.space

    @property
    def plain(self) -> bool:
        """Whether scores are b + w L, so that a sweep's numbers are this method's too."""
        method = self.method
        extra = method.gamma, method.clip_weight, method.negative_weight
        return method.use_base and not any(extra)

    @property
    def shown_spaces(self) -> tuple[str, ...]:
        """The method's space and the one beside it."""
        return (self.method.space,) if self.against is None else (self.method.space, self.against)

    @cached_property
    def history(self) -> History:
        """When each entry of the first order could be read."""
        return History.trace(self.trajectory, (self.method.capacity,), self.stream.n_classes)

    @cached_property
    def fusion(self) -> _Fusion:
        """The scores of the first order as lines in w."""
        method, stream = self.method, self.stream
        base = stream.features.base
        scale = np.ones(len(base.label))
        if method.gamma:
            weights = method.fusion_weights(base, stream.n_classes, 1.0)
            scale = np.asarray(weights["retrieval"], dtype=np.float64)
        if not (method.clip_weight or method.negative_weight):
            return _Fusion(base.logits * np.float32(method.use_base), scale)
        # rare, and only the loop has the evidence of every memory in its public results
        constant = np.empty(base.logits.shape)
        for step in iter_steps(replace(method), stream):
            total = step.base_weight * step.base.astype(np.float64)
            for name in step.evidence.keys() - {"retrieval"}:
                total += step.weights[name] * step.evidence[name]
            constant[step.item] = total
        return _Fusion(constant, scale)

    @cached_property
    def answers(self) -> dict[str, _Answers]:
        """Answers of the first order at the setting's weight, in both shown spaces."""
        return {space: self._answer_all(space) for space in self.shown_spaces}

    def _answer_all(self, space: str) -> _Answers:
        """Answers at the setting's weight when the memory is read in `space`."""
        keys = self.stream.features.keys(space)
        prediction = np.empty(len(keys), dtype=np.int64)
        margin = np.empty(len(keys))
        lines = self.fusion

        def answer(order: int, items: Int, sums: NDArray[np.float32]) -> None:
            del order
            factor = (self.weight * lines.scale[items])[:, np.newaxis]
            logits = fuse(lines.constant[items], sums[0].T, factor)
            prediction[items] = logits.argmax(axis=-1)
            best = np.partition(logits, -2, axis=-1)
            margin[items] = best[:, -1] - best[:, -2]

        values = KernelValues(keys, self.method.alpha, self.method.beta)
        read_all(values, [self.history], answer)
        return _Answers(prediction, margin)

    @property
    def prediction(self) -> Int:
        """Answers of the first order with the memory, by stored row."""
        stored = self.inputs.run is not None
        return super().prediction if stored else self.answers[self.method.space].prediction

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """Right answers with the memory, (orders, N) by stored row; needs labels."""
        return super().right if self.inputs.run is not None else self.right_in(self.method.space)

    @cached_property
    def right_beside(self) -> NDArray[np.bool_]:
        """Right answers in the other space: all orders where a sweep has them, else the first."""
        assert self.against is not None
        assert self.labels is not None
        sweep = self.sweep
        if self.plain and sweep and self.against in sweep.spaces and sweep.seeds == self.seeds:
            return self.right_in(self.against)
        return (self.answers[self.against].prediction == self.labels)[np.newaxis]

    def right_in(self, space: str) -> NDArray[np.bool_]:
        """Right answers in any swept space at the setting, (orders of the sweep, N)."""
        assert self.sweep is not None
        setting = self.method.capacity, self.weight
        return np.stack([self.sweep.correct(space, *setting, seed) for seed in self.sweep.seeds])

    def selections(self, others: Sequence[Sweep]) -> dict[str, dict[str, Score]]:
        """Scores by how the weight was chosen: an oracle needs labels, held-out other streams."""
        sweep, capacity = self.sweep, self.method.capacity
        assert sweep is not None
        spaces = sweep.spaces
        scores = {"fixed": {each: sweep.fixed(each, capacity, self.weight) for each in spaces}}
        if self.labels is None:
            return scores
        scores["oracle"] = {each: sweep.oracle(each, capacity, over="all") for each in spaces}
        if others:
            # a choice can be made only in spaces that the other streams were swept in, too
            common = [each for each in spaces if all(each in other.spaces for other in others)]
            scores["held-out"] = {each: sweep.held_out(each, others, capacity) for each in common}
        return scores


@dataclass(frozen=True)
class _Fusion:
    """Scores as lines in w: score(w) = constant + w x scale x evidence, by stored row."""

    constant: NDArray[np.floating]
    """What does not depend on w, (N, C): base logits, and other evidence where a method has it."""
    scale: NDArray[np.float64]
    """1, or the image's own factor in adaptive fusion, (N,)."""


@dataclass(frozen=True)
class _Answers:
    """Fused answers of all images in one space, by stored row (N,)."""

    prediction: Int
    margin: NDArray[np.float64]
    """Best fused score minus the second best."""


def _sweep_around(inputs: Inputs, progress: _Progress) -> Sweep | None:
    """The sweep that was given, or one of the run's own stream around the run's setting.

    Without labels the sweep is of agreement with the predictor's own answers: how many answers a
    weight changes needs no labels.
    """
    if inputs.sweep_folder is not None:
        # a page tells one story: the orders of the run, where there is a run
        return load_sweep(inputs.sweep_folder).of_orders(inputs.folders[0].config["seeds"])
    method, stream = inputs.run_method(), inputs.stream
    assert inputs.run is not None
    assert method is not None
    if method.varies_with:
        return None
    if stream.row_labels is None:
        stream = replace(stream, row_labels=stream.features.base.label)
    job = SweepJob.plan(
        stream,
        capacities=sorted({*CAPACITIES, method.capacity}),
        weights=WEIGHTS,
        seeds=inputs.run.config["seeds"],
        policy=method.policy,
        **{name: getattr(method, name) for name in SweepJob.SETTINGS},
    )
    intervals = {}
    for space in dict.fromkeys([*stream.spaces, method.space, "predictor"]):
        progress(f"every weight and capacity in {space}")
        intervals[space] = job.space(space)
    return job.result(intervals)


def _compared_spaces(inputs: Inputs, sweep: Sweep | None, against: str | None) -> list[str]:
    """Every space whose neighbours are measured: at least two, where the stream has two."""
    run = [] if inputs.run is None else [inputs.run.config["method"]["space"]]
    names = dict.fromkeys([*run, *(sweep.spaces if sweep else inputs.stream.spaces)])
    names |= {} if against is None else {against: None}
    if len(names) < 2:
        names |= dict.fromkeys([*inputs.stream.spaces, "predictor"])
    return list(names)


def _neighborhoods(stream: Stream, space: str) -> _Neighborhoods:
    """Purity of a space's neighbourhoods, by the predictor's answers and by the labels."""
    from marc.spaces.geometry import neighbors, pseudo_labels, pseudo_purity, purity

    count = min(Subject.neighbors, len(stream) - 1)
    table = neighbors(stream.features.keys(space), count)
    labels = stream.row_labels
    return _Neighborhoods(
        pseudo_purity(None, pseudo_labels(stream), count, table=table),
        None if labels is None else purity(None, labels, count, table=table),
    )


def _method_of(inputs: Inputs, sweep: Sweep | None, geometry: dict[str, _Neighborhoods]) -> MARC:
    """The run's method, or the fixed setting of a sweep in the space of highest pseudo-purity."""
    if method := inputs.run_method():
        return method
    assert sweep is not None
    return MARC(
        max(sweep.spaces, key=lambda space: geometry[space].pseudo_purity),
        capacity=min(sweep.capacities, key=lambda k: (abs(k - _FIXED_CAPACITY), k)),
        weight=_FIXED_WEIGHT,
        seed=sweep.seeds[0] or 0,
        **sweep.settings,
    )


def _space_beside(
    space: str, against: str | None, geometry: dict[str, _Neighborhoods]
) -> str | None:
    """The space that was asked for, or the one of lowest pseudo-purity."""
    if against == space:
        raise MarcError(
            "the space to compare with is the method's own",
            got=against,
            allowed=", ".join(name for name in geometry if name != space),
            hint="--against ANOTHER",
        )
    others = [name for name in geometry if name != space]
    if against is not None or not others:
        return against
    return min(others, key=lambda name: geometry[name].pseudo_purity)
