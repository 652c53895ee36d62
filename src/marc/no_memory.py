"""The matched baseline as a method of its own: the predictor and its views, no memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from marc.core import Query, Step
from marc.method_cards import config_of, empty_state, forget_nothing, from_settings


@dataclass(frozen=True)
class NoMemory:
    """argmax of the base logits of equation 1: what MARC gives at weight 0."""

    name: ClassVar[str] = "no-memory"
    varies_with: ClassVar[frozenset[str]] = frozenset()
    """Nothing is stored."""

    def step(self, query: Query) -> Step:
        """Answer from the predictor alone."""
        return Step(query.item, query.base.logits, {}, {}, int(query.base.label), 0.0)

    reset, config, state = forget_nothing, config_of, empty_state
    from_state = classmethod(from_settings)
