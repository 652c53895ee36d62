"""Runs on disk: one folder for a method over some orders of a stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.files import Arrays
from marc.peers.registry import METHODS
from marc.results.folder import Folder, Stored
from marc.stats import mcnemar_exact, mcnemar_log10, paired_difference
from marc.stream import Stream, digest
from marc.types import Run, Trajectory

_AS_STORED = -1
"""The order of the rows, among the stored seeds."""


def save_run(
    runs: Run | Sequence[Run],
    path: str | Path,
    stream: Stream,
    *,
    published: str | None = None,
    force: bool = False,
) -> Path:
    """Write the folder that `marc run` writes.

    Args:
        runs: a run, or one method over several orders.
        path: the folder; one that holds these runs already is left as it is.
        stream: what was run over, in any order.
        published: the data set whose published settings were taken.
        force: replace another run that is there.
    """
    runs = _of_one_method(runs)
    for run in runs:
        _check_order(run, stream)
    seeds, chosen = [run.seed for run in runs], tuple(runs[0].chosen)
    config = run_config(stream, seeds, runs[0].method, published, oracle=bool(chosen))
    folder = Folder.open(Path(path), config, force=force)
    if not folder.done:
        write_runs(folder, stream, {run.seed: run for run in runs}.__getitem__, chosen)
    return folder.path


def run_config(
    stream: Stream,
    orders: Sequence[int | None],
    method: Mapping[str, Any],
    published: str | None = None,
    *,
    oracle: bool = False,
) -> dict[str, Any]:
    """The configuration of a run; `method` is its name and settings."""
    card = METHODS.get(method["method"])
    sees_stream = card is not None and card.sees == "stream"
    return {
        **Folder.describe("run", stream.source or stream.name, stream),
        "method": {name: value for name, value in method.items() if name != "seed"},
        "seeds": list(orders),
        "selection": "oracle" if oracle else "fixed",
        "transductive": "+" in method.get("space", "") or sees_stream,
        **({"published": published} if published else {}),
    }


def write_runs(
    folder: Folder,
    stream: Stream,
    run_of: Callable[[int | None], Run],
    chosen: Sequence[str] = (),
) -> None:
    """Write a run folder, resuming where an earlier call stopped.

    Args:
        folder: its configuration names the orders.
        stream: what is run over.
        run_of: the run of an order, asked for where the folder does not have it yet.
        chosen: names of the weights that an oracle chooses.
    """
    folder.begin()
    parts: list[Arrays] = []
    for seed in folder.config["seeds"]:
        name = "order-stored" if seed is None else f"order-{seed}"
        part = folder.part(name)
        if part is None or "seconds" not in part:  # as parts of older versions are
            part = _arrays(run_of(seed))
            folder.keep_part(name, part)
        parts.append(part)
    arrays, timing = _joined(parts)
    arrays |= {
        "ids": np.array(stream.features.ids),
        "seeds": _seeds(folder.config["seeds"]),
        "class_names": np.array(stream.features.class_names),
    }
    if stream.row_labels is not None:
        arrays["label"] = stream.row_labels
    folder.finish(_metrics(arrays, chosen), arrays, timing)


def load_run(path: str | Path) -> list[Run]:
    """The runs of a finished folder, one per order.

    A folder holds no logits and no memories, and of a method that is not known here not what its
    trajectory varies with; seconds are not a number where no time was taken.
    """
    stored = Stored.read(Path(path), "run")
    arrays, seeds = stored.arrays, stored.config["seeds"]
    card = METHODS.get(stored.config["method"]["method"])
    settings = {name: v for name, v in stored.config["method"].items() if name != "method"}
    varies_with = card.factory(**settings).varies_with if card else frozenset()
    seconds = stored.timing.get("seconds") or [math.nan] * len(seeds)
    chosen = stored.metrics.get("chosen") or [{}] * len(seeds)
    drawn = card is not None and "seed" in card.settings
    runs = []
    for index, (seed, order) in enumerate(zip(seeds, arrays["order"], strict=True)):
        label, priority = (arrays[name][index][order] for name in ("pseudo_label", "priority"))
        runs.append(
            Run(
                method={**stored.config["method"], **({"seed": seed or 0} if drawn else {})},
                predictions=arrays["prediction"][index][order],
                base_predictions=arrays["base_prediction"][order],
                trajectory=Trajectory(order, label, priority, varies_with),
                labels=arrays["label"][order] if "label" in arrays else None,
                weights=arrays["weight"][index][order],
                seconds=seconds[index],
                seed=seed,
                chosen=chosen[index],
            )
        )
    return runs


def stored_run(run: str | Path | Run | Sequence[Run]) -> Stored:
    """A run folder, or runs as such a folder would hold them, less what only a stream knows."""
    if isinstance(run, str | Path):
        return Stored.read(Path(run), "run")
    runs = _of_one_method(run)
    answers, chosen = runs[0].by_image(), tuple(runs[0].chosen)
    rows = np.arange(len(answers.order))
    if not all(np.array_equal(np.sort(each.order), rows) for each in runs):
        raise MarcError("runs over a part of a stream cannot be paired", got=runs[0].method)
    arrays, timing = _joined([_arrays(each) for each in runs])
    arrays |= {"ids": rows.astype(str), "seeds": _seeds([each.seed for each in runs])}
    config: dict[str, Any] = {
        "stream": "not stored",
        "n_images": len(rows),
        "n_classes": 1 + max(int(arrays[n].max()) for n in ("prediction", "base_prediction")),
        "method": {name: value for name, value in runs[0].method.items() if name != "seed"},
        "seeds": [each.seed for each in runs],
        "fingerprint": {},
    }
    if answers.labels is not None:
        arrays["label"] = answers.labels
        config["fingerprint"] = {"labels": digest(answers.labels)}
        config["n_classes"] = max(config["n_classes"], 1 + int(answers.labels.max()))
    path = Path(config["method"]["method"])
    return Stored(path, config, _metrics(arrays, chosen), arrays, timing)


def _of_one_method(runs: Run | Sequence[Run]) -> list[Run]:
    runs = [runs] if isinstance(runs, Run) else list(runs)
    methods = [{**run.method, "seed": None} for run in runs]
    orders = {run.seed for run in runs}
    if not runs or len(orders) < len(runs) or methods.count(methods[0]) < len(runs):
        raise MarcError(
            "a run folder is one method over distinct orders",
            got=", ".join(f"{run.method.get('method')} (seed {run.seed})" for run in runs)
            or "none",
            hint="[marc.run(method, stream.in_order(seed)) for seed in (0, 1, 2)]",
        )
    return runs


def _check_order(run: Run, stream: Stream) -> None:
    if not np.array_equal(run.order, stream.in_order(run.seed).order):
        raise MarcError(
            "a folder records an order by its seed, or the stored one",
            got=f"an order of {len(run.order)} images that seed {run.seed} does not draw",
            hint="marc.run(method, stream.in_order(0))",
        )
    labels = None if stream.row_labels is None else digest(stream.row_labels)
    answers = run.by_image()
    if labels != (None if answers.labels is None else digest(answers.labels)):
        raise MarcError("this run is of another stream: its labels differ", got=stream.name)


def _arrays(run: Run) -> dict[str, NDArray[Any]]:
    """A run's arrays by stored row, so that runs can be paired."""
    answers, at = run.by_image(), run.positions
    return {
        "order": run.order,
        "prediction": answers.predictions,
        "base_prediction": answers.base_predictions,
        "pseudo_label": run.trajectory.label[at],
        "priority": run.trajectory.priority[at],
        "weight": run.weights[at],
        "seconds": np.array(run.seconds),
        **({"chosen": np.array(list(run.chosen.values()))} if run.chosen else {}),
    }


