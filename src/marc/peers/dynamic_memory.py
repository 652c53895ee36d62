"""The dynamic memory of DMN: S images per class, read by attention together with the text.

The entries of class c are its stored features and its text prototype, all of unit length: v_i.
For a query q with cosines u_i = q . v_i they count phi_i = exp(-beta (1 - u_i)), and the vector of
the class is sum phi_i v_i, brought to unit length. It is another one for every query.

A read needs only its cosine with q, and so does not form it:

    q . vector_c = (sum phi_i u_i) / |sum phi_i v_i|,    |sum phi_i v_i|^2 = phi' G_c phi,

with G_c the inner products of the entries of the class, which `write` keeps up to date, one row at
a time. So a read is one product with the stored rows and C small ones. `vectors` forms the vectors
for those who need them. Cosines are float32 products; weights, G_c and sums are float64. The
difference to the direct formula is rounding.

`Slots` holds the rows, here and in COSMIC's second memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, integer, number
from marc.memory import MOST_CLASSES, MOST_DIMS, check_keys, check_stored
from marc.peers._arrays import check_arrays
from marc.scores import SHARPEST, Float, unit

_SMALLEST = 1e-12  # entries that cancel out would have no direction; the largest weight is 1


class Slots:
    """Rows of features, at most S per class, each in a numbered slot of its class."""

    def __init__(self, n_classes: int, capacity: int, dim: int) -> None:
        self.n_classes = integer("n_classes", n_classes, 1, MOST_CLASSES)
        self.capacity = integer("capacity", capacity, 1)
        self.dim = integer("dim", dim, 1, MOST_DIMS)
        self._arrays: dict[str, NDArray[Any]] = {
            "keys": np.empty((0, dim), dtype=np.float32),
            "labels": np.empty(0, dtype=np.int64),
            "slots": np.empty(0, dtype=np.int64),
            "entropies": np.empty(0),
            "items": np.empty(0, dtype=np.int64),
            "arrivals": np.empty(0, dtype=np.int64),
        }
        self._size = self._n_put = 0
        self.rows: list[list[int]] = [[] for _ in range(n_classes)]
        """By class the rows of its slots, in the order of the slots."""

    def __len__(self) -> int:
        return self._size

    def filled(self, name: str) -> NDArray[Any]:
        """The filled rows of `keys`, `labels`, `slots`, `entropies`, `items` or `arrivals`."""
        return self._arrays[name][: self._size]

    def of_class(self, name: str, label: int) -> NDArray[Any]:
        """What the slots of one class hold, in their order."""
        return self._arrays[name][self.rows[label]]

    def is_full(self, label: int) -> bool:
        """Whether a newcomer must take another's slot."""
        return len(self.rows[label]) == self.capacity

    def place(self, label: int, entropy: float) -> int | None:
        """The slot that an image of this entropy takes: the next free one of the class.

        A full class gives up its image of highest entropy, the latest among equals, and only to a
        strictly lower entropy.
        """
        if not self.is_full(label):
            return len(self.rows[label])
        entropies = self.of_class("entropies", label)
        worst = int(np.lexsort((self.of_class("arrivals", label), entropies))[-1])
        return worst if entropies[worst] > entropy else None

    def put(self, key: Float, label: int, slot: int, entropy: float, item: int) -> None:
        """Fill a slot of a class: the next free one, or one whose image goes."""
        rows = self.rows[label]
        if slot == len(rows):
            rows.append(self._size)
            self._size += 1
            self._grow()
        row = rows[slot]
        values = key, label, slot, entropy, item, self._n_put
        for array, value in zip(self._arrays.values(), values, strict=True):
            array[row] = value
        self._n_put += 1

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Everything stored, as arrays in row order."""
        return {name: self.filled(name).copy() for name in self._arrays}

    @classmethod
    def from_state(cls, state: dict[str, NDArray[Any]], n_classes: int, capacity: int) -> Slots:
        """Slots with what `state` gave, row by row, so that later sums round the same way."""
        slots, labels = cls(n_classes, capacity, state["keys"].shape[1]), state["labels"]
        empty = slots._arrays
        slots._arrays = {name: state[name].copy() for name in empty}
        wanted = {k: (a.dtype.str[1:], len(labels), *a.shape[1:]) for k, a in empty.items()}
        check_arrays(slots._arrays, wanted)
        check_keys(state["keys"])
        known = (labels >= 0) & (labels < n_classes) & (state["arrivals"] >= 0)
        check_stored(known.all(), "its labels or arrivals are out of range")
        slots._size = len(labels)
        slots._n_put = integer("arrivals", state["arrivals"].max(initial=-1), -1) + 1
        for row in np.argsort(state["slots"], kind="stable"):
            slots.rows[int(labels[row])].append(int(row))
        held = max(len(rows) for rows in slots.rows)
        if held > capacity:
            raise MarcError("the stored memory does not fit", got=held, allowed=capacity)
        numbered = all(
            (state["slots"][rows] == range(len(rows))).all() for rows in slots.rows if rows
        )
        check_stored(numbered, "its slots are not numbered from 0")
        return slots

    def _grow(self) -> None:
        """Double the rows when they run out, never past S per class."""
        have = len(self._arrays["labels"])
        if self._size <= have:
            return
        more = min(max(64, 2 * have), self.n_classes * self.capacity) - have
        for name, array in self._arrays.items():
            empty = np.zeros((more, *array.shape[1:]), dtype=array.dtype)
            self._arrays[name] = np.concatenate([array, empty])


class Attention(NamedTuple):
    """One query's view of the memory."""

    cosines: NDArray[np.float64]
    """q . vector_c, (C,)."""
    weights: NDArray[np.float64]
    """phi of the entries of each class, text first, (C, entries); 0 where there is none."""


