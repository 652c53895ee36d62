"""The most confident pictures of each class so far, to show beside an answer. Bounded.

What a method remembers may be sums that nobody can look at. This is a record of pictures: the 16 of
each predicted class that the predictor was surest of, as `marc.results.remembered` has it of a
stream that is at hand whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from marc.memory import Memory, check_stored
from marc.scores import Float

_CAPACITY = 16  # pictures of each class, as `Remembered` has it


class Neighbor(NamedTuple):
    """A picture that is remembered, as another one sees it."""

    name: str
    answer: str
    """The class that the predictor gave it when it came."""
    similarity: float


class Record:
    """Pictures by class; the same ones in every space."""

    def __init__(self, classes: Sequence[str]) -> None:
        self._classes = classes
        self._memories: dict[str, Memory] = {}
        self._names: dict[int, str] = {}

    def write(
        self, keys: Mapping[str, Float], label: int, priority: float, item: int, name: str
    ) -> bool:
        """Keep a picture if it is among the surest of its class; returns whether it was kept."""
        kept = False
        for space, key in keys.items():
            if space not in self._memories:
                self._memories[space] = Memory(len(self._classes), _CAPACITY, len(key))
            if self._memories[space].write(key, label, priority, item):
                self._names[item], kept = name, True
        held = len(next(iter(self._memories.values()))) if self._memories else 0
        if len(self._names) > 2 * held + _CAPACITY:  # names of pictures that were pushed out
            self._names = {item: self._names[item] for item in self._held()}
        return kept

    def nearest(self, keys: Mapping[str, Float], count: int) -> dict[str, tuple[Neighbor, ...]]:
        """By space, the pictures that are most similar, nearest first."""
        return {
            space: tuple(
                Neighbor(self._names[each.item], self._classes[each.label], each.similarity)
                for each in self._memories[space].neighbors(key, count)
            )
            if space in self._memories
            else ()
            for space, key in keys.items()
        }

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Names as plain data, and arrays."""
        arrays = {
            f"record-{number}/{name}": array
            for number, memory in enumerate(self._memories.values())
            for name, array in memory.state().items()
        }
        names = [[item, self._names[item]] for item in self._held()]
        return {"spaces": list(self._memories), "names": names}, arrays

    @classmethod
    def from_state(
        cls, classes: Sequence[str], told: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Record:
        """The record that gave a state."""
        record = cls(classes)
        for number, space in enumerate(told["spaces"]):
            part = f"record-{number}/"
            own = {n.removeprefix(part): a for n, a in arrays.items() if n.startswith(part)}
            record._memories[space] = Memory.from_state(own, len(classes), _CAPACITY)
        record._names = {int(item): str(name) for item, name in told["names"]}
        check_stored({*record._held()} <= {*record._names}, "a picture has no name")
        return record

    @property
    def items(self) -> dict[int, list[int]]:
        """Items that are kept, by class, in every space the same."""
        memory = next(iter(self._memories.values()), None)
        return {} if memory is None else memory.items

    def _held(self) -> Iterable[int]:
        return [item for each in self.items.values() for item in each]
