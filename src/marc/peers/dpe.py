"""DPE: two sets of prototypes evolve, of texts and of images, and each image moves both once.

The image joins the cache of its pseudo-class, if it is sure enough; the mean of a class's cached
features is its image prototype. Then residuals on both sets of prototypes, zero at first, take one
step of AdamW down the entropy of the fused answer plus a contrastive loss that holds the two
prototypes of a class together. The moved prototypes answer the image. If that answer is sure, the
moved text prototypes join the running mean that the next image starts from; the image residual is
always thrown away.

The contrastive loss and its gradient know no image, only the prototypes: they are computed anew
only when those have changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import check_same_text, integer, number, one_of
from marc.memory import Resumable, check_keys, check_stored
from marc.peers._arrays import MOST_SEEN, MOST_SLOTS, check_arrays
from marc.peers._residuals import Rows, SameTexts, lengths, marginal_entropy
from marc.peers.view_selection import check_fraction, select_views
from marc.scores import Float, Int, kernel, softmax, softmax_entropy
from marc.types import Query, Step

_EPSILON = 1e-3  # of AdamW, as released
_TEMPERATURE = 0.01  # of the contrastive loss, as released, whatever the logit scale is
_ANSWERS = ("plain", "views")


@dataclass(eq=False)
class DPE(Resumable):
    """Dual prototype evolving; the defaults are those for ImageNet.

    >>> DPE(capacity=2).config()["capacity"]
    2
    """

    name: ClassVar[str] = "dpe"

    capacity: int = 3
    """Cached features of a class."""
    alpha: float = 6.0
    """The weight of the image prototypes."""
    beta: float = 5.0
    """The sharpness of their kernel."""
    text_rate: float = 6e-4
    """The learning rate of the text residual."""
    image_rate: float = 6e-4
    """The learning rate of the image residual."""
    align: float = 0.5
    """The weight of the contrastive loss."""
    threshold: float = 0.1
    """Text prototypes evolve after an answer whose entropy, in nats over log2(C), is below this."""
    fraction: float = 0.1
    """The fraction of the views that is kept, where there is more than one view."""
    answer: str = "plain"
    """What the moved prototypes answer: `plain`, the plain image; `views`, the mean of the views
    that are surest with these prototypes, as released for ImageNet-A."""

    _memory: _Prototypes | None = field(default=None, init=False, repr=False)
    _texts: SameTexts | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.capacity = integer("capacity", self.capacity, 1, MOST_SLOTS)
        for name in ("alpha", "beta", "text_rate", "image_rate", "align", "threshold"):
            setattr(self, name, number(name, getattr(self, name)))
        self.fraction = check_fraction(self.fraction)
        one_of("answer", self.answer, _ANSWERS)

    def step(self, query: Query) -> Step:
        """Store the image, move both sets of prototypes for it, answer, and evolve the texts."""
        predictor = query.predictor
        if self._texts is None or self._texts.source is not predictor:
            self._texts = SameTexts.of(predictor)
        if self._memory is None:
            self._memory = _Prototypes.empty(predictor.prototypes, self.capacity)
        memory, scale = self._memory, predictor.logit_scale
        memory.source = check_same_text(predictor.prototypes, memory.source)
        kept, logits = self._kept(query.views, memory.text.unit, scale)
        feature = query.views[kept].mean(axis=0)
        mean = logits.mean(axis=0, dtype=np.float64)
        label, in_nats = int(mean.argmax()), math.log2(len(mean))
        entropy = marginal_entropy(logits)[0] / in_nats
        memory.write(feature, label, entropy)
        text, image = self._moved(memory, mean, feature, scale)
        evidence = self._read(memory, Rows.of(text), image, query)
        weights = {"text": 1.0, "image": self.alpha}
        fused = evidence["text"] + self.alpha * evidence["image"]
        if softmax_entropy(fused) / in_nats < self.threshold:
            memory.evolve(text)
        base = self._base(query)
        return Step(query.item, base, evidence, weights, label, -entropy, base_weight=0.0)

    def _moved(
        self, memory: _Prototypes, mean: Float, feature: Float, scale: float
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Raw text (C, D) and image prototypes (n, D) after one step.

        The loss is H(softmax(l + alpha phi)) + align InfoNCE(image, text).
        """
        filled, text, image = memory.filled, memory.text, memory.image
        near = kernel((image.unit @ feature).astype(np.float64), self.beta)  # phi
        fused = mean.copy()
        fused[filled] += self.alpha * near
        pull = marginal_entropy(fused[np.newaxis])[1][0]
        along_text = np.multiply.outer((scale * pull).astype(np.float32), feature)
        pull = pull[filled] * self.alpha * self.beta * near
        along_image = np.multiply.outer(pull.astype(np.float32), feature)
        if self.align:
            by_image, by_text = memory.alignment()
            along_image += np.float32(self.align) * by_image
            along_text[filled] += np.float32(self.align) * by_text
        return (
            text.after_step(along_text, self.text_rate, _EPSILON),
            image.after_step(along_image, self.image_rate, _EPSILON),
        )

    def _read(
        self, memory: _Prototypes, text: Rows, image: Float, query: Query
    ) -> dict[str, NDArray[np.float64]]:
        """Logits of the text prototypes (C,), and the kernel to the image prototypes (C,)."""
        views = query.views[:1] if self.answer == "plain" else query.views
        kept, logits = self._kept(views, text.unit, query.predictor.logit_scale)
        cosines = (image @ views[kept].mean(axis=0)) / lengths(image)
        affinity = np.zeros(len(text.raw))
        affinity[memory.filled] = kernel(cosines.astype(np.float64), self.beta)
        return {"text": logits.mean(axis=0, dtype=np.float64), "image": affinity}

    def _kept(self, views: Float, texts: Float, scale: float) -> tuple[Int, NDArray[np.float32]]:
        """Which views are kept, and their logits (r, C) by unit texts."""
        assert self._texts is not None
        logits = np.asarray(np.float32(scale) * (views @ texts.T), dtype=np.float32)
        self._texts.tie(logits, texts)
        kept = select_views(logits, self.fraction, method=self.name)
        return kept, logits[kept]

    def _base(self, query: Query) -> NDArray[np.float32]:
        """The same answer from the prototypes as they were at first."""
        if self.answer == "plain" or len(query.views) == 1:
            return query.predictor.logits(query.views[:1])[0]
        logits = query.view_logits
        kept = select_views(logits, self.fraction, method=self.name)
        return logits[kept].mean(axis=0, dtype=np.float64).astype(np.float32)

    def _restored(self, state: dict[str, Any]) -> _Prototypes:
        return _Prototypes.from_state(state["arrays"], self.capacity)


