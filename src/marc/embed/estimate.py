"""What an embedding will cost, before it is begun: chunks, bytes, and seconds after a probe."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from marc.embed.changes import holds_list
from marc.embed.fill import encode, to_do
from marc.embed.plan import EmbeddingPlan, Job, Jobs, wanted_by
from marc.embed.store import FeatureStore
from marc.embed.workers import prepare

_PROBE = 16  # pictures


@dataclass(frozen=True)
class Foreseen:
    """What there is to do."""

    n_images: int
    chunks: dict[str, tuple[int, int]]
    """Chunks done and to do, by array."""
    n_bytes: int
    """Of features still to be written."""
    prepare_seconds: float
    """Reading and cropping, all workers together."""
    encode_seconds: dict[str, float]
    """Of each encoder, by array."""

    @property
    def seconds(self) -> float:
        """Reading and encoding go on side by side; the slower one decides."""
        return max(self.prepare_seconds, sum(self.encode_seconds.values()))


def foresee(plan: EmbeddingPlan, jobs: Jobs, n_workers: int, *, force: bool = False) -> Foreseen:
    """Count the work of a plan, and time a few pictures of it. Nothing is written."""
    pending = _pending(plan, jobs, force=force)
    n_chunks = math.ceil(len(plan.images) / plan.chunk)
    rows = {name: _n_rows(plan, chunks) for name, chunks in pending.items()}
    sizes = {job.array: np.dtype(job.dtype).itemsize * math.prod(job.shape) for job in jobs}
    work = [job for job in jobs if pending[job.array]]
    reading, encoding = _probe(plan, work) if work else (0.0, {})
    return Foreseen(
        n_images=len(plan.images),
        chunks={name: (n_chunks - len(c), len(c)) for name, c in pending.items()},
        n_bytes=sum(rows[name] * size for name, size in sizes.items()),
        prepare_seconds=reading * max(rows.values()) / max(1, n_workers),
        encode_seconds={name: each * rows[name] for name, each in encoding.items()},
    )


def _pending(plan: EmbeddingPlan, jobs: Jobs, *, force: bool) -> dict[str, list[int]]:
    """Chunks to do by array; an array that is not there, or is replaced, has all to do."""
    everything = list(range(math.ceil(len(plan.images) / plan.chunk)))
    pending = {job.array: everything for job in jobs}
    if not holds_list(plan.store, plan.images, chunk=plan.chunk, force=force):
        return pending
    store = FeatureStore(plan.store)
    there = [job for job in jobs if store.holds(job.array, job.made, force=force)]
    work = to_do(store, there)
    for job in there:
        pending[job.array] = [chunk for chunk, left in work.items() if job in left]
    return pending


def _n_rows(plan: EmbeddingPlan, chunks: list[int]) -> int:
    return sum(min(plan.chunk, len(plan.images) - chunk * plan.chunk) for chunk in chunks)


def _probe(plan: EmbeddingPlan, jobs: list[Job]) -> tuple[float, dict[str, float]]:
    """Seconds a picture: preparing it in one process, and each encoder; the first call warms up."""
    n_views = max(job.views.n_views if job.views else 1 for job in jobs)
    count = min(len(plan.images), max(1, _PROBE // n_views))
    piece = plan.images.ids[:count], plan.images.locations[:count]
    wanted = wanted_by(jobs, plan.images.upright)
    start = time.perf_counter()
    prepared = prepare(piece, wanted)
    reading = (time.perf_counter() - start) / count
    encoding = {}
    for job in jobs:
        encode(job, prepared)
        start = time.perf_counter()
        encode(job, prepared)
        encoding[job.array] = (time.perf_counter() - start) / count
    return reading, encoding
