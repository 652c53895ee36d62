"""The answers of one method over one order, kept by stored row so that methods can be paired."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from marc.loop import run
from marc.method import MARC
from marc.peers.registry import METHODS, create_method
from marc.peers.weight_search import WeightSearch
from marc.replay.replay import replay
from marc.results.files import Arrays
from marc.scores import Int
from marc.stream import Stream
from marc.types import Replayable, Run


@final
@dataclass(frozen=True)
class Answers:
    """What a method and its own pipeline without memory answered, by stored row (N,) each."""

    labels: Int
    predictions: Int
    base_predictions: Int
    order: Int
    """The row at each position of the stream."""
    chosen: Mapping[str, float]
    """Weights that an oracle chose; empty for fixed ones."""

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Whether each answer is right."""
        return self.predictions == self.labels

    @property
    def base_correct(self) -> NDArray[np.bool_]:
        """Whether each answer without memory is right."""
        return self.base_predictions == self.labels

    @property
    def accuracy(self) -> float:
        """Share of right answers."""
        return float(self.correct.mean())

    @property
    def base_accuracy(self) -> float:
        """The same images, views, prompts and order without memory."""
        return float(self.base_correct.mean())

    @property
    def gain(self) -> float:
        """`accuracy - base_accuracy`."""
        return self.accuracy - self.base_accuracy

    def as_arrays(self) -> Arrays:
        """For a shelf; labels belong to the stream."""
        return {
            "predictions": self.predictions,
            "base_predictions": self.base_predictions,
            "order": self.order,
            "chosen_names": np.array(list(self.chosen), dtype=str),
            "chosen": np.array(list(self.chosen.values()), dtype=np.float64),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], labels: Int) -> Answers:
        """From a shelf."""
        names, values = arrays["chosen_names"].tolist(), arrays["chosen"].tolist()
        return cls(
            labels,
            arrays["predictions"],
            arrays["base_predictions"],
            arrays["order"],
            dict(zip(names, values, strict=True)),
        )


def answer(stream: Stream, method: str, seed: int, settings: Mapping[str, Any]) -> Answers:
    """Run a method over the order that a seed draws; whole streams at once where that is exact.

    Beside the method's own settings there may be `published`, a data set, and `oracle`, which
    chooses the weights that the authors chose on labels, on the labels of this stream.
    """
    given = dict(settings)
    published, oracle = given.pop("published", None), given.pop("oracle", False)
    card = METHODS[method]
    if "seed" in card.settings:
        given["seed"] = seed
    made = create_method(method, published=published, **given)
    ordered = stream.in_order(seed)
    assert stream.row_labels is not None  # a study has checked
    if oracle:
        search = WeightSearch(card.searched, len(ordered))
        found = run(made, ordered, search.take)
        chosen, predictions = search.best(stream.row_labels[ordered.order])
        return _by_row(found, predictions, stream.row_labels, chosen)
    whole = isinstance(made, MARC | Replayable) and not made.varies_with
    found = replay(made, ordered) if whole else run(made, ordered)
    return _by_row(found, found.predictions, stream.row_labels, {})


def _by_row(found: Run, predictions: Int, labels: Int, chosen: Mapping[str, float]) -> Answers:
    place = np.argsort(found.order)
    return Answers(labels, predictions[place], found.base_predictions[place], found.order, chosen)
