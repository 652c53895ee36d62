"""Before a store is filled: refusals, room for every array, prototypes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from marc.embed.plan import EmbeddingPlan, Job, Jobs
from marc.embed.sealed import DOCUMENT
from marc.embed.store import FeatureStore
from marc.embed.workers import Prepared
from marc.encoders.prompts import Prototypes
from marc.errors import MarcError
from marc.files import LOCK, PARTIAL, differences, locked
from marc.pictures.image_set import ImageSet
from marc.types import OnProgress

_SAMPLE = 64  # pictures that are read again before a store is added to


@dataclass(frozen=True)
class _Changes:
    """What a call is going to do to a store, found out before anything is touched."""

    new: tuple[Job, ...]
    """Jobs whose arrays are made again from nothing."""
    prototypes: Prototypes | None
    """To be written, if the store has none of these prompts."""
    prompts: Mapping[str, Any]
    """All that the prototypes depend on."""
    replaces: bool
    """Whether the whole store is made again."""
    lost: tuple[str, ...] = ()
    """Arrays of the old store that nobody named."""


def prepare_store(
    plan: EmbeddingPlan, jobs: Jobs, *, force: bool, on_progress: OnProgress
) -> tuple[FeatureStore, _Changes]:
    """Make the store, room in it for every array, and write the prototypes; under the lock.

    All that is refused is refused before anything is written. With `force`, what was made
    differently is replaced; if nothing was, all is computed again.
    """
    changes = _find_changes(plan, jobs, force=force, on_progress=on_progress)
    if changes.replaces:
        _create_store(plan.store, plan.images, chunk=plan.chunk)
    store = FeatureStore(plan.store)
    for job in changes.new:  # views before prototypes: new prompts are never beside old views
        card = asdict(job.card)
        store.prepare(job.array, job.shape, job.dtype, made=job.made, card=card)
    if changes.prototypes is not None:
        text = changes.prototypes
        store.drop(store.PROTOTYPES)  # a kill leaves no old ones beside new prompts
        for name, values in (
            (store.PROMPTS, text.prompts),
            (store.PROMPT_CLASS, text.prompt_class),
            (store.TEXTS, np.array(text.texts, dtype=object)),
            (store.PROTOTYPES, text.prototypes),  # last: they mark the end
        ):
            store.put(name, values, changes.prompts)
    return store, changes


def _find_changes(
    plan: EmbeddingPlan, jobs: Jobs, *, force: bool, on_progress: OnProgress
) -> _Changes:
    every, prompts = tuple(jobs), _prompts_of(plan, jobs)
    named = {job.array for job in every}
    if not holds_list(plan, force=force):
        text = _embed_prompts(plan, jobs, on_progress)
        lost = tuple(sorted(FeatureStore.arrays_in(plan.store) - named))
        return _Changes(every, text, prompts, True, lost)
    store = FeatureStore(plan.store)
    there = [job for job in every if store.holds(job.array, job.made, force=force)]
    has_prompts = not prompts or (
        store.holds(store.PROTOTYPES, prompts, force=force) and _sound_words(store)
    )
    again = force and has_prompts and len(there) == len(every)
    if not again:
        _check_content(store, plan.images)
    new = every if again else tuple(job for job in every if job not in there)
    text = None if has_prompts and not again else _embed_prompts(plan, jobs, on_progress)
    return _Changes(new, text, prompts, again and named >= store.arrays_in(store.path))


def _sound_words(store: FeatureStore) -> bool:
    names = (store.PROMPTS, store.PROMPT_CLASS, store.TEXTS, store.PROTOTYPES)
    return all(map(store.is_sound, names))


def _prompts_of(plan: EmbeddingPlan, jobs: Jobs) -> dict[str, Any]:
    """All that the prototypes depend on; empty without a predictor."""
    if jobs.text is None or jobs.predictor is None:
        return {}
    return {
        "encoder": jobs.predictor.made["encoder"],
        "logit_scale": jobs.text.logit_scale,
        "prompts": [[one.name, one.version, one.digest] for one in plan.prompt_sets()],
        "class_names": list(plan.images.class_names),
    }


def _embed_prompts(plan: EmbeddingPlan, jobs: Jobs, on_progress: OnProgress) -> Prototypes | None:
    if jobs.text is None:
        return None
    return Prototypes.embed(
        jobs.text,
        plan.images.class_names,
        plan.prompt_sets(),
        on_progress=lambda done, total: on_progress("prompts", done, total),
    )


def _check_content(store: FeatureStore, images: ImageSet) -> None:
    """Refuse other pictures of the same names: all are read if from elsewhere, else some."""
    came_from = [store.about[name] for name in ("source", "root", "folder")]
    moved = came_from != [images.name, images.root, str(Path.cwd())]
    count = store.n_images if moved else min(store.n_images, _SAMPLE)
    rows = np.unique(np.linspace(0, store.n_images - 1, count).astype(int))
    for chunk in {*range(store.n_chunks)} - {*store.pending(store.CONTENT)}:
        of_chunk, stored = store.rows(chunk), store.read_chunk(store.CONTENT, chunk)
        for row in rows[(rows >= of_chunk.start) & (rows < of_chunk.stop)]:
            found = Prepared.content_of(images.locations[row])
            if not np.array_equal(found, stored[row - of_chunk.start]):
                raise store.other_picture(int(row))


_NOT_IDENTITY = ("source:", "root:", "folder:")  # pictures may be moved


def holds_list(plan: EmbeddingPlan, *, force: bool) -> bool:
    """Whether a store is there for these pictures; of others, it is an error or replaced."""
    path = plan.store
    _refuse_foreign(path)
    if not FeatureStore.exists(path):
        return False
    try:
        stored = _sound_list(FeatureStore(path), force=force)
    except MarcError:
        if not force:
            raise
        return False
    every = differences(stored, _about(plan.images, plan.chunk))
    differing = [each for each in every if not each.startswith(_NOT_IDENTITY)]
    if differing and not force:
        other = any(not each.startswith("chunk:") for each in differing)
        raise MarcError(
            "this store is of other pictures" if other else "this store has other chunks",
            got=f"{path}: {'; '.join(differing)}",
            hint="another -o STORE, or --force to replace all of it",
        )
    return not differing


def _sound_list(store: FeatureStore, *, force: bool) -> dict[str, Any]:
    """What is known of a store whose list of pictures is as it was written.

    Lost chunks of what was seen of the pictures are made again, unless all is.
    """
    for name in (store.IDS, *([store.LABELS] if store.about["labelled"] else [])):
        store.get(name)
    for name in (store.STATUS, store.CONTENT):
        if store.is_complete(name) and force:
            store.get(name)
    return store.about


def _create_store(path: Path, images: ImageSet, *, chunk: int) -> FeatureStore:
    """An empty store in place of what is there, under the lock of `writing`.

    The mark goes first and comes last: killed in between, there is no store but a folder of ours.
    """
    store = FeatureStore(path, begin=_about(images, chunk))
    for left in path.iterdir():
        if left.name in FeatureStore.PARTS - {LOCK, DOCUMENT}:
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    store.put(store.IDS, np.array(images.ids, dtype=object), {})
    if images.labels is not None:
        store.put(store.LABELS, np.array(images.labels, dtype=np.int64), {})
    store.prepare(store.STATUS, (), "uint8", made={})
    store.prepare(store.CONTENT, (16,), "uint8", made={})
    store.mark()
    return store


def _about(images: ImageSet, chunk: int) -> dict[str, Any]:
    return {
        "format": FeatureStore.FORMAT,
        "source": images.name,
        "root": images.root,
        "folder": str(Path.cwd()),  # where a relative source starts
        "n_images": len(images),
        "list": images.digest,
        "labelled": images.labels is not None,
        "upright": images.upright,
        "chunk": chunk,
    }


def _refuse_foreign(path: Path) -> None:
    """Never touch what is not ours; an empty folder may be filled."""
    empty = not path.exists() or (path.is_dir() and not any(path.iterdir()))
    if not empty and not FeatureStore.exists(path) and not FeatureStore.is_ours(path):
        raise MarcError("this path is not a feature store, so it is left alone", got=path)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Be the only `marc embed` that fills a store, and clear away what a killed one left.

    The system gives the lock back when its holder dies, however it dies. Where no store came of it,
    no folder stays behind.
    """
    _refuse_foreign(path)
    path.mkdir(parents=True, exist_ok=True)
    with locked(path, "another marc embed is filling this store"):
        for left in path.rglob(f"*{PARTIAL}"):
            left.unlink()
        try:
            yield
        finally:
            if [left.name for left in path.iterdir()] == [LOCK]:
                (path / LOCK).unlink()
                path.rmdir()
