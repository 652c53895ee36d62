"""The stream of a feature store: features of one moment, that fit each other, read when used."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.embed.in_place import InPlace
from marc.embed.networks import Networks, StoredPictures
from marc.embed.sealed import SealedArray
from marc.embed.store import FeatureStore
from marc.errors import MarcError, check_labels, check_predictor
from marc.replay.evidence import n_threads
from marc.scores import Int, unit
from marc.stream import Features, LazySpaces, LazyViews, Stream
from marc.stream.predictor import Predictor, PromptEmbeddings
from marc.stream.rows import each_row, is_large, lazy_rows

IN_ANSWERS = "features"
"""What a store is called that lies in a folder of answers."""

_OFF = 0.01  # more than rounding to float16 leaves of a unit vector
_BLOCK = 64  # pictures at a time, which stay in the cache of the processor
_AGAIN = "call the same marc embed again: it goes on where it stopped"


def open_store(store: FeatureStore, networks: Networks | None = None) -> Stream:
    """The readable pictures of a store, with every space that is whole.

    `networks` say how those of its predictor are loaded, should a method ask for them.
    """
    views, words = _predictor_arrays(store)
    spaces = _whole_spaces(store)
    readable = store.readable
    n_images = int(readable.sum())
    if not n_images:
        raise MarcError("no picture of this store could be read", got=store.path)
    seen, generated = _views(store, views, readable)
    features = Features(
        views=seen,
        generated=generated,
        predictor=_predictor(store, views, words, networks or Networks()),
        spaces=LazySpaces(
            {name: partial(_space, store, array, readable) for name, array in spaces.items()},
            {name: array.shape[1] for name, array in spaces.items()},
        ),
        class_names=tuple(words.attributes["made"]["class_names"]),
        ids=tuple(store.get(store.IDS)[readable].tolist()),
        known={
            **({} if generated else {"views": views.attributes["features"]}),
            **{array.name: array.attributes["features"] for array in spaces.values()},
        },
        pixels=StoredPictures(store, views.attributes, np.flatnonzero(readable)).crops,
    )
    labels = store.get(store.LABELS)[readable] if store.about["labelled"] else None
    labels = check_labels(labels, n_images, features.predictor.n_classes)
    return Stream(features, np.arange(n_images), labels, name=_name(store))


def _name(store: FeatureStore) -> str:
    """That of its folder, or of the folder of answers that it is a part of."""
    path = store.path
    return path.name if path.name != IN_ANSWERS else path.parent.name or path.name


def _views(
    store: FeatureStore, array: SealedArray, readable: NDArray[np.bool_]
) -> tuple[LazyViews, LazyViews | None]:
    """The views of the pictures themselves, and behind them those that were generated, if any."""
    n_images, (n_views, dim) = int(readable.sum()), array.shape[1:]
    n_generated = array.attributes["made"]["views"].get("n_generated", 0)
    n_drawn = n_views - n_generated
    seen = LazyViews(partial(_rows, store, array, readable), (n_images, n_drawn, dim))
    if not n_generated:
        return seen, None

    def read(count: int) -> NDArray[Any]:
        whole, part = _rows(store, array, readable), slice(n_drawn, n_drawn + count)
        if not is_large(n_images, count, dim):
            return np.asarray(whole[:, part])
        return lazy_rows(lambda rows: whole[rows, part], (n_images, count, dim), array.dtype)

    return seen, LazyViews(read, (n_images, n_generated, dim))


def _predictor_arrays(store: FeatureStore) -> tuple[SealedArray, SealedArray]:
    """Views and prototypes, whole and of one predictor."""
    if not store.attributes(store.VIEWS):
        hint = f"marc embed {store.about['source']} --encoder NAME --predictor NAME -o {store.path}"
        raise MarcError("this store has no predictor", got=store.path, hint=hint)
    if not store.is_complete(store.VIEWS) or not store.is_complete(store.PROTOTYPES):
        raise MarcError("the predictor's features are not all there", got=store.path, hint=_AGAIN)
    views, words = store.pin(store.VIEWS), store.pin(store.PROTOTYPES)
    if views.attributes["made"]["encoder"] != words.attributes["made"]["encoder"]:
        raise MarcError("views and prototypes are of two predictors", got=store.path, hint=_AGAIN)
    return views, words


def _predictor(
    store: FeatureStore, views: SealedArray, words: SealedArray, networks: Networks
) -> Predictor:
    made, prompts, dim = words.attributes["made"], store.pin(store.PROMPTS), views.shape[-1]
    class_of = store.get(store.PROMPT_CLASS)
    with store.mending(words.name):  # sealed or not, they must fit each other
        scale = made["logit_scale"]
        prototypes, scale = check_predictor(store.read_pinned(words), scale, dim)
        classes = range(len(prototypes))
        if prompts.shape != (*class_of.shape, dim) or not np.array_equal(
            np.unique(class_of), classes
        ):
            raise MarcError("the prompts do not fit the prototypes", got=prompts.shape)
        if len(made["class_names"]) != len(classes):
            raise MarcError("there is not a name for each prototype", got=len(classes))
    read = partial(store.read_pinned, prompts)
    towers = networks.towers(made, tuple(made["class_names"]))
    return Predictor(prototypes, scale, PromptEmbeddings(class_of, read), towers)


def _whole_spaces(store: FeatureStore) -> dict[str, SealedArray]:
    """Spaces that are all there; which are not is said."""
    names = {name: f"{store.SPACES}/{name}" for name in store.names(store.SPACES)}
    whole = {name: store.pin(array) for name, array in names.items() if store.is_complete(array)}
    if left := [name for name in names if name not in whole]:
        warnings.warn(f"not all there, left out: {', '.join(left)}; {_AGAIN}", stacklevel=4)
    return whole


def _space(
    store: FeatureStore, array: SealedArray, readable: NDArray[np.bool_]
) -> NDArray[np.float32]:
    return each_row(unit, _rows(store, array, readable))


def _rows(
    store: FeatureStore,
    array: SealedArray,
    readable: NDArray[np.bool_],
    n_views: int | None = None,
) -> NDArray[Any]:
    """Features of the readable pictures, refused unless they are finite and of length one.

    So many that they are not held are left where they lie.
    """
    row = array.shape[1:] if n_views is None else (n_views, *array.shape[2:])
    if is_large(int(readable.sum()), *row):
        in_place = InPlace(array, np.flatnonzero(readable), check_lengths, n_views)

        def read(index: Int) -> NDArray[Any]:
            with store.mending(array.name):
                return in_place.read(index)

        return lazy_rows(read, (len(in_place.places), *row), array.dtype)
    rows = store.read_pinned(array, readable, n_views)
    with store.mending(array.name):
        check_lengths(rows)
    return rows


def check_lengths(rows: NDArray[Any]) -> None:
    """Refuse features that are not finite and of length one."""

    def are_units(start: int) -> bool:
        part = rows[start : start + _BLOCK].astype(np.float32)
        squares = np.einsum("...d,...d->...", part, part)
        return bool((np.abs(squares - 1) < _OFF).all())

    with ThreadPoolExecutor(n_threads()) as threads:  # float16 is slow to convert
        if not all(threads.map(are_units, range(0, len(rows), _BLOCK))):
            raise MarcError("not all features are finite and of length one")
