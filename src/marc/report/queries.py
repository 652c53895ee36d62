"""Which images a page shows one by one: samples of every outcome, and the queries it lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.report.answered import Answered
from marc.scores import Float, Int

LOW_MARGIN = 0.1
"""Fraction of the stream whose margin is called low."""
_SAMPLES = 8  # images of each kind among the samples


@dataclass(frozen=True)
class Explored:
    """Everything about single images that a page shows, as plain data."""

    samples: dict[str, Int]
    """By what the memory did to the answer: rows of a few images."""
    kinds: dict[str, int]
    """By name of a filter: how many of the listed images it lets through."""
    queries: list[dict[str, Any]]
    data: dict[str, Any]
    """What the script needs beside them."""
    introduction: str
    """What there is to see of a query, and how the queries were chosen."""
    explanation: str
    """What the filters and the numbers beside them mean."""

    @property
    def rows(self) -> list[int]:
        """Rows whose picture or id the page shows, each once."""
        rows = dict.fromkeys(int(row) for group in self.samples.values() for row in group)
        for query in self.queries:
            rows[query["row"]] = None
            for entries in query["entries"]:
                rows |= dict.fromkeys(entry["row"] for entry in entries)
        return list(rows)


@dataclass(frozen=True)
class Sorted:
    """Every image of the first order as the explorer sorts it; arrays are by stored row (N,)."""

    disagreement: NDArray[np.float64]
    kinds: Mapping[str, NDArray[np.bool_]]
    """By name of a filter: which queries it lets through."""
    changed: NDArray[np.bool_]
    """Whether the memory changed the answer."""
    time: Int
    """When each image arrived."""

    def ranked(self, mask: NDArray[np.bool_]) -> Int:
        """Rows of a mask: most disagreeing first, then changed answers, in stream order."""
        rows = np.flatnonzero(mask)
        keys = self.time[rows], ~self.changed[rows], -self.disagreement[rows]
        return rows[np.lexsort(keys)]

    def choose(self, samples: Mapping[str, Int], limit: int) -> Int:
        """At most `limit` rows: the samples, a share for each filter, then the most disagreeing."""
        every = np.ones(len(self.time), dtype=bool)
        chosen = dict.fromkeys(int(row) for rows in samples.values() for row in rows[:limit])
        share = max(1, limit // (2 * len(self.kinds)))
        for mask in self.kinds.values():
            chosen |= dict.fromkeys(self.ranked(mask)[:share].tolist())
        chosen |= dict.fromkeys(self.ranked(every).tolist())
        listed = np.zeros(len(every), dtype=bool)
        listed[list(chosen)[:limit]] = True
        return self.ranked(listed)


def explored(
    subject: Answered,
    images: Sorted,
    limit: int,
    describe: Callable[[Int], list[dict[str, Any]]],
    *,
    introduction: str,
    rest: str,
    explanation: str,
    data: dict[str, Any],
) -> Explored:
    """Choose at most `limit` queries and describe them; `rest` says which fill the list up."""
    samples = _sample_images(subject)
    rows, size = images.choose(samples, limit), len(images.time)
    masks = {"all": np.ones(size, dtype=bool), **images.kinds}
    rule = "Every image of the stream is listed, the most disagreeing first."
    if size > limit:
        rule = (
            f"{limit} of {size:,} images are listed: the samples above, a share for each filter, "
            f"and for the rest those {rest}."
        )
    return Explored(
        samples,
        {kind: int(mask[rows].sum()) for kind, mask in masks.items()},
        describe(rows),
        data,
        f"{introduction} {rule}",
        explanation,
    )


def outcomes(subject: Answered) -> dict[str, NDArray[np.bool_]]:
    """The answers of the first order that the memory changed, as far as labels let one say."""
    return {
        name: each[0]
        for name, each in subject.outcomes.items()
        if name in ("repaired", "broken", "changed")
    }


def _sample_images(subject: Answered) -> dict[str, Int]:
    """A few images of each kind, spread evenly over the stream, so that nobody chose them."""
    order = subject.stream.order
    samples = {}
    for name, mask in subject.outcomes.items():
        rows = order[mask[0][order]]
        positions = np.linspace(0, len(rows) - 1, min(_SAMPLES, len(rows)) + 2).round()[1:-1]
        samples[name] = rows[np.unique(positions.astype(int))]
    return samples


def low_margin(margin: Float) -> NDArray[np.bool_]:
    """Images whose best two sums are among the closest of the stream."""
    return np.asarray(margin <= np.quantile(margin, LOW_MARGIN))
