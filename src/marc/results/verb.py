"""The verb `marc.sweep`: what the command does, in one call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from marc.admission import Policy
from marc.errors import instance
from marc.replay.sweep import Sweep
from marc.replay.sweep_job import SweepJob
from marc.replay.sweep_job import sweep as sweep_here
from marc.stream import Stream
from marc.types import CAPACITIES, WEIGHTS, OnProgress


def sweep(
    stream: Stream,
    spaces: Sequence[str] | None = None,
    capacities: Sequence[int] = CAPACITIES,
    weights: Sequence[float] = WEIGHTS,
    seeds: Sequence[int | None] | None = (0, 1, 2),
    policy: str | Policy = "entropy",
    device: str = "cpu",
    *,
    output: str | os.PathLike[str] = "",
    ray: int | None = None,
    force: bool = False,
    on_progress: OnProgress | None = None,
    **settings: Any,
) -> Sweep:
    """Score MARC at every space x capacity x weight x order, as if each had been run online.

    Args:
        stream: a labelled stream.
        spaces: names, all stored ones by default; see `Features.keys` for transforms.
        capacities: ascending; all come from one pass.
        weights: the grid for tables; the intervals hold every w >= 0.
        seeds: one order of the stream's kind each, and of a reservoir; None keeps the order it has.
        policy: an admission policy that can be replayed.
        device: `cpu`, `cuda`, `cuda:N`, or `auto`, a GPU where there is one.
        output: the folder that `marc sweep` writes, which a killed call takes up again; without
            one nothing is written.
        ray: spread the work over so many Ray workers; 0: one a machine of the cluster, or two.
        force: sweep again and replace the folder.
        on_progress: called with how far the work has come.
        settings: further settings of `MARC` that decide what is stored or how it is read:
            those named in `SweepJob.SETTINGS`.
    """
    grid = (capacities, weights, seeds, policy, device)
    if ray is None and on_progress is None and not output:
        return sweep_here(stream, spaces, *grid, **settings)
    # all that results know of methods and sources is loaded when it is needed
    from marc.embed.cluster import check_workers
    from marc.results.sweep import SweepPlan

    instance("stream", stream, Stream)
    n_workers = check_workers(ray)
    spaces = [spaces] if isinstance(spaces, str) else spaces
    spaces = stream.spaces if spaces is None else tuple(spaces)
    plan = SweepPlan(SweepJob.plan(stream, *grid, **settings), spaces, n_workers)
    return plan.made(output, on_progress or (lambda *_: None), force=force)
