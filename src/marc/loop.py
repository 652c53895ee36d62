"""The only loop: one query at a time, in stream order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from marc.core import Method, Run, Step, Trajectory
from marc.stream import Stream


def iter_steps(method: Method, stream: Stream) -> Iterator[Step]:
    """Steps over the stream, going on from whatever the method remembers."""
    for query in stream:
        yield method.step(query)


def run(method: Method, stream: Stream, on_step: Callable[[Step], None] | None = None) -> Run:
    """Run a method over a stream from an empty memory and stack its steps.

    `on_step` is called after each step, for progress. The matched baseline is part of the result:
    the same images, views, prompts and order without memory.
    """
    method.reset()
    size = len(stream)
    predictions = np.empty(size, dtype=np.int64)
    base_predictions = np.empty(size, dtype=np.int64)
    label = np.empty(size, dtype=np.int64)
    priority, weights = np.empty(size), np.zeros(size)
    for position, step in enumerate(iter_steps(method, stream)):
        predictions[position] = step.prediction
        base_predictions[position] = step.base_prediction
        label[position], priority[position] = step.label, step.priority
        weights[position] = step.weights.get("retrieval", 0.0)
        if on_step is not None:
            on_step(step)
    return Run(
        method=method.config(),
        predictions=predictions,
        base_predictions=base_predictions,
        trajectory=Trajectory(stream.order, label, priority, method.varies_with),
        labels=stream.labels,
        weights=weights,
    )
