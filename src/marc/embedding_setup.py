"""Before a store is filled: the store itself, room for every array, prototypes, and refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from marc.embedding_plan import EmbeddingPlan, Job, Jobs
from marc.errors import MarcError
from marc.images.image_set import ImageSet
from marc.new_store import create_store, holds_list
from marc.preparing import content_of
from marc.progress import OnProgress
from marc.prompts import Prototypes, embed_prompts
from marc.store import CONTENT, FeatureStore, is_store
from marc.stored_stream import PROTOTYPES, SPACES, VIEWS

_SAMPLE = 64  # pictures that are read again before a store is added to


@dataclass(frozen=True)
class Changes:
    """What a call is going to do to a store, found out before anything is touched."""

    fresh: tuple[Job, ...]
    """Jobs whose arrays are made anew."""
    prototypes: Prototypes | None
    """To be written, if the store has none of these words."""
    words: Mapping[str, Any]
    replaces: bool
    """Whether the whole store is made anew."""
    lost: tuple[str, ...]
    """Arrays of the old store that nobody named."""


def find_changes(
    plan: EmbeddingPlan, jobs: Jobs, *, force: bool, on_progress: OnProgress
) -> Changes:
    """Refuse what is refused, and embed the prompts; nothing is written.

    With `force`, what was made otherwise is replaced; if nothing was, all is computed again.
    """
    every, words = tuple(jobs), words_of(plan, jobs)
    if not holds_list(plan.store, plan.images, chunk=plan.chunk, force=force):
        told = embed_words(plan, jobs, on_progress)
        gone = feature_arrays(FeatureStore(plan.store)) if is_store(plan.store) else set()
        lost = sorted(gone - {job.array for job in every})
        return Changes(every, told, words, True, tuple(lost))
    store = FeatureStore(plan.store)
    there = [job for job in every if store.holds(job.array, job.made, force=force)]
    said = not words or store.holds(PROTOTYPES, words, force=force)
    again = force and said and len(there) == len(every)
    if not again:
        check_content(store, plan.images)
    fresh = every if again else tuple(job for job in every if job not in there)
    told = None if said and not again else embed_words(plan, jobs, on_progress)
    all_named = {job.array for job in every} >= feature_arrays(store)
    return Changes(fresh, told, words, again and all_named, ())


def make_changes(plan: EmbeddingPlan, changes: Changes) -> FeatureStore:
    """Make the store, room in it for every array, and write the prototypes; under the lock."""
    if changes.replaces:
        create_store(plan.store, plan.images, chunk=plan.chunk)
    store = FeatureStore(plan.store, write=True)
    for job in changes.fresh:  # views before prototypes: new words never stand beside old views
        card = asdict(job.encoder.card)
        store.prepare(job.array, job.shape, job.dtype, made=job.made, card=card)
    if changes.prototypes is not None:
        write_prototypes(store, changes.prototypes, changes.words)
    return store


def feature_arrays(store: FeatureStore) -> set[str]:
    """Names of the arrays that encoders filled."""
    spaces = {f"{SPACES}/{name}" for name in store.names(SPACES)}
    return spaces | ({VIEWS} if store.attributes(VIEWS) else set())


def words_of(plan: EmbeddingPlan, jobs: Jobs) -> dict[str, Any]:
    """All that the prototypes depend on; empty without a predictor."""
    if jobs.text is None or jobs.predictor is None:
        return {}
    return {
        "encoder": jobs.predictor.made["encoder"],
        "logit_scale": jobs.text.logit_scale,
        "prompts": [[one.name, one.version, one.digest] for one in plan.prompt_sets()],
        "class_names": list(plan.images.class_names),
    }


def embed_words(plan: EmbeddingPlan, jobs: Jobs, on_progress: OnProgress) -> Prototypes | None:
    """The prototypes of a plan, if it has a predictor."""
    if jobs.text is None:
        return None
    return embed_prompts(
        jobs.text,
        plan.images.class_names,
        plan.prompt_sets(),
        on_progress=lambda done, total: on_progress("prompts", done, total),
    )


def write_prototypes(store: FeatureStore, told: Prototypes, words: Mapping[str, Any]) -> None:
    """Text prototypes and the embedding of every prompt; prototypes last: they say it is whole."""
    for name, values in (
        ("prompts", told.prompts),
        ("prompt_class", told.prompt_class),
        ("texts", np.array(told.texts, dtype=object)),
        ("prototypes", told.prototypes),
    ):
        store.put(f"predictor/{name}", values, words)


def check_content(store: FeatureStore, images: ImageSet) -> None:
    """Refuse other pictures of the same names: all are read if from elsewhere, else some."""
    came_from = [store.about[name] for name in ("source", "root", "folder")]
    moved = came_from != [images.name, images.root, str(Path.cwd())]
    count = store.n_images if moved else min(store.n_images, _SAMPLE)
    rows = np.unique(np.linspace(0, store.n_images - 1, count).astype(int))
    stored = store.get(CONTENT)
    for row in rows:
        known = store.has(CONTENT, int(row) // store.chunk)
        if known and not np.array_equal(content_of(images.locations[row]), stored[row]):
            raise other_picture(images.ids[row])


def other_picture(name: str) -> MarcError:
    """The error for a picture that is not the one of the same name that was embedded."""
    return MarcError(
        "pictures are not those that the store was made of",
        got=f"{name} is another picture",
        hint="bring the old ones back, or embed into another -o STORE",
    )
