"""Tip-Adapter without training: labelled images vote for their classes, however the stream goes.

The memory is made once, of few-shot training images with true labels, and only read. So it knows
more than methods that see the unlabelled stream alone: a comparison must say so.

The shots come from a feature pack or a feature store of the same predictor.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, check_features, check_labels, number
from marc.memory import Resumable
from marc.peers._feature_files import check_digest, check_path, n_shared, read_images
from marc.scores import SHARPEST, Int, kernel, unit
from marc.stream import Stream, Views, digest, end_digest
from marc.types import Query, Step

_ROWS = 1024  # images averaged at a time: their views may be larger than what is free


@dataclass(frozen=True)
class _Shots:
    """Labelled images as a memory to read."""

    keys: NDArray[np.float32]
    """Unit features (N, D)."""
    labels: Int
    """True classes (N,)."""
    plain: NDArray[np.float32]
    """Unit features of the plain images alone, (N, D): they identify an image."""
    n_classes: int
    digest: str
    """Of the features as they are stored and of the labels."""

    def read(self, key: NDArray[np.float32], beta: float) -> NDArray[np.float64]:
        """Kernel weights summed by class, (C,); exactly 0 for a class without shots."""
        weights = kernel(self.keys @ key, beta)
        sums = np.bincount(self.labels, weights=weights, minlength=self.n_classes)
        return sums.astype(np.float64)


def _read_shots(path: str) -> _Shots:
    """The labelled images of a feature pack, or of a feature store where `path` is one."""
    stream = read_images(path)
    views, n_classes = stream.features.views, stream.n_classes
    labels = check_labels(stream.row_labels, views.shape[0], n_classes)
    if labels is None:
        raise MarcError(
            "these shots have no labels", got=path, hint="labels=... in Stream.from_arrays"
        )
    content = hashlib.sha256(f"{digest(views)}{digest(labels)}".encode())
    plain = stream.features.clip_keys
    return _Shots(_mean_keys(views), labels, plain, n_classes, end_digest(content))


def _mean_keys(views: Views) -> NDArray[np.float32]:
    """Unit keys (N, D): the mean of each image's views (N, M, D) as they are stored.

    Features that were stored at their own length are averaged so: longer ones count for more.
    """
    means = np.concatenate(
        [
            np.asarray(views[start : start + _ROWS]).mean(axis=1, dtype=np.float64)
            for start in range(0, views.shape[0], _ROWS)
        ]
    )
    check_features("mean views of the shots", means, ndim=2)
    return unit(means)


@dataclass(eq=False)
class TipAdapter(Resumable):
    """The logits of the plain image plus what the labelled images say; nothing is written."""

    name: ClassVar[str] = "tip-adapter"

    shots: str
    """Path of a feature pack, or of a feature store, of labelled training images."""
    shots_weight: float = 1.17
    """The paper's alpha: the weight of the labelled images beside the logits. The default is the
    released start for ImageNet."""
    beta: float = 1.0
    """How fast a labelled image's weight falls with distance; the released start everywhere."""
    digest: str = ""
    """Of what is read from `shots`; filled in, and if given it must agree."""

    _shots: _Shots = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.shots = check_path("shots", self.shots)
        self.shots_weight = number("shots_weight", self.shots_weight)
        self.beta = number("beta", self.beta, at_most=SHARPEST)
        self._shots = _read_shots(self.shots)
        self.digest = check_digest("shots", self.shots, self.digest, self._shots.digest)

    def step(self, query: Query) -> Step:
        """Answer one image from the text and the labelled images."""
        self._check_fit(query)
        base = query.predictor.logits(query.views[:1])[0]
        evidence = {"shots": self._shots.read(query.clip_key, self.beta)}
        weights = {"shots": self.shots_weight}
        return Step(query.item, base, evidence, weights, int(base.argmax()), 0.0)

    def check(self, stream: Stream) -> None:
        """Refuse shots that are among the images of the stream."""
        shared = n_shared(self._shots.plain, stream)
        if shared:
            raise MarcError(
                "shots must not be images of the stream that is evaluated",
                got=f"{shared} of {len(self._shots.labels)} shots are in it",
                allowed="labelled images from elsewhere",
                hint="shots=FILE of a training split",
            )

    def _check_fit(self, query: Query) -> None:
        classes, dim = query.predictor.prototypes.shape
        if (classes, dim) != (self._shots.n_classes, self._shots.keys.shape[1]):
            raise MarcError(
                "the shots do not fit this stream",
                got=f"{self.shots}: {self._shots.n_classes} classes, "
                f"{self._shots.keys.shape[1]} dimensions",
                allowed=f"{classes} classes, {dim} dimensions",
                hint="shots of the same classes, embedded by the same predictor",
            )
