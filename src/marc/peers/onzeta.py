"""OnZeta: label weights that even the classes out, and class proxies that learn from them.

Two learners go on image by image. The first multiplies each class's probability by exp(rho_k),
where rho_k grows as long as the class has got less than alpha / C of the images. The second keeps
one proxy per class in the space of images, begun at the text, and follows the gradient of its
cross-entropy with the labels of the first. The answer mixes the two.

The authors' code knows in advance how many images will come: the second learner's part in the
answer grows as sqrt(i / T). A service does not know it; `horizon=T` does as released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import check_same_text, integer, number
from marc.memory import Resumable, check_stored
from marc.peers._arrays import Texts, check_arrays
from marc.scores import Float, softmax
from marc.types import Query, Step

_LEAST = float(np.finfo(np.float64).tiny)


@dataclass(eq=False)
class OnZeta(Resumable):
    """Online label learning and online proxy learning, mixed.

    >>> OnZeta(horizon=10_000).config()["label_rate"]
    20.0
    """

    name: ClassVar[str] = "onzeta"

    label_rate: float = 20.0
    """c_rho: rho moves by c_rho / sqrt(i) at image i."""
    proxy_rate: float = 0.5
    """c_w: proxies move by c_w / sqrt(i) along the gradient."""
    alpha: float = 1.0
    """Each class is to get alpha / C of the images: 1 is all the same, 0 leaves labels alone."""
    beta: float = 0.8
    """The part of the proxies in the answer, at its largest."""
    vision_scale: float = 0.25
    """The proxies' logit scale as a part of the predictor's: 25 of CLIP's 100, as tau_I = 0.04."""
    horizon: int | None = None
    """T: the part of the proxies is beta sqrt(i / T) up to image T. None: beta from the first."""

    _texts: Texts | None = field(default=None, init=False, repr=False)
    _memory: _Learners | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.label_rate = number("label_rate", self.label_rate, at_most=1e4)
        self.proxy_rate = number("proxy_rate", self.proxy_rate, at_most=1e4)
        self.alpha = number("alpha", self.alpha, at_most=1)
        self.beta = number("beta", self.beta, at_most=1)
        self.vision_scale = number("vision_scale", self.vision_scale, 1e-6, 1e3)
        if self.horizon is not None:
            self.horizon = integer("horizon", self.horizon, 1)

    def step(self, query: Query) -> Step:
        """Answer the image, in which rho is that of the images before; then both learn from it."""
        predictor, feature = query.predictor, query.clip_key.astype(np.float64)
        self._texts = texts = Texts.of(predictor.prototypes, self._texts)
        if self._memory is None:
            self._memory = _Learners.of(texts)
        memory, scale = self._memory, self.vision_scale * predictor.logit_scale
        memory.prototypes = check_same_text(predictor.prototypes, memory.prototypes)
        logits = predictor.logits(query.views[:1])[0]
        labels = softmax(logits + memory.duals)
        cosines = memory.proxies @ feature
        seen = softmax((scale * cosines)[texts.which])
        rate = 1 / math.sqrt(memory.n_seen + 1)
        part = self._part_of_proxies(memory.n_seen + 1)
        mixed = part * seen + (1 - part) * labels
        memory.duals = _next_duals(memory.duals, labels, self.label_rate * rate, self.alpha)
        pull = (seen - labels)[texts.first]
        descend(memory.proxies, feature, self.proxy_rate * rate * scale * pull)
        memory.n_seen += 1
        return Step(
            query.item,
            logits,
            {"adapted": np.log(np.maximum(mixed, _LEAST))},
            {"adapted": 1.0},
            int(logits.argmax()),
            0.0,
            base_weight=0.0,
        )

    def _part_of_proxies(self, position: int) -> float:
        if self.horizon is None:
            return self.beta
        return self.beta * math.sqrt(min(position / self.horizon, 1))

    def _restored(self, state: dict[str, Any]) -> _Learners:
        arrays = state["arrays"]
        n_classes, (n_proxies, dim) = len(arrays["duals"]), arrays["proxies"].shape
        shapes = {"duals": ("f8", n_classes), "proxies": ("f8", n_proxies, dim)}
        shapes |= {"prototypes": ("f4", n_classes, dim)}
        check_arrays(arrays, {**shapes, "n_seen": ("i8", 1)})
        text = Texts.of(arrays["prototypes"].copy())
        check_stored(len(text.rows) == n_proxies, "its proxies are not those of its texts")
        duals, proxies = arrays["duals"].copy(), arrays["proxies"].copy()
        lengths = np.einsum("ud,ud->u", proxies, proxies)
        check_stored((duals >= 0).all(), "duals are below 0")
        check_stored((np.abs(lengths - 1) < 1e-6).all(), "its proxies are not of unit length")
        n_seen = integer("n_seen", arrays["n_seen"][0], 1)
        return _Learners(text.source, duals, proxies, n_seen)


@dataclass(eq=False)
class _Learners:
    """What both learners know."""

    prototypes: NDArray[np.float32]
    """The text that they began with, (C, D)."""
    duals: NDArray[np.float64]
    """rho, (C,): never below 0."""
    proxies: NDArray[np.float64]
    """Unit rows, one for each distinct text (U, D): classes with one text share theirs."""
    n_seen: int

    @classmethod
    def of(cls, texts: Texts) -> _Learners:
        rows = texts.rows.astype(np.float64)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return cls(texts.source, np.zeros(len(texts.which)), rows / lengths, 0)

    def state(self) -> dict[str, NDArray[np.generic]]:
        counted = np.array([self.n_seen])
        learned = {"duals": self.duals.copy(), "proxies": self.proxies.copy()}
        return {"prototypes": self.prototypes.copy(), **learned, "n_seen": counted}


def _next_duals(duals: Float, labels: Float, rate: float, alpha: float) -> NDArray[np.float64]:
    """A dual step: rho_k <- max(0, rho_k - rate (p_k - alpha / C)), (C,).

    >>> _next_duals(np.zeros(2), np.array([0.9, 0.1]), 1.0, 1.0).tolist()
    [0.0, 0.4]
    """
    return np.maximum(duals - rate * (labels - alpha / len(labels)), 0)


def descend(proxies: NDArray[np.float64], feature: Float, pull: Float) -> None:
    """Proxies (U, D) <- proxies - pull x feature, of unit length again, in place.

    The gradient of -sum p ln softmax(scale w f) by w_k is scale (q_k - p_k) f: a multiple of the
    image, so that a step moves each proxy to it or away from it.
    """
    from scipy.linalg.blas import dger

    dger(-1.0, feature, pull, a=proxies.T, overwrite_a=1)  # in place: the transpose is Fortran's
    lengths = np.sqrt(np.einsum("ud,ud->u", proxies, proxies))
    proxies *= (1 / np.maximum(lengths, 1e-12))[:, np.newaxis]
