"""`marc compare`: runs over the same images, paired image by image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray

from marc.cli import console
from marc.errors import MarcError
from marc.folders import Stored, flatten, read_stored
from marc.stats import mcnemar_exact, paired_difference


def compare(
    runs: list[Path] = typer.Argument(help="Two or more run folders; the first is the reference."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Compare runs image by image, and name every difference in protocol.

    Example:  marc compare runs/no-memory runs/marc
    """
    stored = [read_run(path) for path in runs]
    if len(stored) < 2:
        raise MarcError("a comparison needs two runs", got=len(stored), hint="marc compare A B")
    reference = stored[0]
    rows = [against(reference, other) for other in stored[1:]]
    if json:
        console.as_json({"reference": row_of(reference), "runs": rows})
        return
    show(reference, stored[1:], rows)


def read_run(path: Path) -> Stored:
    """A finished, labelled run."""
    stored = read_stored(path, "run")
    if "label" not in stored.arrays:
        raise MarcError("this run has no labels, so right answers are not known", got=path)
    return stored


def right_of(run: Stored, seeds: list[int | None]) -> NDArray[np.bool_]:
    """Right answers (orders, images) of some orders."""
    rows = [run.config["seeds"].index(seed) for seed in seeds]
    return run.arrays["prediction"][rows] == run.arrays["label"]


def row_of(run: Stored) -> dict[str, Any]:
    """A run on its own: accuracy, its matched baseline and how its settings were chosen."""
    names = ("accuracy", "base_accuracy", "gain", "selection")
    return {"run": str(run.path), **{name: run.metrics[name] for name in names}}


def against(reference: Stored, other: Stored) -> dict[str, Any]:
    """One run against the reference, over the orders that both have."""
    for what in ("ids", "labels", "class_names"):
        if reference.config["fingerprint"][what] != other.config["fingerprint"][what]:
            raise MarcError(
                f"the runs cannot be paired: their {what} differ",
                got=f"{reference.path} ({reference.config['stream']}, "
                f"{reference.config['n_images']} images), {other.path} "
                f"({other.config['stream']}, {other.config['n_images']} images)",
                hint="compare runs over the same images",
            )
    seeds = [seed for seed in reference.config["seeds"] if seed in other.config["seeds"]]
    if not seeds:
        raise MarcError(
            "the runs have no stream order in common",
            got=f"seeds {reference.config['seeds']} and {other.config['seeds']}",
            hint="marc run ... --seed 0 1 2",
        )
    right, before = right_of(other, seeds), right_of(reference, seeds)
    interval = paired_difference(right, before)
    return {
        **row_of(other),
        "orders": seeds,
        "difference": interval.estimate,
        "interval": [interval.low, interval.high],
        "mcnemar_p": [mcnemar_exact(a, b) for a, b in zip(right, before, strict=True)],
        "protocol_differences": differences(reference.config, other.config),
    }


def differences(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Every difference between two protocols, by name."""
    flat, other = flatten(first), flatten(second)
    ignored = ("versions.", "source", "stream", "kind")
    return [
        f"{name}: {flat.get(name, 'none')} / {other.get(name, 'none')}"
        for name in dict.fromkeys([*flat, *other])
        if flat.get(name) != other.get(name) and not name.startswith(ignored)
    ]


def show(reference: Stored, others: list[Stored], rows: list[dict[str, Any]]) -> None:
    """The comparison for a person."""
    lines = [cells(row_of(reference))]
    for row in rows:
        low, high = row["interval"]
        lines.append(
            [
                *cells(row)[:4],
                console.points(row["difference"]),
                f"[{console.points(low)}, {console.points(high)}]",
                console.p_value(max(row["mcnemar_p"])),
            ]
        )
    selections = {reference.metrics["selection"], *(row["selection"] for row in rows)}
    columns = ["run", "no memory", "accuracy", "gain", "vs first", "95 % interval", "McNemar p"]
    console.table(columns, lines)
    console.say(
        "accuracy in percent, differences in points; vs first: accuracy minus that of the first\n"
        "run, paired by image; McNemar p: exact, two-sided, the largest over the common orders;\n"
        f"settings: {', '.join(sorted(selections))}"
    )
    for other, row in zip(others, rows, strict=True):
        if row["protocol_differences"]:
            console.say(f"the protocols of {reference.path} and {other.path} differ in:")
            for line in row["protocol_differences"]:
                console.say(f"  {line}")


def cells(row: dict[str, Any]) -> list[str]:
    """The cells that every run has."""
    return [
        row["run"],
        console.percent(row["base_accuracy"]),
        console.percent(row["accuracy"]),
        console.points(row["gain"]),
        "",
        "",
        "",
    ]
