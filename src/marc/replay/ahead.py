"""Several queries answered together, as one step after the other: for a server and its log.

Reading a memory is one product of all its keys with one query, and that is limited by how fast the
keys come from memory. So `step_block` multiplies them with several queries at once, and then walks
through the queries in order with `MARC.step` itself: what one of them stores is known to the next
by the product of the block with itself. Answers are those of single steps but for the rounding of
the matrix product; those of fewer queries than that pays for, one for example, are so to the bit.
What one memory gives does not depend on the other, so large ones are read in two threads, unless
the matrix library itself uses several.

Each answer comes with its effects: what was stored, and the sums of a learned weight. `apply`
repeats them on another method without computing anything, so that it ends in the identical state
on any machine. `peek` answers a query and stores nothing.

While a block is answered its method is not to be looked at by another thread.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marc.auto_weight import AutoWeight
from marc.errors import MarcError
from marc.memory import Memory, NegativeMemory, Neighbor
from marc.method import MARC
from marc.scores import Float
from marc.types import Query, Step

_PAYS = 4
"""Queries from which one product of matrices is faster than one of a matrix and a vector each."""
_LARGE = 2**20
"""Numbers in the keys of a memory from which another thread is asked to multiply them."""


class Write(NamedTuple):
    """One stored item: all that is needed to store it again."""

    part: str
    """`retrieval`, `clip` or `negative`."""
    key: NDArray[np.float32]
    label: int
    priority: float
    """By which it is kept; of the negative memory, its entropy."""
    item: int
    evicted: int | None = None
    """The item that left; None where there was room, and in the negative memory."""
    against: NDArray[np.int64] | None = None
    """The classes that an item of the negative memory votes against."""


Sums = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Which sums of a learned weight changed, as places in all of them one after the other; to what."""


class Answered(NamedTuple):
    """One answer and its effects."""

    step: Step
    writes: tuple[Write, ...] = ()
    followed: Sums | None = None
    """The sums of `weight="auto"` that changed; None for a fixed weight."""
    neighbors: tuple[Neighbor, ...] = ()
    """The nearest items of the retrieval memory when it was read, if they were asked for."""


def step_block(
    method: MARC, queries: Sequence[Query], neighbors: Sequence[int] = ()
) -> list[Answered]:
    """What `method.step` gives for each query in turn, with its effects, from few products.

    `neighbors` says how many are wanted with each query. Where a step fails, those before it stand
    and the list ends with them; the failed one, as the first of the next block, raises its error.
    No part of a failed step is stored.
    """
    answered: list[Answered] = []
    wanted = [*neighbors, *[0] * (len(queries) - len(neighbors))]
    with _ahead(method, queries) as block:
        for query, n in zip(queries, wanted, strict=True):
            try:
                step, near = method.step(query), block.neighbors(query, n)
            except Exception:
                if answered:
                    break
                raise
            answered.append(Answered(step, *block.commit(query.item), near))
    return answered


def peek(method: MARC, query: Query, neighbors: int = 0) -> Answered:
    """What `step_block` would answer, with nothing stored, followed or counted."""
    fresh = method.memory is None
    try:
        with _ahead(method, [query]) as block:
            return Answered(method.step(query), neighbors=block.neighbors(query, neighbors))
    finally:
        if fresh:
            method.reset()


def apply(
    method: MARC,
    writes: Iterable[Write],
    followed: Sums | None = None,
    *,
    n_classes: int,
    dim: int,
    clip_dim: int,
) -> None:
    """Repeat the effects of one step, computing neither similarities nor priorities.

    The sizes are those of the retrieval keys and of the predictor, for a method that is fresh.
    """
    memories = method._memory or method._memories((n_classes, clip_dim), dim)
    memories.n_seen += 1
    left_out = memories.negative
    for write in writes:
        if write.part == "negative":
            stored, left_out = _vote(memories.negative, write), None
        else:
            memory = getattr(memories, write.part)
            stored = memory is not None and memory.write(
                write.key, write.label, write.priority, write.item
            )
        if not stored:
            got = f"item {write.item} of class {write.label}, at step {memories.n_seen}"
            raise MarcError(f"the {write.part} memory does not take what it took before", got=got)
    if left_out is not None:
        left_out.write(np.empty(0), 0, np.nan, np.empty(0))  # seen, and certainly not stored
    if followed is not None:
        assert memories.auto is not None
        _follow(memories.auto, *followed)


