"""A stream: a fixed order over stored features, with labels kept apart from what methods see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.errors import (
    MarcError,
    check_features,
    check_labels,
    check_order,
    check_predictor,
    check_spaces,
    instance,
    integer,
)
from marc.scores import Int, unit
from marc.stream.features import Features, digest
from marc.stream.orders import Ordering
from marc.stream.predictor import Predictor, PromptEmbeddings, Towers
from marc.types import Query, Shown, order_name, visible


@dataclass(frozen=True)
class _Crops:
    """What reads the crops of one image."""

    read: Callable[[int, int], NDArray[np.uint8]]
    item: int
    n_views: int

    def __call__(self, n_views: int | None = None) -> NDArray[np.uint8]:
        return self.read(self.item, self.n_views if n_views is None else n_views)


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
    row_domains: NDArray[Any] | None = None
    """The domain of each stored row, (N,), names or numbers: for orders alone, as labels are."""
    ordering: Ordering = field(default_factory=Ordering)
    """The kind of order that a seed draws."""

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
        domains: ArrayLike | None = None,
        class_names: Sequence[str] | None = None,
        ids: Sequence[str] | None = None,
        name: str = "arrays",
        towers: Towers | None = None,
        pixels: Callable[[int, int], NDArray[np.uint8]] | None = None,
        generated: ArrayLike | None = None,
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
            domains: names or numbers (T,) of the domains that images are of, for orders alone.
            class_names: C names, for display.
            ids: T names of the images.
            name: what to call the stream in records.
            towers: the networks behind the predictor, for methods that learn in them.
            pixels: reads the crops (n, H, W, 3) behind the first n views of a row, for the same
                methods.
            generated: predictor features (T, G, D) of pictures that were generated from each
                image, for DiffTPT alone.
        """
        views = np.asarray(views)
        if views.ndim == 2:
            views = views[:, np.newaxis]
        check_features("views", views, ndim=3)
        generated = None if generated is None else _generated(generated, views.shape)
        texts, scale = check_predictor(prototypes, logit_scale, views.shape[2])
        n_images, n_classes = len(views), len(texts)
        features = Features(
            views=views,
            predictor=Predictor(
                texts,
                scale,
                PromptEmbeddings.of(prompts, prompt_class, texts.shape),
                towers or Towers(),
            ),
            spaces=check_spaces(spaces or {}, n_images),
            class_names=_names("class_names", class_names, n_classes, "class "),
            ids=_names("ids", ids, n_images, ""),
            pixels=pixels,
            generated=generated,
        )
        if len(set(features.ids)) < n_images:
            raise MarcError("ids must be distinct", got=f"{len(set(features.ids))} of {n_images}")
        truth = check_labels(labels, n_images, n_classes)
        parts = _domains(domains, n_images)
        return cls(features, np.arange(n_images), truth, name=name, row_domains=parts)

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
            keys=features.row(item),
            predictor=features.predictor,
            pixels=features.pixels and _Crops(features.pixels, item, self.n_views),
            generated=None if features.generated is None else unit(features.generated[item]),
        )

    def shuffled(self, seed: int) -> Stream:
        """The same images in the order `default_rng(seed).permutation(T)` of the stored rows."""
        integer("seed", seed, 0)
        plain = self if self.ordering.cuts else replace(self, ordering=Ordering())
        return plain.in_order(seed)

    def ordered(self, kind: str, seed: int = 0, **options: Any) -> Stream:
        """An order of another kind; `in_order` then draws further ones of that kind.

        Args:
            kind: `shuffled`, `stored`, `sorted`, `dirichlet`, `bursts`, `long-tail` (a stream of
                fewer images), `domains` or `returning`; or as typed, `dirichlet:gamma=0.1`.
            seed: which order of that kind.
            options: those of the kind, see `marc.stream.orders`.
        """
        asked = Ordering.parse(kind, **options)
        if asked.kind == "stored":
            return self.in_order(None)
        if asked == self.ordering:
            return self.in_order(seed)
        stream = self
        if asked.cuts:
            stream = self.subset(asked.kept(self.row_labels))
            part = replace(stream.features, part_of=self.features.images)
            stream = replace(stream, features=part)
        source = None if self.ordering.cuts else self.source  # cut twice, no source says how
        return replace(stream, ordering=asked, source=source).in_order(seed)

    def in_order(self, seed: int | None) -> Stream:
        """The order of the stream's kind that a seed draws, or for None the stored order."""
        if seed is None:
            return self.reordered(np.arange(len(self.features.ids)))
        size = len(self.features.ids)
        order = self.ordering.draw(size, self.row_labels, self.row_domains, seed)
        return replace(self, order=order, seed=seed)

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
        labels = None if self.row_labels is None else self.row_labels[rows]
        domains = None if self.row_domains is None else self.row_domains[rows]
        order = np.arange(len(rows))
        features = self.features.subset(rows)
        return Stream(features, order, labels, name=self.name, row_domains=domains)

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
        labels: dict[str, Any] = {"labels": self.row_labels is not None}
        if self.row_domains is not None:
            labels["domains"] = len(np.unique(self.row_domains))
        order = order_name(self.seed, self.ordering.name)
        return {"name": self.name, **sizes, "spaces": list(self.spaces), **labels, "order": order}

    def _columns(self) -> dict[str, Any]:
        ids = [self.features.ids[item] for item in self.order]
        labels = {} if self.labels is None else {"label": self.labels}
        return {"item": self.order, "id": ids, **labels}

    @property
    def fingerprint(self) -> dict[str, Any]:
        """Digests of features, labels and this order; of domains too where they decide orders."""
        labels = None if self.row_labels is None else digest(self.row_labels)
        known = {**self.features.fingerprint, "labels": labels, "order": digest(self.order)}
        if self.ordering.by_domain and self.row_domains is not None:
            known["domains"] = digest(self.row_domains)
        return known


def _names(what: str, given: Sequence[str] | None, count: int, prefix: str) -> tuple[str, ...]:
    """`count` names; numbered ones if none are given."""
    if given is None:
        return tuple(f"{prefix}{number}" for number in range(count))
    instance(what, given, Sequence, np.ndarray)
    if len(given) != count:
        raise MarcError(f"{what} has the wrong length", got=len(given), allowed=count)
    return tuple(visible(str(name)) for name in given)


def _generated(given: ArrayLike, views: tuple[int, ...]) -> NDArray[Any]:
    """Generated features (N, G, D), refused unless they fit views of this shape."""
    array = np.asarray(given)
    check_features("generated", array, ndim=3)
    if array.shape[::2] != views[::2]:
        fits = f"({views[0]}, G, {views[2]})"
        raise MarcError("generated does not fit the views", got=array.shape, allowed=fits)
    return array


def _domains(given: ArrayLike | None, n_images: int) -> NDArray[Any] | None:
    """Domains (N,), refused unless they are one name or number for each image."""
    if given is None:
        return None
    array = np.asarray(given)
    if array.shape != (n_images,) or array.dtype.kind not in "iuUS":
        raise MarcError(
            "domains must be one name or integer per image",
            got=f"{array.dtype} {array.shape}",
            allowed=f"text or integers ({n_images},)",
        )
    try:
        return np.char.decode(array, "utf-8") if array.dtype.kind == "S" else array
    except UnicodeDecodeError as error:
        raise MarcError("domains must be text in UTF-8", got=error.object) from None
