"""The memory: at most K items per class, kept by priority. `read` looks, `write` changes."""

from __future__ import annotations

import bisect
import copy
import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, integer, number
from marc.scores import SHARPEST, Float, Int, kernel

_STATE_VERSION = 1
_MISFIT = "its arrays do not fit each other"
_LONGEST = 1.01  # squared; features are of unit length, or means of such, some in half precision
MOST_CLASSES, MOST_DIMS = 2**20, 2**16
"""What no memory has more of; a damaged number is refused before anything is allocated."""


class Neighbor(NamedTuple):
    """One stored item as a query sees it."""

    item: int
    label: int
    similarity: float
    weight: float
    """alpha phi_beta(similarity): what it adds to the evidence for `label`."""


class Memory:
    """Per-class top-K by (priority descending, arrival ascending).

    Items lie in slots, one row of `keys` each; a newcomer that pushes an item out takes its slot.
    So a read is one matrix product over the filled rows, and a write moves one row.
    """

    def __init__(
        self, n_classes: int, capacity: int, dim: int, *, alpha: float = 2.0, beta: float = 5.0
    ) -> None:
        self.n_classes = integer("n_classes", n_classes, 1, MOST_CLASSES)
        self.capacity = integer("capacity", capacity, 0)
        self.dim = integer("dim", dim, 1, MOST_DIMS)
        self.alpha, self.beta = number("alpha", alpha), number("beta", beta, at_most=SHARPEST)
        self._keys = np.empty((0, dim), dtype=np.float32)
        self._items = np.empty(0, dtype=np.int64)
        self._labels = np.empty(0, dtype=np.int64)
        self._priorities = np.empty(0, dtype=np.float64)
        self._size = 0
        self._ranked: list[list[int]] = [[] for _ in range(n_classes)]  # slots, best first

    def __len__(self) -> int:
        return self._size

    @property
    def items(self) -> dict[int, list[int]]:
        """Stored items by class, best first; empty classes are left out."""
        return {
            label: [int(self._items[slot]) for slot in slots]
            for label, slots in enumerate(self._ranked)
            if slots
        }

    def read(self, key: Float, similarity: Float | None = None) -> NDArray[np.float64]:
        """L_c of equation 3 for a unit key (D,): evidence (C,), exactly 0 for empty classes.

        `similarity` is that to what is stored, by slot, where it is known already.
        """
        similarity = self._keys[: self._size] @ key if similarity is None else similarity
        labels, weights = self._labels[: self._size], kernel(similarity, self.beta)
        total = np.bincount(labels, weights, minlength=self.n_classes)
        return np.asarray(self.alpha * total, dtype=np.float64)

    def neighbors(self, key: Float, n: int, similarity: Float | None = None) -> list[Neighbor]:
        """The `n` most similar items, nearest first; equal similarities keep the lower item."""
        similarity = self._keys[: self._size] @ key if similarity is None else similarity
        n = min(integer("n", n, 0), self._size)
        near = np.flatnonzero(similarity >= (np.partition(similarity, -n)[-n] if n else np.inf))
        nearest = near[np.lexsort((self._items[near], -similarity[near]))[:n]]
        weights = self.alpha * kernel(similarity[nearest], self.beta)
        return [
            Neighbor(int(self._items[slot]), int(self._labels[slot]), float(u), float(weight))
            for slot, u, weight in zip(nearest, similarity[nearest], weights, strict=True)
        ]

    def write(self, key: Float, label: int, priority: float, item: int) -> bool:
        """Upd_K of equation 4; returns whether the item was stored.

        A full class gives up its last item only to a strictly higher priority: among equals the
        earlier arrival stays.
        """
        if not priority == priority:
            raise MarcError(f"the priority of item {item} is not a number", got=priority)
        slots = self._ranked[label]
        rank = bisect.bisect_right(slots, -priority, key=lambda slot: -self._priorities[slot])
        if rank >= self.capacity:
            return False
        if len(slots) == self.capacity:
            slot = slots.pop()
        else:
            slot = self._size
            self._size += 1
            self._grow_to(self._size)
        self._keys[slot] = key
        self._items[slot], self._labels[slot], self._priorities[slot] = item, label, priority
        slots.insert(rank, slot)
        return True

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Everything stored, as arrays in slot order; `rank` is an item's rank in its class."""
        rank = np.zeros(self._size, dtype=np.int64)
        for slots in self._ranked:
            rank[slots] = np.arange(len(slots))
        return {
            "keys": self._keys[: self._size].copy(),
            "items": self._items[: self._size].copy(),
            "labels": self._labels[: self._size].copy(),
            "priorities": self._priorities[: self._size].copy(),
            "rank": rank,
        }

    @classmethod
    def from_state(
        cls,
        state: dict[str, NDArray[Any]],
        n_classes: int,
        capacity: int,
        *,
        alpha: float = 2.0,
        beta: float = 5.0,
    ) -> Memory:
        """A memory with what `state` gave, slot by slot, so that later sums round the same way."""
        labels, keys, priorities = state["labels"], state["keys"], state["priorities"]
        memory = cls(n_classes, capacity, keys.shape[1], alpha=alpha, beta=beta)
        check_stored(
            {array.shape for name, array in state.items() if name != "keys"} == {(len(keys),)}
            and ((labels >= 0) & (labels < n_classes)).all(),
            _MISFIT,
        )
        check_keys(keys)
        most = np.bincount(labels).max(initial=0)
        if most > capacity:
            raise MarcError("the stored memory does not fit", got=most, allowed=capacity)
        order = np.lexsort((state["rank"], labels))
        falls = priorities[order][1:] <= priorities[order][:-1]
        check_stored((falls | (np.diff(labels[order]) != 0)).all(), "its ranks are no ranks")
        memory._keys = keys.astype(np.float32)
        memory._items, memory._labels = state["items"].astype(np.int64), labels.astype(np.int64)
        memory._priorities = state["priorities"].astype(np.float64)
        memory._size = len(labels)
        for slot in np.argsort(state["rank"], kind="stable"):
            memory._ranked[int(labels[slot])].append(int(slot))
        return memory

    def _grow_to(self, size: int) -> None:
        """Double the rows when they run out, never past K per class."""
        rows = len(self._keys)
        if size <= rows:
            return
        more = min(max(64, 2 * rows), self.n_classes * self.capacity) - rows
        self._keys = np.concatenate([self._keys, np.zeros((more, self.dim), dtype=np.float32)])
        self._items = np.concatenate([self._items, np.zeros(more, dtype=np.int64)])
        self._labels = np.concatenate([self._labels, np.zeros(more, dtype=np.int64)])
        self._priorities = np.concatenate([self._priorities, np.zeros(more)])


