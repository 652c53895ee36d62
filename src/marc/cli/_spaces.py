"""What `geometry` and `select` share: a sample of the images, progress, and notes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import typer

from marc.cli import console
from marc.report.text import duration
from marc.spaces.neighbors import EXACT_UP_TO, has_index
from marc.stats import Interval
from marc.stream import Stream
from marc.types import OnProgress

_Result = TypeVar("_Result")

IMAGES = typer.Option(
    0,
    "--images",
    min=0,
    show_default=False,
    help="Images to look at, drawn at random; all by default.",
)
_SURE = 2.0  # seconds after which the rest can be estimated
_LONG = 90.0  # seconds for one space that are worth a word
_ENOUGH = 20_000  # images of a sample: the error of a fraction is below one point


def sample(stream: Stream, n_images: int) -> Stream:
    """So many images of a stream; all for 0."""
    return stream.sample(n_images) if n_images else stream


def for_each(
    spaces: Sequence[str], n_images: int, work: Callable[[str, OnProgress], _Result]
) -> list[_Result]:
    """What `work` gives for each space, behind a progress bar."""
    with console.progress() as bar:
        watch = _Watch(console.reporter(bar), n_images, len(spaces))
        return [work(name, watch.next(name)) for name in spaces]


class _Watch:
    """Shows how far each space is, and says once if it will take long."""

    def __init__(self, report: OnProgress, n_images: int, n_spaces: int) -> None:
        self._report, self._n_images, self._n_spaces = report, n_images, n_spaces
        self._number, self._start, self._announced = 0, 0.0, False

    def next(self, space: str) -> OnProgress:
        """For the next space."""
        self._number += 1
        return partial(self._show, f"{space} ({self._number} of {self._n_spaces})")

    def _show(self, space: str, what: str, done: int, total: int) -> None:
        self._report(f"{space} {what}", done, total)
        if done == 0:
            self._start = time.monotonic()
            return
        spent = time.monotonic() - self._start
        if self._announced or spent < _SURE:
            return
        seconds = spent * total / done
        if seconds > _LONG:
            self._announced = True
            note = _how_long(what, seconds, self._n_images, self._n_spaces)
            console.err.print(note, soft_wrap=True, markup=False)


def _how_long(what: str, seconds: float, n_images: int, n_spaces: int) -> str:
    """A note on work that takes long, and what to type instead.

    >>> print(_how_long("neighbours", 900, 100_000, 2))
    note: 100,000 images, neighbours: about 15 min for each of 2 space(s)
      faster:  --images 20000, a random sample
    """
    each = f"{duration(seconds)} for each of {n_spaces} space(s)"
    lines = [f"note: {n_images:,} images, {what}: about {each}"]
    if n_images > _ENOUGH:
        lines.append(f"faster:  --images {_ENOUGH}, a random sample")
    if n_images > EXACT_UP_TO and not has_index():
        lines.append("faster:  pip install faiss-cpu, whose index finds nearly all neighbours")
    return "\n  ".join(lines)


def with_error(interval: Interval) -> str:
    """A fraction in percent, with half of its interval if it has one.

    >>> with_error(Interval(0.5, 0.48, 0.52)), with_error(Interval(0.5, np.nan, np.nan))
    ('50.00 ± 2.00', '50.00')
    """
    if np.isnan(interval.low):
        return console.percent(interval.estimate)
    # a fraction near 0 or 1 has one end cut off
    half = max(interval.high - interval.estimate, interval.estimate - interval.low)
    return f"{console.percent(interval.estimate)} ± {console.percent(half)}"


def note_neighbors(n_duplicates: Mapping[str, int], recalls: Mapping[str, float]) -> None:
    """Say what a reader of neighbours should know: copies of images, and missing neighbours."""
    copies = {space: str(count) for space, count in n_duplicates.items() if count}
    if copies:
        console.say(f"images whose features equal those of an earlier one: {_together(copies)}")
    approximate = {space: f"{recall:.4f}" for space, recall in recalls.items() if recall < 1}
    if approximate:
        console.say(f"fraction of the true neighbours that were found: {_together(approximate)}")


def _together(values: Mapping[str, str]) -> str:
    if len(values) > 1 and len(set(values.values())) == 1:
        return f"{next(iter(values.values()))} in each of {len(values)} spaces"
    return ", ".join(f"{space} {value}" for space, value in values.items())
