"""The streams that class means are judged on, and how many orders of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import marc
from benchmarks.auto_weight.cells import HOSTILE, SHIFTS, hostile
from marc.stream import Stream

UNSEEN = ("halftone", "mosaic")
"""Shifts of the lab that were not looked at before the rule was frozen."""
BAD = "bad on purpose"


@dataclass(frozen=True)
class Source:
    """A stream by where it is opened: what is sent to another process."""

    group: str
    address: str
    variants: int = 0
    """How many hostile predictors stand for the stream itself, if any."""

    def open(self) -> Stream:
        """The stream itself, one view of each image."""
        return marc.load_stream(self.address).with_views(1)

    def streams(self) -> Iterator[Stream]:
        """The stream, or its hostile variants."""
        stream = self.open()
        yield from islice(hostile(stream), self.variants) if self.variants else [stream]


@dataclass(frozen=True)
class Plan:
    """What is measured: all of it, or a little of everything."""

    packs: tuple[str, ...]
    shifts: tuple[str, ...] = SHIFTS
    sizes: tuple[str, ...] = ("", "-12")
    hostile_shifts: tuple[str, ...] = HOSTILE
    n_variants: int = 8
    orders: int = 3
    """Shuffled orders of photographs, and of every kind of order that has several."""
    lab_orders: int = 2
    few: int = 2
    """Orders of each kind for the ablation and for bounded memories."""
    processes: int = 2
    slow: tuple[str, ...] = ("dota",)
    """Methods that run in one order only."""

    @classmethod
    def quick(cls, packs: Sequence[str]) -> Plan:
        """One order of everything and almost none of the lab: to see that it runs."""
        return cls(tuple(packs), ("mosaic", "clean"), ("-12",), (), 2, 1, 1, 1, 1)

    def photographs(self) -> list[Source]:
        """The packs."""
        return [Source("photographs", f"arrays/{pack}") for pack in self.packs]

    def lab(self, sizes: Sequence[str] | None = None) -> list[Source]:
        """The lab; shifts that were not looked at are a group of their own."""
        return [
            Source("lab, unseen shifts" if shift in UNSEEN else "lab", f"lab/{shift}{size}")
            for size in (self.sizes if sizes is None else sizes)
            for shift in self.shifts
        ]

    def hostile(self, size: str = "") -> list[Source]:
        """Hostile variants of the photographs and of some of the lab."""
        lab = [f"lab/{shift}{size}" for shift in self.hostile_shifts]
        addresses = [source.address for source in self.photographs()] + lab
        return [Source("hostile", address, self.n_variants) for address in addresses]

    def n_orders(self, source: Source) -> int:
        """How many shuffled orders a stream is shown in."""
        every = {"photographs": self.orders, "hostile": 1}
        return every.get(source.group, self.lab_orders)
