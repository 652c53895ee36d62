"""Orders of runs: which may be in one folder, and of which stream they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from marc.errors import MarcError, instance
from marc.stream import Stream, digest
from marc.types import Run, order_name


def of_one_method(runs: Run | Sequence[Run]) -> list[Run]:
    """Runs of one method over distinct orders of one kind; others are refused."""
    instance("runs", runs, Run, Sequence, hint="the folder of a run, a run, or a list of runs")
    runs = [runs] if isinstance(runs, Run) else list(runs)
    for run in runs:
        instance("a run", run, Run)
    alike = [({**run.method, "seed": None}, run.ordering) for run in runs]
    orders = {run.seed for run in runs}
    if not runs or len(orders) < len(runs) or alike.count(alike[0]) < len(runs):
        names = (f"{r.method.get('method')} ({order_name(r.seed, r.ordering)})" for r in runs)
        raise MarcError(
            "a run folder is one method over distinct orders",
            got=", ".join(names) or "none",
            hint="[marc.run(method, stream.in_order(seed)) for seed in (0, 1, 2)]",
        )
    return runs


def same_orders(runs: Run | Sequence[Run], stream: Stream) -> tuple[list[Run], Stream]:
    """Runs, and their stream with orders of their kind; runs of other orders are refused."""
    runs = of_one_method(runs)
    instance("stream", stream, Stream)
    if stream.ordering.name != runs[0].ordering:
        stream = stream.ordered(runs[0].ordering)
    for run in runs:
        _check_order(run, stream)
    return runs, stream


def _check_order(run: Run, stream: Stream) -> None:
    if not np.array_equal(run.order, stream.in_order(run.seed).order):
        raise MarcError(
            "a folder records an order by its seed, or the stored one",
            got=f"{len(run.order)} images in an order that is not: "
            + order_name(run.seed, run.ordering),
            hint="marc.run(method, stream.in_order(0))",
        )
    labels = None if stream.row_labels is None else digest(stream.row_labels)
    answers = run.by_image()
    if labels != (None if answers.labels is None else digest(answers.labels)):
        raise MarcError("this run is of another stream: its labels differ", got=stream.name)
