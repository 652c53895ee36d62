"""Runs as arrays by stored row, as their folder keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.files import Arrays
from marc.results.metrics import AS_STORED, certainty_arrays
from marc.types import Run


def run_arrays(run: Run) -> dict[str, NDArray[Any]]:
    """A run's arrays by stored row, so that runs can be paired."""
    answers, at = run.by_image(), run.positions
    return {
        "order": run.order,
        "prediction": answers.predictions,
        "base_prediction": answers.base_predictions,
        "pseudo_label": run.trajectory.label[at],
        "priority": run.trajectory.priority[at],
        "weight": run.weights[at],
        **_space_arrays(run),
        **certainty_arrays(answers.certainty),
        **certainty_arrays(answers.base_certainty, "base_"),
        "seconds": np.array(run.seconds),
        "memory_bytes": np.array(run.memory_bytes or 0),
        **({"chosen": np.array(list(run.chosen.values()))} if run.chosen else {}),
    }


def _space_arrays(run: Run) -> dict[str, NDArray[Any]]:
    """The weights of spaces by stored row, (spaces, N), beside their names: a name is any text."""
    if not run.space_weights:
        return {}
    weights = np.stack([weights[run.positions] for weights in run.space_weights.values()])
    return {"space_weight": weights, "spaces": np.array(list(run.space_weights))}


def joined(parts: Sequence[Arrays]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays of all orders, and their time."""
    names = [name for name in parts[0] if all(name in part for part in parts)]
    arrays = {name: np.stack([part[name] for part in parts]) for name in names}
    for name in names:
        if name.startswith("base_") or name == "spaces":
            arrays[name] = arrays[name][0]  # of the image, or of the method, in every order
    seconds, remembered = arrays.pop("seconds"), arrays.pop("memory_bytes", None)
    # a search over many weights is no method's time, and a replay takes none
    if "chosen" in arrays or np.isnan(seconds).any():
        return arrays, {}
    speed = float(arrays["order"].size / seconds.sum())
    kept = {} if remembered is None else {"memory_bytes": int(remembered.max())}
    return arrays, {"seconds": seconds.tolist(), "images_per_second": speed, **kept}


def seed_array(orders: Sequence[int | None]) -> NDArray[np.int64]:
    """The seeds of some orders; the stored one has none."""
    return np.array([AS_STORED if seed is None else seed for seed in orders])
