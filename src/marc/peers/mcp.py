"""MCP: images of low entropy, images near their class, and uncertain ones that vote against.

Two small memories per pseudo-class hold images that vote for it: one keeps the lowest entropies,
the other gives an image up only to one that is more certain and lies nearer to the class as well.
The mean of both is the prototype of the class. A third memory holds uncertain images, as in TDA.

An image is stored first and answered then, by the sum of three posteriors: that of the surest
views; that over class vectors which attention builds from both memories and the text, as in
DMN-ZS; and that of the plain image with the votes of the prototypes. A prototype is refreshed when
an image is offered to its class, so what the third memory's detour writes is not seen before that.

The weights of the last two were chosen on evaluation labels by the authors. Here they are fixed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, check_same_text, integer, number, one_of
from marc.memory import NegativeMemory, NegativeRule, Resumable, check_keys, check_stored
from marc.peers import tda
from marc.peers._arrays import MOST_SLOTS, check_arrays
from marc.peers.dynamic_memory import DynamicMemory, Slots
from marc.peers.view_selection import check_fraction, select_views
from marc.scores import SHARPEST, Float, kernel, share, softmax, softmax_entropy
from marc.types import Query, Step

_VIEW_RIDGE = 1e-6
"""Added to probabilities inside the logarithm where the views of the first posterior are chosen."""
_LEAST = 1e-8
"""A probability counts as at least this inside the logarithm of that posterior's entropy."""


@dataclass(eq=False)
class MCP(Resumable):
    """Three memories and a prototype per class. The defaults are those released for ImageNet.

    >>> MCP(alpha=5.0, beta=5.0).config()["negative_weight"]
    0.117
    """

    name: ClassVar[str] = "mcp"

    entropy_capacity: int = 10
    """Images per pseudo-class in the memory of low entropy."""
    align_capacity: int = 10
    """Images per pseudo-class in the memory of images near their class."""
    alpha: float = 5.5
    beta: float = 8.0
    center: float = 0.8
    """What the prototype counts in the centre to which images are near; the text has the rest."""
    attention_beta: float = 5.5
    """Sharpness of the attention that builds the class vectors."""
    negative_weight: float = 0.117
    """What the votes against count."""
    negative_capacity: int = 3
    negative_beta: float = NegativeRule.beta
    band_low: float = NegativeRule.band[0]
    """The band, both ends open, is of entropy in nats over log2(C): 0.69 is its largest value."""
    band_high: float = NegativeRule.band[1]
    mask_low: float = NegativeRule.mask[0]
    """An item votes against the classes whose probability lies between these bounds."""
    mask_high: float = NegativeRule.mask[1]
    query: str = "view0"
    """What is stored by entropy and asks the prototypes: `view0`, or `aggregated`, the mean of the
    kept views, as released for ImageNet-A."""
    fraction: float = 0.1
    """The fraction of the views that is kept: those of lowest entropy."""
    cache_weight: float = 1.0
    """What the posterior over the class vectors counts."""
    prototype_weight: float = 1.0
    """What the posterior with the votes of the prototypes counts."""

    _memory: Caches | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("entropy_capacity", "align_capacity"):
            setattr(self, name, integer(name, getattr(self, name), 1, MOST_SLOTS))
        self.negative_capacity = integer("negative_capacity", self.negative_capacity, 0, MOST_SLOTS)
        for name in ("alpha", "negative_weight", "cache_weight", "prototype_weight"):
            setattr(self, name, number(name, getattr(self, name)))
        self.center = number("center", self.center, at_most=1)
        for name in ("beta", "attention_beta", "negative_beta"):
            setattr(self, name, number(name, getattr(self, name), at_most=SHARPEST))
        for low, high in (("band_low", "band_high"), ("mask_low", "mask_high")):
            for name in (low, high):
                setattr(self, name, number(name, getattr(self, name)))
            bounds = getattr(self, low), getattr(self, high)
            if bounds[0] > bounds[1]:
                raise MarcError(f"{low} is above {high}", got=bounds, allowed=f"{low} <= {high}")
        self.query = one_of("query", self.query, ("view0", "aggregated"))
        self.fraction = check_fraction(self.fraction)

    def step(self, query: Query) -> Step:
        """Store one image, then answer it with what is remembered, itself included."""
        self._memory = caches = Caches.ready(self, query, self._memory)
        seen = Seen.of(query, self)
        caches.store(seen, query)
        votes = caches.votes(caches.prototypes @ seen.plain.key)
        votes -= self.negative_weight * caches.negative.read(seen.plain.key)
        evidence = {
            "cache": caches.attended(query, seen),
            "prototype": softmax(seen.plain.logits + votes),
        }
        weights = {"cache": self.cache_weight, "prototype": self.prototype_weight}
        base, (label, entropy) = seen.posterior.astype(np.float32), seen.offered
        return Step(query.item, base, evidence, weights, label, -entropy, to_probabilities=share)

    def _restored(self, state: dict[str, Any]) -> Caches:
        return Caches.restored(self, state["arrays"])


