"""The matched baseline as a method of its own: the predictor and its views, no memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from marc.core import Query, Step
from marc.method_cards import as_state, config_of, settings_in


@dataclass(frozen=True)
class NoMemory:
    """argmax of the base logits of equation 1: what MARC gives at weight 0."""

    name: ClassVar[str] = "no-memory"
    varies_with: ClassVar[frozenset[str]] = frozenset()
    """Nothing is stored."""

    def step(self, query: Query) -> Step:
        """Answer from the predictor alone."""
        return Step(query.item, query.base.logits, {}, {}, int(query.base.label), 0.0)

    def reset(self) -> None:
        """Nothing to forget."""

    def config(self) -> dict[str, Any]:
        """No settings."""
        return config_of(self)

    def state(self) -> dict[str, Any]:
        """Nothing is remembered."""
        return as_state(self, {})

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> NoMemory:
        """The method that gave a state."""
        return cls(**settings_in(state))
