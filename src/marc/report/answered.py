"""What every page is about: answers along the orders of a stream, with memory and without."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from marc.report.inputs import Inputs
from marc.scores import Int
from marc.stream import Stream


@dataclass(frozen=True)
class Answered:
    """The answers of a run in all of its orders; arrays are by stored row."""

    inputs: Inputs
    seeds: tuple[int | None, ...]
    """Orders; None is the stored one."""
    selection: str
    """How the setting was chosen: `fixed`, or what the run says of itself."""

    @property
    def name(self) -> str:
        """What the answers are called in figures."""
        assert self.inputs.run is not None
        return str(self.inputs.run.config["method"]["method"])

    @property
    def stream(self) -> Stream:
        """The stream in its first order."""
        return self.inputs.stream.in_order(self.seeds[0])

    @property
    def labels(self) -> Int | None:
        """True labels."""
        return self.inputs.stream.row_labels

    @property
    def base_prediction(self) -> Int:
        """Answers without memory."""
        return self.inputs.stream.features.base.label

    @property
    def prediction(self) -> Int:
        """Answers of the first order with the memory."""
        assert self.inputs.run is not None
        return self.inputs.run.arrays["prediction"][0]

    @cached_property
    def right(self) -> NDArray[np.bool_]:
        """Right answers with the memory, (orders, N); needs labels."""
        assert self.inputs.run is not None
        return np.asarray(self.inputs.run.arrays["prediction"] == self.labels)

    @cached_property
    def outcomes(self) -> dict[str, NDArray[np.bool_]]:
        """Every answer under exactly one name: what the memory did to it, (orders, N)."""
        if self.labels is None:
            assert self.inputs.run is not None  # a sweep has labels
            changed = self.inputs.run.arrays["prediction"] != self.base_prediction
            return {"changed": changed, "unchanged": ~changed}
        base, right = self.base_prediction == self.labels, self.right
        return {
            "repaired": right & ~base,
            "broken": ~right & base,
            "right both times": right & base,
            "wrong both times": ~right & ~base,
        }

    def mean_count(self, outcome: str) -> str:
        """How many images have an outcome, mean over orders: one number wherever it stands."""
        return f"{self.outcomes[outcome].sum(axis=1).mean():,.0f}"

    @property
    def is_measured(self) -> bool:
        """Whether it is known how sure the answers of a run are, and how right."""
        run = self.inputs.run
        return run is not None and "brier" in run.arrays and "base_brier" in run.arrays