@dataclass(frozen=True)
class Seen:
    """What the predictor says of one image before any memory."""

    plain: tda.Seen
    """Of the plain image, or of the kept views together: key (D,), logits (C,), entropy, label."""
    posterior: NDArray[np.float64]
    """Mean posterior of the kept views, (C,)."""
    text_cosines: NDArray[np.float64]
    """Of the plain image with the text prototypes, (C,)."""

    @classmethod
    def of(cls, query: Query, method: MCP) -> Seen:
        """As MCP looks at an image."""
        logits, plain = query.view_logits, method.query == "view0"
        chosen = [0] if plain else select_views(logits, method.fraction, method=method.name)
        return cls(
            plain=tda.Seen.together(query.views[chosen], logits[chosen]),
            posterior=surest(logits, method),
            text_cosines=logits[0] / np.float64(query.predictor.logit_scale),
        )

    @property
    def offered(self) -> tuple[int, float]:
        """The pseudo-label and the entropy with which the first memory is offered the image."""
        return int(self.plain.label), float(self.plain.entropy)


def surest(view_logits: Float, method: MCP) -> NDArray[np.float64]:
    """Mean posterior (C,) of the views of lowest entropy."""
    kept = select_views(view_logits, method.fraction, method=method.name, ridge=_VIEW_RIDGE)
    return softmax(view_logits[kept]).mean(axis=0)