def _vote(memory: NegativeMemory | None, write: Write) -> bool:
    """Store an item of the negative memory, from the classes that it votes against."""
    if memory is None:
        return False
    posterior = np.zeros(memory.n_classes)
    posterior[write.against] = sum(memory.rule.mask) / 2
    return memory.write(write.key, write.label, write.priority, posterior)


def _sums(auto: AutoWeight) -> list[NDArray[np.float64]]:
    agreed = auto.agreement
    votes = [agreed.base_votes, agreed.memory_votes]
    return [auto.evidence, auto.scores, *votes, agreed.totals]


def _follow(auto: AutoWeight, places: NDArray[np.int64], values: NDArray[np.float64]) -> None:
    """Set the sums at some places of all of them."""
    start = 0
    for sums in _sums(auto):
        first, last = np.searchsorted(places, (start, start + len(sums)))
        sums[places[first:last] - start] = values[first:last]
        start += len(sums)


class _Block:
    """What stands in for the memories of a method while it answers some queries."""

    def __init__(self, memories: Any, method: MARC, queries: Sequence[Query]) -> None:
        self.memories = memories
        self.space = method.space
        self.parts: dict[str, Any] = {}
        for name, space in (("retrieval", method.space), ("clip", "predictor")):
            if (memory := getattr(memories, name)) is not None:
                self.parts[name] = _Read(name, memory, queries, space)
        _multiply([*self.parts.values()], len(queries))
        if memories.negative is not None:
            self.parts["negative"] = _Negative(memories.negative)
        if memories.auto is not None:
            self.parts["auto"] = _Auto(memories)

    def commit(self, item: int) -> tuple[tuple[Write, ...], Sums | None]:
        """Do what the step of an item wanted done."""
        self.memories.n_seen += 1
        followed = self.parts["auto"].commit() if "auto" in self.parts else None
        kept = [part.commit(int(item)) for name, part in self.parts.items() if name != "auto"]
        return tuple(write for write in kept if write is not None), followed

    def neighbors(self, query: Query, n: int) -> tuple[Neighbor, ...]:
        """The nearest items as the step saw them."""
        return tuple(self.parts["retrieval"].neighbors(query.key(self.space), n)) if n else ()


@contextmanager
def _ahead(method: MARC, queries: Sequence[Query]) -> Iterator[_Block]:
    """A method whose memories know the queries; what they are to store waits for `commit`."""
    if not queries:
        raise MarcError("there is no query to answer")
    first = queries[0]
    memories = method._memories(first.predictor.prototypes.shape, len(first.key(method.space)))
    block = _Block(memories, method, queries)
    method._memory = dataclasses.replace(memories, **block.parts)
    try:
        yield block
    finally:
        method._memory = memories


def _keys(queries: Sequence[Query], space: str, dim: int) -> NDArray[np.float32]:
    """Keys (B, D) of a block; zeros for a query without one that fits, which its step refuses."""
    keys = np.zeros((len(queries), dim), dtype=np.float32)
    for row, query in zip(keys, queries, strict=True):
        with suppress(MarcError, ValueError):
            row[:] = query.key(space)
    return keys


def _multiply(reads: Sequence[_Read], n_queries: int) -> None:
    """Let the memories know their similarities to the queries, where that saves time."""
    is_large = min(len(each.memory) * each.dim for each in reads) >= _LARGE and _is_free()
    if 1 < n_queries < _PAYS or (n_queries == 1 and not (is_large and len(reads) == 2)):
        return
    for each in reads:
        each.begin()
    if not is_large:
        _multiply_parts([(each, 0, 1) for each in reads])
        return
    if n_queries == 1:  # a memory as a whole in each thread: as its `read` does, to the bit
        first, second = ([(each, 0, 1)] for each in reads)
    else:  # half of each memory in each thread
        first, second = ([(each, part, 2) for each in reads] for part in (0, 1))
    other = _threads().submit(_multiply_parts, second)
    _multiply_parts(first)
    other.result()


def _multiply_parts(parts: Iterable[tuple[_Read, int, int]]) -> None:
    for read, part, of in parts:
        read.multiply(part, of)


