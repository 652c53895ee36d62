"""Replay: what `run` gives, for whole streams at once and without a loop over time.

The CLIP memory's inputs (label, -e_t) depend on no memory; the retrieval memory's inputs (label,
pi_t) depend only on what the CLIP memory gave. So two lifetime passes and two masked kernel
matrices are the whole online method: causal by the mask, and equal to the loop up to the rounding
of a sum. A policy that looks at fused answers has no such order and is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.admission import Arrivals
from marc.auto_weight import AutoWeight
from marc.errors import MarcError, instance
from marc.loop import AnyMethod, Replayable
from marc.memory import NegativeRule
from marc.method import MARC
from marc.replay.device import choose_gpu
from marc.replay.evidence import KernelValues, read_all
from marc.replay.lifetimes import History, lifetimes
from marc.scores import Certainty, Float, Int, fuse, kept_posterior, kernel, softmax, unit
from marc.stream import Stream
from marc.types import Run, Trajectory

_ROWS = 256  # images of a block of negative evidence


@dataclass(frozen=True)
class _Admitted:
    """What one stream order offers to the retrieval memory, and the CLIP evidence if asked for."""

    trajectory: Trajectory
    clip_evidence: NDArray[np.float32] | None
    """r^C of every stored row (N, C); kept only if the method gives it an output weight."""


def admit(
    method: MARC, streams: Sequence[Stream], seeds: Sequence[int], gpu: str | None = None
) -> list[_Admitted]:
    """Labels and priorities along several orders of the same features, from one pass.

    `seeds` are the reservoir's, one per stream; `gpu` as of `choose_gpu`.
    """
    method.check_replayable()
    offers = _Offers(method, streams, seeds)
    features = streams[0].features
    if method.reads_clip_memory:
        values = KernelValues(features.clip_keys, method.alpha, method.beta)
        histories = [_clip_history(method, stream) for stream in streams]
        read = _reader(gpu)
        read(values, histories, lambda order, items, sums: offers(order, items, sums[0].T))
    else:
        for order in range(len(streams)):
            offers(order, np.arange(len(features.ids)), None)
    return offers.admitted()


class _Offers:
    """Fills in what is offered to the retrieval memory, whatever the order of computation."""

    def __init__(self, method: MARC, streams: Sequence[Stream], seeds: Sequence[int]) -> None:
        self.method, self.streams, self.seeds = method, streams, seeds
        self.times = [np.argsort(stream.order) for stream in streams]
        shape = (len(streams), *streams[0].features.base.logits.shape)
        self.label = np.empty(shape[:2], dtype=np.int64)
        self.priority = np.empty(shape[:2])
        self.evidence = np.zeros(shape, dtype=np.float32) if method.clip_weight else None

    def __call__(self, order: int, items: Int, clip: Float | None) -> None:
        """Judge some items in one order by their base scores and CLIP evidence (n, C)."""
        base = self.streams[order].features.base.at(items)
        arrivals = Arrivals(
            base=base.logits,
            clip_evidence=clip,
            fused=None,
            position=self.times[order][items],
            item=items,
            seed=self.seeds[order],
        )
        self.priority[order, items] = self.method.admission.priority(arrivals)
        self.label[order, items] = base.label
        if clip is None:
            return
        if self.method.refine_labels:
            self.label[order, items] = fuse(base.logits, clip, 1.0).argmax(axis=-1)
        if self.evidence is not None:
            self.evidence[order, items] = clip

    def admitted(self) -> list[_Admitted]:
        """By position instead of by item."""
        return [
            _Admitted(
                Trajectory(
                    stream.order, self.label[o, stream.order], self.priority[o, stream.order]
                ),
                None if self.evidence is None else self.evidence[o],
            )
            for o, stream in enumerate(self.streams)
        ]


def _reader(gpu: str | None) -> Callable[..., None]:
    """What gives all queries their evidence: `read_all` of the CPU or of a GPU."""
    if gpu is None:
        return read_all
    from marc.replay import on_gpu

    return partial(on_gpu.read_all, gpu)


def _clip_history(method: MARC, stream: Stream) -> History:
    """What the CLIP memory holds: base labels, kept by -e_t."""
    base = stream.features.base
    rank = -base.entropy_as(method.view_entropy)
    trajectory = Trajectory(stream.order, base.label[stream.order], rank[stream.order])
    return History.trace(trajectory, (method.admission_capacity,), stream.n_classes)


def replay(method: AnyMethod, stream: Stream, device: str = "cpu") -> Run:
    """The same `Run` as `run(method, stream)`, much faster, where no answer shapes the memory.

    `weight="auto"` follows the stream, so the evidence of all images (T, C) is held for it.
    `device` is `cpu`, `cuda`, `cuda:N`, or `auto`, a GPU where there is one; MARC alone uses it.
    """
    instance("stream", stream, Stream)
    if isinstance(method, Replayable):
        return method.replay(stream)
    if not isinstance(method, MARC):
        raise MarcError(
            "this method cannot be replayed",
            got=type(method).__name__,
            allowed="MARC, and methods with replay(stream)",
            hint="marc.run(method, stream)",
        )
    gpu = choose_gpu(device)
    [admitted] = admit(method, [stream], [method.seed], gpu)
    features = stream.features
    shape = features.base.logits.shape
    predictions, weights = np.empty(len(features.ids), dtype=np.int64), np.empty(shape[0])
    against = _negative_evidence(stream) if method.negative_weight else None
    gathered = np.empty(shape, dtype=np.float32) if method.weight == "auto" else None
    labels = stream.row_labels
    certainty, base_certainty = (Certainty.room(shape[0], labels) for _ in range(2))

    def answer(items: Int, evidence: Float, weight: Any) -> None:
        base = features.base.at(items)
        named = method.fusion_weights(base, stream.n_classes, weight)
        weights[items] = named["retrieval"]
        logits = base.logits * np.float32(method.use_base)
        logits = fuse(logits, evidence, weights[items, np.newaxis])
        if admitted.clip_evidence is not None:
            logits = fuse(logits, admitted.clip_evidence[items], named["clip"])
        if against is not None:
            logits = fuse(logits, against[items], named["negative"])
        predictions[items] = logits.argmax(axis=-1)
        certainty.put(items, softmax(logits), labels)
        base_certainty.put(items, softmax(base.logits), labels)

    def take(order: int, items: Int, sums: NDArray[np.float32]) -> None:
        if gathered is None:
            answer(items, sums[0].T, method.weight)
        else:
            gathered[items] = sums[0].T

    values = KernelValues(features.keys(method.space), method.alpha, method.beta)
    history = History.trace(admitted.trajectory, (method.capacity,), stream.n_classes)
    _reader(gpu)(values, [history], take)
    if gathered is not None:
        weight, beyond = AutoWeight.replay(
            features.base.logits[stream.order], gathered[stream.order]
        )
        answer(stream.order, beyond, weight)
    return Run(
        method=method.config(),
        predictions=predictions[stream.order],
        base_predictions=features.base.label[stream.order],
        trajectory=admitted.trajectory,
        labels=stream.labels,
        weights=weights[stream.order],
        seed=stream.seed,
        ordering=stream.ordering.name,
        certainty=certainty.at(stream.order),
        base_certainty=base_certainty.at(stream.order),
    )


def _negative_evidence(stream: Stream) -> NDArray[np.float64]:
    """R_t of every stored row (N, C): lifetimes of the images inside the entropy band."""
    features, order, rule = stream.features, stream.order, NegativeRule()
    loss = features.base.entropy_as("tda")[order]
    inside = np.flatnonzero(rule.admits(loss, stream.n_classes))
    labels = features.base.label[order[inside]]
    last = lifetimes(labels, -loss[inside], (rule.capacity,), stream.n_classes)[0]
    ends = np.append(inside, len(order))[last]  # positions: of the band, then of the stream
    items = order[inside]
    masks = np.empty((len(items), stream.n_classes), dtype=bool)
    for start in range(0, len(items), _ROWS):
        views = unit(features.views[items[start : start + _ROWS]])
        posterior = kept_posterior(features.predictor.logits(views))
        masks[start : start + _ROWS] = rule.votes_against(posterior)
    total = np.empty((len(order), stream.n_classes))
    for start in range(0, len(order), _ROWS):
        times = np.arange(start, min(start + _ROWS, len(order)))[:, np.newaxis]
        rows = order[start : start + _ROWS]
        weights = kernel(features.clip_keys[rows] @ features.clip_keys[items].T, rule.beta)
        readable = (inside < times) & (times <= ends)
        total[rows] = (weights * readable) @ masks
    return total
