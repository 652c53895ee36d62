"""Zero-shot: the plain image against the text, nothing else.

The other views are not looked at, so the answer is the same for every number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from marc.memory import Resumable
from marc.types import Query, Step


@dataclass(frozen=True)
class ZeroShot(Resumable):
    """argmax of the logits of view 0."""

    name: ClassVar[str] = "zero-shot"

    def step(self, query: Query) -> Step:
        """Answer from the plain image alone."""
        logits = query.predictor.logits(query.views[:1])[0]
        return Step(query.item, logits, {}, {}, int(logits.argmax()), 0.0)


@dataclass(frozen=True)
class NoMemory(Resumable):
    """argmax of the base logits of equation 1: what MARC gives at weight 0."""

    name: ClassVar[str] = "no-memory"

    def step(self, query: Query) -> Step:
        """Answer from the predictor alone."""
        return Step(query.item, query.base.logits, {}, {}, int(query.base.label), 0.0)
