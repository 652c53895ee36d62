"""The numbers of a run, from its arrays alone, and how a person sees them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.cli import console
from marc.results.files import Arrays
from marc.stats import mcnemar_exact, mcnemar_log10, paired_difference
from marc.types import order_name

AS_STORED = -1
"""Stands among the stored seeds for the order of the rows."""


def summarise(arrays: Arrays) -> dict[str, Any]:
    """The numbers of a run folder, from its arrays alone."""
    prediction, base = arrays["prediction"], arrays["base_prediction"]
    changed = [float(share) for share in (prediction != base).mean(axis=1)]
    last = arrays["order"][:, -1:]
    final = np.take_along_axis(arrays["weight"], last, axis=1)[:, 0].tolist()
    if "label" not in arrays:
        return {"selection": "fixed", "final_weight": final, "changed": changed}
    right, base_right = prediction == arrays["label"], base == arrays["label"]
    interval = paired_difference(right, np.broadcast_to(base_right, right.shape))
    return {
        "selection": "fixed",
        "final_weight": final,
        "accuracy": float(right.mean()),
        "base_accuracy": float(base_right.mean()),
        "gain": interval.estimate,
        "gain_interval": [interval.low, interval.high],
        "orders": [
            {"seed": None if seed == AS_STORED else int(seed), **_of_order(row, base_right, share)}
            for seed, row, share in zip(arrays["seeds"], right, changed, strict=True)
        ],
    }


def _of_order(right: NDArray[np.bool_], base: NDArray[np.bool_], changed: float) -> dict[str, Any]:
    """One order against the matched baseline, image by image."""
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


def show(path: Path, config: dict[str, Any], metrics: dict[str, Any], *, was_done: bool) -> None:
    """The result for a person."""
    method = config["method"]
    name = " ".join(str(method.get(k)) for k in ("method", "space") if method.get(k))
    head = f"{config['stream']}: {config['n_images']} images, {config['n_classes']} classes"
    console.say(f"{name} on {head}, {config['n_views']} view(s)")
    if "orders" not in metrics:
        shares = ", ".join(console.percent(share) for share in metrics["changed"])
        console.say(f"no labels: {shares} % of the answers differ from those without memory")
    else:
        console.table(
            ["order", "no memory %", "accuracy %", "gain", "repairs", "regressions", "McNemar p"],
            [
                [
                    order_name(row["seed"]),
                    console.percent(row["base_accuracy"]),
                    console.percent(row["accuracy"]),
                    console.points(row["gain"]),
                    str(row["repairs"]),
                    str(row["regressions"]),
                    # from the counts: a folder of an older version has no logarithm
                    console.p_value(mcnemar_log10(row["repairs"], row["regressions"])),
                ]
                for row in metrics["orders"]
            ],
        )
        chosen = "weights chosen on these labels: oracle"
        fixed = "settings fixed in advance"
        fixed += f", published for {config['published']}" if config.get("published") else ""
        console.say(
            f"gain {console.points(metrics['gain'])} points, 95 % over images "
            f"{console.interval(metrics['gain_interval'])}, "
            f"{chosen if 'chosen' in metrics else fixed}"
        )
        for row, weights in zip(metrics["orders"], metrics.get("chosen", []), strict=False):
            words = ", ".join(f"{name} {value:g}" for name, value in weights.items())
            console.say(f"chosen in the order {order_name(row['seed'])}: {words}")
    if method.get("weight") == "auto":
        weights = ", ".join(f"{weight:.3g}" for weight in metrics["final_weight"])
        console.say(f"weight learned without labels; at the end of each order: {weights}")
    if "+" in method.get("space", ""):
        console.say("the space was transformed with statistics of the whole stream: transductive")
    elif config["transductive"]:
        console.say("the method sees the whole stream before it answers: transductive")
    console.say(f"{'already there' if was_done else 'written'}: {path}")
