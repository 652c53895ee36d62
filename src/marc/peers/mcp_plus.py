"""MCP++: MCP whose text and image prototypes take one gradient step for every image.

A residual on each text prototype and on each prototype of the memories starts at zero, takes one
step of AdamW and is forgotten after the image. The loss has three parts: the entropy of the fused
answer; a contrast of the two kinds of prototypes; and the cosine of the image prototypes with the
means of the uncertain images of their classes. The memories are MCP's, and are those of MCP on the
same stream: no residual is stored.

As released, the contrast compares the dimensions of the features, not the classes (the paper's
matrices are transposed), and the votes of the prototypes and the votes against count twice: as they
are before the step, and once more after it.

The gradients are written out. Those of the entropy are multiples of the image's feature, and every
prototype is of unit length, so that only what is tangent to it remains. The contrast is a D x D
softmax, in float32 as it is most of the work; all else is float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from marc.errors import number
from marc.memory import NegativeMemory
from marc.peers._residuals import Rows, marginal_entropy
from marc.peers.mcp import MCP, Caches, Seen, surest
from marc.scores import Float, Int, share, softmax
from marc.stream.predictor import Predictor
from marc.types import Query, Step

_CONTRAST_WEIGHT, _APART_WEIGHT = 0.5, 0.2  # constants of the released loss
_TEMPERATURE = 0.01  # of the contrast
_EPSILON = 1e-3  # of AdamW
_RIDGE = 1e-7  # keeps the logarithm of 1 - cosine finite


@dataclass(eq=False)
class MCPPlus(MCP):
    """MCP with residuals on its prototypes. The defaults are those released for ImageNet.

    >>> MCPPlus(alpha=5.0, beta=5.0, image_learning_rate=8e-5).config()["text_learning_rate"]
    6e-05
    """

    name: ClassVar[str] = "mcp++"

    text_learning_rate: float = 6e-5
    """Of the residuals on the text prototypes."""
    image_learning_rate: float = 6e-5
    """Of those on the prototypes of the memories."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.text_learning_rate = number("text_learning_rate", self.text_learning_rate)
        self.image_learning_rate = number("image_learning_rate", self.image_learning_rate)

    def step(self, query: Query) -> Step:
        """Store one image, move the prototypes for it, then answer it with them."""
        self._memory = caches = Caches.ready(self, query, self._memory)
        seen = Seen.of(query, self)
        caches.store(seen, query)
        against = self.negative_weight * caches.negative.read(seen.plain.key)
        now, scale = _Prototypes.of(query.predictor, caches), query.predictor.logit_scale
        votes = now.votes(caches, seen)
        moved = self._moved(now, caches, seen, votes, against, scale)
        votes += moved.votes(caches, seen)
        evidence = {
            "text": surest(scale * (query.views @ moved.text.unit.T.astype(np.float32)), self),
            "cache": caches.attended(query, seen),
            "prototype": softmax(seen.plain.logits + votes - 2 * against),
        }
        weights = {"text": 1.0, "cache": self.cache_weight, "prototype": self.prototype_weight}
        base, (label, entropy) = seen.posterior.astype(np.float32), seen.offered
        return Step(
            query.item,
            base,
            evidence,
            weights,
            label,
            -entropy,
            base_weight=0.0,
            to_probabilities=share,
        )

    def _moved(
        self,
        now: _Prototypes,
        caches: Caches,
        seen: Seen,
        votes: Float,
        against: Float,
        scale: float,
    ) -> _Prototypes:
        """The prototypes after the step that residuals of zero take."""
        by_text, by_image = _gradients(
            now,
            _negative_means(caches.negative)[now.held],
            seen.plain.key,
            logits=seen.plain.logits + votes - against,
            pull=self.beta * votes[now.held],
            scale=scale,
        )
        text = now.text.after_step(by_text, self.text_learning_rate, _EPSILON)
        image = now.image.after_step(by_image, self.image_learning_rate, _EPSILON)
        return _Prototypes(now.held, Rows.of(text), Rows.of(image))