class DynamicMemory:
    """S images per class and the text; a newcomer replaces the image of highest entropy."""

    def __init__(self, prototypes: Float, capacity: int, *, beta: float = 5.5) -> None:
        self.text = np.asarray(prototypes, dtype=np.float32)
        self.beta = number("beta", beta, at_most=SHARPEST)
        self.slots = Slots(len(self.text), capacity, self.text.shape[1])
        squares = (self.text.astype(np.float64) ** 2).sum(axis=1)
        self._inner = squares.reshape(-1, 1, 1)
        """G_c (C, entries, entries), text first; it grows with the class that holds most."""

    def read(self, query: Float, text_cosines: Float) -> Attention:
        """Cosines of a unit query (D,) with the vector of every class.

        Args:
            query: q.
            text_cosines: its cosines with the text prototypes, (C,).
        """
        labels, entries = self.slots.filled("labels"), self.slots.filled("slots") + 1
        shape = self._inner.shape[:2]
        cosines, held = np.zeros(shape), np.zeros(shape, dtype=bool)
        cosines[:, 0], held[:, 0] = text_cosines, True
        cosines[labels, entries], held[labels, entries] = self.slots.filled("keys") @ query, True
        # the length cancels out, so the largest weight may be 1: none vanishes at a large beta
        nearest = cosines.max(axis=1, keepdims=True, where=held, initial=-np.inf)
        weights = np.zeros(shape)
        np.exp(self.beta * (cosines - nearest), out=weights, where=held)
        total = (weights * cosines).sum(axis=1)
        squares = (weights * (self._inner @ weights[..., np.newaxis])[..., 0]).sum(axis=1)
        return Attention(total / np.sqrt(np.maximum(squares, _SMALLEST)), weights)

    def vectors(self, attention: Attention) -> NDArray[np.float32]:
        """The unit vectors (C, D) themselves; the text prototype of a class without images."""
        from scipy.sparse import csr_array

        labels, entries = self.slots.filled("labels"), self.slots.filled("slots") + 1
        weights = attention.weights.astype(np.float32)
        shape = len(self.text), len(labels)
        images = csr_array((weights[labels, entries], (labels, np.arange(shape[1]))), shape=shape)
        # the text alone has weight 1 and unit length already, so it comes out as it went in
        return unit(weights[:, :1] * self.text + images @ self.slots.filled("keys"))

    @property
    def holds_images(self) -> NDArray[np.bool_]:
        """Classes (C,) with at least one stored image."""
        return np.array([bool(rows) for rows in self.slots.rows])

    def write(self, feature: Float, label: int, entropy: float, item: int) -> bool:
        """Offer an image; returns whether it was stored.

        A full class gives up its image of highest entropy, the first slot among equals, and only
        to a strictly lower entropy. Features are brought to unit length here, not at every read.
        """
        slot = len(self.slots.rows[label])
        if self.slots.is_full(label):
            entropies = self.slots.of_class("entropies", label)
            slot = int(entropies.argmax())
            if not entropies[slot] > entropy:
                return False
        key = unit(feature)
        self.slots.put(key, label, slot, entropy, item)
        self._grow_to(1 + len(self.slots.rows[label]))
        entries = np.vstack([self.text[label], self.slots.of_class("keys", label)])
        inner = entries.astype(np.float64) @ key.astype(np.float64)
        self._inner[label, slot + 1, : len(inner)] = inner
        self._inner[label, : len(inner), slot + 1] = inner
        return True

    def fill(self, label: int, features: Float) -> None:
        """Let the first slots of a class hold these images (n, D), whatever they held before.

        For a method that decides itself which images there are; a class never gets fewer.
        """
        for slot, key in enumerate(unit(features)):
            self.slots.put(key, label, slot, 0.0, 0)
        n = 1 + len(self.slots.rows[label])
        self._grow_to(n)
        entries = np.vstack([self.text[label], self.slots.of_class("keys", label)])
        entries = entries.astype(np.float64)
        self._inner[label, :n, :n] = entries @ entries.T

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Everything stored, as arrays; the text is part of it."""
        return {"text": self.text.copy(), "inner": self._inner.copy(), **self.slots.state()}

    @classmethod
    def from_state(
        cls, state: dict[str, NDArray[Any]], capacity: int, *, beta: float
    ) -> DynamicMemory:
        """A memory with what `state` gave."""
        memory = cls(state["text"].copy(), capacity, beta=beta)
        memory.slots = Slots.from_state(state, len(memory.text), capacity)
        (C, D), n, held = memory.text.shape, len(state["inner"][0]), memory.slots.rows
        wanted = {"text": ("f4", C, D), "inner": ("f8", C, n, n)}
        check_arrays({name: state[name] for name in wanted}, wanted)
        fits = memory.slots.dim == D and n > max(len(rows) for rows in held)
        check_stored(fits, "its arrays do not fit each other")
        memory._inner = state["inner"].astype(np.float64)
        return memory

    def _grow_to(self, entries: int) -> None:
        have = self._inner.shape[1]
        if entries <= have:
            return
        size = min(max(entries, 2 * have), 1 + self.slots.capacity)
        grown = np.zeros((len(self.text), size, size))
        grown[:, :have, :have] = self._inner
        self._inner = grown
