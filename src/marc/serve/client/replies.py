"""What a client says of a step, and what it gets: arrays as base64, answers with named fields."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from marc.errors import MarcError
from marc.files import read_bytes, user_path

_MOST_PICTURE = 2**28  # bytes that are read; what a server takes is for it to say

Picture = str | os.PathLike[str] | bytes
"""A path, or the bytes of a file."""


@dataclass(frozen=True)
class Reply:
    """The answer to one step, with memory and without."""

    id: str
    seq: int | None
    """Its number in the order of the memory; none of a dry run."""
    prediction: int
    """The class that the memory answers."""
    base_prediction: int
    """The class that the predictor alone answers."""
    class_name: str
    """The class to act on, in words."""
    base_class: str
    answered_by: str
    """`base` or `memory`: whose answer is the one to act on."""
    weight: float | None
    """Of all that was retrieved."""
    top: tuple[Mapping[str, Any], ...]
    """The classes that score best: class, number, probability, base_probability, evidence."""
    neighbours: tuple[Mapping[str, Any], ...]
    """The nearest remembered images: id, seq, class, similarity, vote, age, space."""
    stored: Mapping[str, Any]
    """What the memory kept of it: admitted, class, evicted."""

    @classmethod
    def of(cls, told: Any) -> Reply:
        """From the JSON of a server; fields that a later one adds are left aside."""
        try:
            return cls(
                id=str(told["id"]),
                seq=told["seq"],
                prediction=int(told["prediction"]),
                base_prediction=int(told["base_prediction"]),
                class_name=str(told["class"]),
                base_class=str(told["base_class"]),
                answered_by=str(told["answered_by"]),
                weight=told["weight"],
                top=tuple(told["top"]),
                neighbours=tuple(told["neighbours"]),
                stored=told["stored"],
            )
        except (KeyError, TypeError, ValueError) as error:
            got = f"{type(error).__name__}: {error}"[:80]
            raise MarcError("this is no answer to a step", got=got) from None

    @property
    def acted(self) -> int:
        """The class to act on: the memory's where it answers, else the predictor's."""
        return self.prediction if self.answered_by == "memory" else self.base_prediction

    @property
    def disagree(self) -> bool:
        """Whether the memory answers another class than the predictor alone."""
        return self.prediction != self.base_prediction

    @property
    def confidence(self) -> float | None:
        """The probability of `prediction`, where the method has probabilities."""
        return self._probability("probability", self.prediction)

    @property
    def base_confidence(self) -> float | None:
        """The probability of `base_prediction` without memory, where it is among the best."""
        return self._probability("base_probability", self.base_prediction)

    def _probability(self, name: str, label: int) -> float | None:
        return next((each.get(name) for each in self.top if each.get("number") == label), None)


def step_body(
    id: str,
    features: ArrayLike | None = None,
    keys: Mapping[str, ArrayLike] | None = None,
    *,
    image: Picture | None = None,
    neighbours: int = 0,
    dry_run: bool = False,
    deadline: float | None = None,
) -> dict[str, Any]:
    """One step as JSON.

    >>> step_body("17", [0.5, 1.0])["features"]["predictor"]
    {'b64': 'AAAAPwAAgD8=', 'shape': [2]}
    """
    if (features is None) == (image is None) or (keys is not None and features is None):
        raise MarcError(
            "a step needs the features of an image, or the image: one of them",
            hint='step(features, {"dinov2-b": key}), or step(image="cat.jpg")',
        )
    body: dict[str, Any] = {"id": id}
    if image is not None:
        body["image"] = base64.b64encode(_content(image)).decode()
    else:
        spaces = {name: _packed(f"keys[{name!r}]", key, 1) for name, key in (keys or {}).items()}
        body["features"] = {"predictor": _packed("features", features, 2), "spaces": spaces}
    more = {"neighbours": neighbours or None, "dry_run": dry_run or None, "deadline": deadline}
    return body | {name: value for name, value in more.items() if value is not None}


def _packed(name: str, given: Any, most_dims: int) -> dict[str, Any]:
    """An array as base64 of 32-bit floats, little-endian."""
    try:
        with np.errstate(over="ignore"):  # what is infinite is refused by the memory
            array = np.asarray(given).astype("<f4", casting="same_kind")
    except (TypeError, ValueError):
        array = np.empty(0, "<f4")
    if array.size == 0 or not 1 <= array.ndim <= most_dims:
        allowed = "floats (D,)" + (" or (views, D)" if most_dims == 2 else "")
        got = f"{type(given).__name__} {np.shape(given) if isinstance(given, np.ndarray) else ''}"
        raise MarcError(f"{name} must be an array of features", got=got.strip(), allowed=allowed)
    return {"b64": base64.b64encode(array.tobytes()).decode(), "shape": list(array.shape)}


def _content(image: Picture) -> bytes:
    if isinstance(image, bytes):
        return image
    if not isinstance(image, str | os.PathLike):
        raise MarcError("an image is a path, or the bytes of a file", got=type(image).__name__)
    return read_bytes(user_path(image), "picture", at_most=_MOST_PICTURE)
