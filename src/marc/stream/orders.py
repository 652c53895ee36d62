"""Kinds of stream orders, as data: which image comes when.

Each is a pure function of labels or domains (N,), a seed and a few options to an index (N,): the
row at each position, every row once. The same seed always draws the same order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, integer, number, one_of
from marc.scores import Int


def grouped(values: NDArray[Any], seed: int) -> Int:
    """One class or domain after the other; the seed draws which comes when, and the rest."""
    draw = np.random.default_rng(seed)
    groups = _members(values, draw)
    return np.concatenate([groups[place] for place in draw.permutation(len(groups))])


def dirichlet(labels: Int, seed: int, gamma: float = 0.1) -> Int:
    """A stream in as many slots as there are classes, each with few of the classes.

    The protocol of StatA (Zanella et al., 2025): the images of a class are spread over the slots by
    fractions from a symmetric Dirichlet(gamma), independently of other classes, then shuffled
    inside each slot. (With batches, StatA has no more slots than batches; NOTE, Gong et al., 2022,
    also bounds the size of a slot and sorts it by class.) At gamma 1 slots are uneven; at 0.01
    nearly all of a class is in one slot. Slots differ in size, and may be empty.
    """
    draw = np.random.default_rng(seed)
    groups = _members(labels, draw)
    fractions = draw.dirichlet([gamma] * len(groups), size=len(groups))  # (classes, slots)
    slots: list[list[Int]] = [[] for _ in groups]
    for rows, shares in zip(groups, fractions, strict=True):
        ends = (np.cumsum(shares)[:-1] * len(rows)).astype(np.int64)
        for slot, piece in zip(slots, np.split(rows, ends), strict=True):
            slot.append(piece)
    return np.concatenate([draw.permutation(np.concatenate(slot)) for slot in slots])


def bursts(labels: Int, seed: int, length: int = 8) -> Int:
    """Short runs of one class in random order: each class is cut into runs of `length` images.

    The last run of a class may be shorter, and runs of one class may meet.
    """
    draw = np.random.default_rng(seed)
    cut = [np.split(rows, range(length, len(rows), length)) for rows in _members(labels, draw)]
    runs = [run for rows in cut for run in rows]
    return np.concatenate([runs[place] for place in draw.permutation(len(runs))])


def returning(domains: NDArray[Any], seed: int) -> Int:
    """One domain after the other, the first in two halves: at the beginning and at the end."""
    order = grouped(domains, seed)
    size = int((domains == domains[order[0]]).sum())
    half = (size + 1) // 2
    return np.concatenate([order[:half], order[size:], order[half:size]])


def long_tail(labels: Int, ratio: float = 20.0, draw: int = 0) -> Int:
    """The rows that stay, ascending, so that class sizes fall geometrically, `ratio` to 1.

    The head has as many images as the median class. A class that has fewer than its place asks
    keeps all, and each keeps one at least. Which classes are rare and which of their images stay
    is drawn by `draw`, not by the seed of an order: so runs over several orders can be paired.
    """
    generator = np.random.default_rng(draw)
    groups = _members(labels, generator)
    places = generator.permutation(len(groups)) / max(1, len(groups) - 1)
    head = float(np.median([len(rows) for rows in groups]))
    sizes = np.maximum(1, np.round(head * ratio**-places)).astype(np.int64)
    return np.sort(np.concatenate([rows[:n] for rows, n in zip(groups, sizes, strict=True)]))


def _members(groups: NDArray[Any], draw: np.random.Generator) -> list[Int]:
    """The rows of each group in an order of their own, groups by value."""
    rows = draw.permutation(len(groups))
    _, sizes = np.unique(groups, return_counts=True)
    in_groups = rows[np.argsort(groups[rows], kind="stable")]
    return np.split(in_groups, np.cumsum(sizes)[:-1])


def _shuffle(groups: NDArray[Any], seed: int) -> Int:
    return np.random.default_rng(seed).permutation(len(groups))


@dataclass(frozen=True)
class _Kind:
    """A kind of order: what it needs, its options with their defaults, and how it is drawn."""

    needs: str = ""
    options: Mapping[str, int | float] = field(default_factory=dict)
    draw: Callable[..., Int] = _shuffle
    keep: Callable[..., Int] | None = None
    """Of a kind that leaves images out: the rows that stay. Its options are of this choice."""


_KINDS = {
    "shuffled": _Kind(),
    "stored": _Kind(),  # a stream keeps it as the seed None
    "sorted": _Kind("labels", draw=grouped),
    "dirichlet": _Kind("labels", {"gamma": 0.1}, dirichlet),
    "long-tail": _Kind("labels", {"ratio": 20.0, "draw": 0}, keep=long_tail),
    "bursts": _Kind("labels", {"length": 8}, bursts),
    "domains": _Kind("domains", draw=grouped),
    "returning": _Kind("domains", draw=returning),
}
_LEAST: dict[str, Any] = {"gamma": 0.001, "ratio": 1.0, "draw": 0, "length": 1}
"""The smallest value of each option; with a point where fractions are allowed."""


@dataclass(frozen=True)
class Ordering:
    """A kind of order with its options, checked; a seed draws an order of this kind."""

    kind: str = "shuffled"
    options: Mapping[str, int | float] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, **options: Any) -> Ordering:
        """From a kind, or from what a person types: `KIND:option=value,...`.

        >>> Ordering.parse("dirichlet").name, Ordering.parse("long-tail:ratio=50").name
        ('dirichlet:gamma=0.1', 'long-tail:ratio=50,draw=0')
        """
        name, _, rest = text.partition(":")
        one_of("kind of order", name, _KINDS, "--order dirichlet:gamma=0.1")
        defaults = _KINDS[name].options
        for pair in filter(None, rest.split(",")):
            option, equals, value = pair.partition("=")
            if not equals or option in options:
                hint = "--order dirichlet:gamma=0.1"
                raise MarcError("an order is KIND:option=value,... once each", got=text, hint=hint)
            options[option] = value
        for option in options:
            one_of(f"option of the order {name}", option, defaults, f"--order {name}")
        given = {**defaults, **options}
        return cls(name, {each: _checked(name, each, value) for each, value in given.items()})

    @property
    def name(self) -> str:
        """As it is typed and recorded, with all its options."""
        options = ",".join(f"{name}={_text(value)}" for name, value in self.options.items())
        return f"{self.kind}:{options}" if options else self.kind

    @property
    def file_name(self) -> str:
        """The name without signs that a file name should not have."""
        return re.sub("[:,=]", "-", self.name)

    @property
    def cuts(self) -> bool:
        """Whether it leaves images out."""
        return _KINDS[self.kind].keep is not None

    @property
    def by_domain(self) -> bool:
        """Whether domains decide it."""
        return _KINDS[self.kind].needs == "domains"

    def kept(self, labels: Int | None) -> Int:
        """The rows that stay, of an order that leaves images out."""
        keep = _KINDS[self.kind].keep
        assert keep is not None  # `cuts`
        return keep(self._needed(labels, None), **self.options)

    def draw(
        self, n_images: int, labels: Int | None, domains: NDArray[Any] | None, seed: int
    ) -> Int:
        """The row at each position, (N,)."""
        seed = integer("seed", seed, 0)
        if not _KINDS[self.kind].needs:
            return _shuffle(np.arange(n_images), seed)
        options = {} if self.cuts else self.options
        return _KINDS[self.kind].draw(self._needed(labels, domains), seed, **options)

    def _needed(self, labels: Int | None, domains: NDArray[Any] | None) -> NDArray[Any]:
        """Labels or domains, whichever decide this order."""
        needs = _KINDS[self.kind].needs
        found = domains if self.by_domain else labels
        if found is None:
            key = "domain" if self.by_domain else needs
            raise MarcError(
                f"the order {self.kind} needs {needs}, and this stream has none",
                got=f"--order {self.name}",
                hint=f"Stream.from_arrays(..., {needs}=...), or the key {key!r} in the pack",
            )
        if self.by_domain and len(np.unique(found)) < 2:
            hint = "--order sorted, or a stream of several domains"
            raise MarcError(f"the order {self.kind} needs several domains", got=1, hint=hint)
        return found


def _checked(kind: str, option: str, value: object) -> int | float:
    default, least = _KINDS[kind].options[option], _LEAST[option]
    check, what = (integer, "an integer") if isinstance(least, int) else (number, "a finite number")
    try:
        return check(option, type(least)(value) if isinstance(value, str) else value, least)
    except ValueError:
        problem = f"{option} of the order {kind} must be {what} >= {least:g}"
        hint = f"--order {kind}:{option}={default:g}"
        raise MarcError(problem, got=repr(value), hint=hint) from None


def _text(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
