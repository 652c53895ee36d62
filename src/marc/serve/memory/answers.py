"""An answer as a client gets it, and a sample of answers as the page shows it: plain data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from marc.scores import Float, softmax
from marc.serve.memory.config import StepRequest
from marc.serve.memory.effects import Learned, Near
from marc.types import Query, Step

_TOP = 5


class Names(NamedTuple):
    """What numbers stand for."""

    classes: Sequence[str]
    items: Mapping[int | None, tuple[int, str]]
    """Step and id of the images that are remembered one by one."""


def without_memory(query: Query) -> Learned:
    """The answer of the predictor alone."""
    step = Step(query.item, query.base.logits, {}, {}, int(query.base.label), 0.0)
    return Learned(step, {}, False, None, b"")


def weight_of(step: Step) -> float | None:
    """The weight of all that was retrieved; None where it is no number."""
    by_space = step.space_weights
    weight = sum(by_space.values()) if by_space else step.weights.get("retrieval", 0.0)
    return float(weight) if math.isfinite(weight) else None


def answer(
    request: StepRequest,
    seq: int | None,
    learned: Learned,
    by_memory: bool,
    names: Names,
    item: int,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the client gets of a step, and what only a sample has."""
    step = learned.step
    logits = step.logits
    base, prediction = int(step.base.argmax()), int(logits.argmax())
    probabilities = _probabilities(step, np.stack([logits, step.base]))
    near = {
        space: [_near(each, names, item) for each in nearest]
        for space, nearest in learned.near.items()
    }
    body = {
        "id": request.id,
        "seq": seq,
        "prediction": prediction,
        "class": names.classes[prediction if by_memory else base],
        "base_prediction": base,
        "base_class": names.classes[base],
        "disagree": prediction != base,
        "answered_by": "memory" if by_memory else "base",
        "weight": weight_of(step),
        "top": _top(step, logits, probabilities, names.classes),
        "neighbours": [
            {**each, "space": space}
            for space, nearest in near.items()
            for each in nearest[: request.neighbours]  # a sample has more
        ],
        "stored": {
            "admitted": learned.admitted,
            "class": names.classes[step.label] if learned.admitted else None,
            "evicted": names.items.get(learned.evicted, (0, None))[1],
        },
    }
    sure = [None, None] if probabilities is None else [*map(float, probabilities.max(axis=1))]
    return body, {"confidence": sure[0], "base_confidence": sure[1], "neighbours": near}


def sample(
    body: Mapping[str, Any], time: float, more: Mapping[str, Any], *, picture: bool
) -> dict[str, Any]:
    """A step as the page shows it; its class is the memory's, whoever answers."""
    names = ("seq", "id", "prediction", "base_prediction", "base_class", "disagree", "answered_by")
    return {
        **{name: body[name] for name in (*names, "weight")},
        "at": time,
        "class": body["top"][0]["class"],
        "admitted": body["stored"]["admitted"],
        "evicted": body["stored"]["evicted"],
        **more,
        "picture": picture,
    }


def sample_of_stored(body: Mapping[str, Any], time: float, *, picture: bool) -> dict[str, Any]:
    """The same of an answer from the log, which knows only the classes that scored best."""
    top = {each["number"]: each for each in body["top"]}
    base = top.get(body["base_prediction"], {"base_probability": None})
    sure = {
        "confidence": body["top"][0]["probability"],
        "base_confidence": base["base_probability"],
    }
    return sample(body, time, {**sure, "neighbours": {}}, picture=picture)


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
