"""`marc compare`: runs over the same images, paired image by image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from marc.cli import console
from marc.cli.changes import answers_of, as_data, changes, check_list, first_ids, write_list
from marc.core import order_name
from marc.errors import MarcError
from marc.folders import Stored, read_stored
from marc.records import flatten
from marc.stats import (
    benjamini_hochberg_log10,
    mcnemar_exact,
    mcnemar_log10,
    paired_difference,
    seed_interval,
)


def compare(
    runs: list[Path] = typer.Argument(help="Two or more run folders; the first is the reference."),
    images: bool = typer.Option(
        False, "--images", help="Name the images: the first ten of each kind, in JSON all of them."
    ),
    output: Path | None = typer.Option(
        None, "-o", "--output", help="A .csv file with one row per changed image and order."
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Compare runs image by image, and name every difference in protocol.

    Example:  marc compare runs/no-memory runs/marc

    Which images were repaired and which regressed:  marc compare runs/A runs/B -o changed.csv
    """
    if output is not None:
        check_list(output)
    stored = [read_run(path) for path in runs]
    if len(stored) < 2:
        raise MarcError("a comparison needs two runs", got=len(stored), hint="marc compare A B")
    reference, others = stored[0], stored[1:]
    rows = [against(reference, other) for other in others]
    family = adjust(rows) if len(rows) > 1 else {}
    changed = [
        (row["run"], changes(reference, other, row["orders"]) if images or output else [])
        for other, row in zip(others, rows, strict=True)
    ]
    if output is not None:
        write_list(output, changed)
    if json:
        for row, (_, found) in zip(rows, changed, strict=True):
            row |= {"images": [as_data(change) for change in found]} if images else {}
        console.as_json({"reference": row_of(reference), "runs": rows, **family})
        return
    show(reference, rows)
    show_orders(reference, rows)
    for row, (run, found) in zip(rows, changed, strict=True):
        for line in first_ids(run, found, row["orders"]) if images else []:
            console.say(line)
    show_protocols(reference, rows)
    if output is not None:
        n_changes = sum(len(found) for _, found in changed)
        console.say(f"written: {output} ({n_changes} rows)")


def read_run(path: Path) -> Stored:
    """A finished, labelled run."""
    stored = read_stored(path, "run")
    if "label" not in stored.arrays:
        raise MarcError("this run has no labels, so right answers are not known", got=path)
    return stored


def row_of(run: Stored) -> dict[str, Any]:
    """A run on its own: accuracy, its matched baseline and how its settings were chosen."""
    names = ("accuracy", "base_accuracy", "gain", "selection")
    return {"run": str(run.path), **{name: run.metrics[name] for name in names}}


def against(reference: Stored, other: Stored) -> dict[str, Any]:
    """One run against the reference, over the orders that both have."""
    seeds = common_orders(reference, other)
    label = reference.arrays["label"]
    right, before = answers_of(other, seeds) == label, answers_of(reference, seeds) == label
    interval = paired_difference(right, before)
    by_order = [float(difference) for difference in right.mean(axis=1) - before.mean(axis=1)]
    repairs = [int(count) for count in (right & ~before).sum(axis=1)]
    regressions = [int(count) for count in (~right & before).sum(axis=1)]
    counts = list(zip(repairs, regressions, strict=True))
    return {
        **row_of(other),
        "orders": seeds,
        "difference": interval.estimate,
        "interval": [interval.low, interval.high],
        "difference_by_order": by_order,
        "interval_over_orders": [*seed_interval(by_order)[1:]] if len(seeds) > 1 else None,
        "repairs": repairs,
        "regressions": regressions,
        "mcnemar_p": [mcnemar_exact(a, b) for a, b in zip(right, before, strict=True)],
        "mcnemar_log10_p": [mcnemar_log10(*pair) for pair in counts],
        "protocol_differences": differences(reference.config, other.config),
    }