class Caches:
    """Everything MCP remembers."""

    def __init__(self, method: MCP, text: NDArray[np.float32]) -> None:
        (n_classes, dim), sizes = text.shape, (method.entropy_capacity, method.align_capacity)
        self.method = method
        self.by_entropy, self.near = (Slots(n_classes, size, dim) for size in sizes)
        self.joint = DynamicMemory(text, sum(sizes), beta=method.attention_beta)
        """Both of them together, as the prototypes know them."""
        self.negative = NegativeMemory(n_classes, dim, NegativeRule.of(method))
        self.prototypes = np.zeros((n_classes, dim))
        """Means of both, not of unit length; zero for a class without images."""
        self.stale = np.zeros(n_classes, dtype=bool)
        """Classes whose images changed since their prototype was made."""

    @classmethod
    def ready(cls, method: MCP, query: Query, known: Caches | None) -> Caches:
        """The caches so far, or empty ones; other texts than before are refused."""
        text = query.predictor.prototypes
        caches = cls(method, text) if known is None else known
        caches.joint.text = check_same_text(text, caches.joint.text)
        return caches

    def store(self, seen: Seen, query: Query) -> None:
        """Offer one image to the memories, in the released order."""
        (label, entropy), key = seen.offered, seen.plain.key
        near = int(seen.posterior.argmax())
        self._write_by_entropy(key, label, entropy, query.item)
        self._write_near(seen, near, query)
        for touched in {label, near}:
            if self.stale[touched]:
                self._refresh(touched)
        self._reconsider(seen, query.item)

    @property
    def held(self) -> NDArray[np.bool_]:
        """Classes (C,) that have a prototype."""
        return self.joint.holds_images

    def votes(self, cosines: Float) -> NDArray[np.float64]:
        """Votes alpha phi (C,) from cosines with the prototypes; exactly 0 for a class without."""
        votes = self.method.alpha * kernel(cosines.astype(np.float64), self.method.beta)
        return np.where(self.held, votes, 0.0)

    def attended(self, query: Query, seen: Seen) -> NDArray[np.float64]:
        """Posterior (C,) over the class vectors that attention builds for the plain image."""
        cosines = self.joint.read(query.clip_key, seen.text_cosines).cosines
        return softmax(query.predictor.logit_scale * cosines)

    def _write_by_entropy(self, key: Float, label: int, entropy: float, item: int) -> None:
        slot = self.by_entropy.place(label, entropy)
        if slot is not None:
            self.by_entropy.put(key, label, slot, entropy, item)
            self.stale[label] = True

    def _write_near(self, seen: Seen, label: int, query: Query) -> None:
        """The plain image; a full class also asks it to be nearer than what it would give up."""
        p, key = seen.posterior, query.clip_key
        entropy = float(-(p * np.log(np.maximum(p, _LEAST))).sum())
        slot = self.near.place(label, entropy)
        if slot is None:
            return
        if self.near.is_full(label):
            # the text alone for a class without a prototype; the centre is not of unit length
            part = self.method.center if self.joint.slots.rows[label] else 0.0
            center = part * self.prototypes[label] + (1 - part) * self.joint.text[label]
            worst = self.near.of_class("keys", label)[slot]
            if not np.linalg.norm(key - center) < np.linalg.norm(worst - center):
                return
        self.near.put(key, label, slot, entropy, query.item)
        self.stale[label] = True

    def _refresh(self, label: int) -> None:
        """Form the prototype anew; an image that both memories hold counts twice."""
        both = [slots.of_class("keys", label) for slots in (self.near, self.by_entropy)]
        features = np.concatenate(both)
        self.joint.fill(label, features)
        self.prototypes[label] = features.mean(axis=0, dtype=np.float64)
        self.stale[label] = False

    def _reconsider(self, seen: Seen, item: int) -> None:
        """Let the images of low entropy vote on an uncertain one, and store it by the outcome.

        Still uncertain, it is remembered as that; certain now, it goes into the first memory,
        whose prototype does not know it yet.
        """
        rule, n_classes, key = self.negative.rule, len(self.stale), seen.plain.key
        if not rule.admits(seen.plain.entropy, n_classes):
            return
        cosines = self.by_entropy.filled("keys") @ key
        votes = kernel(cosines, self.method.beta)
        evidence = np.bincount(self.by_entropy.filled("labels"), votes, minlength=n_classes)
        logits = seen.plain.logits + self.method.alpha * evidence
        label, entropy = int(logits.argmax()), float(softmax_entropy(logits))
        if rule.admits(entropy, n_classes):
            self.negative.write(key, label, entropy, softmax(logits))
        elif entropy / math.log2(n_classes) <= rule.band[0]:
            self._write_by_entropy(key, label, entropy, item)

    def state(self) -> dict[str, Any]:
        """Everything stored, as arrays by memory."""
        return {
            "by_entropy": self.by_entropy.state(),
            "near": self.near.state(),
            "joint": self.joint.state(),
            "negative": self.negative.state(),
            "prototypes": {"rows": self.prototypes.copy(), "stale": self.stale.copy()},
        }

    @classmethod
    def restored(cls, method: MCP, parts: dict[str, Any]) -> Caches:
        """The caches that gave a state."""
        sizes, beta = (method.entropy_capacity, method.align_capacity), method.attention_beta
        joint = DynamicMemory.from_state(parts["joint"], sum(sizes), beta=beta)
        caches = cls(method, joint.text)
        caches.joint, (C, D) = joint, joint.text.shape
        slots = [
            Slots.from_state(parts[name], C, size)
            for name, size in zip(("by_entropy", "near"), sizes, strict=True)
        ]
        caches.by_entropy, caches.near = slots
        caches.negative = NegativeMemory.from_state(parts["negative"], NegativeRule.of(method))
        dims = {caches.negative.dim, *(each.dim for each in slots)}
        check_stored(dims == {D} and caches.negative.n_classes == C, "its memories do not fit")
        prototypes = parts["prototypes"]
        check_arrays(prototypes, {"rows": ("f8", C, D), "stale": ("b1", C)})
        check_keys(prototypes["rows"])
        caches.prototypes, caches.stale = (prototypes[name].copy() for name in ("rows", "stale"))
        return caches
