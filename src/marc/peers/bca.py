"""BCA: class embeddings that follow their images, and what each embedding says of the classes.

An image belongs to embedding m with the probability softmax(tau <f, mu_m>), and each embedding
says of it what it has learned of the classes: P(Y | x) = sum_m P(m | x) P(Y | m). In the beginning
the embeddings are the text, and each is sure of its own class: that is CLIP. Then the embedding of
the best class becomes a running mean with the image, and where the answer is sure, what it says
becomes a running mean with the posterior: so an embedding that is often near others says so.

Most priors never change, as few answers are that sure: those that have are stored alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import check_same_text, number
from marc.memory import Resumable, check_keys, check_stored
from marc.peers._arrays import MOST_SEEN, Texts, check_arrays
from marc.peers.view_selection import check_fraction, select_views
from marc.scores import Float, Int
from marc.types import Query, Step

_LEAST = float(np.finfo(np.float64).tiny)
_MOST_COUNT = 1e9
_FIRST_SLOTS = 16
_ONE = np.zeros(1, dtype=np.int64)  # of one view alone


@dataclass(eq=False)
class BCA(Resumable):
    """Bayesian class adaptation: likelihood and prior of every class embedding, image by image.

    >>> BCA().config()["mean_count"]
    20000.0
    """

    name: ClassVar[str] = "bca"

    mean_threshold: float = 0.05
    """An embedding moves to the image where the best class is more probable than this."""
    mean_count: float = 20_000.0
    """As many images as the text counts for in each embedding."""
    prior_threshold: float = 0.65
    """A prior moves to the posterior where the best class is more probable than this."""
    prior_count: float = 1.0
    """As many images as the certainty of its own class counts for in each prior."""
    fraction: float = 0.1
    """The fraction of the views that is kept, where there is more than one view."""

    _texts: Texts | None = field(default=None, init=False, repr=False)
    _memory: _Adapted | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("mean_threshold", "prior_threshold"):
            setattr(self, name, number(name, getattr(self, name), at_most=1))
        for name in ("mean_count", "prior_count"):
            setattr(self, name, number(name, getattr(self, name), at_most=_MOST_COUNT))
        self.fraction = check_fraction(self.fraction)

    def step(self, query: Query) -> Step:
        """Answer the image; then the embedding of the best class learns from it."""
        predictor, scale = query.predictor, np.float32(query.predictor.logit_scale)
        self._texts = texts = Texts.of(predictor.prototypes, self._texts)
        if self._memory is None:
            self._memory = _Adapted.fresh(predictor.prototypes, texts.rows)
        memory = self._memory
        memory.prototypes = check_same_text(predictor.prototypes, memory.prototypes)
        logits = scale * (query.views @ memory.means.T)
        kept = self._kept(logits, texts)
        nearness = _shares(logits[kept].mean(axis=0, dtype=np.float64), texts.n_classes)
        by_text = memory.mixed(nearness)
        posterior = (by_text / texts.n_classes)[texts.which]
        best = int(posterior.argmax())
        self._learn(memory, int(texts.which[best]), posterior[best], by_text, query.views[kept])
        return Step(
            query.item,
            self._base(query),
            {"adapted": np.log(np.maximum(posterior, _LEAST))},
            {"adapted": 1.0},
            best,
            0.0,
            base_weight=0.0,
        )

    def _kept(self, logits: Float, texts: Texts) -> Int:
        """The surest views by logits of texts (M, U); several classes may have one text."""
        return _ONE if len(logits) == 1 else self._surest(logits[:, texts.which])

    def _base(self, query: Query) -> NDArray[np.float32]:
        """What the text alone says of the views that are the surest by it."""
        if len(query.views) == 1:
            return query.base.logits
        view_logits = query.view_logits
        return np.asarray(view_logits[self._surest(view_logits)].mean(axis=0))

    def _surest(self, view_logits: Float) -> Int:
        return select_views(view_logits, self.fraction, method=self.name)

    def _learn(
        self, memory: _Adapted, text: int, sure: float, by_text: Float, views: Float
    ) -> None:
        """What the embedding of one text takes of an image with kept `views` (r, D)."""
        mean_seen, prior_seen = memory.counts[text]
        if sure > self.mean_threshold:
            image, count = views.mean(axis=0), self.mean_count + mean_seen
            moved = _running_mean(memory.means[text], image, count)
            memory.means[text] = moved / max(math.sqrt(moved @ moved), 1e-12)
            memory.counts[text, 0] += 1
        if sure > self.prior_threshold:
            slot, count = memory.slot_for(text), self.prior_count + prior_seen
            memory.priors[slot] = _running_mean(memory.priors[slot], by_text, count)
            memory.counts[text, 1] += 1

    def _restored(self, state: dict[str, Any]) -> _Adapted:
        return _Adapted.from_state(state["arrays"])


@dataclass(eq=False)
class _Adapted:
    """All embeddings, and the priors that have changed, one slot each; some slots are not used."""

    prototypes: NDArray[np.float32]
    """The text that it began with, (C, D)."""
    means: NDArray[np.float32]
    """Unit embeddings, (U, D)."""
    counts: NDArray[np.int64]
    """Images that moved the embedding, and the prior, (U, 2)."""
    slot_of: Int
    """The slot of each text's prior, (U,), -1 where there is none."""
    texts: Int
    """The text of each slot, (S,)."""
    priors: NDArray[np.float64]
    """P(text | embedding), (S, U): of all classes with that text together."""
    n_used: int = 0

    @classmethod
    def fresh(
        cls,
        prototypes: NDArray[np.float32],
        rows: NDArray[np.float32],
        n_slots: int = _FIRST_SLOTS,
    ) -> _Adapted:
        return cls(
            prototypes,
            rows.copy(),
            np.zeros((len(rows), 2), dtype=np.int64),
            np.full(len(rows), -1),
            np.zeros(n_slots, dtype=np.int64),
            np.zeros((n_slots, len(rows))),
        )

    def mixed(self, nearness: Float) -> NDArray[np.float64]:
        """sum_m P(m | x) P(text | m), (U,); an unchanged prior is sure of its own text."""
        mixed, changed = nearness.astype(np.float64), self.texts[: self.n_used]
        mixed[changed] = 0
        mixed += nearness[changed] @ self.priors[: self.n_used]
        return mixed

    def slot_for(self, text: int) -> int:
        """The slot of a text's prior, which is sure of it where there is none yet."""
        if self.slot_of[text] < 0:
            slot = self.n_used
            if slot == len(self.texts):
                self.texts = np.concatenate([self.texts, np.zeros_like(self.texts)])
                self.priors = np.concatenate([self.priors, np.zeros_like(self.priors)])
            self.slot_of[text], self.texts[slot], self.priors[slot, text] = slot, text, 1.0
            self.n_used += 1
        return int(self.slot_of[text])

    def state(self) -> dict[str, NDArray[np.generic]]:
        used = {"texts": self.texts[: self.n_used], "priors": self.priors[: self.n_used]}
        text = {"prototypes": self.prototypes, "means": self.means}
        arrays: dict[str, NDArray[Any]] = {**text, "counts": self.counts, **used}
        return {name: array.copy() for name, array in arrays.items()}

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]]) -> _Adapted:
        (n_texts, dim), n_used = arrays["means"].shape, len(arrays["texts"])
        check_arrays(
            arrays,
            {
                "prototypes": ("f4", len(arrays["prototypes"]), dim),
                "means": ("f4", n_texts, dim),
                "counts": ("i8", n_texts, 2),
                "texts": ("i8", n_used),
                "priors": ("f8", n_used, n_texts),
            },
        )
        texts, priors = arrays["texts"], arrays["priors"]
        changed = np.flatnonzero(arrays["counts"][:, 1])
        known = np.array_equal(np.sort(texts), changed)
        check_stored(known, "its priors are not those of the texts that changed")
        possible = (arrays["counts"] >= 0) & (arrays["counts"] <= MOST_SEEN)
        check_stored(possible.all(), "it counts what cannot be")
        sums = np.abs(priors.sum(axis=1) - 1) < 1e-6
        check_stored((priors >= 0).all() and sums.all(), "its priors do not add up to 1")
        check_keys(arrays["means"])
        text = Texts.of(arrays["prototypes"].copy())
        check_stored(len(text.rows) == n_texts, "its embeddings are not those of its texts")
        memory = cls.fresh(text.source, arrays["means"], max(n_used, _FIRST_SLOTS))
        memory.counts, memory.n_used = arrays["counts"].copy(), n_used
        memory.slot_of[texts] = np.arange(n_used)
        memory.texts[:n_used], memory.priors[:n_used] = texts, priors
        return memory


def _shares(logits: Float, n_classes: Int) -> NDArray[np.float64]:
    """P(m | x), (U,), where `n_classes` classes have each logit: all of them count.

    >>> _shares(np.zeros(2), np.array([1, 3])).tolist()
    [0.25, 0.75]
    """
    powers = n_classes * np.exp(logits - logits.max())
    return np.asarray(powers / powers.sum())


def _running_mean(mean: Float, new: Float, count: float) -> NDArray[np.float64]:
    """The mean of `count` rows that have this mean, and of a new one.

    >>> _running_mean(np.array([1.0]), np.array([4.0]), 2).tolist()
    [2.0]
    """
    return np.asarray((count * mean.astype(np.float64) + new) / (count + 1))
