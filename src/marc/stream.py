"""A stream: a fixed order over stored features, with labels kept apart from what methods see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from marc import checks
from marc.core import Predictor, PromptEmbeddings, Query
from marc.errors import MarcError, number, whole_number
from marc.features import Features, Row, digest
from marc.scores import Float, Int, unit

_LARGEST_SCALE = 1e9  # logits must stay far from the end of float32


@dataclass(frozen=True)
class Stream:
    """An order over stored features. Iterating gives one `Query` at a time."""

    features: Features
    order: Int
    """Row of `features` at each position, (T,)."""
    row_labels: Int | None = None
    """True labels by stored row, (N,), for evaluation only: no query leads here."""
    seed: int | None = None
    """The seed that drew `order`; None for any other order."""
    name: str = field(default="arrays")

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
        """Features in, stream out; everything is checked and normalised here.

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
        checks.features("views", views, ndim=3)
        predictor = _check_predictor(np.asarray(prototypes), logit_scale, views.shape[2])
        predictor = replace(predictor, prompts=_check_prompts(prompts, prompt_class, predictor))
        n_images, n_classes = len(views), predictor.n_classes
        features = Features(
            views=views,
            predictor=predictor,
            spaces=checks.spaces(spaces or {}, n_images),
            class_names=checks.names("class_names", class_names, n_classes, "class "),
            ids=checks.names("ids", ids, n_images, ""),
        )
        if len(set(features.ids)) < n_images:
            raise MarcError("ids must be distinct", got=f"{len(set(features.ids))} of {n_images}")
        truth = checks.labels(labels, n_images, n_classes)
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
            keys=Row(features, item),
            predictor=features.predictor,
        )

    def shuffled(self, seed: int) -> Stream:
        """The same images in the order `default_rng(seed).permutation(T)` of the stored rows."""
        whole_number("seed", seed, 0)
        order = np.random.default_rng(seed).permutation(len(self.features.ids))
        return replace(self, order=order, seed=seed)

    def in_order(self, seed: int | None) -> Stream:
        """The order that a seed draws, or for None the order in which the images are stored."""
        if seed is None:
            return self.reordered(np.arange(len(self.features.ids)))
        return self.shuffled(seed)

    def reordered(self, index: ArrayLike) -> Stream:
        """The same images in the order of `index`, a permutation of the stored rows."""
        order = np.asarray(index)
        n_images = len(self.features.ids)
        if order.shape != (n_images,) or order.dtype.kind not in "iu":
            raise MarcError(
                "an order must be a whole number per image",
                got=f"{order.dtype} {order.shape}",
                allowed=f"a permutation of 0..{n_images - 1}",
            )
        if not np.array_equal(np.sort(order), np.arange(n_images)):
            raise MarcError(
                "an order must name every image once",
                got=f"{len(np.unique(order))} distinct rows of {n_images}",
                allowed=f"a permutation of 0..{n_images - 1}",
            )
        return replace(self, order=order.astype(np.int64), seed=None)

    def with_views(self, n_views: int) -> Stream:
        """The same stream seen through its first `n_views` views: budgets are nested."""
        stored = self.n_views
        if whole_number("views", n_views, 1) > stored:
            raise MarcError(
                "the stream does not store that many views", got=n_views, allowed=f"1 to {stored}"
            )
        if n_views == stored:
            return self
        return replace(self, features=self.features.with_views(n_views))

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

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Digests of the features, of the labels and of this order."""
        labels = None if self.row_labels is None else digest(self.row_labels)
        return {**self.features.fingerprint, "labels": labels, "order": digest(self.order)}


def _check_predictor(prototypes: Float, logit_scale: float, dim: int) -> Predictor:
    """The predictor, if its prototypes fit image features of dimension `dim`."""
    checks.features("prototypes", prototypes, ndim=2)
    if len(prototypes) < 2:
        raise MarcError("a classifier needs at least two classes", got=len(prototypes))
    if prototypes.shape[1] != dim:
        raise MarcError(
            "views and prototypes must have the same dimension",
            got=f"views {dim}, prototypes {prototypes.shape[1]}",
            hint="use the image and the text features of one predictor",
        )
    scale = number("logit_scale", logit_scale)
    if not 0 < scale <= _LARGEST_SCALE:
        raise MarcError(
            "logit_scale must be above 0",
            got=logit_scale,
            allowed=f"up to {_LARGEST_SCALE:g}; 100 for CLIP",
        )
    return Predictor(unit(prototypes), scale)


def _check_prompts(
    given: ArrayLike | None, class_of: ArrayLike | None, predictor: Predictor
) -> PromptEmbeddings | None:
    """The prompts as rows of a table, if every class has some."""
    if given is None and class_of is None:
        return None
    if given is None:
        raise MarcError("prompt_class without prompts says nothing", hint="prompts=... too")
    rows, n_classes = np.asarray(given), predictor.n_classes
    if rows.ndim == 3 and class_of is None:
        class_of = np.repeat(np.arange(len(rows)), rows.shape[1])
        rows = rows.reshape(-1, rows.shape[2])
    checks.features("prompts", rows, ndim=2)
    classes = np.asarray(class_of)
    fits = classes.shape == (len(rows),) and np.array_equal(np.unique(classes), range(n_classes))
    if not fits or rows.shape[1] != predictor.prototypes.shape[1]:
        raise MarcError(
            "the prompts do not fit the prototypes",
            got=f"prompts {np.shape(given)}, prompt_class {classes.shape}",
            allowed=f"(C, P, D), or (P, D) and (P,) with each of the {n_classes} classes",
        )
    return PromptEmbeddings(classes.astype(np.int64), partial(np.asarray, rows))
