"""What a call of `marc embed` will take: counted, timed, and where neither can be done, guessed."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from marc.embed.changes import holds_list
from marc.embed.plan import EmbeddingPlan, Job, Jobs
from marc.embed.store import FeatureStore
from marc.encoders.published import COSTS
from marc.errors import MarcError

_PROBE = 16  # pictures that are timed
_SIDE = 1024  # of the matrices that are multiplied to see how fast the processor is
_SHARE = 0.8  # of that speed, which an encoder reaches


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
    """Of each encoder, by array; without those of which nothing is known."""
    guessed: tuple[str, ...] = ()
    """Arrays whose encoder is not on this machine: its time is no measurement."""
    unknown: tuple[str, ...] = ()
    """Arrays of whose time nothing is known."""
    download: dict[str, float | None] = field(default_factory=dict)
    """Bytes that must be fetched first, about, by encoder; None where that is not known."""

    @property
    def seconds(self) -> float:
        """Reading and encoding go on side by side; the slower one decides."""
        return max(self.prepare_seconds, sum(self.encode_seconds.values()))

    @property
    def notes(self) -> list[str]:
        """What these numbers are worth, and what has to be fetched."""
        notes = [
            f"{name} is not on this machine: "
            + (f"about {size / 1e6:,.0f} MB to download" if size else "what to download is unknown")
            + ", or --weights PATH"
            for name, size in self.download.items()
        ]
        if self.guessed:
            named = ", ".join(self.guessed)
            notes.append(f"not measured but guessed, from operations on a card: {named}")
        if self.unknown:
            notes.append(f"not in the time: {', '.join(self.unknown)}")
        return notes

    @classmethod
    def of(
        cls, plan: EmbeddingPlan, jobs: Jobs, n_workers: int, *, force: bool = False
    ) -> Estimate:
        """Count the work of a plan, and time a few pictures of it. Nothing is written."""
        pending = _pending(plan, jobs, force=force)
        n_chunks = math.ceil(len(plan.images) / plan.chunk)
        rows = {name: _n_rows(plan, chunks) for name, chunks in pending.items()}
        sizes = {job.array: np.dtype(job.dtype).itemsize * math.prod(job.shape) for job in jobs}
        work = [job for job in jobs if pending[job.array]]
        reading, encoding = _probe(plan, work) if work else (0.0, {})
        away = [job for job in jobs if not job.is_here]
        guesses = _guess([job for job in away if pending[job.array]])
        return cls(
            n_images=len(plan.images),
            chunks={name: (n_chunks - len(c), len(c)) for name, c in pending.items()},
            n_bytes=sum(rows[name] * size for name, size in sizes.items()),
            prepare_seconds=reading * max(rows.values()) / max(1, n_workers),
            encode_seconds={n: each * rows[n] for n, each in (encoding | guesses).items()},
            guessed=tuple(guesses),
            unknown=tuple(j.array for j in work if j.array not in encoding | guesses),
            download={job.encoder.card.name: _download(job) for job in away},
        )


def _pending(plan: EmbeddingPlan, jobs: Jobs, *, force: bool) -> dict[str, list[int]]:
    """Chunks to do by array; an array that is not there, or is replaced, has all to do.

    What an encoder made that is not on this machine is taken for what it would make.
    """
    all_chunks = list(range(math.ceil(len(plan.images) / plan.chunk)))
    if not holds_list(plan, force=force):
        return {job.array: all_chunks for job in jobs}
    store = FeatureStore(plan.store)
    there = {
        job.array
        for job in jobs
        if (
            store.holds(job.array, job.made, force=force)
            if job.is_here
            else store.attributes(job.array)
        )
    }
    return {j.array: store.pending(j.array) if j.array in there else all_chunks for j in jobs}


def _n_rows(plan: EmbeddingPlan, chunks: list[int]) -> int:
    return sum(min(plan.chunk, len(plan.images) - chunk * plan.chunk) for chunk in chunks)


def _probe(plan: EmbeddingPlan, jobs: list[Job]) -> tuple[float, dict[str, float]]:
    """Seconds per picture: to prepare it in one process, and of each encoder, warmed up."""
    n_views = max(job.views.n_views if job.views else 1 for job in jobs)
    count = min(len(plan.images), max(1, _PROBE // n_views))
    piece = plan.images.ids[:count], plan.images.locations[:count]
    spec = Job.pixels(jobs, plan.images.upright)
    start = time.perf_counter()
    prepared = spec.prepare(piece)
    reading = (time.perf_counter() - start) / count
    encoding = {}
    for job in (job for job in jobs if job.is_here):
        job.encode(prepared)
        start = time.perf_counter()
        job.encode(prepared)
        encoding[job.array] = (time.perf_counter() - start) / count
    return reading, encoding


def _guess(jobs: list[Job]) -> dict[str, float]:
    """Seconds per picture of encoders that are not here, on this processor; none for a GPU."""
    cards = {job.array: job.encoder.card for job in jobs}
    counted = {name for name, card in cards.items() if card.tag in COSTS and card.crop.size == 224}
    known = [job for job in jobs if job.array in counted]
    if not known or _has_gpu():
        return {}
    matrix = np.ones((_SIDE, _SIDE), dtype=np.float32)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        _ = matrix @ matrix
        times.append(time.perf_counter() - start)
    speed = _SHARE * _SIDE**3 / max(min(times), 1e-6)
    n_views = {job.array: job.views.n_views if job.views else 1 for job in known}
    return {
        job.array: n_views[job.array] * COSTS[job.encoder.card.tag].operations / speed
        for job in known
    }


def _has_gpu() -> bool:
    """Whether an encoder would run on one; without torch none would run at all."""
    from marc.encoders.torch_runtime import choose_device, import_libraries

    try:
        import_libraries("torch")
    except MarcError:
        return False
    return choose_device("auto") != "cpu"


def _download(job: Job) -> float | None:
    known = COSTS.get(job.encoder.card.tag)
    return known.n_bytes if known else None
