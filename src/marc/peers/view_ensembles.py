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
from marc.memory import config_of
from marc.peers.cards import MethodCard, forget, from_settings, state_of
from marc.peers.view_selection import check_fraction, select_views
from marc.scores import softmax
from marc.types import Query, Step


@dataclass(eq=False)
class ViewEnsemble:
    """argmax of the mean of the raw logits of the kept views; at its defaults `no-memory`."""

    name: ClassVar[str] = "view-ensemble"
    varies_with: ClassVar[frozenset[str]] = frozenset()
    """Nothing is stored."""

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

    reset, config, state = forget, config_of, state_of
    from_state = classmethod(from_settings)


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
        return Step(query.item, base, {}, {}, int(base.argmax()), 0.0)


_LOGIT_CARD = MethodCard(
    "view-ensemble",
    "mean logits of the most confident views; no memory",
    ViewEnsemble,
    reads_before_writes=None,
    paper="Retrieval Geometry Shapes Cache-Based CLIP Adaptation, equation 1: its row without "
    "memory; with the mean of features it is the vision part of VTE",
    views="the tenth of them with the lowest entropy, at least one",
    paper_says="mean of the raw logits of the max(1, floor(0.1 M)) views of lowest entropy",
    released_code="most released codes keep int(0.1 M) views, which is none of 2 to 9",
    ours="as the paper; `at_least=0` refuses where the released codes average nothing. The mean "
    "of the features gives the same logits",
)

_PROBABILITY_CARD = MethodCard(
    "probability-ensemble",
    "mean posterior of the most confident views; no memory",
    ProbabilityEnsemble,
    reads_before_writes=None,
    paper="the first prediction of DMN (Dual Memory Networks, CVPR 2024, arXiv 2403.17589) and of "
    "COSMIC (CVPR 2025), as a method of its own",
    views="the tenth of them with the lowest entropy, at least one",
    paper_says="mean of the posteriors of the most confident tenth of the views",
    released_code="adds 1e-6 inside the logarithm of the entropies; only COSMIC keeps one view "
    "where the tenth is none, DMN goes on with the mean of nothing",
    ours="exact entropies and at least one view; `ridge=1e-6` gives the released entropies. Scores "
    "are probabilities, not logits",
)

CARDS = (_LOGIT_CARD, _PROBABILITY_CARD)
