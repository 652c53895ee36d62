"""ZERO: the most confident views vote, each with one voice for its best class.

This is a mean of posteriors at temperature zero. Nothing is remembered and nothing is learned: an
image is answered from its own views. A tie between classes is broken by the discarded views, the
most confident of them first.

The released code votes with a small temperature instead of zero: the machine epsilon of its
logits, which is 0.001 in half precision. Then a vote is split between near classes, and ties are
rare. `votes="released"` does the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from marc.errors import number, one_of
from marc.memory import Resumable
from marc.peers.view_selection import check_fraction, select_views
from marc.scores import Float, Int, softmax
from marc.types import Query, Step

_VOTES = ("exact", "released")
_FALLBACKS = ("cosine", "released")
_FLOAT16_EPSILON = float(np.finfo(np.float16).eps)
"""9.8e-4: the released temperature where logits are in half precision, as on a GPU."""
_FLOAT32_EPSILON = float(np.finfo(np.float32).eps)
"""1.2e-7: the released temperature where logits are in single precision: all but exact votes."""


@dataclass(eq=False)
class Zero(Resumable):
    """Votes of the kept views, and one more where a tie was broken; the scores are the votes."""

    name: ClassVar[str] = "zero"

    gamma: float = 0.3
    """The fraction of the views that vote: int(gamma M) of them."""
    votes: str = "exact"
    """`exact`: whole votes. `released`: votes split at `temperature`."""
    temperature: float = _FLOAT16_EPSILON
    """What cosines are divided by in released votes: the machine epsilon of their type, 9.8e-4
    for float16 and 1.2e-7 for float32. Exact votes have none."""
    fallback: str = "cosine"
    """Who wins a tie that no discarded view decides. `cosine`: the tied class with the largest
    summed cosine over the kept views. `released`: one vote goes to a class that is not tied; the
    tie stays, and the lowest class wins."""

    def __post_init__(self) -> None:
        self.gamma = check_fraction(self.gamma, "gamma")
        one_of("votes", self.votes, _VOTES)
        self.temperature = number("temperature", self.temperature, 1e-12)
        one_of("fallback", self.fallback, _FALLBACKS)

    def step(self, query: Query) -> Step:
        """Answer from the views of this image."""
        logits = query.view_logits
        kept = select_views(logits, self.gamma, method=self.name, setting="gamma")
        if self.votes == "exact":
            best = logits[kept].argmax(axis=1)
            votes = np.bincount(best, minlength=logits.shape[1]).astype(np.float32)
        else:
            # rounded before they are added, as released: a tie there is equality of float32 sums
            scale = query.predictor.logit_scale * self.temperature
            votes = softmax(logits[kept].astype(np.float64) / scale).astype(np.float32).sum(axis=0)
        tied = np.flatnonzero(votes == votes.max())
        if len(tied) > 1:
            winner = self._break_tie(tied, logits, kept)
            if winner is not None:
                votes[winner] += 1
        return Step(query.item, votes, {}, {}, int(votes.argmax()), 0.0, to_probabilities=None)

    def _break_tie(self, tied: Int, logits: Float, kept: Int) -> int | None:
        """The class that gets one more vote: that of the first discarded view for a tied one."""
        ranked = select_views(logits, 1.0, method=self.name)  # by entropy, the kept ones first
        discarded = logits[ranked[len(kept) :]]
        best = discarded.argmax(axis=1)
        fitting = best[np.isin(best, tied)]
        if len(fitting):
            return int(fitting[0])
        if self.fallback == "cosine":
            return int(tied[logits[kept][:, tied].sum(axis=0, dtype=np.float64).argmax()])
        if not len(discarded):
            return None
        # the released code means the tied classes of the first discarded view, but counts them from
        # the end: the classes that it leaves out are others, and a class that is not tied gains
        scores = discarded[0].copy()
        scores[len(scores) - 1 - tied] = -np.inf
        return int(scores.argmax())
