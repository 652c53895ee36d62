"""Unlabelled images beside the stream, for methods that learn from them before its first image."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Self

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.peers._feature_files import check_digest, check_path, n_shared, read_images
from marc.stream import Features, Stream, digest, end_digest
from marc.types import Query


@dataclass(frozen=True)
class Unlabelled:
    """Unlabelled images of a feature pack or a feature store."""

    path: str
    """Where they were read, as it was given."""
    space: str
    """The second space that is read; empty for none."""
    plain: NDArray[np.float32]
    """Unit features of the plain images, (N, D)."""
    both: NDArray[np.float32]
    """Those of the second space, and the plain ones beside them; the plain ones where none is."""
    digest: str
    """Of all that is read."""

    @classmethod
    def read(cls, given: object, named: str, space: str = "") -> Self:
        """Those at a path, refused if they are not the ones that a digest names."""
        path = check_path("unlabelled", given)
        features = read_images(path).features
        plain = both = np.ascontiguousarray(features.clip_keys)
        found = digest(plain)
        if space:
            both = joined(_keys(features, space, path), plain)
            found = end_digest(sha256(f"{found}{digest(both)}".encode()))
        found = check_digest("unlabelled images", path, named, found)
        return cls(path, space, plain, both, found)

    def check_apart(self, stream: Stream, why: str, hint: str) -> None:
        """Refuse images that are among those of the stream."""
        shared = n_shared(self.plain, stream)
        if shared:
            raise MarcError(
                f"unlabelled images must not be images of the stream that is evaluated: {why}",
                got=f"{shared} of {len(self.plain)} unlabelled images are in it",
                allowed="images from elsewhere",
                hint=hint,
            )

    def check_fit(self, query: Query) -> None:
        """Refuse images of other dimensions than those of the stream."""
        found = self.plain.shape[1], self.both.shape[1] - self.plain.shape[1]
        wanted = len(query.clip_key), len(query.key(self.space)) if self.space else 0
        if found != wanted:
            raise MarcError(
                "the unlabelled images do not fit this stream",
                got=f"{self.path}: {self._told(*found)}",
                allowed=self._told(*wanted),
                hint="unlabelled images that the same encoders embedded",
            )

    def _told(self, dim: int, other: int) -> str:
        return f"{dim} dimensions" + (f", and {other} in {self.space}" if self.space else "")


def _keys(features: Features, space: str, path: str) -> NDArray[np.float32]:
    """Features (N, D_s) of a space, refused as those of the file where it has none."""
    try:
        return features.keys(space)
    except MarcError as error:
        raise MarcError(
            f"the unlabelled images: {error.problem}",
            got=f"{path}: {error.got}",
            allowed=error.allowed,
            hint="unlabelled images with this space, or a space that they and the stream have",
        ) from error


def joined(keys: NDArray[np.float32], plain: NDArray[np.float32]) -> NDArray[np.float32]:
    """Unit features of a second encoder (N, D_s) and of the predictor (N, D), side by side."""
    return np.ascontiguousarray(np.concatenate([keys, plain], axis=1), dtype=np.float32)