@dataclass(frozen=True)
class NegativeRule:
    """What is admitted, what it votes against, and what a full class gives up: TDA's by default."""

    capacity: int = 2
    beta: float = 1.0
    band: tuple[float, float] = (0.2, 0.5)
    """Open bounds on entropy in nats divided by log2(C): TDA's units."""
    mask: tuple[float, float] = (0.03, 1.0)
    """Open bounds on a stored probability for its class to be voted against."""
    eviction: Literal["entropy", "age"] = "entropy"
    """`entropy`: the most uncertain item leaves, if the newcomer is strictly more certain.
    `age`: the oldest item leaves for every newcomer."""

    @classmethod
    def of(cls, method: Any) -> NegativeRule:
        """That of a method with settings as TDA has them."""
        return cls(
            method.negative_capacity,
            method.negative_beta,
            (method.band_low, method.band_high),
            (method.mask_low, method.mask_high),
            getattr(method, "negative_eviction", "entropy"),
        )

    def admits(self, entropy: Float | float, n_classes: int) -> NDArray[np.bool_]:
        """Whether an image is uncertain enough, and not too much, to be admitted."""
        ratio = np.asarray(entropy) / math.log2(n_classes)
        return (self.band[0] < ratio) & (ratio < self.band[1])

    def votes_against(self, posterior: Float) -> NDArray[np.bool_]:
        """Classes (..., C) that an item with this posterior lowers."""
        return (self.mask[0] < posterior) & (posterior < self.mask[1])


class NegativeMemory:
    """A few slots per pseudo-class. `read` looks, `write` changes; the method orders them."""

    def __init__(self, n_classes: int, dim: int, rule: NegativeRule | None = None) -> None:
        self.rule = rule or NegativeRule()
        self.n_classes = integer("n_classes", n_classes, 1, MOST_CLASSES)
        self.dim = integer("dim", dim, 1, MOST_DIMS)
        rows = n_classes * self.rule.capacity
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
        if not rule.admits(entropy, self.n_classes) or not rule.capacity:
            return False
        slot = self._first_to_leave(label)
        if rule.eviction == "entropy" and -entropy <= self._priority[slot]:
            return False
        self._keys[slot] = key
        self._vote_against(slot, np.flatnonzero(rule.votes_against(posterior)))
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
        rule, keys, n_classes = rule or NegativeRule(), state["keys"], state["against"].shape[1]
        last, arrival = integer("n_seen", state["n_seen"][0], 0), state["arrival"]
        fits = len(keys) == n_classes * rule.capacity  # before as much is allocated
        check_stored(fits and ((arrival >= 0) & (arrival <= last)).all(), _MISFIT)
        check_keys(keys)
        memory = cls(n_classes, keys.shape[1], rule)
        memory._keys[...], memory._n_seen = keys, last
        memory._priority[...], memory._arrival[...] = state["priority"], arrival
        for slot, classes in enumerate(state["against"]):
            memory._vote_against(slot, np.flatnonzero(classes))
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


