"""An answer as a client gets it, and a sample of answers as the page shows it: plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from marc.scores import Float, softmax
from marc.serve.effects import Learned, Near
from marc.types import Query, Step

_TOP = 5


class Names(NamedTuple):
    """What numbers stand for."""

    classes: Sequence[str]
    items: Mapping[int | None, tuple[int, str]]
    """Step and id of the images that are remembered one by one."""


def without_memory(query: Query) -> Learned:
    """What the predictor alone says of an image."""
    step = Step(query.item, query.base.logits, {}, {}, int(query.base.label), 0.0)
    return Learned(step, {}, False, None, b"")


def weight_of(step: Step) -> float | None:
    """The weight of all that was retrieved; None where it is no number."""
    by_space = step.space_weights
    weight = sum(by_space.values()) if by_space else step.weights.get("retrieval", 0.0)
    return float(weight) if math.isfinite(weight) else None


def answer(
    request_id: str, seq: int | None, learned: Learned, by_memory: bool, names: Names, item: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the client gets of a step, and what a sample has beside it."""
    step = learned.step
    logits = step.logits
    base, prediction = int(step.base.argmax()), int(logits.argmax())
    probabilities = _probabilities(step, np.stack([logits, step.base]))
    near = {space: [_near(each, names, item) for each in found] for space, found in
            learned.near.items()}  # fmt: skip
    told = {
        "id": request_id,
        "seq": seq,
        "prediction": prediction,
        "class": names.classes[prediction if by_memory else base],
        "base_prediction": base,
        "base_class": names.classes[base],
        "disagree": prediction != base,
        "answered_by": "memory" if by_memory else "base",
        "weight": weight_of(step),
        "top": _top(step, logits, probabilities, names.classes),
        "neighbours": [{**each, "space": s} for s, found in near.items() for each in found],
        "stored": {
            "admitted": learned.admitted,
            "class": names.classes[step.label] if learned.admitted else None,
            "evicted": names.items.get(learned.evicted, (0, None))[1],
        },
    }
    sure = [None, None] if probabilities is None else [*map(float, probabilities.max(axis=1))]
    return told, {"confidence": sure[0], "base_confidence": sure[1], "neighbours": near}


def sample(told: Mapping[str, Any], time: float, beside: Mapping[str, Any]) -> dict[str, Any]:
    """A step as the page shows it."""
    names = ("seq", "id", "prediction", "base_prediction", "base_class", "disagree", "answered_by")
    return {
        **{name: told[name] for name in (*names, "weight")},
        "at": time,
        "class": _class_of(told),
        "admitted": told["stored"]["admitted"],
        "evicted": told["stored"]["evicted"],
        **beside,
    }


def sample_of_stored(told: Mapping[str, Any], time: float) -> dict[str, Any]:
    """The same of an answer from the log, which has no neighbours but those that were asked for."""
    first, base = told["top"][0], max(e["base_probability"] or 0.0 for e in told["top"])
    sure = {"confidence": first["probability"], "base_confidence": base}
    return sample(told, time, {**sure, "neighbours": {}})


def _class_of(told: Mapping[str, Any]) -> str:
    """The class that the memory says, whoever answers."""
    names = {each["number"]: each["class"] for each in told["top"]}
    return str(names.get(told["prediction"], told["class"]))


def _probabilities(step: Step, both: Float) -> Any:
    if step.to_probabilities is None:
        return None
    return softmax(both) if step.to_probabilities is softmax else step.to_probabilities(both)


def _top(step: Step, logits: Float, probabilities: Any, classes: Sequence[str]) -> list[Any]:
    """The classes that score best, the answer first."""
    count = min(_TOP, len(logits))
    best = np.argpartition(-logits, count - 1)[:count] if count < len(logits) else range(count)
    order = sorted(map(int, best), key=lambda label: (-logits[label], label))
    if (first := int(logits.argmax())) not in order:  # a tie: the lowest class answers
        order = [first, *order[:-1]]
    added = logits - step.base_weight * step.base
    known: Callable[[int, int], float | None] = (
        (lambda row, label: None)
        if probabilities is None
        else (lambda row, label: float(probabilities[row, label]))
    )
    return [
        {
            "class": classes[label],
            "number": label,
            "probability": known(0, label),
            "base_probability": known(1, label),
            "evidence": float(added[label]),
        }
        for label in order
    ]


def _near(near: Near, names: Names, item: int) -> dict[str, Any]:
    seq, name = names.items.get(near.item, (None, None))
    return {
        "id": name,
        "seq": seq,
        "class": names.classes[near.label],
        "similarity": near.similarity,
        "vote": near.vote,
        "age": item - near.item,
    }
