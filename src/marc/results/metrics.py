"""The numbers of a run folder, from its arrays alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.files import Arrays
from marc.scores import BINS, Certainty
from marc.stats import mcnemar_exact, mcnemar_log10, paired_difference, worst_tenth

AS_STORED = -1  # the order of the rows, among the stored seeds


def metrics_of(arrays: Arrays, chosen: Sequence[str]) -> dict[str, Any]:
    """The numbers of a run; `chosen` are names of the weights that an oracle chose."""
    prediction, base = arrays["prediction"], arrays["base_prediction"]
    changed = [float(fraction) for fraction in (prediction != base).mean(axis=1)]
    last = arrays["order"][:, -1:]
    final = np.take_along_axis(arrays["weight"], last, axis=1)[:, 0].tolist()
    metrics = {"selection": "oracle" if chosen else "fixed", "final_weight": final}
    metrics |= _weights_at_the_end(arrays)
    for name in ("confidence", "base_confidence"):
        if name in arrays:
            metrics[name] = float(arrays[name].mean(dtype=np.float64))
    if "label" not in arrays:
        metrics["changed"] = changed
    else:
        right, base_right = prediction == arrays["label"], base == arrays["label"]
        base_right = np.broadcast_to(base_right, right.shape)
        interval = paired_difference(right, base_right)
        orders = zip(arrays["seeds"], right, base_right, changed, strict=True)
        metrics |= {
            "accuracy": float(right.mean()),
            "base_accuracy": float(base_right.mean()),
            "gain": interval.estimate,
            "gain_interval": [interval.low, interval.high],
            "worst_tenth_gain": worst_tenth(right.mean(axis=1) - base_right.mean()),
            **_calibration(arrays, right, base_right),
            "orders": [
                {"seed": None if seed == AS_STORED else int(seed), **_of_order(*row)}
                for seed, *row in orders
            ],
        }
    if chosen:
        rows = arrays["chosen"].tolist()
        metrics["chosen"] = [dict(zip(chosen, row, strict=True)) for row in rows]
    return metrics


def _of_order(right: NDArray[np.bool_], base: NDArray[np.bool_], changed: float) -> dict[str, Any]:
    repairs, regressions = int((right & ~base).sum()), int((~right & base).sum())
    return {
        "accuracy": float(right.mean()),
        "base_accuracy": float(base.mean()),
        "gain": float(right.mean() - base.mean()),
        "repairs": repairs,
        "regressions": regressions,
        "mcnemar_p": mcnemar_exact(right, base),
        "mcnemar_log10_p": mcnemar_log10(repairs, regressions),
        "changed": changed,
    }


def space_weights_of(arrays: Arrays) -> dict[str, NDArray[np.float64]]:
    """The weight of each space by stored row, (orders, N) each; of some methods none."""
    if "spaces" not in arrays:
        return {}
    names, weights = arrays["spaces"].tolist(), arrays["space_weight"]
    return {space: weights[:, place] for place, space in enumerate(names)}


def _weights_at_the_end(arrays: Arrays) -> dict[str, Any]:
    """The mean weight of each space over the last tenth of each order, where there are several."""
    weights, order = space_weights_of(arrays), arrays["order"]
    if len(weights) < 2:
        return {}
    last = order[:, -max(1, order.shape[1] // 10) :]
    means = {s: np.take_along_axis(w, last, axis=1).mean(axis=1) for s, w in weights.items()}
    rows = [{space: float(mean[i]) for space, mean in means.items()} for i in range(len(order))]
    return {"final_space_weights": rows}


def certainty_of(arrays: Arrays, base: str = "", rows: Any = slice(None)) -> Certainty | None:
    """How sure answers are, `base_` of those without memory; None where a folder does not say."""
    names = [name for name in ("confidence", "log_loss", "brier") if base + name in arrays]
    return Certainty(**{name: arrays[base + name][rows] for name in names}) if names else None


def certainty_arrays(certainty: Certainty | None, base: str = "") -> dict[str, NDArray[Any]]:
    """The arrays that `certainty_of` reads."""
    known = {} if certainty is None else certainty.known()
    return {f"{base}{name}": values for name, values in known.items()}


def _calibration(
    arrays: Arrays, right: NDArray[np.bool_], base_right: NDArray[np.bool_]
) -> dict[str, Any]:
    """Means over orders; nothing where there are no probabilities."""
    sure, base = certainty_of(arrays), certainty_of(arrays, "base_")
    found: dict[str, Any] = {} if sure is None else sure.measures(right)
    if base is not None:
        found |= {f"base_{name}": value for name, value in base.measures(base_right[0]).items()}
    found |= calibration_difference(sure, right, base, base_right[0]) or {}
    return {"calibration": {"bins": BINS, **found}} if found else {}


def calibration_difference(
    sure: Certainty | None,
    right: NDArray[np.bool_],
    before: Certainty | None,
    right_before: NDArray[np.bool_],
) -> dict[str, dict[str, Any]] | None:
    """What two answers to the same images differ by, and the intervals over images.

    Brier score and log-loss are means over images. ECE is none, and its bootstrap leans upwards: it
    has a difference and no interval. None where one side has no probabilities.
    """
    if sure is None or before is None:
        return None
    errors = sure.measures(right)["ece"], before.measures(right_before)["ece"]
    difference, interval = {"ece": errors[0] - errors[1]}, {}
    for name in ("brier", "log_loss"):
        values = getattr(sure, name)
        found = paired_difference(values, np.broadcast_to(getattr(before, name), values.shape))
        difference[name], interval[name] = found.estimate, [found.low, found.high]
    return {"difference": difference, "interval": interval}
