"""What an experiment gives: tables of plain values, and figures with the numbers they show.

Their titles, captions, notes and labels in the paper are in `captions.toml`, by name. What stands
in braces there is filled with the plan, with what an experiment gives, or with a shared phrase.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast, final, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from marc.replay.sweep import Score, Sweep
from marc.stats import Interval, paired_difference, seed_interval
from marc_paper.study.plan import Plan

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

    @classmethod
    def paired_gain(cls, sweep: Sweep, score: Score) -> Estimate:
        """The gain of a score with a paired interval over images, and its deviation over orders."""
        correct = [
            sweep.correct(score.space, score.capacity, weight, seed)
            for weight, seed in zip(score.weights, sweep.seeds, strict=True)
        ]
        return cls.paired(correct, sweep.base_correct)

    @staticmethod
    def mean_known(values: Iterable[float]) -> float:
        """The mean of those that are numbers; not a number where none is.

        >>> Estimate.mean_known([1.0, float("nan"), 2.0])
        1.5
        """
        known = [value for value in values if not math.isnan(value)]
        return float(np.mean(known)) if known else math.nan

    @classmethod
    def over_streams(cls, pairs: Sequence[tuple[NDArray[np.bool_], NDArray[np.bool_]]]) -> Estimate:
        """How much more often the first of a pair is right than the second, mean over streams.

        There is a pair for each stream. Of one stream this is `Estimate.paired`; several count as
        independent. The deviation is that of the mean over streams, from order to order.
        """
        intervals = [paired_difference(correct, reference) for correct, reference in pairs]
        by_order = [a.mean(axis=1) - b.mean(axis=1) for a, b in pairs]
        mean = cls.over_orders(np.mean(by_order, axis=0).tolist())
        half = math.hypot(*(each.high - each.estimate for each in intervals)) / len(pairs)
        return cls(mean.value, mean.value - half, mean.value + half, mean.sd)


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


class _Values(dict[str, Any]):
    """What fills a caption; what is not here is a phrase that several captions share."""

    def __missing__(self, name: str) -> str:
        return self.fill(captions()["phrases"][name])

    def fill(self, text: str) -> str:
        """The text in one line."""
        return " ".join(text.split()).format_map(self).strip()


@cache
def captions() -> Mapping[str, Any]:
    """The words of experiments, tables and figures, and the phrases that they share."""
    return tomllib.loads(Path(__file__).with_name("captions.toml").read_text("utf-8"))


def _words(kind: str, name: str, plan: Plan, values: Mapping[str, Any]) -> dict[str, Any]:
    """Title, caption, labels and notes of an artifact."""
    known = {**vars(plan), "main": plan.main, "n_orders": len(plan.seeds.orders), **values}
    fill = _Values(known).fill
    entry = captions()[kind][name]
    return {
        "title": fill(entry["title"]),
        "caption": fill(entry["caption"]),
        "answers": tuple(entry.get("answers", ())),
        "notes": tuple(fill(note) for note in entry.get("notes", ())),
    }


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

    @classmethod
    def of(
        cls,
        plan: Plan,
        name: str,
        columns: tuple[Column, ...],
        rows: Iterable[Row],
        settings: Mapping[str, Any] | None = None,
        *,
        notes: Iterable[str] = (),
        **values: Any,
    ) -> Table:
        """A table with the words of its name, which `values` fill; `notes` come after its own."""
        words = _words("tables", name, plan, values)
        words["notes"] += tuple(notes)
        return cls(name=name, columns=columns, rows=tuple(rows), settings=settings or {}, **words)


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

    @classmethod
    def of(
        cls,
        plan: Plan,
        name: str,
        draw: Callable[[], Any],
        data: Mapping[str, Any] | None = None,
        *,
        like: str = "",
        answers: tuple[str, ...] | None = None,
        **values: Any,
    ) -> Figure:
        """A figure with the words of its name, or of the name `like`; `answers` replace theirs."""
        words = _words("figures", like or name, plan, values)
        del words["notes"]
        if answers is not None:
            words["answers"] = answers
        return cls(name=name, draw=draw, data=data or {}, **words)


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
