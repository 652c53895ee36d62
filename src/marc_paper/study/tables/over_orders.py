"""What tables of systems share: runs over every order, paired differences, views and averages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from marc.types import Answers
from marc_paper.study.artifacts import Estimate
from marc_paper.study.work import Work

_Right = NDArray[np.bool_]
"""Whether each answer is right, (orders, N) with the same images in the same columns."""


@final
@dataclass(frozen=True)
class Runs:
    """The answers of one method to one stream, an order after the other."""

    answers: tuple[Answers, ...]

    @classmethod
    def of(cls, work: Work, stream: str, method: str, views: int = 1, **settings: Any) -> Runs:
        """A method over every order of the plan."""
        seeds = work.plan.seeds.orders
        return cls(tuple(work.run(stream, method, seed, views, **settings) for seed in seeds))

    @property
    def correct(self) -> _Right:
        """Whether each answer is right."""
        return np.stack([each.correct for each in self.answers])

    @property
    def base_correct(self) -> _Right:
        """Whether each answer of the same pipeline without memory is right."""
        return np.stack([each.base_correct for each in self.answers])

    @property
    def accuracy(self) -> Estimate:
        """Mean over orders, with their deviation."""
        return Estimate.over_orders([each.accuracy for each in self.answers])

    @property
    def no_memory(self) -> float:
        """Accuracy of the same pipeline without memory, mean over orders."""
        return float(self.base_correct.mean())

    @property
    def gain(self) -> Estimate:
        """Accuracy minus that without memory."""
        return Estimate.paired(self.correct, self.base_correct)

    @property
    def calibration(self) -> dict[str, float]:
        """ECE, Brier score and log-loss, with memory and without, means over orders."""
        return _means([each.calibration() for each in self.answers])

    def against(self, reference: Runs) -> Estimate:
        """Accuracy minus that of another method over the same orders."""
        return Estimate.paired(self.correct, reference.correct)


@final
@dataclass(frozen=True)
class Mean:
    """The same method on several streams, which all count alike."""

    runs: Sequence[Runs]

    @property
    def no_memory(self) -> float:
        """Accuracy without memory, mean over streams and orders."""
        return sum(each.no_memory for each in self.runs) / len(self.runs)

    @property
    def accuracy(self) -> Estimate:
        """Mean over streams, with the deviation of that mean from order to order."""
        by_stream = [[each.accuracy for each in runs.answers] for runs in self.runs]
        return Estimate.over_orders(np.mean(by_stream, axis=0).tolist())

    @property
    def gain(self) -> Estimate:
        """Accuracy minus that without memory."""
        return Estimate.over_streams([(each.correct, each.base_correct) for each in self.runs])

    @property
    def calibration(self) -> dict[str, float]:
        """ECE, Brier score and log-loss, with memory and without, means over streams."""
        return _means([each.calibration for each in self.runs])

    def against(self, reference: Mean) -> Estimate:
        """Accuracy minus that of another method on the same streams."""
        pairs = zip(self.runs, reference.runs, strict=True)
        return Estimate.over_streams([(ours.correct, theirs.correct) for ours, theirs in pairs])


def _means(found: Sequence[dict[str, float]]) -> dict[str, float]:
    """Means of the measures that all have: a method that votes has none."""
    names = [name for name in found[0] if all(name in each for each in found)]
    return {name: float(np.mean([each[name] for each in found])) for name in names}


def span(views: Sequence[int]) -> str:
    """Views for a row: one number, or the range over the streams of an average.

    >>> span([4, 4]), span([1, 8, 4])
    ('4', '1 to 8')
    """
    low, high = min(views), max(views)
    return str(low) if low == high else f"{low} to {high}"
