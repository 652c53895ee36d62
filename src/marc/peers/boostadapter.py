"""BoostAdapter: TDA whose positive memory is joined, for one answer, by views of the image itself.

The most confident views of an image compete with the stored images of their own pseudo-classes
for `capacity + delta` slots. They vote once and leave no trace: the memory that stays holds images
only, kept as TDA keeps them. Nothing is copied for this; who would survive is worked out from
ranks. As in TDA an image is stored before it is answered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from marc.errors import check_same_shape, integer, one_of
from marc.memory import (
    NegativeMemory,
    NegativeRule,
    Resumable,
    check_keys,
    check_stored,
)
from marc.peers._arrays import check_arrays
from marc.peers.tda import Seen, check_settings
from marc.peers.view_selection import select_views
from marc.scores import Float, Int, kernel, softmax_entropy
from marc.types import Query, Step

_PLAIN = np.zeros(1, dtype=np.int64)
"""The plain image among the views."""


@dataclass(frozen=True)
class _Guests:
    """Views that vote once, best first."""

    keys: NDArray[np.float32]
    """Unit features (G, D)."""
    labels: Int
    """Their own pseudo-labels, (G,)."""
    priorities: NDArray[np.float64]
    """Minus their entropies, (G,), descending."""

    @classmethod
    def among(cls, query: Query, view_logits: Float, kept: Int) -> _Guests:
        """The views `kept`, which are in ascending order of entropy."""
        logits = view_logits[kept]
        return cls(query.views[kept], logits.argmax(axis=1), -softmax_entropy(logits))


@dataclass(eq=False)
class _RankedMemory:
    """Per-class top-K by priority, each class as a block of rows, best first; ties keep arrival."""

    keys: NDArray[np.float32]
    """(C, K, D)."""
    priorities: NDArray[np.float64]
    """(C, K), minus infinity where a slot is empty."""

    @classmethod
    def empty(cls, n_classes: int, capacity: int, dim: int) -> _RankedMemory:
        keys = np.zeros((n_classes, capacity, dim), dtype=np.float32)
        return cls(keys, np.full((n_classes, capacity), -np.inf))

    def write(self, key: Float, label: int, priority: float) -> bool:
        """Offer an image; returns whether it was stored. A full class refuses what only ties."""
        keys, priorities = self.keys[label], self.priorities[label]
        rank = int(np.count_nonzero(priorities >= priority))
        if rank == len(priorities):
            return False
        keys[rank + 1 :], priorities[rank + 1 :] = keys[rank:-1], priorities[rank:-1]
        keys[rank], priorities[rank] = key, priority
        return True

    def state(self) -> dict[str, NDArray[np.generic]]:
        return {"keys": self.keys.copy(), "priorities": self.priorities.copy()}

    def read(self, key: Float, beta: float, guests: _Guests, room: int) -> NDArray[np.float64]:
        """Kernel sums (C,), where the guests' classes have `room` slots for both kinds.

        An item's rank is the number of those before it: a guest comes after stored items of
        the same priority, and after earlier guests.
        """
        n_classes, capacity, dim = self.keys.shape
        weights = kernel(self.keys.reshape(-1, dim) @ key, beta).astype(np.float64)
        weights = np.where(self.priorities > -np.inf, weights.reshape(n_classes, capacity), 0.0)
        total = weights.sum(axis=1)
        if not len(guests.labels):
            return total
        labels, held = guests.labels, self.priorities[guests.labels]  # (G,), (G, K)
        mates = labels[:, np.newaxis] == labels
        better = guests.priorities[:, np.newaxis] > held[:, np.newaxis]  # (G, G, K)
        ranks = np.arange(capacity) + (better & mates[..., np.newaxis]).sum(axis=1)
        total[labels] = (weights[labels] * (ranks < room)).sum(axis=1)
        ranks = (held >= guests.priorities[:, np.newaxis]).sum(axis=1) + np.tril(mates, -1).sum(1)
        votes = kernel(guests.keys @ key, beta) * (ranks < room)
        return total + np.bincount(labels, votes, minlength=n_classes)


@dataclass(eq=False)
class BoostAdapter(Resumable):
    """TDA with boosting views. The defaults are the values released for ImageNet-A.

    >>> BoostAdapter(query="view0", delta=2).config()["negative_eviction"]
    'age'
    """

    name: ClassVar[str] = "boostadapter"

    query: Literal["aggregated", "view0"] = "aggregated"
    """Whether the mean of the selected views is answered and stored, or the plain image."""
    delta: int = 3
    """Slots beyond `capacity` for which boosting views and stored images compete."""
    capacity: int = 3
    """Images per pseudo-class in the positive memory."""
    alpha: float = 2.0
    beta: float = 5.0
    negative_weight: float = 0.117
    """What the votes against count; 0 keeps no negative memory."""
    negative_capacity: int = NegativeRule.capacity
    negative_beta: float = NegativeRule.beta
    negative_eviction: Literal["age", "entropy"] = "age"
    """Which image a full class of the negative memory gives up: `age` as released, `entropy` as
    TDA does."""
    band_low: float = NegativeRule.band[0]
    """The band, both ends open, is of entropy in nats over log2(C): 0.69 is its largest value."""
    band_high: float = NegativeRule.band[1]
    mask_low: float = NegativeRule.mask[0]
    """An item votes against the classes whose probability lies between these bounds."""
    mask_high: float = NegativeRule.mask[1]
    fraction: float = 0.1
    """The fraction of the views that boosts, those of lowest entropy."""

    _memory: _Memories | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_settings(self)
        self.delta = integer("delta", self.delta, 0)
        one_of("query", self.query, ("aggregated", "view0"))
        one_of("negative_eviction", self.negative_eviction, ("age", "entropy"))

    def step(self, query: Query) -> Step:
        """Store one image, then answer it with what is remembered and with its own best views."""
        seen, guests = self._look(query)
        memories = self._memories(query)
        memories.positive.write(seen.key, int(seen.label), -float(seen.entropy))
        room = self.capacity + self.delta
        positive = self.alpha * memories.positive.read(seen.key, self.beta, guests, room)
        return seen.answer(query.item, positive, memories.negative, self.negative_weight)

    @property
    def negative_rule(self) -> NegativeRule:
        """How the negative memory keeps and votes."""
        return NegativeRule.of(self)

    def _restored(self, state: dict[str, Any]) -> _Memories:
        positive, negative = state["arrays"]["positive"], state["arrays"].get("negative")
        keys, priorities = positive["keys"], positive["priorities"].astype(np.float64)
        n_classes, _, dim = keys.shape
        check_arrays({"keys": keys}, {"keys": ("f4", n_classes, self.capacity, dim)})
        check_keys(keys.reshape(-1, dim))
        ranked = (
            priorities.shape == keys.shape[:2] and (priorities[:, 1:] <= priorities[:, :-1]).all()
        )
        check_stored(ranked, "its priorities are not in their order")
        return _Memories(
            _RankedMemory(keys.copy(), priorities),
            NegativeMemory.from_state(negative, self.negative_rule) if negative else None,
        )

    def _look(self, query: Query) -> tuple[Seen, _Guests]:
        """What is answered and stored, and the views that boost; a single view has none beside."""
        if len(query.views) == 1:
            guests = _Guests.among(query, query.base.logits[np.newaxis], _PLAIN[:0])
            return Seen.alone(query), guests
        view_logits = query.view_logits
        kept = select_views(view_logits, self.fraction, method=self.name)
        answered = kept if self.query == "aggregated" else _PLAIN
        seen = Seen.together(query.views[answered], view_logits[answered])
        return seen, _Guests.among(query, view_logits, kept)

    def _memories(self, query: Query) -> _Memories:
        shape = query.predictor.prototypes.shape
        if self._memory is None:
            n_classes, dim = shape
            self._memory = _Memories(
                _RankedMemory.empty(n_classes, self.capacity, dim),
                NegativeMemory(n_classes, dim, self.negative_rule)
                if self.negative_weight
                else None,
            )
        n_classes, _, dim = self._memory.positive.keys.shape
        check_same_shape(shape, (n_classes, dim))
        if (negative := self._memory.negative) is not None:
            check_same_shape(shape, (negative.n_classes, negative.dim))
        return self._memory


@dataclass
class _Memories:
    """Everything BoostAdapter remembers."""

    positive: _RankedMemory
    negative: NegativeMemory | None

    def state(self) -> dict[str, Any]:
        negative = {} if self.negative is None else self.negative.state()
        return {"positive": self.positive.state(), "negative": negative}
