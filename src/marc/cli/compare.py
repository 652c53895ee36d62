"""`marc compare`: runs over the same images, paired image by image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from marc.cli import console
from marc.cli.changes import answers_of, as_data, changes, check_list, first_ids, write_list
from marc.cli.compare_tables import row_of, show_orders, show_protocols, show_runs
from marc.errors import MarcError
from marc.results.files import flatten
from marc.results.folder import CONFIG, Stored, read_stored
from marc.stats import (
    benjamini_hochberg_log10,
    mcnemar_exact,
    mcnemar_log10,
    paired_difference,
    seed_interval,
)
from marc.types import order_name

_FEW = 3
"""So many comparisons are also told order by order without being asked."""


def compare(
    runs: list[Path] = typer.Argument(help="Two or more run folders."),
    against: Path | None = typer.Option(
        None, help="The run to pair the others with: the first; of many, the only one of MARC."
    ),
    orders: bool = typer.Option(False, "--orders", help="Each order too, however many the runs."),
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

    Every method against MARC:  marc compare RUNS/*

    Which images were repaired and which regressed:  marc compare runs/A runs/B -o changed.csv
    """
    if output is not None:
        check_list(output)
    runs = _finished(runs)
    stored = [read_run(path) for path in runs]
    if len(stored) < 2:
        raise MarcError("a comparison needs two runs", got=len(stored), hint="marc compare A B")
    reference, others = _choose_reference(stored, against)
    rows = table_of(reference, others)
    family = _adjust(rows) if len(rows) > 1 else {}
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
    show_runs(reference, rows)
    if orders or len(rows) <= _FEW:
        show_orders(reference, rows)
    for row, (run, found) in zip(rows, changed, strict=True):
        for line in first_ids(run, found, row["orders"]) if images else []:
            console.say(line)
    show_protocols(reference, rows)
    if output is not None:
        n_changes = sum(len(found) for _, found in changed)
        console.say(f"written: {output} ({n_changes} rows)")


def _finished(runs: list[Path]) -> list[Path]:
    """The runs, less what a glob found of unfinished ones where enough others are left."""
    for path in runs:
        if not (path / CONFIG).exists() and any(path.glob(f"*/{CONFIG}")):
            raise MarcError(
                "this folder holds several runs", got=path, hint=f"marc compare {path}/*"
            )
    whole = [path for path in runs if not path.name.endswith((".partial", ".old"))]
    if len(whole) < 2:
        return runs
    for path in runs:
        if path not in whole:
            console.say(f"left out, not finished: {path}")
    return whole


def read_run(path: Path) -> Stored:
    """A finished, labelled run."""
    stored = read_stored(path, "run")
    if "label" not in stored.arrays:
        raise MarcError("this run has no labels, so right answers are not known", got=path)
    return stored


def _choose_reference(stored: list[Stored], against: Path | None) -> tuple[Stored, list[Stored]]:
    """The run that the others are paired with, and the others.

    Of many it is the only one of MARC, so that RUNS/* says how every method stands to it.
    """
    wanted = [run for run in stored if against in (run.path, Path(run.path.name))]
    if against is not None and len(wanted) != 1:
        known = ", ".join(str(run.path) for run in stored)
        raise MarcError(
            "--against names one of the runs",
            got=against,
            allowed=known,
            hint=f"--against {stored[0].path}",
        )
    if against is None:
        ours = [run for run in stored if run.config["method"]["method"] == "marc"]
        wanted = ours if len(ours) == 1 and len(stored) > 2 else stored[:1]
    return wanted[0], [run for run in stored if run is not wanted[0]]


def table_of(reference: Stored, others: Sequence[Stored]) -> list[dict[str, Any]]:
    """Each of the others against the reference."""
    return [_against_reference(reference, other) for other in others]


def _against_reference(reference: Stored, other: Stored) -> dict[str, Any]:
    """One run against the reference, over the orders that both have."""
    seeds = _common_orders(reference, other)
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
        "protocol_differences": _differences(reference.config, other.config),
    }


def _common_orders(reference: Stored, other: Stored) -> list[int | None]:
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


def _adjust(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Add adjusted p-values to the rows: every run and order is one test of one family."""
    tests = [log10 for row in rows for log10 in row["mcnemar_log10_p"]]
    adjusted = iter(benjamini_hochberg_log10(tests).tolist())
    for row in rows:
        row["adjusted_log10_p"] = [next(adjusted) for _ in row["orders"]]
    return {"family": {"adjustment": "benjamini-hochberg", "n_tests": len(tests)}}


def _differences(first: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """Every difference between two protocols, by name."""
    flat, other = flatten(first), flatten(second)
    ignored = ("versions.", "source", "stream", "kind")
    return [
        f"{name}: {flat.get(name, 'none')} / {other.get(name, 'none')}"
        for name in dict.fromkeys([*flat, *other])
        if flat.get(name) != other.get(name) and not name.startswith(ignored)
    ]
