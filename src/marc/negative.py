"""The negative memory: uncertain images that vote against classes.

TDA's values, which the MARC paper does not print: two items per pseudo-class, kept by lowest
entropy, admitted only inside a band of entropies; an item lowers every class it found plausible,
its own pseudo-class among them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from marc.scores import Float, Int, kernel

CAPACITY = 2
BETA = 1.0
BAND = (0.2, 0.5)
"""Open bounds on entropy in nats divided by log2(C): TDA's units."""
MASK = (0.03, 1.0)
"""Open bounds on a stored probability for its class to be voted against."""

Eviction = Literal["entropy", "age"]


@dataclass(frozen=True)
class NegativeRule:
    """What is admitted, what it votes against, and what a full class gives up."""

    capacity: int = CAPACITY
    beta: float = BETA
    band: tuple[float, float] = BAND
    mask: tuple[float, float] = MASK
    eviction: Eviction = "entropy"
    """`entropy`: the most uncertain item leaves, if the newcomer is strictly more certain.
    `age`: the oldest item leaves for every newcomer."""


def in_band(
    entropy: Float | float, n_classes: int, band: tuple[float, float] = BAND
) -> NDArray[np.bool_]:
    """Whether an image is uncertain enough, and not too much, to be admitted."""
    ratio = np.asarray(entropy) / math.log2(n_classes)
    return (band[0] < ratio) & (ratio < band[1])


def voted_against(posterior: Float, mask: tuple[float, float] = MASK) -> NDArray[np.bool_]:
    """Classes (..., C) that an item with this posterior lowers."""
    return (mask[0] < posterior) & (posterior < mask[1])


class NegativeMemory:
    """A few slots per pseudo-class. `read` looks, `write` changes; the method orders them."""

    def __init__(self, n_classes: int, dim: int, rule: NegativeRule | None = None) -> None:
        self.rule = rule or NegativeRule()
        rows = n_classes * self.rule.capacity
        self.n_classes = n_classes
        self._keys = np.zeros((rows, dim), dtype=np.float32)
        # The classes that each item votes against, filled up with C, which is no class. Few are
        # plausible, so this is short; and classes with the same voters get sums of the same bits.
        self._against = np.full((rows, 0), n_classes)
        self._priority = np.full(rows, -np.inf)
        self._arrival = np.zeros(rows, dtype=np.int64)
        self._n_seen = 0

    def read(self, key: Float) -> NDArray[np.float64]:
        """R_t (C,): kernel weights summed over the items that vote against each class."""
        weights = kernel(self._keys @ key, self.rule.beta).astype(np.float64)
        votes = np.repeat(weights, self._against.shape[1])
        sums = np.bincount(self._against.ravel(), votes, minlength=self.n_classes + 1)[:-1]
        return np.asarray(sums, dtype=np.float64)

    def write(self, key: Float, label: int, entropy: float, posterior: Float) -> bool:
        """Offer an image; returns whether it was stored."""
        self._n_seen += 1
        rule = self.rule
        if not in_band(entropy, self.n_classes, rule.band) or not rule.capacity:
            return False
        slot = self._first_to_leave(label)
        if rule.eviction == "entropy" and -entropy <= self._priority[slot]:
            return False
        self._keys[slot] = key
        self._vote_against(slot, np.flatnonzero(voted_against(posterior, rule.mask)))
        self._priority[slot], self._arrival[slot] = -entropy, self._n_seen
        return True

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Everything stored, as arrays; `against` is (rows, C), all false for an empty slot."""
        against = np.zeros((len(self._keys), self.n_classes + 1), dtype=bool)
        np.put_along_axis(against, self._against, True, axis=1)
        return {
            "keys": self._keys.copy(),
            "against": against[:, :-1].copy(),
            "priority": self._priority.copy(),
            "arrival": self._arrival.copy(),
            "n_seen": np.array([self._n_seen]),
        }

    @classmethod
    def from_state(
        cls, state: dict[str, NDArray[Any]], rule: NegativeRule | None = None
    ) -> NegativeMemory:
        """A memory with what `state` gave; `rule` must be that of the memory that gave it."""
        keys, against = state["keys"], state["against"]
        memory = cls(against.shape[1], keys.shape[1], rule)
        memory._keys = keys.astype(np.float32)
        for slot, classes in enumerate(against.astype(bool)):
            memory._vote_against(slot, np.flatnonzero(classes))
        memory._priority = state["priority"].astype(np.float64)
        memory._arrival = state["arrival"].astype(np.int64)
        memory._n_seen = int(state["n_seen"][0])
        return memory

    def _vote_against(self, slot: int, classes: Int) -> None:
        more = len(classes) - self._against.shape[1]
        if more > 0:
            padding = np.full((len(self._against), more), self.n_classes)
            self._against = np.concatenate([self._against, padding], axis=1)
        self._against[slot] = self.n_classes
        self._against[slot, : len(classes)] = classes

    def _first_to_leave(self, label: int) -> int:
        """An empty slot of the class, else the one that the rule gives up."""
        capacity = self.rule.capacity
        slots = slice(label * capacity, (label + 1) * capacity)
        arrival = self._arrival[slots]
        if self.rule.eviction == "age":
            return slots.start + int(arrival.argmin())  # an empty slot has arrival 0
        return slots.start + int(np.lexsort((-arrival, self._priority[slots]))[0])
