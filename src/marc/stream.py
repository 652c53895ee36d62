"""A stream: a fixed order over stored features, with labels kept apart from what methods see."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc import transforms
from marc.errors import (
    MarcError,
    check_features,
    check_labels,
    check_order,
    check_predictor,
    check_spaces,
    integer,
)
from marc.scores import BaseScores, Float, Int, score_views, unit
from marc.types import Predictor, PromptEmbeddings, Query, Shown, order_name

_BLOCK = 2**22  # numbers of one block of view logits: 32 MiB of float64


@dataclass(frozen=True, repr=False)
class Stream(Shown):
    """An order over stored features. Iterating gives one `Query` at a time."""

    features: Features
    order: Int
    """Row of `features` at each position, (T,)."""
    row_labels: Int | None = None
    """True labels by stored row, (N,), for evaluation only: no query leads here."""
    seed: int | None = None
    """The seed that drew `order`; None for any other order."""
    name: str = field(default="arrays")
    source: str | None = None
    """Where `marc.load_stream` opens it again; None for arrays at hand."""

    @classmethod
    def from_arrays(
        cls,
        views: ArrayLike,
        prototypes: ArrayLike,
        spaces: Mapping[str, ArrayLike] | None = None,
        *,
        logit_scale: float = 100.0,
        prompts: ArrayLike | None = None,
        prompt_class: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        class_names: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        name: str = "arrays",
    ) -> Stream:
        """Features in, stream out; all of them are checked and normalised here.

        Args:
            views: predictor features (T, M, D) or (T, D); view 0 is the plain image.
            prototypes: text prototypes (C, D).
            spaces: retrieval features (T, D_s) by name.
            logit_scale: tau, which multiplies the cosines; 100 for the released CLIP models.
            prompts: the embedding of every prompt, for methods that choose among them: (C, P, D),
                or (P, D) with `prompt_class`.
            prompt_class: the class that each prompt speaks of, (P,).
            labels: true classes (T,), for evaluation only.
            class_names: C names, for display.
            ids: T names of the images.
            name: what to call the stream in records.
        """
        views = np.asarray(views)
        if views.ndim == 2:
            views = views[:, np.newaxis]
        check_features("views", views, ndim=3)
        texts, scale = check_predictor(prototypes, logit_scale, views.shape[2])
        n_images, n_classes = len(views), len(texts)
        features = Features(
            views=views,
            predictor=Predictor(
                texts, scale, PromptEmbeddings.of(prompts, prompt_class, texts.shape)
            ),
            spaces=check_spaces(spaces or {}, n_images),
            class_names=_names("class_names", class_names, n_classes, "class "),
            ids=_names("ids", ids, n_images, ""),
        )
        if len(set(features.ids)) < n_images:
            raise MarcError("ids must be distinct", got=f"{len(set(features.ids))} of {n_images}")
        truth = check_labels(labels, n_images, n_classes)
        return cls(features, np.arange(n_images), truth, name=name)

    def __len__(self) -> int:
        return len(self.order)

    def __iter__(self) -> Iterator[Query]:
        for item in self.order:
            yield self.query(int(item))

    def query(self, item: int) -> Query:
        """One image by its row in the stored features."""
        features = self.features
        return Query(
            item=item,
            views=unit(features.views[item]),
            base=features.base.at(item),
            keys=_Row(features, item),
            predictor=features.predictor,
        )

    def shuffled(self, seed: int) -> Stream:
        """The same images in the order `default_rng(seed).permutation(T)` of the stored rows."""
        integer("seed", seed, 0)
        order = np.random.default_rng(seed).permutation(len(self.features.ids))
        return replace(self, order=order, seed=seed)

    def in_order(self, seed: int | None) -> Stream:
        """The order that a seed draws, or for None the order in which the images are stored."""
        if seed is None:
            return self.reordered(np.arange(len(self.features.ids)))
        return self.shuffled(seed)

    def reordered(self, index: ArrayLike) -> Stream:
        """The same images in the order of `index`, a permutation of the stored rows."""
        return replace(self, order=check_order(index, len(self.features.ids)), seed=None)

    def with_views(self, n_views: int) -> Stream:
        """The same stream seen through its first `n_views` views: budgets are nested."""
        stored = self.n_views
        if integer("views", n_views, 1) > stored:
            raise MarcError(
                "the stream does not store that many views", got=n_views, allowed=f"1 to {stored}"
            )
        if n_views == stored:
            return self
        return replace(self, features=self.features.with_views(n_views))

    def subset(self, rows: Int) -> Stream:
        """Some of the stored images (m,), in that order, as a stream of its own."""
        old = self.features
        features = Features(
            views=old.views[rows],
            predictor=old.predictor,
            spaces={name: keys[rows] for name, keys in old.spaces.items()},
            class_names=old.class_names,
            ids=tuple(old.ids[row] for row in rows),
        )
        labels = None if self.row_labels is None else self.row_labels[rows]
        return Stream(features, np.arange(len(rows)), labels, name=self.name)

    def sample(self, n_images: int, seed: int = 0) -> Stream:
        """A batch of the images, drawn without replacement, as a stream of its own."""
        stored = len(self.features.ids)
        if integer("n_images", n_images, 1) > stored:
            raise MarcError(
                "the stream does not have that many images", got=n_images, allowed=f"1 to {stored}"
            )
        draw = np.random.default_rng(integer("seed", seed, 0))
        return self.subset(np.sort(draw.permutation(stored)[:n_images]))

    @property
    def n_views(self) -> int:
        """M."""
        return self.features.views.shape[1]

    @property
    def n_classes(self) -> int:
        """C."""
        return self.features.predictor.n_classes

    @property
    def spaces(self) -> tuple[str, ...]:
        """Names of the stored retrieval spaces; the predictor's own if there is no other."""
        return tuple(self.features.spaces) or ("predictor",)

    @property
    def labels(self) -> Int | None:
        """True labels in stream order, for evaluation only."""
        return None if self.row_labels is None else self.row_labels[self.order]

    def to_dict(self) -> dict[str, Any]:
        """What there is, without reading features."""
        sizes = {"n_images": len(self), "n_classes": self.n_classes, "n_views": self.n_views}
        order = {"labels": self.row_labels is not None, "order": order_name(self.seed)}
        return {"name": self.name, **sizes, "spaces": list(self.spaces), **order}

    def _columns(self) -> dict[str, Any]:
        ids = [self.features.ids[item] for item in self.order]
        labels = {} if self.labels is None else {"label": self.labels}
        return {"item": self.order, "id": ids, **labels}

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Digests of the features, of the labels and of this order."""
        labels = None if self.row_labels is None else digest(self.row_labels)
        return {**self.features.fingerprint, "labels": labels, "order": digest(self.order)}


def _names(what: str, given: Sequence[str] | None, count: int, prefix: str) -> tuple[str, ...]:
    """`count` names; numbered ones if none are given."""
    if given is None:
        return tuple(f"{prefix}{number}" for number in range(count))
    if len(given) != count:
        raise MarcError(f"{what} has the wrong length", got=len(given), allowed=count)
    return tuple(str(name) for name in given)


class LazyViews:
    """Views that are read when they are first used, and only as many as are asked for."""

    def __init__(self, read: Callable[[int], Float], shape: tuple[int, int, int]) -> None:
        self.shape = shape
        self._read = read

    @cached_property
    def _array(self) -> Float:
        return self._read(self.shape[1])

    def first(self, n_views: int) -> LazyViews:
        """The first views of every image."""
        n_images, _, dim = self.shape
        return LazyViews(self._read, (n_images, n_views, dim))

    def __getitem__(self, index: Any, /) -> Any:
        return self._array[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Float:
        return np.array(self._array, dtype=dtype, copy=copy)


Views = NDArray[Any] | LazyViews
"""Predictor features (N, M, D): an array, or what reads one when it is used."""


class LazySpaces(Mapping[str, NDArray[np.float32]]):
    """Spaces that are read when they are first used."""

    def __init__(
        self, readers: Mapping[str, Callable[[], NDArray[np.float32]]], dims: Mapping[str, int]
    ) -> None:
        self.dims = dims
        """D_s by space, known without reading."""
        self._readers = readers
        self._read: dict[str, NDArray[np.float32]] = {}

    def __getitem__(self, space: str) -> NDArray[np.float32]:
        if space not in self._read:
            self._read[space] = self._readers[space]()
        return self._read[space]

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


@dataclass(frozen=True)
class Features:
    """The stored features of N images, in the order of the files. Shared by every stream order."""

    views: Views
    """Predictor features (N, M, D) as stored: views are normalised block by block when read."""
    predictor: Predictor
    spaces: Mapping[str, NDArray[np.float32]]
    """Unit retrieval features (N, D_s) by space."""
    class_names: tuple[str, ...]
    ids: tuple[str, ...]
    known: Mapping[str, str] = field(default_factory=dict)
    """Digests that are known without reading: of `views`, and of `spaces/NAME`."""
    _transformed: dict[str, NDArray[np.float32]] = field(default_factory=dict, repr=False)

    @cached_property
    def clip_keys(self) -> NDArray[np.float32]:
        """Unit predictor features of the plain images, (N, D)."""
        return unit(self.views[:, 0])

    @cached_property
    def base(self) -> BaseScores:
        """What the predictor alone says of every image; computed once, in blocks."""
        n_images, n_views = self.views.shape[:2]
        rows = max(1, _BLOCK // (n_views * self.predictor.n_classes))
        blocks = [
            score_views(self.predictor.logits(unit(self.views[start : start + rows])))
            for start in range(0, n_images, rows)
        ]
        return BaseScores(
            np.concatenate([block.logits for block in blocks]),
            np.concatenate([block.label for block in blocks]),
            np.concatenate([block.view_entropy for block in blocks]),
        )

    def keys(self, space: str) -> NDArray[np.float32]:
        """Unit features (N, D_s) of a space: a stored one, `predictor`, or a transform of either.

        `NAME+center`, `NAME+whiten`, `NAME+pca:64` and `NAME+random:64` are fitted on all images
        of the stream without labels: transductive. See `marc.transforms`.
        """
        keys, steps = self._stored(space)
        if not steps:
            return keys
        if space not in self._transformed:
            self._transformed.clear()  # hold one at a time: a sweep visits many
            self._transformed[space] = transforms.apply(keys, steps)
        return self._transformed[space]

    def dim(self, space: str) -> int:
        """D_s, found without reading or computing; refuses a name that `keys` would refuse."""
        name, *steps = space.split("+")
        if isinstance(self.spaces, LazySpaces) and name in self.spaces:
            return transforms.dimension(self.spaces.dims[name], steps)
        keys, _ = self._stored(space)
        return transforms.dimension(keys.shape[1], steps)

    def _stored(self, space: str) -> tuple[NDArray[np.float32], list[str]]:
        """The stored features that a space starts from, and its transforms."""
        name, *steps = space.split("+")
        if name == "predictor":
            return self.clip_keys, steps
        if name not in self.spaces:
            known = ", ".join([*self.spaces, "predictor"])
            raise MarcError(f"there is no space {name!r}", got=space, allowed=known)
        return self.spaces[name], steps

    def with_views(self, n_views: int) -> Features:
        """The same images seen through their first views."""
        views = self.views
        fewer = views.first(n_views) if isinstance(views, LazyViews) else views[:, :n_views]
        known = {name: digest for name, digest in self.known.items() if name != "views"}
        return replace(self, views=fewer, known=known, _transformed={})

    @cached_property
    def images(self) -> frozenset[str]:
        """Digests by which the images are known again: their plain views, and each space.

        Streams that share one of them are of the same images, whatever their names, views or
        labels.
        """
        return frozenset([digest(self.clip_keys), *map(self._space_digest, self.spaces)])

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Digests of everything an answer depends on, part by part, so differences have names."""
        prompts = self.predictor.prompts
        return {
            "ids": digest(np.array(self.ids)),
            "class_names": digest(np.array(self.class_names)),
            "views": self.known.get("views") or digest(self.views),
            "prototypes": digest(self.predictor.prototypes),
            "logit_scale": self.predictor.logit_scale,
            **(
                {}
                if prompts is None
                else {"prompts": digest(prompts.rows), "prompt_class": digest(prompts.class_of)}
            ),
            "spaces": {name: self._space_digest(name) for name in self.spaces},
        }

    def _space_digest(self, space: str) -> str:
        return self.known.get(f"spaces/{space}") or digest(self.spaces[space])


