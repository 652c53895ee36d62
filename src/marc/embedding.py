"""Fill a feature store: pictures in, features of every encoder out, chunk after chunk.

Workers read and crop ahead while the encoders compute. Batches are formed within a chunk and never
across chunks, so a chunk has the same bytes whoever computes it, in whatever order, after whatever
kill: last bits of an encoder's output depend on its batch.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marc.embedding_plan import EmbeddingPlan, Job, Jobs, wanted_by
from marc.errors import MarcError
from marc.images.decoding import REASONS
from marc.images.image_set import ImageSet
from marc.preparing import Piece, Pixels, Prepared, Workers, join
from marc.prompts import embed_prompts, read_prompt_set
from marc.scores import unit
from marc.store import CONTENT, IDS, STATUS, FeatureStore, create_store, writing
from marc.stored_stream import PROTOTYPES

OnProgress = Callable[[str, int, int], None]
_PIECE = 16  # pictures that a worker prepares at a time, or one if it has many views
QUARANTINE = "quarantine.csv"


@dataclass
class Timing:
    """Where the seconds went; `waiting` is the time in which the encoders had nothing to do."""

    images: int = 0
    waiting: float = 0.0
    encoding: float = 0.0
    writing: float = 0.0

    @property
    def busy(self) -> float:
        """The share of time in which encoders computed."""
        return self.encoding / max(self.waiting + self.encoding + self.writing, 1e-9)


@dataclass(frozen=True)
class Embedded:
    """What a call of `embed` did."""

    n_images: int
    quarantined: tuple[tuple[str, str], ...]
    """Pictures that could not be read, and why."""
    n_chunks: int
    """Chunks that this call computed, all arrays together."""
    notes: tuple[str, ...]
    timing: Timing


def embed(
    plan: EmbeddingPlan,
    jobs: Jobs,
    workers: Workers,
    *,
    force: bool = False,
    on_progress: OnProgress | None = None,
) -> Embedded:
    """Do what a plan asks and has not been done yet."""
    report = on_progress or (lambda what, done, total: None)
    notes = set_up(plan, jobs, force=force, on_progress=report)
    with writing(plan.store):
        store = FeatureStore(plan.store, write=True)
        work = to_do(store, jobs)
        timing = fill(store, plan.images, work, workers, report)
        quarantined = finish(store, jobs)
    n_chunks = sum(map(len, work.values()))
    return Embedded(store.n_images, quarantined, n_chunks, notes, timing)


def set_up(
    plan: EmbeddingPlan, jobs: Jobs, *, force: bool, on_progress: OnProgress
) -> tuple[str, ...]:
    """Make the store, room in it for every array, and the text prototypes."""
    check_words(plan, jobs)
    create_store(plan.store, plan.images, chunk=plan.chunk, force=force)
    with writing(plan.store):
        store = FeatureStore(plan.store, write=True)
        for job in jobs:  # refuse all that is refused before anything is replaced
            store.holds(job.array, job.made, force=force)
        notes = write_prototypes(store, plan, jobs, force=force, on_progress=on_progress)
        for job in jobs:
            store.prepare(job.array, job.shape, job.dtype, job.made, force=force)
    return notes


def check_words(plan: EmbeddingPlan, jobs: Jobs) -> None:
    """A predictor needs words for its classes."""
    if jobs.text and not plan.images.class_names:
        raise MarcError(
            "a predictor needs the names of the classes, and this source has none",
            got=plan.images.name,
            hint="--class-names FILE.txt (one a line), or --predictor none",
        )


def write_prototypes(
    store: FeatureStore, plan: EmbeddingPlan, jobs: Jobs, *, force: bool, on_progress: OnProgress
) -> tuple[str, ...]:
    """Text prototypes and the embedding of every prompt; prototypes last: they say it is whole."""
    if jobs.text is None or jobs.predictor is None:
        return ()
    names = plan.prompts or jobs.text.card.prompts or plan.images.prompts
    sets = [read_prompt_set(name) for name in names]
    made = {
        "card": jobs.predictor.made["card"],
        "logit_scale": jobs.text.logit_scale,
        "prompts": [[one.name, one.version, one.digest] for one in sets],
        "class_names": list(plan.images.class_names),
    }
    if store.holds(PROTOTYPES, made, force=force):
        return ()
    told = embed_prompts(
        jobs.text,
        plan.images.class_names,
        sets,
        on_progress=lambda done, total: on_progress("prompts", done, total),
    )
    texts = np.array(told.texts, dtype=object)
    for name, values in (
        ("prompts", told.prompts),
        ("prompt_class", told.prompt_class),
        ("texts", texts),
        ("prototypes", told.prototypes),
    ):
        store.put(f"predictor/{name}", values, made)
    return told.notes


def to_do(store: FeatureStore, jobs: Iterable[Job]) -> dict[int, list[Job]]:
    """The jobs of each chunk that is not whole."""
    work: dict[int, list[Job]] = {}
    for job in jobs:
        for chunk in [] if store.is_complete(job.array) else store.pending(job.array):
            work.setdefault(chunk, []).append(job)
    return dict(sorted(work.items()))


def fill(
    store: FeatureStore,
    images: ImageSet,
    work: Mapping[int, Sequence[Job]],
    workers: Workers,
    report: OnProgress,
) -> Timing:
    """Compute and write chunks, one group of pictures at a time."""
    timing, total = Timing(), sum(len(store.rows(chunk)) for chunk in work)
    groups = _groups(store, images, work, workers)
    vectors: dict[str, list[NDArray[np.floating]]] = {}
    seen: list[Prepared] = []
    with ThreadPoolExecutor(1) as reader:  # gathers the next group while this one is encoded
        report("embedding", 0, total)
        start = time.perf_counter()
        upcoming = reader.submit(next, groups, None)
        while (group := upcoming.result()) is not None:
            chunk, prepared, is_last = group
            upcoming = reader.submit(next, groups, None)
            timing.waiting += (ready := time.perf_counter()) - start
            for job in work[chunk]:
                vectors.setdefault(job.array, []).append(encode(job, prepared))
            seen.append(Prepared(prepared.status, prepared.content, {}, None))
            timing.encoding += (start := time.perf_counter()) - ready
            if is_last:
                _write_chunk(store, chunk, join(seen), vectors)
                vectors, seen = {}, []
                timing.writing += time.perf_counter() - start
                start = time.perf_counter()
            timing.images += len(prepared.status)
            report("embedding", timing.images, total)
    return timing


def _groups(
    store: FeatureStore, images: ImageSet, work: Mapping[int, Sequence[Job]], workers: Workers
) -> Iterator[tuple[int, Prepared, bool]]:
    """Pictures as the encoders take them: many at a time, all of one chunk."""
    cut = [
        (chunk, group) for chunk, jobs in work.items() for group in cut_chunk(store, chunk, jobs)
    ]
    wanted = {chunk: wanted_by(list(jobs), images.upright) for chunk, jobs in work.items()}
    pieces = ((_piece(images, rows), wanted[chunk]) for chunk, group in cut for rows in group)
    ready = workers.prepare(pieces)
    for number, (chunk, group) in enumerate(cut):
        is_last = number + 1 == len(cut) or cut[number + 1][0] != chunk
        yield chunk, join([next(ready) for _ in group]), is_last


def cut_chunk(store: FeatureStore, chunk: int, jobs: Sequence[Job]) -> list[list[range]]:
    """Groups of pieces of a chunk's rows: a group fills a batch of the hungriest encoder."""
    rows = store.rows(chunk)
    n_views = max(job.views.n_views if job.views else 1 for job in jobs)
    group = max(1, max(job.encoder.batch for job in jobs) // n_views)
    piece = min(group, max(1, _PIECE // n_views))
    return [
        [rows[start : min(start + piece, end)] for start in range(begin, end, piece)]
        for begin in range(0, len(rows), group)
        for end in [min(begin + group, len(rows))]
    ]


def _piece(images: ImageSet, rows: range) -> Piece:
    return images.ids[rows.start : rows.stop], images.locations[rows.start : rows.stop]


def encode(job: Job, prepared: Prepared) -> NDArray[np.floating]:
    """Unit features of a group; zeros where a picture could not be read."""
    card = job.encoder.card
    if job.views is None or job.views.n_views == 1:
        pixels: Pixels = prepared.squares[card.crop]
    else:
        assert prepared.views is not None
        pixels = prepared.views.reshape(-1, *prepared.views.shape[2:])
    vectors = unit(job.encoder.encode(pixels)).reshape(len(prepared.status), *job.shape)
    if not np.isfinite(vectors).all():
        raise MarcError(
            f"{card.name} gave numbers that are not finite",
            got=f"in {job.encoder.precision}",
            hint="--precision float32",
        )
    vectors[prepared.status != 0] = 0
    return vectors.astype(job.dtype)


def _write_chunk(
    store: FeatureStore,
    chunk: int,
    seen: Prepared,
    vectors: Mapping[str, list[NDArray[np.floating]]],
) -> None:
    """What was seen first, then the features of it."""
    rows = store.rows(chunk)
    for name, values in ((STATUS, seen.status), (CONTENT, seen.content)):
        if not store.has(name, chunk):
            store.write(name, chunk, values)
            continue
        differ = store.read_chunk(name, chunk) != values
        changed = np.flatnonzero(differ.reshape(len(rows), -1).any(axis=1))
        if len(changed):
            raise MarcError(
                "pictures have changed since the store was begun",
                got=f"{store.get(IDS)[rows[changed[0]]]} and {len(changed) - 1} more in this chunk",
                hint="bring them back, or start again in another -o STORE",
            )
    for name, parts in vectors.items():
        store.write(name, chunk, np.concatenate(parts))


def finish(store: FeatureStore, jobs: Jobs) -> tuple[tuple[str, str], ...]:
    """Say which arrays are whole, and write the list of pictures that could not be read."""
    for job in jobs:
        store.finish(job.array)
    status, ids = store.get(STATUS), store.get(IDS)
    rows = [(str(ids[row]), REASONS[int(status[row])]) for row in np.flatnonzero(status)]
    text = io.StringIO()
    csv.writer(text).writerows([("id", "reason"), *rows])
    partial = store.path / f"{QUARANTINE}.partial"
    partial.write_text(text.getvalue())
    partial.replace(store.path / QUARANTINE)
    return tuple(rows)
