"""Tip-Adapter without training: labelled images vote for their classes, however the stream goes.

The memory is made once, of few-shot training images with true labels, and only read. So it knows
more than methods that see the unlabelled stream alone: a comparison must say so.

The shots come from a feature pack or a feature store of the same predictor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import check_features, number
from marc.memory import Resumable
from marc.peers._shots import Shots
from marc.scores import SHARPEST, kernel, unit
from marc.stream import Stream, Views
from marc.types import Query, Step

_ROWS = 1024  # images averaged at a time: their views may be larger than what is free


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

    _shots: Shots = field(init=False, repr=False)
    _keys: NDArray[np.float32] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._shots = Shots.read(self.shots, self.digest)
        self.shots = self._shots.path
        self.shots_weight = number("shots_weight", self.shots_weight)
        self.beta = number("beta", self.beta, at_most=SHARPEST)
        self._keys = _mean_keys(self._shots.views)
        self.digest = self._shots.digest

    def step(self, query: Query) -> Step:
        """Answer one image from the text and the labelled images."""
        self._shots.check_fit(query.predictor)
        base = query.predictor.logits(query.views[:1])[0]
        evidence = {"shots": self._read(query.clip_key)}
        weights = {"shots": self.shots_weight}
        return Step(query.item, base, evidence, weights, int(base.argmax()), 0.0)

    def check(self, stream: Stream) -> None:
        """Refuse shots that are among the images of the stream, or of other classes."""
        self._shots.check_stream(stream)

    def _read(self, key: NDArray[np.float32]) -> NDArray[np.float64]:
        """Kernel weights summed by class, (C,); exactly 0 for a class without shots."""
        weights = kernel(self._keys @ key, self.beta)
        sums = np.bincount(self._shots.labels, weights=weights, minlength=self._shots.n_classes)
        return sums.astype(np.float64)
