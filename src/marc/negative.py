"""The negative memory of the component study: uncertain images that vote against classes.

TDA's values, which the paper does not print: two items per pseudo-class, kept by lowest entropy,
admitted only inside a band of entropies; an item lowers every class it found plausible.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.scores import Float, kernel

CAPACITY = 2
BETA = 1.0
BAND = (0.2, 0.5)
"""Open bounds on entropy in nats divided by log2(C): TDA's units."""
MASK = (0.03, 1.0)
"""Open bounds on a stored probability for its class to be voted against."""


def in_band(loss: Float | float, n_classes: int) -> NDArray[np.bool_]:
    """Whether an image is uncertain enough, and not too much, to be admitted."""
    ratio = np.asarray(loss) / math.log2(n_classes)
    return (BAND[0] < ratio) & (ratio < BAND[1])


def voted_against(posterior: Float) -> NDArray[np.bool_]:
    """Classes (..., C) that an item with this posterior lowers."""
    return (MASK[0] < posterior) & (posterior < MASK[1])


class NegativeMemory:
    """Two slots per pseudo-class; reads before it writes, like every memory here."""

    def __init__(self, n_classes: int, dim: int) -> None:
        rows = n_classes * CAPACITY
        self.n_classes = n_classes
        self._keys = np.zeros((rows, dim), dtype=np.float32)
        self._against = np.zeros((rows, n_classes), dtype=bool)  # all false: an empty slot is mute
        self._priority = np.full(rows, -np.inf)
        self._arrival = np.zeros(rows, dtype=np.int64)
        self._n_seen = 0

    def read(self, key: Float) -> NDArray[np.float64]:
        """R_t (C,): kernel weights summed over the items that vote against each class."""
        return kernel(self._keys @ key, BETA).astype(np.float64) @ self._against

    def write(self, key: Float, label: int, loss: float, posterior: Float) -> bool:
        """Offer an image; returns whether it was stored."""
        self._n_seen += 1
        if not in_band(loss, self.n_classes):
            return False
        slots = np.arange(label * CAPACITY, (label + 1) * CAPACITY)
        worst = slots[np.lexsort((-self._arrival[slots], self._priority[slots]))[0]]
        if -loss <= self._priority[worst]:
            return False
        self._keys[worst] = key
        self._against[worst] = voted_against(posterior)
        self._priority[worst], self._arrival[worst] = -loss, self._n_seen
        return True

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Everything stored, as arrays."""
        return {
            "keys": self._keys.copy(),
            "against": self._against.copy(),
            "priority": self._priority.copy(),
            "arrival": self._arrival.copy(),
            "n_seen": np.array([self._n_seen]),
        }

    @classmethod
    def from_state(cls, state: dict[str, NDArray[Any]]) -> NegativeMemory:
        """A memory with what `state` gave."""
        keys, against = state["keys"], state["against"]
        memory = cls(against.shape[1], keys.shape[1])
        memory._keys, memory._against = keys.astype(np.float32), against.astype(bool)
        memory._priority = state["priority"].astype(np.float64)
        memory._arrival = state["arrival"].astype(np.int64)
        memory._n_seen = int(state["n_seen"][0])
        return memory
