"""Stored features: what is known of N images, in the order of the files, read when it is used."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.scores import BaseScores, Float, Int, base_logits, score_views, unit
from marc.stream import transforms
from marc.stream.predictor import Predictor
from marc.stream.rows import LazyRows, is_large, lazy_rows, some_rows
from marc.types import OnProgress

_BLOCK = 2**20  # numbers of one block of view logits: 8 MiB of float64


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

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers, once they are read."""
        return self._array.dtype

    def __getitem__(self, index: Any, /) -> Any:
        return self._array[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Float:
        return np.array(self._array, dtype=dtype, copy=copy)


Views = NDArray[Any] | LazyViews | LazyRows
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
    part_of: frozenset[str] = frozenset()
    """`images` of the features that these were cut from."""
    pixels: Callable[[int, int], NDArray[np.uint8]] | None = None
    """Reads the first n crops (n, H, W, 3) of a stored row, where the pictures are at hand."""
    generated: Views | None = None
    """Predictor features (N, G, D) of pictures that were generated from each: they are no views."""
    _transformed: dict[str, NDArray[np.float32]] = field(default_factory=dict, repr=False)

    @cached_property
    def clip_keys(self) -> NDArray[np.float32]:
        """Unit predictor features of the plain images, (N, D)."""
        n_images, _, dim = self.views.shape
        if not is_large(n_images, dim):
            return unit(self.views[:, 0])
        return lazy_rows(lambda rows: unit(self.views[rows, 0]), (n_images, dim), np.float32)

    @cached_property
    def base(self) -> BaseScores:
        """What the predictor alone says of every image; computed once, in blocks.

        Of a large stream labels and entropies are held, and logits computed again where they are
        asked for.
        """
        return self._score(lambda *_: None)

    def _score(self, on_progress: OnProgress) -> BaseScores:
        n_images, n_classes = len(self.ids), self.predictor.n_classes
        large, blocks = is_large(n_images, n_classes), []
        for rows in self._blocks(np.arange(n_images)):
            said = score_views(self._view_logits(rows))
            held = said.logits[:0].copy() if large else said.logits  # a part would hold the whole
            blocks.append((held, said.label, said.view_entropy))
            on_progress("what the predictor says", int(rows[-1]) + 1, n_images)
        logits, label, entropy = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        if large:
            logits = lazy_rows(self._logits, (n_images, n_classes), np.float32)
        return BaseScores(logits, label, entropy)

    def _logits(self, rows: Int) -> NDArray[np.float32]:
        found = [base_logits(self._view_logits(block)) for block in self._blocks(rows)]
        none = np.empty((0, self.predictor.n_classes), dtype=np.float32)
        return found[0] if len(found) == 1 else np.concatenate([none, *found])

    def _view_logits(self, rows: Int) -> NDArray[np.float32]:
        return self.predictor.logits(unit(self.views[rows]))

    def _blocks(self, rows: Int) -> Iterator[Int]:
        size = max(1, _BLOCK // (self.views.shape[1] * self.predictor.n_classes))
        return (rows[start : start + size] for start in range(0, len(rows), size))

    def prepare(self, spaces: Sequence[str], on_progress: OnProgress) -> None:
        """Of a large stream, read what lies in files once, and ask the predictor.

        So damage is found before work begins, and whoever waits sees how long it takes.
        """
        if is_large(len(self.ids), self.predictor.n_classes) and "base" not in vars(self):
            vars(self)["base"] = self._score(on_progress)
        for space in spaces:
            keys = self.keys(space)
            if isinstance(keys, LazyRows) and space != "predictor":
                keys.read_through(f"reading {space}", on_progress)

    def keys(self, space: str) -> NDArray[np.float32]:
        """Unit features (N, D_s) of a space: a stored one, `predictor`, or a transform of either.

        `NAME+center`, `NAME+whiten`, `NAME+pca:64` and `NAME+random:64` are fitted on all images
        of the stream without labels: transductive. See `marc.stream.transforms`.
        """
        keys, steps = self._stored(space)
        if not steps:
            return keys
        if space not in self._transformed:
            self._transformed.clear()  # hold one at a time: a sweep visits many
            self._transformed[space] = transforms.apply(np.asarray(keys), steps)
        return self._transformed[space]

    def row(self, item: int) -> Mapping[str, NDArray[np.float32]]:
        """One image's keys by space."""
        return _Row(self, item)

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
        fewer = views[:, :n_views] if isinstance(views, np.ndarray) else views.first(n_views)
        known = {name: digest for name, digest in self.known.items() if name != "views"}
        return replace(self, views=fewer, known=known, _transformed={})

    def subset(self, rows: Int) -> Features:
        """Some of the images (m,), in that order; large spaces are read when they are used."""
        dims = {name: self.dim(name) for name in self.spaces}

        def some(name: str) -> NDArray[np.float32]:
            return some_rows(self.spaces[name], rows)

        spaces = LazySpaces({name: partial(some, name) for name in dims}, dims)
        large = any(is_large(len(self.ids), dim) for dim in dims.values())
        return Features(
            views=some_rows(self.views, rows),
            predictor=self.predictor,
            spaces=spaces if large else dict(spaces),
            class_names=self.class_names,
            ids=tuple(self.ids[row] for row in rows),
            generated=None if self.generated is None else some_rows(self.generated, rows),
            pixels=self.pixels and (lambda row, n, of=self.pixels: of(int(rows[row]), n)),  # type: ignore[misc]
        )

    @cached_property
    def images(self) -> frozenset[str]:
        """Digests by which the images are known again: their plain views, and each space.

        Streams that share one of them are of the same images, whatever their names, views or
        labels.
        """
        own = [digest(self.clip_keys), *map(self._space_digest, self.spaces)]
        return self.part_of.union(own)

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """Digests of everything an answer depends on, part by part, so differences have names."""
        prompts = self.predictor.prompts
        return {
            "ids": digest(np.array(self.ids)),
            "class_names": digest(np.array(self.class_names)),
            "views": self.known.get("views") or digest(self.views),
            **({} if self.generated is None else {"generated": digest(self.generated)}),
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
