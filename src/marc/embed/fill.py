"""Fill a feature store: pictures in, features of every encoder out, chunk after chunk.

Workers read and crop ahead while the encoders compute, and what was computed is written meanwhile.
Batches are formed within a chunk and never
across chunks, so a chunk has the same bytes whoever computes it, in whatever order, after whatever
kill: last bits of an encoder's output depend on its batch.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from marc.embed.changes import prepare_store, writing
from marc.embed.plan import EmbeddingPlan, Job, Jobs
from marc.embed.store import FeatureStore
from marc.embed.workers import Prepared, Workers
from marc.errors import MarcError
from marc.files import csv_bytes, write_whole
from marc.pictures.decoding import Unreadable
from marc.pictures.image_set import ImageSet
from marc.types import OnProgress

_PIECE = 16  # pictures that a worker prepares at a time, or one if it has many views
_UNWRITTEN = 2  # chunks that were begun and are not on the disk when another is begun
_Vectors = Callable[[], NDArray[np.floating]]
"""What waits for features that were begun."""


@dataclass
class Timing:
    """Where the seconds went: encoders had something to do, or were waiting for it.

    What is written meanwhile takes `writing` seconds of another thread.
    """

    images: int = 0
    waiting: float = 0.0
    encoding: float = 0.0
    writing: float = 0.0

    @property
    def busy(self) -> float:
        """The fraction of time in which encoders had something to do."""
        return self.encoding / max(self.waiting + self.encoding, 1e-9)


@dataclass(frozen=True)
class Embedded:
    """What a call of `embed` did."""

    n_images: int
    quarantined: tuple[tuple[str, str], ...]
    """Pictures that could not be read, and why."""
    n_chunks: int
    """Chunks that this call computed, all arrays together."""
    n_classes: int
    """Classes whose prototypes it computed."""
    notes: tuple[str, ...]
    timing: Timing


def embed(
    plan: EmbeddingPlan,
    jobs: Jobs,
    workers: Workers | Callable[[FeatureStore, Mapping[int, Sequence[Job]]], Timing],
    *,
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> Embedded:
    """Do what a plan asks and has not been done yet; `workers` prepare pictures, or fill chunks."""
    report = on_progress or (lambda what, done, total: None)
    with writing(plan.store):
        store, changes = prepare_store(plan, jobs, force=force, on_progress=report)
        work = _pending(store, jobs)
        try:
            if isinstance(workers, Workers):
                timing = fill(store, plan.images, work, workers, report)
            else:
                timing = workers(store, work)
        except MarcError:
            for job in changes.new:  # nothing of it was written: leave no empty room behind
                if len(store.pending(job.array)) == store.n_chunks:
                    store.drop(job.array)
            raise
        quarantined = _finish(store, jobs)
    text = changes.prototypes
    notes = text.notes if text else ()
    if changes.lost:
        notes += (f"the store was replaced; no longer in it: {', '.join(changes.lost)}",)
    n_classes = len(text.prototypes) if text else 0
    n_chunks = sum(max(1, len(jobs_of)) for jobs_of in work.values())
    return Embedded(store.n_images, quarantined, n_chunks, n_classes, notes, timing)


def _pending(store: FeatureStore, jobs: Iterable[Job]) -> dict[int, list[Job]]:
    """The jobs of each chunk that some array does not have yet, or that was not seen yet."""
    seen = {*store.pending(store.STATUS), *store.pending(store.CONTENT)}
    work: dict[int, list[Job]] = {chunk: [] for chunk in seen}
    for job in jobs:
        for chunk in store.pending(job.array):
            work.setdefault(chunk, []).append(job)
    return dict(sorted(work.items()))


class _Progress:
    """How many pictures are done, told from the first one on.

    A picture takes a step for each encoder and part of one to be read, so that a chunk whose
    pictures are encoded when all of them were read moves too. Reading goes on in another thread.
    """

    READ = 0.1  # of a step; so the time that is left is about that of the encoders

    def __init__(
        self, store: FeatureStore, work: Mapping[int, Sequence[Job]], report: OnProgress
    ) -> None:
        self._steps = {chunk: self.READ + len(jobs) for chunk, jobs in work.items()}
        self._total = sum(len(store.rows(chunk)) for chunk in work)
        self._done, self._told = 0.0, -1
        self._report, self._lock = report, threading.Lock()

    def step(self, chunk: int, n_images: int, size: float = 1.0) -> None:
        """Pictures of a chunk that were encoded by one of its encoders, or read."""
        with self._lock:
            self._done += size * n_images / self._steps[chunk]
            told = min(self._total, int(self._done + 1e-6))
            if told > self._told:
                self._told = told
                self._report("embedding", told, self._total)


def fill(
    store: FeatureStore,
    images: ImageSet,
    work: Mapping[int, Sequence[Job]],
    workers: Workers,
    report: OnProgress,
) -> Timing:
    """Compute and write chunks. Views are encoded as they come, squares when a chunk is whole.

    So the batches of an array depend on its own encoder and chunk alone, not on what else there is
    to do.
    """
    timing, progress = Timing(), _Progress(store, work, report)
    groups = _groups(store, images, work, workers, progress)
    views: list[_Vectors] = []
    seen: list[Prepared] = []
    # gathers the next group while this one is encoded
    with ThreadPoolExecutor(1) as reader, _Writer(store) as writer:
        if work and workers.count:
            report("starting to read", 0, workers.count)
        begin = start = time.perf_counter()
        upcoming = reader.submit(next, groups, None)
        while (group := upcoming.result()) is not None:
            chunk, prepared, is_last = group
            upcoming = reader.submit(next, groups, None)
            step = partial(progress.step, chunk)
            timing.waiting += writer.idle_since(start)
            views += [job.begin(prepared, step) for job in work[chunk] if job.has_views]
            seen.append(replace(prepared, views=None))
            if is_last:
                whole = Prepared.joined(seen)
                begun = {
                    job.array: views if job.has_views else [job.begin(whole, step)]
                    for job in work[chunk]
                }
                writer.add(chunk, whole, begun)
                views, seen = [], []
            timing.images += len(prepared.status)
            start = time.perf_counter()
    timing.encoding = max(start, writer.encoded) - begin - timing.waiting
    timing.writing = writer.seconds
    return timing


class _Writer:
    """Waits for the vectors of chunks and writes them, in order and in a thread of its own."""

    def __init__(self, store: FeatureStore) -> None:
        self.encoded, self.seconds = 0.0, 0.0
        """When the last vectors came, and how long writing took."""
        self._store, self._pool = store, ThreadPoolExecutor(1)
        self._chunks: deque[Future[None]] = deque()
        self._n_begun, self._n_encoded, self._failed = 0, 0, False

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *problem: object) -> None:
        self._pool.shutdown()
        while self._chunks and problem[0] is None:
            self._chunks.popleft().result()

    def idle_since(self, start: float) -> float:
        """Seconds from `start` until now in which no vectors of a whole chunk were waited for."""
        idle = self._n_encoded == self._n_begun
        return time.perf_counter() - max(start, self.encoded) if idle else 0.0

    def add(self, chunk: int, seen: Prepared, begun: Mapping[str, Sequence[_Vectors]]) -> None:
        """Have a chunk written; a failure is raised here, or at the end."""
        self._n_begun += 1
        self._chunks.append(self._pool.submit(self._write, chunk, seen, begun))
        while len(self._chunks) > _UNWRITTEN:
            self._chunks.popleft().result()

    def _write(self, chunk: int, seen: Prepared, begun: Mapping[str, Sequence[_Vectors]]) -> None:
        if self._failed:  # nothing is written behind a chunk that could not be
            return
        try:
            vectors = {
                name: np.concatenate([each() for each in parts]) for name, parts in begun.items()
            }
            self.encoded = start = time.perf_counter()
            self._n_encoded += 1
            _write_chunk(self._store, chunk, seen, vectors)
            self.seconds += time.perf_counter() - start
        except BaseException:
            self._failed = True
            raise


def _groups(
    store: FeatureStore,
    images: ImageSet,
    work: Mapping[int, Sequence[Job]],
    workers: Workers,
    progress: _Progress,
) -> Iterator[tuple[int, Prepared, bool]]:
    """Pictures as they are encoded, all of a group from one chunk, and whether it is the last."""
    cut = [
        (chunk, group) for chunk, jobs in work.items() for group in _cut_chunk(store, chunk, jobs)
    ]
    specs = {chunk: Job.pixels(jobs, images.upright) for chunk, jobs in work.items()}
    ids, locations = images.ids, images.locations
    ready = workers.prepare(
        ((ids[rows.start : rows.stop], locations[rows.start : rows.stop]), specs[chunk])
        for chunk, group in cut
        for rows in group
    )
    for number, (chunk, group) in enumerate(cut):
        is_last = number + 1 == len(cut) or cut[number + 1][0] != chunk
        pieces = []
        for rows in group:
            pieces.append(next(ready))
            progress.step(chunk, len(rows), progress.READ)
        yield chunk, Prepared.joined(pieces), is_last


def _cut_chunk(store: FeatureStore, chunk: int, jobs: Sequence[Job]) -> list[list[range]]:
    """Groups of pieces of a chunk's rows: one group, or as many as make batches of views."""
    rows = store.rows(chunk)
    viewed = next((job for job in jobs if job.has_views), None)
    n_views = viewed.shape[0] if viewed else 1
    group = max(1, viewed.encoder.batch // n_views) if viewed else len(rows)
    piece = min(group, max(1, _PIECE // n_views))
    return [
        [rows[start : min(start + piece, end)] for start in range(begin, end, piece)]
        for begin in range(0, len(rows), group)
        for end in [min(begin + group, len(rows))]
    ]


def _write_chunk(
    store: FeatureStore, chunk: int, seen: Prepared, vectors: Mapping[str, NDArray[np.floating]]
) -> None:
    """What was seen first, then the features of it."""
    rows = store.rows(chunk)
    for name, values in ((store.STATUS, seen.status), (store.CONTENT, seen.content)):
        if not store.has(name, chunk):
            store.write(name, chunk, values)
            continue
        differ = store.read_chunk(name, chunk) != values
        changed = np.flatnonzero(differ.reshape(len(rows), -1).any(axis=1))
        if len(changed):
            raise store.other_picture(rows[changed[0]])
    for name, parts in vectors.items():
        store.write(name, chunk, parts)


def _finish(store: FeatureStore, jobs: Jobs) -> tuple[tuple[str, str], ...]:
    """Mark the arrays that are complete, and list the pictures that could not be read."""
    for name in (store.STATUS, store.CONTENT, *(job.array for job in jobs)):
        store.finish(name)
    status, ids = store.get(store.STATUS), store.get(store.IDS)
    reasons = Unreadable.REASONS
    rows = [
        (str(ids[row]), reasons.get(int(status[row]), f"code {status[row]}"))
        for row in np.flatnonzero(status)
    ]
    write_whole(store.path / store.QUARANTINE, csv_bytes([("id", "reason"), *rows]))
    return tuple(rows)
