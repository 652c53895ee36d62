"""Labelled images beside the stream, few of each class, for methods that learn from them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, check_labels
from marc.peers._feature_files import check_digest, check_path, n_shared, read_images
from marc.scores import Int
from marc.stream import Stream, Views, digest, end_digest
from marc.stream.predictor import Predictor


@dataclass(frozen=True)
class Shots:
    """Labelled training images, of a feature pack or a feature store of the same predictor."""

    path: str
    """Where they were read, as it was given."""
    views: Views
    """Their features as they are stored, (N, M, D)."""
    labels: Int
    """True classes (N,)."""
    plain: NDArray[np.float32]
    """Unit features of the plain images alone, (N, D): they identify an image."""
    class_names: tuple[str, ...]
    """C names, those of `Stream.from_arrays` where none were given."""
    digest: str
    """Of the features as they are stored and of the labels."""

    @classmethod
    def read(cls, given: object, named: str = "") -> Shots:
        """Those at a path, refused if they are not the ones that a digest names."""
        path = check_path("shots", given)
        stream = read_images(path)
        views, names = stream.features.views, tuple(stream.features.class_names)
        labels = check_labels(stream.row_labels, views.shape[0], stream.n_classes)
        if labels is None:
            raise MarcError(
                "these shots have no labels", got=path, hint="labels=... in Stream.from_arrays"
            )
        content = hashlib.sha256(f"{digest(views)}{digest(labels)}".encode())
        found = check_digest("shots", path, named, end_digest(content))
        return cls(path, views, labels, stream.features.clip_keys, names, found)

    @property
    def n_classes(self) -> int:
        """C."""
        return len(self.class_names)

    def check_stream(self, stream: Stream) -> None:
        """Refuse shots that are among the images of the stream, or whose classes are others."""
        self.check_names(stream.features.class_names)
        shared = n_shared(self.plain, stream)
        if shared:
            raise MarcError(
                "shots must not be images of the stream that is evaluated",
                got=f"{shared} of {len(self.labels)} shots are in it",
                allowed="labelled images from elsewhere",
                hint="shots=FILE of a training split",
            )

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse other names of as many classes, or another order, where both are known.

        Capitals and underscores do not matter.
        """
        if len(names) != self.n_classes or _made_up(names) or _made_up(self.class_names):
            return  # another number of classes is refused with the dimensions
        for label, (mine, theirs) in enumerate(zip(self.class_names, names, strict=True)):
            if _plain(mine) != _plain(theirs):
                raise MarcError(
                    "the classes of the shots are not those of the stream, or in another order",
                    got=f"{self.path}: class {label} is {mine!r:.80}",
                    allowed=f"{theirs!r:.80}, as in the stream",
                    hint="shots of the same classes in the same order, with the same class_names",
                )

    def check_fit(self, predictor: Predictor) -> None:
        """Refuse shots of other classes or of another predictor than the stream's."""
        (classes, dim), mine = predictor.prototypes.shape, self.plain.shape[1]
        if (classes, dim) != (self.n_classes, mine):
            raise MarcError(
                "the shots do not fit this stream",
                got=f"{self.path}: {self.n_classes} classes, {mine} dimensions",
                allowed=f"{classes} classes, {dim} dimensions",
                hint="shots of the same classes, embedded by the same predictor",
            )


def _made_up(names: Sequence[str]) -> bool:
    """Whether names are those that classes get where none are given."""
    return list(names) == [f"class {label}" for label in range(len(names))]


def _plain(name: str) -> list[str]:
    return name.replace("_", " ").casefold().split()