def _joined(parts: Sequence[Arrays]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays of all orders, and their time."""
    arrays = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    arrays["base_prediction"] = arrays["base_prediction"][0]  # of the image alone, in every order
    seconds = arrays.pop("seconds")
    # a search over many weights is no method's time, and a replay takes none
    if "chosen" in arrays or np.isnan(seconds).any():
        return arrays, {}
    speed = float(arrays["order"].size / seconds.sum())
    return arrays, {"seconds": seconds.tolist(), "images_per_second": speed}


def _seeds(orders: Sequence[int | None]) -> NDArray[np.int64]:
    return np.array([_AS_STORED if seed is None else seed for seed in orders])


def _metrics(arrays: Arrays, chosen: Sequence[str]) -> dict[str, Any]:
    metrics = _summarise(arrays)
    if chosen:
        weights = [dict(zip(chosen, row, strict=True)) for row in arrays["chosen"].tolist()]
        metrics |= {"selection": "oracle", "chosen": weights}
    return metrics


def _summarise(arrays: Arrays) -> dict[str, Any]:
    """The numbers of a run folder, from its arrays alone."""
    prediction, base = arrays["prediction"], arrays["base_prediction"]
    changed = [float(fraction) for fraction in (prediction != base).mean(axis=1)]
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
            {"seed": None if seed == _AS_STORED else int(seed), **_of_order(row, base_right, part)}
            for seed, row, part in zip(arrays["seeds"], right, changed, strict=True)
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
