"""Rows of the log: a step, a label, and the seal of a row."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

_encode = msgspec.msgpack.Encoder().encode


class StepRow(NamedTuple):
    """One step as the log has it."""

    seq: int
    id: str
    time: float
    base: int
    prediction: int
    judged: bool
    """Whether the trial counts it: not where the memory was off."""
    weight: float | None
    admitted: bool
    answer: bytes
    effect: bytes | None = None

    @property
    def disagrees(self) -> bool:
        """Whether the memory's answer is another than the base's."""
        return self.prediction != self.base

    def stored(self) -> tuple[Any, ...]:
        """Without the effect, as SQLite has it: there, a truth value is a number."""
        return (*self[:5], int(self.judged), self.weight, int(self.admitted), self.answer)

    @classmethod
    def of_stored(cls, row: Sequence[Any], effect: bytes | None = None) -> StepRow:
        """The step of which `stored` made this."""
        seq, name, at, base, prediction, judged, weight, admitted, answer = row
        return cls(
            seq, name, at, base, prediction, bool(judged), weight, bool(admitted), answer, effect
        )


class LabelRow(NamedTuple):
    """The label of one step."""

    number: int
    id: str
    seq: int
    label: int
    """The class; -1 is none of those there are."""
    result: int | None
    """Of a disagreement: won 1, lost -1, neither 0; none where both answers were the same."""


def seal_of(*parts: Any) -> int:
    """A checksum of a row."""
    return zlib.crc32(_encode(parts))
