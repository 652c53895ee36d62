"""What an embedding will cost, before it is begun: chunks, bytes, and seconds after a probe."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from marc.embed.changes import holds_list
from marc.embed.plan import EmbeddingPlan, Job, Jobs, pixels_for
from marc.embed.store import FeatureStore
from marc.embed.workers import prepare

_PROBE = 16  # pictures


@dataclass(frozen=True)
class Estimate:
    """What there is to do, and how long it will take."""

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


def estimate(plan: EmbeddingPlan, jobs: Jobs, n_workers: int, *, force: bool = False) -> Estimate:
    """Count the work of a plan, and time a few pictures of it. Nothing is written."""
    pending = _pending(plan, jobs, force=force)
    n_chunks = math.ceil(len(plan.images) / plan.chunk)
    rows = {name: _n_rows(plan, chunks) for name, chunks in pending.items()}
    sizes = {job.array: np.dtype(job.dtype).itemsize * math.prod(job.shape) for job in jobs}
    work = [job for job in jobs if pending[job.array]]
    reading, encoding = _probe(plan, work) if work else (0.0, {})
    return Estimate(
        n_images=len(plan.images),
        chunks={name: (n_chunks - len(c), len(c)) for name, c in pending.items()},
        n_bytes=sum(rows[name] * size for name, size in sizes.items()),
        prepare_seconds=reading * max(rows.values()) / max(1, n_workers),
        encode_seconds={name: each * rows[name] for name, each in encoding.items()},
    )


def _pending(plan: EmbeddingPlan, jobs: Jobs, *, force: bool) -> dict[str, list[int]]:
    """Chunks to do by array; an array that is not there, or is replaced, has all to do."""
    all_chunks = list(range(math.ceil(len(plan.images) / plan.chunk)))
    if not holds_list(plan.store, plan.images, chunk=plan.chunk, force=force):
        return {job.array: all_chunks for job in jobs}
    store = FeatureStore(plan.store)
    there = {job.array for job in jobs if store.holds(job.array, job.made, force=force)}
    return {j.array: store.pending(j.array) if j.array in there else all_chunks for j in jobs}


def _n_rows(plan: EmbeddingPlan, chunks: list[int]) -> int:
    return sum(min(plan.chunk, len(plan.images) - chunk * plan.chunk) for chunk in chunks)


def _probe(plan: EmbeddingPlan, jobs: list[Job]) -> tuple[float, dict[str, float]]:
    """Seconds per picture: to prepare it in one process, and of each encoder, warmed up."""
    n_views = max(job.views.n_views if job.views else 1 for job in jobs)
    count = min(len(plan.images), max(1, _PROBE // n_views))
    piece = plan.images.ids[:count], plan.images.locations[:count]
    spec = pixels_for(jobs, plan.images.upright)
    start = time.perf_counter()
    prepared = prepare(piece, spec)
    reading = (time.perf_counter() - start) / count
    encoding = {}
    for job in jobs:
        job.encode(prepared)
        start = time.perf_counter()
        job.encode(prepared)
        encoding[job.array] = (time.perf_counter() - start) / count
    return reading, encoding
