"""What an experiment gives: tables of plain values, and figures with the numbers they show."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from marc.replay.sweep import Score
from marc.stats import Interval, paired_difference, seed_interval

Word = Literal["", "fixed", "oracle", "held-out"]
"""How the settings behind an accuracy were chosen."""

Unit = Literal[
    "text", "count", "number", "percent", "points", "correlation", "seconds", "ratio", "log10 p"
]
"""How the cells of a column are printed; percent and points are fractions of the images."""


@final
@dataclass(frozen=True)
class Estimate:
    """A value with what is known of its error: an interval, a deviation over orders, or neither."""

    value: float
    low: float | None = None
    high: float | None = None
    sd: float | None = None
    """Sample standard deviation over stream orders (n - 1)."""

    @classmethod
    def over_orders(cls, values: Sequence[float]) -> Estimate:
        """The mean over orders with their deviation."""
        sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
        return cls(float(np.mean(values)), sd=sd)

    @classmethod
    def across_orders(cls, values: Sequence[float]) -> Estimate:
        """The mean over orders with their deviation and, of several, a t-interval over them."""
        mean = cls.over_orders(values)
        if mean.sd is None or not np.isfinite(values).all():
            return mean
        value, low, high = seed_interval(values)
        return cls(value, low, high, mean.sd)

    @classmethod
    def paired(cls, values: ArrayLike, reference: ArrayLike) -> Estimate:
        """How far some values are above others of the same images, mean over orders.

        The interval is over images, whose differences are averaged over orders first; the
        deviation is over orders.

        Args:
            values: one for each image, (orders, N) or (N,): right or not, or a gain.
            reference: the same of what they are set against, (orders, N) or (N,).
        """
        both = (np.asarray(side, dtype=np.float64) for side in (values, reference))
        first, second = np.broadcast_arrays(*(np.atleast_2d(side) for side in both))
        value, low, high = paired_difference(first, second)
        by_order = (first - second).mean(axis=1)
        return cls(value, low, high, cls.over_orders(by_order.tolist()).sd)

    @classmethod
    def of(cls, score: Score) -> Estimate:
        """The gain of a score, mean over orders, with its deviation."""
        return cls(score.gain, sd=None if math.isnan(score.spread) else score.spread)

    @classmethod
    def within(cls, interval: Interval | None) -> Estimate:
        """An estimate with its 95 % interval; what is not known is left out."""
        if interval is None:
            return cls(math.nan)
        value, low, high = interval
        if math.isnan(low) or math.isnan(high):
            return cls(value)
        return cls(value, low, high)


Cell = str | int | float | Estimate | None
"""None where there is nothing to print; a float that is not a number counts as None."""

Row = tuple[Cell, ...]


@final
@dataclass(frozen=True)
class Column:
    """A column of a table."""

    name: str
    unit: Unit = "text"
    word: Word = ""
    """For an accuracy or a gain, how its settings were chosen."""

    @property
    def heading(self) -> str:
        """The name with its word."""
        return f"{self.name} ({self.word})" if self.word else self.name


def columns(*lines: str) -> tuple[Column, ...]:
    """Columns from their names: `|` between two, and after `:` a unit and how settings were chosen.

    >>> columns("space | gain: points fixed")[1]
    Column(name='gain', unit='points', word='fixed')
    """
    return tuple(_column(each.strip()) for line in lines for each in line.split("|"))


def _column(text: str) -> Column:
    name, _, rest = text.partition(": ")
    word = next((each for each in get_args(Word) if each and rest.endswith(f" {each}")), "")
    unit = rest.removesuffix(f" {word}") or "text"
    if unit not in get_args(Unit):
        raise ValueError(f"{text}: no such unit")
    return Column(name, cast(Unit, unit), cast(Word, word))


@final
@dataclass(frozen=True)
class Table:
    """A table of the study. Its columns of text say what a row is about."""

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    answers: tuple[str, ...]
    """LaTeX labels of the paper's tables that it answers."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Protocol of every row that does not say otherwise: capacity, weight, views, seeds, ..."""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.name}: {len(row)} cells for {len(self.columns)} columns")


@final
@dataclass(frozen=True)
class Figure:
    """A figure of the study, drawn when it is saved."""

    name: str
    title: str
    caption: str
    draw: Callable[[], Any]
    """Gives a matplotlib figure, or an SVG file as it is; called inside `report.style.drawing`."""
    answers: tuple[str, ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    """The numbers that are shown: lists, texts and numbers."""


Artifact = Table | Figure


def plain(value: Any) -> Any:
    """Numbers for JSON: arrays as lists, and None where a number is not finite.

    >>> plain({"a": np.array([1.0, np.nan])})
    {'a': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
