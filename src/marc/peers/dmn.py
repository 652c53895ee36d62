"""DMN-ZS: a large memory per class, from which every image builds its own class vectors.

Up to fifty images per pseudo-class are stored by lowest entropy. A query weighs the stored images
of a class, and its text, by their likeness to itself; the sum is the vector of the class for this
query. The posterior over these vectors is added to that of the text. An image is stored first and
answered then. The views only decide the pseudo-label and the entropy; what is stored and asked is
the plain image. The memory and how it is read are in `dynamic_memory`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import check_same_text, integer, number
from marc.memory import Resumable
from marc.peers.dynamic_memory import DynamicMemory
from marc.peers.view_selection import check_fraction, ridged_entropy, select_views
from marc.scores import SHARPEST, Int, share, softmax
from marc.types import Query, Step

_VIEW_RIDGE = 1e-6
"""Added to probabilities inside the logarithm where views are selected."""
_POSTERIOR_RIDGE = 1e-8
"""The same, where the entropy of an image is measured."""


@dataclass(frozen=True)
class _Look:
    """What the predictor says of one image before any memory."""

    posterior: NDArray[np.float64]
    """p_0, of the plain image."""
    text_cosines: NDArray[np.float64]
    """Of the plain image with the text prototypes."""
    kept: Int
    """The views of lowest entropy."""
    label: int
    """argmax of their mean posterior."""
    entropy: float
    """Of their mean posterior, in nats."""


def look(query: Query, fraction: float, *, method: str, at_least: int = 0) -> _Look:
    """Posteriors, pseudo-label and entropy of one image."""
    logits = query.view_logits
    kept = select_views(logits, fraction, method=method, at_least=at_least, ridge=_VIEW_RIDGE)
    mean = softmax(logits[kept]).mean(axis=0)
    return _Look(
        posterior=softmax(logits[0]),
        text_cosines=logits[0] / np.float64(query.predictor.logit_scale),
        kept=kept,
        label=int(mean.argmax()),
        entropy=float(ridged_entropy(mean, _POSTERIOR_RIDGE)),
    )


@dataclass(eq=False)
class DMN(Resumable):
    """Dual memory networks without training. The weight is fixed where the authors search it.

    >>> DMN(weight=0.3).config()["capacity"]
    50
    """

    name: ClassVar[str] = "dmn-zs"

    capacity: int = 50
    """Images per pseudo-class."""
    beta: float = 5.5
    """Sharpness of the attention."""
    weight: float = 1.0
    """What the posterior of the memory counts beside that of the text."""
    fraction: float = 0.1
    """The fraction of the views that decides the pseudo-label, those of lowest entropy."""

    _memory: DynamicMemory | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.capacity = integer("capacity", self.capacity, 1)
        self.beta = number("beta", self.beta, at_most=SHARPEST)
        self.weight = number("weight", self.weight)
        self.fraction = check_fraction(self.fraction)

    def step(self, query: Query) -> Step:
        """Store one image, then answer it with what is remembered, itself included."""
        seen = look(query, self.fraction, method=self.name)
        if self._memory is None:
            self._memory = DynamicMemory(query.predictor.prototypes, self.capacity, beta=self.beta)
        self._memory.text = check_same_text(query.predictor.prototypes, self._memory.text)
        self._memory.write(query.clip_key, seen.label, seen.entropy, query.item)
        cosines = self._memory.read(query.clip_key, seen.text_cosines).cosines
        return Step(
            query.item,
            seen.posterior.astype(np.float32),
            {"dynamic": softmax(query.predictor.logit_scale * cosines)},
            {"dynamic": self.weight},
            seen.label,
            -seen.entropy,
            to_probabilities=share,
        )

    @property
    def memory(self) -> DynamicMemory | None:
        """The memory, to look into; None before the first step."""
        return self._memory

    def _restored(self, state: dict[str, Any]) -> DynamicMemory:
        return DynamicMemory.from_state(state["arrays"], self.capacity, beta=self.beta)
