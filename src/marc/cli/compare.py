"""`marc compare`: runs over the same images, paired image by image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import typer

from marc.cli import console
from marc.errors import MarcError
from marc.results.compare import Comparison
from marc.results.compare import compare as compare_runs
from marc.results.folder import Folder
from marc.scores import BINS
from marc.types import order_name

_FEW = 3  # so many comparisons are also shown order by order without being asked
_SHOWN = 10  # ids of each kind on the terminal
_MANY = 10  # of more methods nobody reads a line each
_FORGETS = {
    None: "-",
    "image": "each image",
    "batch": "each batch",
    "stream": "the stream",
    "never": "never",
}
_MEASURES = {"ece": "ECE", "brier": "Brier", "log_loss": "log-loss"}


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
    comparison = compare_runs(*_finished(runs), against=against)
    n_changes = 0 if output is None else comparison.write_changes(output)
    if json:
        console.as_json("compare", comparison.to_dict(images=images))
        return
    show_runs(comparison)
    show_calibration(comparison)
    if orders or len(comparison.runs) <= _FEW:
        _show_orders(comparison)
    for line in _first_ids(comparison) if images else []:
        console.say(line)
    _show_protocols(comparison)
    if output is not None:
        console.done(output, more=f" ({n_changes} rows)")


def _finished(runs: list[Path]) -> list[Path]:
    """The runs, less what a glob gave of unfinished ones where enough others are left."""
    for path in runs:
        if not (path / Folder.CONFIG).exists() and any(path.glob(f"*/{Folder.CONFIG}")):
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


def show_runs(comparison: Comparison) -> None:
    """What each run is worth, and what it costs and sees."""
    rows = [comparison.reference, *comparison.runs]
    names = _names_of(rows)
    lines = []
    for name, row in zip(names, rows, strict=True):
        pair = ["", "", ""]
        if "difference" in row:
            p_value = console.p_value(max(row["mcnemar_log10_p"]))
            pair = [console.points(row["difference"]), console.interval(row["interval"]), p_value]
        results = [console.percent(row[value]) for value in ("base_accuracy", "accuracy")]
        gains = [console.points(row[value]) for value in ("gain", "worst_tenth_gain")]
        lines.append([name, *results, *gains, *pair])
    columns = ["run", "no memory", "accuracy", "gain", "worst", f"vs {names[0]}", "95 % interval"]
    console.table([*columns, "McNemar p"], lines, always=True)
    console.paragraph(
        "accuracy in percent, over the orders of each run; no memory: the same pipeline without\n"
        "one; worst: the mean gain in the worst tenth of the orders, of fewer than 20 the worst;\n"
        f"vs {names[0]}: accuracy minus its accuracy in points, paired by image over the\n"
        "orders that both have; McNemar p: exact, two-sided, the largest over these orders"
    )
    console.say("\nwhat each costs and sees")
    protocol = ["ms/image", "MiB", "gradients", "forgets", "order", "views", "uses", "settings"]
    lines = [[name, *_protocol(row)] for name, row in zip(names, rows, strict=True)]
    console.table(["run", *protocol], lines, always=True)
    console.paragraph(
        "ms/image: of the method from features, or from pictures where it uses an image encoder;\n"
        "the stream's own encoders are not counted, nor the base scores that all share, which\n"
        "MARC, no-memory and TDA with one view need not compute again, nor what is learned from\n"
        "files before the first image; MiB: what it remembers at the end; forgets: after what it\n"
        "forgets all that it learned"
    )
    if rows[0]["ordering"] != "shuffled":
        console.say(f"orders: {rows[0]['ordering']}")
    n_orders = len(comparison.stored[0].config["seeds"])
    for name, row in zip(names[1:], comparison.runs, strict=True):
        if len(row["orders"]) < n_orders:
            orders = ", ".join(map(order_name, row["orders"]))
            console.say(f"paired with {names[0]} over fewer orders: {name} ({orders})")
    by_method = {row["method"]: row for row in rows}
    if len(by_method) > _MANY:
        console.say("what their authors tuned, and on what: marc list methods --card NAME")
        return
    for row in by_method.values():
        if row["tuned"] and not row["tuned"].startswith("nothing"):
            console.say(f"tuned by its authors, {row['method']}: {row['tuned']}")


def show_calibration(comparison: Comparison) -> None:
    """What the answers of each run are worth as probabilities, where any has them."""
    rows = [comparison.reference, *comparison.runs]
    known = [row["calibration"] or {} for row in rows]
    if not any(known):
        return
    names, pairs = _names_of(rows), [row["calibration_vs"] or {} for row in comparison.runs]
    console.say("\nthe answers as probabilities: less is better")
    lines = []
    for name, found in zip(names, known, strict=True):
        both = (map(console.score, map(found.get, (f"base_{key}", key))) for key in _MEASURES)
        lines.append([name, *map(" / ".join, both)])
    console.table(["no memory / run", *_MEASURES.values()], lines)
    lines = [
        [
            name,
            *(
                console.score_change(
                    pair.get("difference", {}).get(key), pair.get("interval", {}).get(key)
                )
                for key in _MEASURES
            ),
        ]
        for name, pair in zip(names[1:], pairs, strict=True)
    ]
    console.table([f"minus {names[0]}", *_MEASURES.values()], lines)
    console.paragraph(
        f"ECE: {BINS} equal-width bins of the confidence, no interval; Brier: sum over classes;\n"
        "log-loss in nats; intervals 95 % over images, paired; a dash where answers have no\n"
        "probabilities (votes, cosines, an oracle's)"
    )


def _names_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The runs by their folders, and by their methods where the folder does not say."""
    methods = [row["method"] for row in rows]
    return [
        name if method in name or len(set(methods)) == 1 else f"{name} ({method})"
        for name, method in zip(_short_names(rows), methods, strict=True)
    ]