@dataclass(frozen=True)
class _Prototypes:
    """Both kinds of prototypes, in float64."""

    held: Int
    """The A classes that have an image prototype."""
    text: Rows
    """(C, D)."""
    image: Rows
    """(A, D)."""

    @classmethod
    def of(cls, predictor: Predictor, caches: Caches) -> Self:
        held = np.flatnonzero(caches.held)
        text = predictor.prototypes.astype(np.float64)
        return cls(held, Rows.of(text), Rows.of(caches.prototypes[held]))

    def votes(self, caches: Caches, seen: Seen) -> NDArray[np.float64]:
        """What the image prototypes add to the scores (C,) of an image."""
        cosines = np.zeros(len(self.text.raw))
        cosines[self.held] = self.image.unit @ seen.plain.key
        return caches.votes(cosines)


def _gradients(
    now: _Prototypes,
    negatives: Float,
    feature: Float,
    *,
    logits: Float,
    pull: Float,
    scale: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gradients of the loss by the directions of the text (C, D) and image prototypes (A, D).

    Args:
        now: the prototypes, without residuals.
        negatives: means of the uncertain images of the A classes, zero where there are none.
        feature: of the image, (D,).
        logits: the fused scores z (C,) before the step.
        pull: dz/dcos of each image prototype, alpha beta phi, (A,).
        scale: dz/dcos of each text prototype, tau.
    """
    slope, held, image = marginal_entropy(logits[np.newaxis])[1][0], now.held, now.image.unit
    contrast_text, contrast_image = _contrast_gradient(image, now.text.unit[held])
    by_text = scale * slope[:, np.newaxis] * feature
    by_text[held] += _CONTRAST_WEIGHT * contrast_text
    by_image = (slope[held] * pull)[:, np.newaxis] * feature
    by_image += _CONTRAST_WEIGHT * contrast_image + _APART_WEIGHT * _apart_slope(image, negatives)
    return by_text, by_image


def _apart_slope(image: Float, negatives: Float) -> NDArray[np.float64]:
    """Gradient (A, D) of mean(-ln(1 - cosine)) over the A classes by the directions of images."""
    directions = Rows.of(negatives).unit
    cosines = np.einsum("ad,ad->a", image, directions)
    return directions / (len(image) * (1 - cosines + _RIDGE))[:, np.newaxis]


def _contrast_gradient(
    image: Float, text: Float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gradient of InfoNCE between the dimensions of two sets of prototypes, each (A, D).

    Dimension i of the image prototypes, a vector over the A classes of unit length, should be
    nearer to dimension i of the texts than to the others: the mean over i of the cross-entropy of
    cosines / temperature. Returns the gradients in the texts and in the images.
    """
    q, k = (Rows.of(np.ascontiguousarray(each.T, dtype=np.float32)) for each in (image, text))
    p = (q.unit / np.float32(_TEMPERATURE)) @ k.unit.T  # (D, D)
    p -= p.max(axis=1, keepdims=True)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    p[np.diag_indices(len(p))] -= 1
    p /= _TEMPERATURE * len(p)
    by_image, by_text = q.by_raw(p @ k.unit), k.by_raw(p.T @ q.unit)
    return by_text.T.astype(np.float64), by_image.T.astype(np.float64)


def _negative_means(negative: NegativeMemory) -> NDArray[np.float64]:
    """Mean of the uncertain images that are stored under each class, (C, D); zero for none."""
    stored = negative.state()
    keys = stored["keys"].reshape(negative.n_classes, negative.rule.capacity, negative.dim)
    counts = (stored["arrival"].reshape(keys.shape[:2]) > 0).sum(axis=1, keepdims=True)
    return keys.sum(axis=1, dtype=np.float64) / np.maximum(counts, 1)