class _Prototypes:
    """A running mean of text prototypes, and the cached features behind the image prototypes."""

    def __init__(
        self,
        source: NDArray[np.float32],
        text: NDArray[np.float32],
        n_evolved: int,
        keys: NDArray[np.float32],
        entropies: NDArray[np.float64],
        counts: NDArray[np.int64],
    ) -> None:
        self.source, self.text = source, Rows.of(text)
        """The text prototypes that it began with, and their running mean, (C, D) each."""
        self.n_evolved = n_evolved
        """How many answers joined the mean (C, D) of `text`; its start counts as one more."""
        self.keys, self.entropies, self.counts = keys, entropies, counts
        """Cached features (C, K, D) by class, the surest first, and how many there are, (C,)."""
        self._image: Rows | None = None
        self._alignment: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None

    @classmethod
    def empty(cls, text: NDArray[np.float32], capacity: int) -> _Prototypes:
        C, D = text.shape
        keys = np.zeros((C, capacity, D), dtype=np.float32)
        counts = np.zeros(C, dtype=np.int64)
        return cls(text, text.copy(), 0, keys, np.zeros((C, capacity)), counts)

    @property
    def filled(self) -> Int:
        """The classes with cached features, (n,)."""
        return np.flatnonzero(self.counts)

    @property
    def image(self) -> Rows:
        """Image prototypes of the filled classes: means of their cached features."""
        if self._image is None:
            counts = self.counts[filled := self.filled]
            means = self.keys[filled].sum(axis=1) / counts[:, np.newaxis].astype(np.float32)
            self._image = Rows.of(means)
        return self._image

    def alignment(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Gradients of the contrastive loss by unit image and text prototypes, (n, D) each."""
        if self._alignment is None:
            self._alignment = info_nce(self.image.unit, self.text.unit[self.filled])[1:]
        return self._alignment

    def write(self, feature: Float, label: int, entropy: float) -> None:
        """Cache a feature; a full class gives up its last one for a strictly surer one alone."""
        count, (capacity, entropies) = int(self.counts[label]), (self.keys.shape[1], self.entropies)
        if count == capacity:
            if not entropy < entropies[label, -1]:
                return
            count -= 1
        rank = int(np.searchsorted(entropies[label, :count], entropy, side="right"))
        for held, new in ((self.keys, feature), (entropies, entropy)):
            held[label, rank + 1 : count + 1] = held[label, rank:count].copy()
            held[label, rank] = new
        self.counts[label] = count + 1
        self._image = self._alignment = None

    def evolve(self, text: NDArray[np.float32]) -> None:
        """Let the moved text prototypes (C, D), of any length, join the running mean."""
        self.n_evolved += 1
        n = self.n_evolved
        mean = np.float32(n / (n + 1)) * self.text.raw
        self.text = Rows.of(mean + np.float32(1 / (n + 1)) * Rows.of(text).unit)
        self._alignment = None

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "prototypes": self.source.copy(),
            "text": self.text.raw.copy(),
            "n_evolved": np.array([self.n_evolved]),
            "keys": self.keys.copy(),
            "entropies": self.entropies.copy(),
            "counts": self.counts.copy(),
        }

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]], capacity: int) -> _Prototypes:
        C, D = arrays["text"].shape
        wanted: dict[str, tuple[Any, ...]] = {
            "prototypes": ("f4", C, D),
            "text": ("f4", C, D),
            "n_evolved": ("i8", 1),
            "keys": ("f4", C, capacity, D),
            "entropies": ("f8", C, capacity),
            "counts": ("i8", C),
        }
        check_arrays(arrays, wanted)
        counts, entropies, keys = arrays["counts"], arrays["entropies"], arrays["keys"]
        check_stored(
            ((counts >= 0) & (counts <= capacity)).all()
            and 0 <= arrays["n_evolved"][0] <= MOST_SEEN,
            "it counts what cannot be",
        )
        check_keys(arrays["text"])
        check_keys(keys.reshape(-1, D))
        held = np.arange(capacity) < counts[:, np.newaxis]
        falls = np.diff(entropies, axis=1) < 0
        check_stored(not (falls & held[:, 1:]).any(), "its entropies do not rise")
        check_stored(not (keys[~held].any() or entropies[~held].any()), "an empty slot is filled")
        n_evolved = int(arrays["n_evolved"][0])
        texts = arrays["prototypes"].copy(), arrays["text"].copy()
        return cls(*texts, n_evolved, keys.copy(), entropies.copy(), counts.copy())


def info_nce(
    image: Float, text: Float, temperature: float = _TEMPERATURE
) -> tuple[float, NDArray[np.float32], NDArray[np.float32]]:
    """Mean of -ln softmax_i(<k_i, t> / temperature), and its gradients by unit k and t, (n, D).

    One way only: every image prototype looks for its text among the texts.
    """
    scores = softmax(image @ text.T / np.float32(temperature))
    loss = float(-np.log(np.maximum(np.diagonal(scores), np.finfo(np.float64).tiny)).mean())
    n = len(scores)
    scores[np.arange(n), np.arange(n)] -= 1
    pull = (scores / (n * temperature)).astype(np.float32)
    by_image, by_text = pull @ text, pull.T @ image
    return loss, by_image.astype(np.float32, copy=False), by_text.astype(np.float32, copy=False)