def _short_names(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Runs without the folder that all of them are in.

    >>> _short_names([{"run": "all/marc"}, {"run": "all/tda"}])
    ['marc', 'tda']
    >>> _short_names([{"run": "a/marc"}, {"run": "b/marc"}])
    ['a/marc', 'b/marc']
    """
    paths = [Path(row["run"]) for row in rows]
    names = [path.name for path in paths]
    in_one = len({path.parent for path in paths}) == 1 and len(set(names)) == len(rows)
    return names if in_one else [row["run"] for row in rows]


def _protocol(row: dict[str, Any]) -> list[str]:
    """What must be known to read the numbers: cost, order, views, and how settings were chosen."""
    speed, size = row["images_per_second"], row["memory_bytes"]
    order = {None: "stores nothing", True: "reads first", False: "writes first"}
    words = ["not known" if row["sees"] is None else order[row["reads_before_writes"]]]
    if row["sees"] not in (None, "one image"):
        words = [row["sees"], *(words if row["reads_before_writes"] is not None else [])]
    settings = row["selection"] + (f", {row['published']}" if row["published"] else "")
    settings += ", reconstruction" if row["reconstruction"] else ""
    return [
        "" if speed is None else f"{1000 / speed:,.3g}",
        "" if size is None else f"{size / 2**20:,.1f}",
        "yes" if row["gradients"] else "-",
        _FORGETS[row["resets"]],
        ", ".join(words),
        str(row["views_used"]),
        ", ".join(row["uses"]) or "-",
        settings,
    ]


def _show_orders(comparison: Comparison) -> None:
    """What each order says, and how far the orders agree."""
    ours, *names = _short_names([comparison.reference, *comparison.runs])
    adjusted = comparison.adjusted
    columns = ["run", "order", "repairs", "regressions", f"vs {ours}", "McNemar p"]
    lines = []
    for number, (name, row) in enumerate(zip(names, comparison.runs, strict=True)):
        for index, seed in enumerate(row["orders"]):
            counts = [str(row[what][index]) for what in ("repairs", "regressions")]
            tests = [row["mcnemar_log10_p"], *([adjusted[number]] if adjusted else [])]
            difference = console.points(row["difference_by_order"][index])
            p_values = [console.p_value(test[index]) for test in tests]
            lines.append([name, order_name(seed), *counts, difference, *p_values])
    console.say(f"\nrepairs and regressions against {ours}, order by order")
    console.table([*columns, *(["adjusted p"] if adjusted else [])], lines)
    if adjusted:
        console.say(f"adjusted p: Benjamini-Hochberg over the {len(lines)} tests of this table")
    for name, row in zip(names, comparison.runs, strict=True):
        if row["interval_over_orders"] is not None:
            interval = console.interval(row["interval_over_orders"])
            n_orders, low = len(row["orders"]), console.points(row["worst_tenth_difference"])
            console.say(
                f"{name}: {console.points(row['difference'])} points, "
                f"95 % over {n_orders} orders {interval} (t)\n"
                f"{name}: {low} points in {console.worst(n_orders)}"
            )


def _first_ids(comparison: Comparison) -> Iterator[str]:
    for row, changes in zip(comparison.runs, comparison.changes, strict=True):
        for seed, kind in product(row["orders"], ("repair", "regression")):
            ids = [each.id for each in changes if (each.order, each.change) == (seed, kind)]
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            shown = ", ".join(ids[:_SHOWN]) or "none"
            yield f"{row['run']}, {order_name(seed)}, {kind}s: {shown}{more}"


def _show_protocols(comparison: Comparison) -> None:
    """Name every difference in protocol; that another method has other settings is none."""
    ours, *names = _short_names([comparison.reference, *comparison.runs])
    alike = []
    for name, row in zip(names, comparison.runs, strict=True):
        differences = row["protocol_differences"]
        if row["method"] != comparison.reference["method"]:
            differences = [line for line in differences if not line.startswith("method.")]
            if not differences:
                alike.append(name)
        if differences:
            console.say(f"the protocols of {ours} and {name} differ in:")
            for line in differences:
                console.say(f"  {line}")
    if alike:
        console.say(f"other methods on the same features and orders: {', '.join(alike)}")
