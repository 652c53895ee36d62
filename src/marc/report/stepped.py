"""A run of any method, and who said what: the evidence behind each answer of its first order.

A folder holds answers and no evidence, so the stream is stepped through again. What is kept of a
step is what a page can show: its leading classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.loop import iter_steps
from marc.method import MARC
from marc.peers.weight_search import weighed_by
from marc.replay.lifetimes import History
from marc.report.answered import Answered
from marc.report.inputs import Inputs
from marc.results.remembered import Remembered
from marc.results.run import RunPlan
from marc.scores import Int
from marc.types import Step

_LEADING = 5  # classes listed for what the predictor, the sum, or one voice says of them


class _Said(NamedTuple):
    """One answer, and what each kind of evidence, here a voice, said of its leading classes."""

    classes: list[int]
    """Ascending."""
    base: NDArray[np.float64]
    """Scores without memory, of these classes, and last the lowest of any class."""
    evidence: dict[str, NDArray[np.float64]]
    """By voice, the same: last is what speaks least for a class, the highest if weighed below 0."""
    weights: Mapping[str, float]
    margin: float
    """Best sum minus the second best."""
    disagreement: float
    """Share of the weight that speaks for another class than the answer."""


@dataclass(frozen=True)
class Stepped(Answered):
    """The answers of a run of any method, with the steps of its first order taken again."""

    voices: tuple[str, ...]
    """Names of the evidence, the heaviest first; of what never counts, the spaces alone."""
    spaces: Mapping[str, str]
    """By voice: the retrieval space that it reads, where there is one."""
    said: list[_Said]
    """By position in the first order."""

    @classmethod
    def of(cls, inputs: Inputs, progress: Callable[[str], None]) -> Stepped:
        """Step through the first order again; refuse a run without memory."""
        run = inputs.run
        assert run is not None
        progress("each answer again")
        settings = {name: v for name, v in run.config["method"].items() if name != "method"}
        seeds, name = tuple(run.config["seeds"]), run.config["method"]["method"]
        method = RunPlan(inputs.stream, seeds, name, settings).method(seeds[0])
        chosen = (run.metrics.get("chosen") or [{}])[0]
        # classes that the page lists of an image in any case
        known = [run.arrays["base_prediction"], run.arrays["prediction"][0]]
        known += [] if inputs.stream.row_labels is None else [inputs.stream.row_labels]
        said, spaces = [], {"retrieval": settings["space"]} if "space" in settings else {}
        for step in iter_steps(method, inputs.stream.in_order(seeds[0])):
            spaces |= {space: space for space in step.spaces}
            given = {weighed_by(setting, step): weight for setting, weight in chosen.items()}
            step = replace(step, weights={**step.weights, **given})
            said.append(_listen(step, spaces, [int(answers[step.item]) for answers in known]))
        voices = {v: weight for v, weight in _voices(said).items() if weight or v in spaces}
        if name != "zero-shot" and not any(voices.values()):  # its page shows answers alone
            raise MarcError(
                "this run has no memory to show",
                got=f"{run.path}: {name}",
                allowed="a run whose memory says something",
                hint="marc run SOURCE --space SPACE, then marc report",
            )
        heard = {voice: space for voice, space in spaces.items() if voice in voices}
        return cls(inputs, seeds, run.metrics["selection"], tuple(voices), heard, said)

    @property
    def base_prediction(self) -> Int:
        """Answers without memory, of the method's own pipeline."""
        assert self.inputs.run is not None
        return self.inputs.run.arrays["base_prediction"]

    @property
    def time(self) -> Int:
        """When each image of the first order arrived."""
        return np.argsort(self.stream.order)

    @cached_property
    def remembered(self) -> Remembered:
        """What the first order had shown before each image; of MARC, what its memory held."""
        assert self.inputs.run is not None
        capacity = self.inputs.run.config["method"].get("capacity")
        trajectory = self.inputs.run_trajectory()
        if self.name != MARC.name or not capacity or trajectory is None:
            return Remembered.of(self.stream)
        return Remembered(
            self.stream, History.trace(trajectory, (capacity,), self.stream.n_classes)
        )

    @property
    def shown_voices(self) -> tuple[str, ...]:
        """The voices whose spaces are trusted most and least, where any reads a space."""
        heard = [voice for voice in self.voices if voice in self.spaces]  # the heaviest first
        return (*heard[:1], *heard[1:][-1:])

    @property
    def shown_spaces(self) -> tuple[str, ...]:
        """The spaces of these."""
        return tuple(self.spaces[voice] for voice in self.shown_voices)

    def weights(self, voice: str) -> NDArray[np.float64]:
        """The weight of a voice along the first order, (T,)."""
        return np.array([said.weights.get(voice, 0.0) for said in self.said])


def _listen(step: Step, spaces: Iterable[str], listed: Iterable[int]) -> _Said:
    base = step.base_weight * step.base.astype(np.float64)
    evidence = {voice: np.asarray(e, dtype=np.float64) for voice, e in step.evidence.items()}
    signs = {voice: -1.0 if step.weights[voice] < 0 else 1.0 for voice in evidence}
    logits = step.logits
    classes = set(listed)
    for scores in (base, logits, *(signs[voice] * e for voice, e in evidence.items())):
        classes |= set(np.argsort(-scores, kind="stable")[:_LEADING].tolist())
    kept = sorted(classes)
    best = np.partition(logits, -2)
    return _Said(
        kept,
        np.append(base[kept], base.min()),
        {v: np.append(e[kept], signs[v] * (signs[v] * e).min()) for v, e in evidence.items()},
        step.weights,
        float(best[-1] - best[-2]),
        _disagreement(step, [space for space in spaces if space in evidence] or list(evidence)),
    )


def _disagreement(step: Step, voices: Iterable[str]) -> float:
    answer, other, whole = step.prediction, 0.0, 0.0
    for voice in voices:
        said = step.weights[voice] * step.evidence[voice]
        if said.max() > said.min():  # or it prefers no class
            whole += abs(step.weights[voice])
            other += abs(step.weights[voice]) * float(said.argmax() != answer)
    return other / whole if whole else 0.0


def _voices(said: Iterable[_Said]) -> dict[str, float]:
    """By voice that ever told classes apart: the sum of its weights, the largest first."""
    weights: dict[str, float] = {}
    for each in said:
        for voice, evidence in each.evidence.items():
            if np.any(evidence):
                weights[voice] = weights.get(voice, 0.0) + abs(each.weights[voice])
    return dict(sorted(weights.items(), key=lambda each: -each[1]))
