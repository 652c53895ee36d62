"""Weights chosen on the evaluation labels, as some authors choose theirs: always an oracle.

A step is linear in its weights, so one pass over a stream gives the answer at every weight of a
grid. What is stored must not depend on these weights; a card that names them in `searched` says so.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from marc.errors import MarcError
from marc.scores import Int
from marc.types import Step


class WeightSearch:
    """The answers of a method at every combination of some weights."""

    def __init__(self, searched: Mapping[str, tuple[float, ...]], n_images: int) -> None:
        self.settings = tuple(searched)
        self.grid = np.array(list(itertools.product(*searched.values())))  # (G, settings)
        self.predictions = np.empty((n_images, len(self.grid)), dtype=np.int32)
        self._seen = 0

    def take(self, step: Step) -> None:
        """Answer the next image of the stream at every weight."""
        names = [weighed_by(setting, step) for setting in self.settings]
        fixed = step.base_weight * step.base.astype(np.float64)
        for name, evidence in step.evidence.items():
            if name not in names:
                fixed += step.weights[name] * evidence
        moving = np.stack([step.evidence[name] for name in names])
        self.predictions[self._seen] = (fixed + self.grid @ moving).argmax(axis=1)
        self._seen += 1

    def best(self, labels: Int) -> tuple[dict[str, float], Int]:
        """The weights that are right most often, the first of equals, and their answers (T,)."""
        right = (self.predictions == labels[:, np.newaxis]).sum(axis=0)
        best = int(right.argmax())
        chosen = dict(zip(self.settings, self.grid[best].tolist(), strict=True))
        return chosen, self.predictions[:, best].astype(np.int64)


def weighed_by(setting: str, step: Step) -> str:
    """The evidence that a setting weighs: NAME_weight weighs NAME, `weight` the only one."""
    names = list(step.evidence)
    name = names[0] if setting == "weight" and len(names) == 1 else setting.removesuffix("_weight")
    if name not in names:
        raise MarcError(
            f"{setting!r} weighs no evidence of this method", got=setting, allowed=", ".join(names)
        )
    return name
