"""Zero-shot: the plain image against the text, nothing else.

The other views are not looked at, so the answer is the same for every number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from marc.core import Query, Step
from marc.method_cards import MethodCard, as_state, config_of, settings_in


@dataclass(frozen=True)
class ZeroShot:
    """argmax of the logits of view 0."""

    name: ClassVar[str] = "zero-shot"
    varies_with: ClassVar[frozenset[str]] = frozenset()
    """Nothing is stored."""

    def step(self, query: Query) -> Step:
        """Answer from the plain image alone."""
        logits = query.predictor.logits(query.views[:1])[0]
        return Step(query.item, logits, {}, {}, int(logits.argmax()), 0.0)

    def reset(self) -> None:
        """Nothing to forget."""

    def config(self) -> dict[str, Any]:
        """No settings."""
        return config_of(self)

    def state(self) -> dict[str, Any]:
        """Nothing is remembered."""
        return as_state(self, {})

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> ZeroShot:
        """The method that gave a state."""
        return cls(**settings_in(state))


CARD = MethodCard(
    "zero-shot",
    "the plain image against the text; no other view, no memory",
    ZeroShot,
    reads_before_writes=None,
    paper="Learning Transferable Visual Models From Natural Language Supervision, ICML 2021, "
    "arXiv 2103.00020",
    paper_says="the class whose text embedding has the largest cosine with the image's",
    released_code="features in half precision on a GPU, so logits near 25 are rounded to 1/64",
    ours="single precision products; equal logits give the lowest class",
)
