"""TDA: a memory of confident images votes for classes, one of uncertain images votes against them.

Per pseudo-class, the three images of lowest entropy are kept, and two more whose entropy lies in a
middle band. An image is stored first and answered then: an admitted image votes for its own
pseudo-label with its own squared length as similarity. With several views, the mean feature of the
selected ones is both key and query, and it is not brought back to unit length, so its votes are
damped. `tda_replay` gives the same answers for whole streams at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, check_same_shape, integer, number
from marc.memory import (
    Memory,
    NegativeMemory,
    NegativeRule,
    config_of,
    named,
    part,
    settings_in,
)
from marc.peers.cards import MethodCard, forget, state_of
from marc.peers.view_selection import check_fraction, select_views
from marc.scores import Int, entropy, softmax
from marc.stream import Stream
from marc.types import Query, Run, Step


@dataclass(frozen=True)
class Seen:
    """What the views that count say together, of one image or of a block of them."""

    key: NDArray[np.float32]
    """Mean of their unit features, (..., D), not of unit length."""
    logits: NDArray[np.float32]
    """Mean of their logits, (..., C)."""
    posterior: NDArray[np.float64]
    """Mean of their posteriors, (..., C)."""
    entropy: NDArray[np.float64]
    """Of that posterior, in nats, (...)."""
    label: Int
    """argmax of the logits, (...)."""

    @classmethod
    def together(cls, views: NDArray[np.float32], view_logits: NDArray[np.float32]) -> Seen:
        """From the views that count, (..., r, D), and their logits, (..., r, C)."""
        logits = view_logits.mean(axis=-2, dtype=np.float64).astype(np.float32)
        posterior = softmax(view_logits).mean(axis=-2)
        key = views.mean(axis=-2, dtype=np.float64).astype(np.float32)
        return cls(key, logits, posterior, entropy(posterior), logits.argmax(axis=-1))

    @classmethod
    def alone(cls, query: Query) -> Seen:
        """What the only view says: the base scores, which were computed before."""
        base = query.base
        posterior = softmax(base.logits)
        return cls(query.clip_key, base.logits, posterior, base.entropy_as("tda"), base.label)

    def answer(
        self,
        item: int,
        positive: NDArray[np.float64],
        negative: NegativeMemory | None,
        negative_weight: float,
    ) -> Step:
        """Votes for are added to the logits; those against, its own vote too, are subtracted."""
        label, uncertainty = int(self.label), float(self.entropy)
        evidence, weights = {"positive": positive}, {"positive": 1.0}
        if negative is not None:
            negative.write(self.key, label, uncertainty, self.posterior)
            evidence["negative"], weights["negative"] = negative.read(self.key), -negative_weight
        return Step(item, self.logits, evidence, weights, label, -uncertainty)


def check_settings(method: Any) -> None:
    """Check the settings that TDA shares with what was built on it."""
    for name in ("capacity", "negative_capacity"):
        setattr(method, name, integer(name, getattr(method, name), 0))
    for name in ("alpha", "beta", "negative_weight", "negative_beta"):
        setattr(method, name, number(name, getattr(method, name)))
    for low, high in (("band_low", "band_high"), ("mask_low", "mask_high")):
        for name in (low, high):
            setattr(method, name, number(name, getattr(method, name)))
        bounds = getattr(method, low), getattr(method, high)
        if bounds[0] > bounds[1]:
            raise MarcError(f"{low} is above {high}", got=bounds, allowed=f"{low} <= {high}")
    method.fraction = check_fraction(method.fraction)


def negative_rule_of(method: Any) -> NegativeRule:
    """How the negative memory of such a method keeps and votes."""
    return NegativeRule(
        method.negative_capacity,
        method.negative_beta,
        (method.band_low, method.band_high),
        (method.mask_low, method.mask_high),
        getattr(method, "negative_eviction", "entropy"),
    )


@dataclass(eq=False)
class TDA:
    """Training-free dynamic adapter. The defaults are the values released for ImageNet.

    >>> TDA(alpha=1.0, beta=8.0).config()["negative_weight"]
    0.117
    """

    name: ClassVar[str] = "tda"
    varies_with: ClassVar[frozenset[str]] = frozenset()
    """What is stored depends on the views alone, not on any answer."""

    capacity: int = 3
    """Images per pseudo-class in the positive memory."""
    alpha: float = 2.0
    beta: float = 5.0
    negative_weight: float = 0.117
    """What the votes against count; 0 keeps no negative memory."""
    negative_capacity: int = NegativeRule.capacity
    negative_beta: float = NegativeRule.beta
    band_low: float = NegativeRule.band[0]
    """The band, both ends open, is of entropy in nats over log2(C): 0.69 is its largest value."""
    band_high: float = NegativeRule.band[1]
    mask_low: float = NegativeRule.mask[0]
    """An item votes against the classes whose probability lies between these bounds."""
    mask_high: float = NegativeRule.mask[1]
    fraction: float = 0.1
    """The fraction of the views that counts, those of lowest entropy."""

    _memory: _Memories | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_settings(self)

    def step(self, query: Query) -> Step:
        """Store one image, then answer it with what is remembered, itself included."""
        seen = Seen.alone(query) if len(query.views) == 1 else self._selected(query)
        memories = self._memories(query)
        memories.positive.write(seen.key, int(seen.label), -float(seen.entropy), query.item)
        positive = memories.positive.read(seen.key)
        return seen.answer(query.item, positive, memories.negative, self.negative_weight)

    negative_rule = property(negative_rule_of)

    def replay(self, stream: Stream) -> Run:
        """What `marc.run(self, stream)` gives, for the whole stream at once."""
        from marc.peers.tda_replay import replay_tda

        return replay_tda(self, stream)

    reset, config, state = forget, config_of, state_of

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TDA:
        """A method that goes on as if it had never stopped."""
        method = cls(**settings_in(state))
        positive, negative = part(state, "positive"), part(state, "negative")
        n_classes = int(positive.pop("n_classes")[0])
        method._memory = _Memories(
            Memory.from_state(
                positive, n_classes, method.capacity, alpha=method.alpha, beta=method.beta
            ),
            NegativeMemory.from_state(negative, method.negative_rule) if negative else None,
        )
        return method

    def _selected(self, query: Query) -> Seen:
        view_logits = query.view_logits
        kept = select_views(view_logits, self.fraction, method=self.name)
        return Seen.together(query.views[kept], view_logits[kept])

    def _memories(self, query: Query) -> _Memories:
        shape = query.predictor.prototypes.shape
        if self._memory is None:
            n_classes, dim = shape
            self._memory = _Memories(
                Memory(n_classes, self.capacity, dim, alpha=self.alpha, beta=self.beta),
                NegativeMemory(n_classes, dim, self.negative_rule)
                if self.negative_weight
                else None,
            )
        positive = self._memory.positive
        check_same_shape(shape, (positive.n_classes, positive.dim))
        return self._memory


@dataclass
class _Memories:
    """Everything TDA remembers."""

    positive: Memory
    negative: NegativeMemory | None

    def state(self) -> dict[str, NDArray[np.generic]]:
        positive = {"n_classes": np.array([self.positive.n_classes]), **self.positive.state()}
        negative = {} if self.negative is None else self.negative.state()
        return named(positive=positive, negative=negative)


ALPHA_BETA = {
    "imagenet-val": (2.0, 5.0),
    "imagenet-a": (2.0, 5.0),
    "imagenet-v2": (1.0, 8.0),
    "imagenet-r": (1.0, 8.0),
    "imagenet-sketch": (2.363, 7.45),
    "caltech101": (5.0, 5.0),
    "dtd": (2.0, 3.0),
    "eurosat": (4.0, 8.0),
    "fgvc-aircraft": (2.0, 2.0),
    "food101": (1.0, 1.0),
    "flowers102": (1.0, 5.0),
    "oxford-pets": (2.0, 7.0),
    "stanford-cars": (1.0, 7.0),
    "sun397": (2.0, 3.0),
    "ucf101": (3.0, 8.0),
}
"""The released values by data set, the same for every predictor."""

CARD = MethodCard(
    "tda",
    "confident images vote for classes, uncertain ones against; writes before it reads",
    TDA,
    reads_before_writes=False,
    paper="Efficient Test-Time Adaptation of Vision-Language Models, CVPR 2024, arXiv 2403.18293",
    views="the tenth of them with the lowest entropy; the plain image if it is alone",
    paper_says="the negative term has two minus signs; the entropy is normalised",
    released_code=(
        "subtracts a positive negative term; divides nats by log2(C), so that the band 0.2 to 0.5 "
        "is 0.29 to 0.72 of the largest entropy; stores an image before it answers it; 2 to 9 "
        "views select none and give NaN; float16; 64 views on imagenet-a, -v2, -r and -sketch, "
        "one view elsewhere; prompts differ by data set; images whose file name has the letters sh "
        "are left out; the seed is set once, so an order depends on the sets before"
    ),
    ours=(
        "as released, in float32 with float64 entropies; stable sorts, the lowest class on ties; "
        "2 to 9 views are refused at the released fraction of a tenth"
    ),
    tuned="alpha and beta by data set; on which images is not known here",
    published={name: {"alpha": a, "beta": b} for name, (a, b) in ALPHA_BETA.items()},
)
