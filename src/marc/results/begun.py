"""A long run on its way: its answers and what its method remembers, kept in the result's folder.

So a run of hours that is killed goes on where it last paused, and ends in the bytes of a run that
never stopped. Where a method cannot be taken up, its order is begun again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from marc.errors import MarcError
from marc.files import Arrays
from marc.loop import AnyMethod, Pauses
from marc.results.folder import Folder

_EVERY = 2**15
"""Images between two pauses: minutes of work at a thousand classes. A run of fewer has none."""
_OF_METHOD, _TOLD = "method/", "told"


def paused(folder: Folder, name: str, method: AnyMethod) -> tuple[AnyMethod, Pauses]:
    """A method as it was when a part of a result last paused, and where to keep what follows."""

    def keep(method: AnyMethod, answers: Arrays) -> None:
        if state := _written(method):
            folder.keep_begun(name, {**answers, **state})

    kept = folder.begun(name)
    resumed = None if kept is None else _resumed(method, kept)
    if resumed is None:
        return method, Pauses(_EVERY, keep)
    return resumed, Pauses(_EVERY, keep, kept)


def _written(method: AnyMethod) -> dict[str, Any]:
    """A method's state as arrays of numbers and text; empty where it cannot be written so."""
    try:
        state = dict(method.state())
        arrays = {name: np.asarray(array) for name, array in state.pop("arrays").items()}
        told = np.array(json.dumps(state))
    except (MarcError, KeyError, TypeError, ValueError):
        return {}
    if any(array.dtype.hasobject for array in arrays.values()):
        return {}
    return {_TOLD: told, **{f"{_OF_METHOD}{name}": array for name, array in arrays.items()}}


def _resumed(method: AnyMethod, kept: Mapping[str, Any]) -> AnyMethod | None:
    """The method that gave a state, with the same settings; None where there is none."""
    start = len(_OF_METHOD)
    arrays = {name[start:]: each for name, each in kept.items() if name.startswith(_OF_METHOD)}
    try:
        resume = type(method).from_state  # type: ignore[union-attr]
        found: AnyMethod = resume({**json.loads(str(kept[_TOLD])), "arrays": arrays})
        same = found.config() == method.config()
    except Exception:  # a method of another's fails in its own ways
        return None
    return found if same else None
