"""Zero-shot: the plain image against the text, nothing else.

The other views are not looked at, so the answer is the same for every number of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from marc.memory import config_of
from marc.peers.cards import MethodCard, forget, from_settings, state_of
from marc.types import Query, Step


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

    reset, config, state = forget, config_of, state_of
    from_state = classmethod(from_settings)


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


@dataclass(frozen=True)
class NoMemory:
    """argmax of the base logits of equation 1: what MARC gives at weight 0."""

    name: ClassVar[str] = "no-memory"
    varies_with: ClassVar[frozenset[str]] = frozenset()
    """Nothing is stored."""

    def step(self, query: Query) -> Step:
        """Answer from the predictor alone."""
        return Step(query.item, query.base.logits, {}, {}, int(query.base.label), 0.0)

    reset, config, state = forget, config_of, state_of
    from_state = classmethod(from_settings)
