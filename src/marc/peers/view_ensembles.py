"""Two ensembles over the views of lowest entropy: their mean logits, and their mean posterior.

The first is the mean feature's logits too, because a logit is linear in the feature. The second
can answer differently: a confident view counts for more among logits than among posteriors. Neither
remembers anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from marc.errors import integer, number
from marc.memory import Resumable
from marc.peers.view_selection import check_fraction, select_views
from marc.scores import share, softmax
from marc.types import Query, Step


@dataclass(eq=False)
class ViewEnsemble(Resumable):
    """argmax of the mean of the raw logits of the kept views; at its defaults `no-memory`."""

    name: ClassVar[str] = "view-ensemble"

    fraction: float = 0.1
    """The fraction of the views that is kept."""
    at_least: int = 1
    """Views that are kept however small the fraction is; 0 refuses where it is none."""

    def __post_init__(self) -> None:
        self.fraction = check_fraction(self.fraction)
        self.at_least = integer("at_least", self.at_least, 0)

    def step(self, query: Query) -> Step:
        """Answer from the views of this image."""
        logits = query.view_logits
        kept = select_views(logits, self.fraction, method=self.name, at_least=self.at_least)
        base = logits[kept].mean(axis=0, dtype=np.float64).astype(np.float32)
        return Step(query.item, base, {}, {}, int(base.argmax()), 0.0)


@dataclass(eq=False)
class ProbabilityEnsemble(ViewEnsemble):
    """argmax of the mean of the posteriors of the kept views."""

    name: ClassVar[str] = "probability-ensemble"

    ridge: float = 0.0
    """Added inside the logarithm of the entropies; DMN and COSMIC add 1e-6."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ridge = number("ridge", self.ridge)

    def step(self, query: Query) -> Step:
        """Answer from the views of this image."""
        logits = query.view_logits
        kept = select_views(
            logits, self.fraction, method=self.name, at_least=self.at_least, ridge=self.ridge
        )
        base = softmax(logits[kept]).mean(axis=0).astype(np.float32)
        return Step(query.item, base, {}, {}, int(base.argmax()), 0.0, to_probabilities=share)
