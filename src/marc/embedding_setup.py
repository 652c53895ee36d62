"""Before a store is filled: the store itself, room for every array, prototypes, and refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from marc.embedding_plan import EmbeddingPlan, Jobs
from marc.encoders.cards import TextEncoder
from marc.errors import MarcError
from marc.images.image_set import ImageSet
from marc.new_store import create_store, replace_store, writing
from marc.preparing import content_of
from marc.progress import OnProgress
from marc.prompts import PromptSet, embed_prompts, read_prompt_set
from marc.store import CONTENT, FeatureStore
from marc.stored_stream import PROTOTYPES, SPACES, VIEWS

_SAMPLE = 64  # pictures that are read again before a store is added to


def set_up(
    plan: EmbeddingPlan, jobs: Jobs, *, force: bool, on_progress: OnProgress
) -> tuple[str, ...]:
    """Make the store, room in it for every array, and the text prototypes; notes on the words.

    With `force`, what was made otherwise is replaced; if nothing was, all is computed again.
    """
    check_words(plan, jobs)
    create_store(plan.store, plan.images, chunk=plan.chunk, force=force)
    words, every = words_of(plan, jobs), list(jobs)
    with writing(plan.store):
        store = FeatureStore(plan.store, write=True)
        # all that is refused is refused before anything is replaced
        there = [job for job in every if store.holds(job.array, job.made, force=force)]
        said = not words or store.holds(PROTOTYPES, words, force=force)
        again = force and said and there == every
        if not again:
            check_content(store, plan.images)
    if again and {job.array for job in every} >= feature_arrays(store):
        replace_store(plan.store, plan.images, chunk=plan.chunk)
    with writing(plan.store):
        store = FeatureStore(plan.store, write=True)
        for job in every if again else [job for job in every if job not in there]:
            # views before prototypes: new prototypes never stand beside whole, old views
            card = asdict(job.encoder.card)
            store.prepare(job.array, job.shape, job.dtype, made=job.made, card=card)
        if said and not again:
            return ()
        return write_prototypes(store, plan, jobs, words, on_progress)


def feature_arrays(store: FeatureStore) -> set[str]:
    """Names of the arrays that encoders filled."""
    spaces = {f"{SPACES}/{name}" for name in store.names(SPACES)}
    return spaces | ({VIEWS} if store.attributes(VIEWS) else set())


def check_words(plan: EmbeddingPlan, jobs: Jobs) -> None:
    """A predictor needs words for its classes."""
    if jobs.text and not plan.images.class_names:
        raise MarcError(
            "a predictor needs the names of the classes, and this source has none",
            got=plan.images.name,
            hint="--class-names FILE.txt (one a line), or --predictor none",
        )


def words_of(plan: EmbeddingPlan, jobs: Jobs) -> dict[str, Any]:
    """All that the prototypes depend on; empty without a predictor."""
    if jobs.text is None or jobs.predictor is None:
        return {}
    return {
        "encoder": jobs.predictor.made["encoder"],
        "logit_scale": jobs.text.logit_scale,
        "prompts": [[one.name, one.version, one.digest] for one in prompt_sets(plan, jobs.text)],
        "class_names": list(plan.images.class_names),
    }


def prompt_sets(plan: EmbeddingPlan, text: TextEncoder) -> list[PromptSet]:
    """Those that were asked for, or the predictor's only ones, or those of the data set."""
    names = plan.prompts or text.card.prompts or plan.images.prompts
    return [read_prompt_set(name) for name in names]


def write_prototypes(
    store: FeatureStore,
    plan: EmbeddingPlan,
    jobs: Jobs,
    words: Mapping[str, Any],
    on_progress: OnProgress,
) -> tuple[str, ...]:
    """Text prototypes and the embedding of every prompt; prototypes last: they say it is whole."""
    if jobs.text is None:
        return ()
    told = embed_prompts(
        jobs.text,
        plan.images.class_names,
        prompt_sets(plan, jobs.text),
        on_progress=lambda done, total: on_progress("prompts", done, total),
    )
    texts = np.array(told.texts, dtype=object)
    for name, values in (
        ("prompts", told.prompts),
        ("prompt_class", told.prompt_class),
        ("texts", texts),
        ("prototypes", told.prototypes),
    ):
        store.put(f"predictor/{name}", values, words)
    return told.notes


def check_content(store: FeatureStore, images: ImageSet) -> None:
    """Refuse other pictures of the same names: all are read if from elsewhere, else some."""
    moved = (store.about["source"], store.about["root"]) != (images.name, images.root)
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