class Resumable:
    """A method that is a dataclass of settings and goes on from what its `_memory` holds.

    A memory is a dictionary of arrays, or it has `state()`: arrays by name, or those of each of its
    parts. A method that remembers nothing has no `_memory`.
    """

    name: ClassVar[str]
    _memory: Any

    @property
    def varies_with(self) -> frozenset[str]:
        """Settings that change what is stored: none, where no fused answer decides on it."""
        return frozenset()

    def reset(self) -> None:
        """Forget everything that was seen."""
        if hasattr(self, "_memory"):
            self._memory = None

    def config(self) -> dict[str, Any]:
        """The name and every setting."""
        settings = [each.name for each in dataclasses.fields(self) if each.init]  # type: ignore[arg-type]
        return {"method": self.name, **{name: getattr(self, name) for name in settings}}

    def state(self) -> dict[str, Any]:
        """Settings and memories as plain data and arrays; `from_state` goes on from it."""
        memory = getattr(self, "_memory", {})
        if memory is None:
            raise MarcError("nothing was seen yet, so there is no state", hint="step(query) first")
        arrays = copy.deepcopy(memory) if isinstance(memory, dict) else memory.state()
        return {"version": _STATE_VERSION, "config": self.config(), "arrays": _flat(arrays)}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """A method that goes on as if it had never stopped.

        Another format is refused, and arrays or settings that it would not give back as they are:
        what a memory passes over, or makes something else of, is damaged. So is every nan.
        """
        if state.get("version") != _STATE_VERSION:
            raise MarcError(
                "this memory state has another format",
                got=repr(state.get("version")),
                allowed=_STATE_VERSION,
            )
        method = cls(**{name: value for name, value in state["config"].items() if name != "method"})
        if hasattr(method, "_memory"):
            method._memory = method._restored({**state, "arrays": _by_part(state["arrays"])})
        other = _differences(state, method.state())
        check_stored(not other, f"{', '.join(other)} cannot be as it is there")
        return method

    def _restored(self, state: dict[str, Any]) -> Any:
        """The memory that gave a state, in which arrays are by part again."""
        return copy.deepcopy(state["arrays"])


def check_stored(whole: bool | np.bool, problem: str) -> None:
    """Refuse a state as damaged unless it is whole."""
    if not whole:
        raise MarcError(f"the stored memory is damaged: {problem}")


def check_keys(keys: Float) -> None:
    """Refuse stored features (n, D) that are not finite, or longer than unit features are."""
    lengths = np.einsum("nd,nd->n", keys, keys)
    check_stored((lengths <= _LONGEST).all(), "its keys are not of unit length")


def _differences(state: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names of the arrays, settings and other data that differ between two states."""
    mine, theirs = ({**each, **each["arrays"], "arrays": None} for each in (state, other))
    return [name for name in {**mine, **theirs} if not _same(mine.get(name), theirs.get(name))]


def _same(one: Any, other: Any) -> bool:
    """Whether a file would have two values alike: a tuple and a list are, 1 and 1.0 are not."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):  # nan is never the same
        return one.dtype == other.dtype and np.array_equal(one, other)
    spelled = (json.dumps(each, sort_keys=True, default=repr) for each in (one, other))
    return next(spelled) == next(spelled)


def _flat(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays of several memories in one dictionary, as PART/NAME.

    >>> _flat({"clip": {"keys": 1}, "n_seen": 2})
    {'clip/keys': 1, 'n_seen': 2}
    """
    flat = {}
    for part, value in parts.items():
        if isinstance(value, Mapping):
            flat.update({f"{part}/{name}": array for name, array in value.items()})
        else:
            flat[part] = value
    return flat


def _by_part(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """What `_flat` was given."""
    parts: dict[str, Any] = {}
    for name, array in arrays.items():
        part, _, rest = name.partition("/")
        if rest:
            parts.setdefault(part, {})[rest] = array
        else:
            parts[part] = array
    return parts
