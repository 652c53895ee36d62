"""How a person sees a comparison of runs: one line for each run, then the orders, then why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from marc.cli import console
from marc.peers.cards import PLAIN_IMAGE, MethodCard
from marc.peers.registry import METHODS
from marc.results.folder import Stored
from marc.types import order_name


def row_of(run: Stored) -> dict[str, Any]:
    """A run on its own: accuracy, its matched baseline, its speed and its protocol."""
    names = ("accuracy", "base_accuracy", "gain", "selection")
    settings = run.config["method"]
    name = settings["method"]
    card = METHODS.get(name)
    return {
        "run": str(run.path),
        "method": name,
        **{name: run.metrics[name] for name in names},
        "images_per_second": _speed(run.timing.get("images_per_second")),
        "reads_before_writes": card.reads_first(settings) if card else None,
        "sees": _sees(card, settings) if card else None,
        "uses": _uses(card, settings) if card else [],
        "views_used": 1 if card and card.views == PLAIN_IMAGE else run.config["n_views"],
        "published": _published(card, run.config) if card else None,
        "tuned": card.tuned if card else None,
        "reconstruction": card.reconstruction if card else False,
    }


def _speed(value: object) -> float | None:
    """A number, or None where there is none, as in older runs."""
    known = isinstance(value, (int, float)) and math.isfinite(value)
    return float(value) if known else None  # type: ignore[arg-type]


def _published(card: MethodCard, config: dict[str, Any]) -> str | None:
    """The data set whose published settings were taken, and which of them were changed."""
    name = config.get("published")
    if name is None:
        return None
    settings = card.published.get(name, {})
    changed = [key for key, value in settings.items() if config["method"].get(key) != value]
    return f"{name}'s" + (f" but {' and '.join(changed)}" if changed else "")


def _sees(card: MethodCard, settings: dict[str, Any]) -> str:
    """What a method answers together."""
    if card.sees == "batch":
        return f"batches of {settings.get('batch_size', 'several')}"
    return {"image": "one image", "stream": "the whole stream"}[card.sees]


def _uses(card: MethodCard, settings: dict[str, Any]) -> list[str]:
    """What a method has beyond the predictor's features: a space, prompts, labels."""
    more = [need for need in ("prompts",) if need in card.needs]
    labels = ["labels"] if "shots" in card.needs else []
    return [*([settings["space"]] if "space" in settings else []), *more, *labels]


def show_runs(reference: Stored, rows: Sequence[dict[str, Any]]) -> None:
    """The comparison in one table."""
    told = [row_of(reference), *rows]
    names = _names_of(told)
    lines = []
    for name, row in zip(names, told, strict=True):
        pair = ["", "", ""]
        if "difference" in row:
            p_value = console.p_value(max(row["mcnemar_log10_p"]))
            pair = [console.points(row["difference"]), console.interval(row["interval"]), p_value]
        lines.append([name, *_results(row), *pair, *_protocol(row)])
    columns = ["run", "no memory", "accuracy", "gain", f"vs {names[0]}", "95 % interval"]
    protocol = ["images/s", "order", "views", "uses", "settings"]
    console.table([*columns, "McNemar p", *protocol], lines)
    console.say(
        "accuracy in percent, over the orders of each run; no memory: the same pipeline without\n"
        f"one; vs {names[0]}: accuracy minus its accuracy in points, paired by image over the\n"
        "orders that both have; McNemar p: exact, two-sided, the largest over these orders;\n"
        "images/s: of the method from features; encoders are not counted, nor the base scores\n"
        "that all share, which MARC, no-memory and TDA with one view need not compute again"
    )
    for name, row in zip(names[1:], rows, strict=True):
        if len(row["orders"]) < len(reference.config["seeds"]):
            orders = ", ".join(map(order_name, row["orders"]))
            console.say(f"paired with {names[0]} over fewer orders: {name} ({orders})")
    for row in {row["method"]: row for row in told}.values():
        if row["tuned"] and not row["tuned"].startswith("nothing"):
            console.say(f"tuned by its authors, {row['method']}: {row['tuned']}")