@functools.cache
def _is_free() -> bool:
    """Whether a product leaves the other cores alone: threads of threads would wait for them."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return False
    pools = [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]
    return bool(pools) and max(pools) == 1


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), "second half")


class _Read:
    """A memory that is read ahead: similarities of all queries at once, kept up with each write."""

    def __init__(self, name: str, memory: Memory, queries: Sequence[Query], space: str) -> None:
        self.name, self.memory = name, memory
        self.n_classes, self.dim = memory.n_classes, memory.dim
        self._row = 0
        self._offer: tuple[NDArray[np.float32], int, float] | None = None
        self._similarity: NDArray[np.float32] | None = None
        self._rows = _keys(queries, space, memory.dim)

    def begin(self) -> None:
        """Make room for the similarities of all queries, also to what they may store."""
        rows, size = self._rows, len(self.memory)
        self._similarity = np.empty((len(rows), size + len(rows)), dtype=np.float32)
        self._among = rows @ rows.T

    def multiply(self, part: int, parts: int) -> None:
        """Compute the similarities to one of so many parts of what is stored."""
        assert self._similarity is not None
        size = len(self.memory)
        start, stop = size * part // parts, size * (part + 1) // parts
        keys, out = self.memory._keys[start:stop], self._similarity[:, start:stop]
        if len(self._rows) == 1:  # as `Memory.read`, to the bit
            np.matmul(keys, self._rows[0], out=out[0])
        else:
            np.matmul(self._rows, keys.T, out=out)

    def read(self, key: Float) -> NDArray[np.float64]:
        return self.memory.read(key, self._known())

    def neighbors(self, key: Float, n: int) -> list[Neighbor]:
        return self.memory.neighbors(key, n, self._known())

    def write(self, key: NDArray[np.float32], label: int, priority: float, item: int) -> None:
        if np.isnan(priority):
            self.memory.write(key, label, priority, item)  # refuses it
        self._offer = (key, label, priority)

    def commit(self, item: int) -> Write | None:
        """Store what was offered; what it was, if it was taken."""
        assert self._offer is not None  # every step offers
        memory, (key, label, priority) = self.memory, self._offer
        slots = memory._ranked[label]
        last = slots[-1] if slots and len(slots) == memory.capacity else None
        slot, evicted = (len(memory), None) if last is None else (last, int(memory._items[last]))
        self._row += 1
        if not memory.write(key, label, priority, item):
            return None
        if self._similarity is not None:
            self._similarity[self._row :, slot] = self._among[self._row :, self._row - 1]
        return Write(self.name, key, int(label), float(priority), item, evicted)

    def _known(self) -> NDArray[np.float32] | None:
        return None if self._similarity is None else self._similarity[self._row, : len(self.memory)]


class _Negative:
    """A negative memory that stores when it is told to."""

    def __init__(self, memory: NegativeMemory) -> None:
        self.memory = memory
        self._offer: tuple[NDArray[np.float32], int, float, Float] | None = None
        self.n_classes, self.dim, self.read = memory.n_classes, memory.dim, memory.read

    def write(self, key: NDArray[np.float32], label: int, entropy: float, posterior: Float) -> None:
        self._offer = (key, label, entropy, posterior)

    def commit(self, item: int) -> Write | None:
        """Store what was offered; what it was, if it was taken."""
        assert self._offer is not None
        key, label, entropy, posterior = self._offer
        if not self.memory.write(key, label, entropy, posterior):
            return None
        against = np.flatnonzero(self.memory.rule.votes_against(posterior))
        return Write("negative", key, int(label), float(entropy), item, against=against)


class _Auto:
    """A learned weight that is followed on a copy, which takes its place when it is told to."""

    def __init__(self, memories: Any) -> None:
        self._memories, self._next = memories, memories.auto

    def follow(self, base: Float, evidence: Float) -> tuple[NDArray[np.float64], Any]:
        auto = self._memories.auto  # whose arrays are replaced, never changed
        self._next = dataclasses.replace(auto, agreement=dataclasses.replace(auto.agreement))
        return self._next.follow(base, evidence)

    def commit(self) -> Sums:
        """Go on from the copy; what is different there."""
        before, after = (np.concatenate(_sums(a)) for a in (self._memories.auto, self._next))
        self._memories.auto = self._next
        places = np.flatnonzero(before != after)
        return places, after[places]
