"""What a step changed, as bytes for the log, and how a method repeats it.

MARC logs effects, not inputs: what was stored, with its priority. They are repeated without
computing anything, so no near-tie is decided by another matrix library. The sums of a learned
weight are large and change with every step, so the log keeps the last ones alone. Other methods log
what they saw, the unit features of an image, and see it again; what they remember are mostly sums,
which no rounding turns around.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from marc.auto_weight import AutoWeight
from marc.loop import Method
from marc.method import MARC
from marc.replay.ahead import Write, apply, peek, step_block
from marc.scores import score_views
from marc.serve.memory.config import MemoryConfig
from marc.session.record import Record
from marc.types import Query, Step

REPLAYED = 500
"""Steps between two snapshots, at most, of a method that sees its inputs again."""
_FLOAT = np.dtype("<f4")


class Near(NamedTuple):
    """A remembered image as another one sees it."""

    item: int
    label: int
    similarity: float
    vote: float | None
    """What it adds to the evidence of its class; None where a method keeps no single images."""


class Learned(NamedTuple):
    """One answer, and what it changed."""

    step: Step
    near: dict[str, tuple[Near, ...]]
    """By space, nearest first."""
    admitted: bool
    evicted: int | None
    effect: bytes | None


class Learner:
    """A method and, where it keeps no single images, a record of some that it saw."""

    def __init__(self, config: MemoryConfig, method: Method, record: Record | None = None) -> None:
        self.config, self.method = config, method
        self.record = None if isinstance(method, MARC) else record or Record(config.classes)
        self._numbers = {name: number for number, name in enumerate(config.classes)}
        self._failure: Exception | None = None

    def learn(self, queries: Sequence[Query], neighbours: Sequence[int]) -> list[Learned]:
        """Answer queries one after the other, each with so many of the nearest images.

        Where one fails, the list ends before it; the next call raises its error, and what is
        remembered has to be read from the log again.
        """
        if self._failure is not None:
            raise self._failure
        if isinstance(self.method, MARC):
            answered = step_block(self.method, queries, neighbours)
            return [self._of_marc(each) for each in answered]
        learned = []
        for query, count in zip(queries, neighbours, strict=True):
            try:
                learned.append(self._see(query, count))
            except Exception as failure:  # of another's method: whatever it is
                self._failure = failure
                if not learned:
                    raise
                break
        return learned

    def peek(self, query: Query, count: int) -> Learned:
        """Answer a query, and leave everything as it was."""
        if isinstance(self.method, MARC):
            return self._of_marc(peek(self.method, query, count))
        step = copy.deepcopy(self.method).step(query)
        return Learned(step, self._nearest(query, count), False, None, None)

    def apply(self, effect: bytes, item: int) -> Step | None:
        """Do again what a step did; its answer, where it had to be computed."""
        if isinstance(self.method, MARC):
            own = self.config.dim
            apply(
                self.method,
                _decoded_writes(effect),
                n_classes=len(self.config.classes),
                dim=self.config.spaces.get(self.method.space, own),
                clip_dim=own,
            )
            return None
        return self._see(_decoded_query(self.config, effect, item), 0).step

    def sums(self) -> bytes | None:
        """The sums of a learned weight, which a step changes in addition to what it stores."""
        memory = self.method._memory if isinstance(self.method, MARC) else None
        if memory is None or memory.auto is None:
            return None
        arrays = memory.auto.state().items()
        return msgspec.msgpack.encode({name: array.tobytes() for name, array in arrays})

    def set_sums(self, content: bytes) -> None:
        """Go on from what `sums` gave."""
        memory = cast(MARC, self.method)._memory
        arrays = msgspec.msgpack.decode(content).items()
        state = {name: np.frombuffer(raw, np.float64) for name, raw in arrays}
        assert memory is not None
        memory.auto = AutoWeight.from_state(state, len(self.config.classes))

    @property
    def learns_weight(self) -> bool:
        """Whether there are such sums."""
        return isinstance(self.method, MARC) and self.method.learns_weight

    @property
    def items(self) -> Mapping[int, Sequence[int]]:
        """The images that are remembered one by one, by class."""
        if self.record is not None:
            return self.record.items
        memory = cast(MARC, self.method).memory
        return {} if memory is None else memory.items

    def _of_marc(self, answered: Any) -> Learned:
        stored = next((w for w in answered.writes if w.part == "retrieval"), None)
        near = tuple(Near(n.item, n.label, n.similarity, n.weight) for n in answered.neighbors)
        return Learned(
            answered.step,
            {self.method.space: near} if near else {},  # type: ignore[attr-defined]
            stored is not None,
            None if stored is None else stored.evicted,
            _encoded_writes(answered.writes),
        )

    def _see(self, query: Query, count: int) -> Learned:
        assert self.record is not None
        near, step = self._nearest(query, count), self.method.step(query)
        label, rank = int(query.base.label), -float(query.base.entropy_as("posterior"))
        name = str(query.item)
        admitted = self.record.write(_keys(query), label, rank, query.item, name)
        return Learned(step, near, admitted, None, _encoded_query(query))

    def _nearest(self, query: Query, count: int) -> dict[str, tuple[Near, ...]]:
        if self.record is None or not count:
            return {}
        nearest = self.record.nearest(_keys(query), count)
        return {
            space: tuple(
                Near(int(each.name), self._numbers[each.answer], each.similarity, None)
                for each in near
            )
            for space, near in nearest.items()
        }


def _keys(query: Query) -> dict[str, Any]:
    return {"predictor": query.clip_key, **query.keys}


def _encoded_writes(writes: Iterable[Write]) -> bytes:
    def plain(value: Any) -> Any:
        return value.tobytes() if isinstance(value, np.ndarray) else value

    return msgspec.msgpack.encode([[plain(part) for part in write] for write in writes])


def _decoded_writes(effect: bytes) -> list[Write]:
    return [
        Write(
            part,
            np.frombuffer(key, _FLOAT),
            label,
            priority,
            item,
            evicted,
            None if against is None else np.frombuffer(against, np.int64),
        )
        for part, key, label, priority, item, evicted, against in msgspec.msgpack.decode(effect)
    ]


def _encoded_query(query: Query) -> bytes:
    arrays = {"": query.views, **query.keys}
    return msgspec.msgpack.encode({name: array.tobytes() for name, array in arrays.items()})


def _decoded_query(config: MemoryConfig, effect: bytes, item: int) -> Query:
    """The query with the same bits: what was logged was checked, and is of unit length."""
    arrays = msgspec.msgpack.decode(effect).items()
    keys: dict[str, NDArray[Any]] = {name: np.frombuffer(raw, _FLOAT) for name, raw in arrays}
    views, predictor = keys.pop("").reshape(-1, config.dim), config.predictor
    return Query(item, views, score_views(predictor.logits(views)), keys, predictor)
