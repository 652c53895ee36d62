"""`store/DIR`: a feature store as a stream. Features are read when they are first used."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from marc.embed.store import FeatureStore
from marc.errors import MarcError
from marc.scores import unit
from marc.stream import Features, LazySpaces, LazyViews, Stream
from marc.types import Predictor, PromptEmbeddings


def read_store(path: Path) -> Stream:
    """The stream of a store: its readable pictures, with every space that is whole."""
    store = FeatureStore(path)
    again = "call the same marc embed again: it goes on where it stopped"
    if not store.attributes(store.VIEWS):
        hint = f"marc embed {store.about['source']} --encoder NAME --predictor NAME -o {path}"
        raise MarcError("this store has no predictor", got=path, hint=hint)
    if not store.is_complete(store.VIEWS) or "made" not in store.attributes(store.PROTOTYPES):
        raise MarcError("the predictor's features are not all there", got=path, hint=again)
    views, words = (store.attributes(name)["made"] for name in (store.VIEWS, store.PROTOTYPES))
    if views["encoder"] != words["encoder"]:
        raise MarcError("views and prototypes are of two predictors", got=path, hint=again)
    names = store.names(store.SPACES)
    whole = [name for name in names if store.is_complete(f"{store.SPACES}/{name}")]
    if left := [name for name in names if name not in whole]:
        warnings.warn(f"not all there, left out: {', '.join(left)}; {again}", stacklevel=2)
    readable = store.readable
    n_images = int(readable.sum())
    if not n_images:
        raise MarcError("no picture of this store could be read", got=path)
    features = Features(
        views=LazyViews(
            partial(store.read, store.VIEWS),
            (n_images, *store.shape(store.VIEWS)[1:]),  # type: ignore[arg-type]
        ),
        predictor=Predictor(
            unit(store.get(store.PROTOTYPES)),
            float(words["logit_scale"]),
            PromptEmbeddings(store.get(store.PROMPT_CLASS), partial(store.get, store.PROMPTS)),
        ),
        spaces=LazySpaces(
            {name: partial(_space, store, name) for name in whole},
            {name: store.shape(f"{store.SPACES}/{name}")[1] for name in whole},
        ),
        class_names=tuple(words["class_names"]),
        ids=tuple(store.get(store.IDS)[readable].tolist()),
        known=_digests(store, whole),
    )
    labels = store.get(store.LABELS)[readable] if store.attributes(store.LABELS) else None
    return Stream(features, np.arange(n_images), labels, name=path.name)


def _space(store: FeatureStore, name: str) -> NDArray[np.float32]:
    return unit(store.read(f"{store.SPACES}/{name}"))


def _digests(store: FeatureStore, spaces: list[str]) -> dict[str, str]:
    arrays = {
        "views": store.VIEWS,
        **{f"{store.SPACES}/{name}": f"{store.SPACES}/{name}" for name in spaces},
    }
    return {name: store.attributes(array)["features"] for name, array in arrays.items()}