def common_orders(reference: Stored, other: Stored) -> list[int | None]:
    """The orders that both runs have; runs over other images are refused."""
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
            got=" / ".join(
                ", ".join(map(order_name, run.config["seeds"])) for run in (reference, other)
            ),
            hint="marc run ... --seed 0 1 2 for both, or --in-order for both",
        )
    return seeds


def adjust(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Add adjusted p-values to the rows: every run and order is one test of one family."""
    tests = [log10 for row in rows for log10 in row["mcnemar_log10_p"]]
    adjusted = iter(benjamini_hochberg_log10(tests).tolist())
    for row in rows:
        row["adjusted_log10_p"] = [next(adjusted) for _ in row["orders"]]
    return {"family": {"adjustment": "benjamini-hochberg", "n_tests": len(tests)}}


def differences(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Every difference between two protocols, by name."""
    flat, other = flatten(first), flatten(second)
    ignored = ("versions.", "source", "stream", "kind")
    return [
        f"{name}: {flat.get(name, 'none')} / {other.get(name, 'none')}"
        for name in dict.fromkeys([*flat, *other])
        if flat.get(name) != other.get(name) and not name.startswith(ignored)
    ]


def show(reference: Stored, rows: Sequence[dict[str, Any]]) -> None:
    """The comparison for a person: one line for each run."""
    lines = [[*cells(row_of(reference)), "", "", ""]]
    for row in rows:
        p_value = console.p_value(max(row["mcnemar_log10_p"]))
        difference = console.points(row["difference"])
        lines.append([*cells(row), difference, console.interval(row["interval"]), p_value])
    selections = {reference.metrics["selection"], *(row["selection"] for row in rows)}
    columns = ["run", "no memory", "accuracy", "gain", "vs first", "95 % interval", "McNemar p"]
    console.table(columns, lines)
    console.say(
        "accuracy in percent, over the orders of each run; vs first: accuracy minus that of the\n"
        "first run in points, paired by image over the orders that both have; McNemar p: exact,\n"
        f"two-sided, the largest over these orders; settings: {', '.join(sorted(selections))}"
    )


def show_orders(reference: Stored, rows: Sequence[dict[str, Any]]) -> None:
    """What each order says, and how far the orders agree."""
    is_family = "adjusted_log10_p" in rows[0]
    columns = ["run", "order", "repairs", "regressions", "vs first", "McNemar p"]
    lines = []
    for row in rows:
        for place, seed in enumerate(row["orders"]):
            counts = [str(row[name][place]) for name in ("repairs", "regressions")]
            difference = console.points(row["difference_by_order"][place])
            tests = ["mcnemar_log10_p", *(["adjusted_log10_p"] if is_family else [])]
            p_values = [console.p_value(row[name][place]) for name in tests]
            lines.append([row["run"], order_name(seed), *counts, difference, *p_values])
    console.say(f"\nrepairs and regressions against {reference.path}, order by order")
    console.table([*columns, *(["adjusted p"] if is_family else [])], lines)
    if is_family:
        console.say(f"adjusted p: Benjamini-Hochberg over the {len(lines)} tests of this table")
    for row in rows:
        if row["interval_over_orders"] is not None:
            interval = console.interval(row["interval_over_orders"])
            console.say(
                f"{row['run']}: {console.points(row['difference'])} points, "
                f"95 % over {len(row['orders'])} orders {interval} (t)"
            )


def show_protocols(reference: Stored, rows: Sequence[dict[str, Any]]) -> None:
    """Name every difference in protocol."""
    for row in rows:
        if row["protocol_differences"]:
            console.say(f"the protocols of {reference.path} and {row['run']} differ in:")
            for line in row["protocol_differences"]:
                console.say(f"  {line}")


def cells(row: dict[str, Any]) -> list[str]:
    """The cells that every run has."""
    return [
        row["run"],
        console.percent(row["base_accuracy"]),
        console.percent(row["accuracy"]),
        console.points(row["gain"]),
    ]