def _names_of(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The runs by their folders, and by their methods where the folder does not say."""
    short = _short_names([row["run"] for row in rows])
    methods = [row["method"] for row in rows]
    return [
        name if method in name or len(set(methods)) == 1 else f"{name} ({method})"
        for name, method in zip(short, methods, strict=True)
    ]


def _short_names(runs: Sequence[str]) -> list[str]:
    """Runs without the folder that all of them lie in.

    >>> _short_names(["all/marc", "all/tda"]), short_names(["a/marc", "b/marc"])
    (['marc', 'tda'], ['a/marc', 'b/marc'])
    """
    parents, names = {Path(run).parent for run in runs}, [Path(run).name for run in runs]
    return names if len(parents) == 1 and len(set(names)) == len(runs) else [*runs]


def _results(row: dict[str, Any]) -> list[str]:
    return [
        console.percent(row["base_accuracy"]),
        console.percent(row["accuracy"]),
        console.points(row["gain"]),
    ]


def _protocol(row: dict[str, Any]) -> list[str]:
    """What must be known to read the numbers: speed, order, views, and how settings were chosen."""
    speed = row["images_per_second"]
    order = {None: "stores nothing", True: "reads first", False: "writes first"}
    words = [order[row["reads_before_writes"]]]
    if row["sees"] not in (None, "one image"):
        words = [row["sees"], *(words if row["reads_before_writes"] is not None else [])]
    settings = row["selection"] + (f", {row['published']}" if row["published"] else "")
    settings += ", reconstruction" if row["reconstruction"] else ""
    return [
        "" if speed is None else f"{speed:,.0f}",
        ", ".join(words),
        str(row["views_used"]),
        ", ".join(row["uses"]) or "-",
        settings,
    ]


def show_orders(reference: Stored, rows: Sequence[dict[str, Any]]) -> None:
    """What each order says, and how far the orders agree."""
    ours, *names = _short_names([str(reference.path), *(row["run"] for row in rows)])
    is_family = "adjusted_log10_p" in rows[0]
    columns = ["run", "order", "repairs", "regressions", f"vs {ours}", "McNemar p"]
    lines = []
    for name, row in zip(names, rows, strict=True):
        for place, seed in enumerate(row["orders"]):
            counts = [str(row[what][place]) for what in ("repairs", "regressions")]
            difference = console.points(row["difference_by_order"][place])
            tests = ["mcnemar_log10_p", *(["adjusted_log10_p"] if is_family else [])]
            p_values = [console.p_value(row[test][place]) for test in tests]
            lines.append([name, order_name(seed), *counts, difference, *p_values])
    console.say(f"\nrepairs and regressions against {ours}, order by order")
    console.table([*columns, *(["adjusted p"] if is_family else [])], lines)
    if is_family:
        console.say(f"adjusted p: Benjamini-Hochberg over the {len(lines)} tests of this table")
    for name, row in zip(names, rows, strict=True):
        if row["interval_over_orders"] is not None:
            interval = console.interval(row["interval_over_orders"])
            console.say(
                f"{name}: {console.points(row['difference'])} points, "
                f"95 % over {len(row['orders'])} orders {interval} (t)"
            )


def show_protocols(reference: Stored, rows: Sequence[dict[str, Any]]) -> None:
    """Name every difference in protocol; that another method has other settings is none."""
    names = _short_names([str(reference.path), *(row["run"] for row in rows)])
    alike = []
    for name, row in zip(names[1:], rows, strict=True):
        differences = row["protocol_differences"]
        if row["method"] != reference.config["method"]["method"]:
            differences = [line for line in differences if not line.startswith("method.")]
            if not differences:
                alike.append(name)
        if differences:
            console.say(f"the protocols of {names[0]} and {name} differ in:")
            for line in differences:
                console.say(f"  {line}")
    if alike:
        console.say(f"other methods on the same features and orders: {', '.join(alike)}")
