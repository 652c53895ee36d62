"""The matched baseline as a method of its own: the predictor and its views, no memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from marc.core import Query, Step
from marc.method_cards import as_state, config_of, settings_in


@dataclass(frozen=True)
class NoMemory:
    """argmax of the base logits of equation 1: what MARC gives at weight 0."""

    @property
    def name(self) -> str:
        """The name under which the method is listed."""
        return "no-memory"

    @property
    def varies_with(self) -> frozenset[str]:
        """Nothing is stored."""
        return frozenset()

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