class _Row(Mapping[str, NDArray[np.float32]]):
    """One image's keys by space, looked up when asked for: a stream may have sixteen spaces."""

    def __init__(self, features: Features, item: int) -> None:
        self._features, self._item = features, item

    def __getitem__(self, space: str) -> NDArray[np.float32]:
        if space.partition("+")[0] not in (*self._features.spaces, "predictor"):
            raise KeyError(space)
        return self._features.keys(space)[self._item]

    def __iter__(self) -> Iterator[str]:
        return iter(self._features.spaces)

    def __len__(self) -> int:
        return len(self._features.spaces)


def digest(array: Views) -> str:
    """Of an array's type, shape and numbers."""
    first: NDArray[Any] = array[:1]
    known = digest_of(first.dtype, array.shape)
    for start in range(0, array.shape[0], 1024):  # in pieces: views may be larger than what is free
        known.update(array[start : start + 1024].tobytes())
    return end_digest(known)


def digest_of(dtype: np.dtype[Any], shape: tuple[int, ...]) -> hashlib._Hash:
    """A digest of an array, begun: its bytes are to follow."""
    return hashlib.sha256(f"{dtype.str}{shape}".encode())


def end_digest(known: hashlib._Hash) -> str:
    """The digest of an array, as it is written down."""
    return known.hexdigest()[:16]
