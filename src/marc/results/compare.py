"""Runs over the same images, paired image by image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.files import csv_bytes, flatten, write_whole
from marc.peers.cards import MethodCard
from marc.peers.registry import METHODS
from marc.results.folder import Stored
from marc.results.metrics import calibration_difference, certainty_of
from marc.results.run import named_spaces, stored_run
from marc.stats import (
    benjamini_hochberg_log10,
    mcnemar_exact,
    mcnemar_log10,
    paired_difference,
    seed_interval,
    worst_tenth,
)
from marc.types import Run, order_name

_HEADER = ("run", "order", "id", "label", "reference_answer", "answer", "change")
_SPREAD = "marc.compare(*folders), with a star before the list"

_Orders = Sequence[int | None]
"""Stream orders by seed; None is the order in which the images are stored."""


@dataclass(frozen=True)
class _Change:
    """An image that one run has right and the other wrong, in one order."""

    order: int | None
    id: str
    label: str
    reference_answer: str
    answer: str
    change: Literal["repair", "regression"]
    """Repair: wrong in the reference and right in the run. Regression: the other way round."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """Runs against a reference, over the images and orders that they share."""

    reference: dict[str, Any]
    """The reference on its own: accuracy, its matched baseline, its speed and its protocol."""
    runs: tuple[dict[str, Any], ...]
    """Each other run: the same, and the paired difference with its interval over images, repairs,
    regressions and McNemar's exact p of each order, the paired difference of each measure of
    `calibration`, where both have it, and the settings that differ."""
    stored: tuple[Stored, ...]
    """The reference and the others as they were given."""

    def __repr__(self) -> str:
        rows = [(row["run"], row["difference"], *row["interval"]) for row in self.runs]
        lines = [
            f"  {run}: {100 * mean:+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]"
            for run, mean, low, high in rows
        ]
        title = f"Comparison with {self.reference['run']}, in points with 95 % over images"
        return "\n".join([title, *lines])

    @cached_property
    def adjusted(self) -> list[list[float]] | None:
        """Log10 of each p of each run after Benjamini-Hochberg; None for a single run.

        Every run and order is one test of one family.
        """
        if len(self.runs) < 2:
            return None
        tests = [log10 for row in self.runs for log10 in row["mcnemar_log10_p"]]
        adjusted = iter(benjamini_hochberg_log10(tests).tolist())
        return [[next(adjusted) for _ in row["orders"]] for row in self.runs]

    @cached_property
    def changes(self) -> list[list[_Change]]:
        """Of each run every repair and regression, order by order, by stored row."""
        reference, *others = self.stored
        return [
            _changes(reference, other, row["orders"])
            for other, row in zip(others, self.runs, strict=True)
        ]

    def to_dict(self, *, images: bool = False) -> dict[str, Any]:
        """Everything as plain data; with `images`, every changed image too."""
        rows = [dict(row) for row in self.runs]
        family = {}
        if self.adjusted is not None:
            for row, adjusted in zip(rows, self.adjusted, strict=True):
                row["adjusted_log10_p"] = adjusted
            n_tests = sum(map(len, self.adjusted))
            family = {"family": {"adjustment": "benjamini-hochberg", "n_tests": n_tests}}
        if images:
            for row, changes in zip(rows, self.changes, strict=True):
                row["images"] = [asdict(change) for change in changes]
        return {"reference": self.reference, "runs": rows, **family}

    def write_changes(self, path: Path) -> int:
        """Write a .csv file with one row per changed image and order; gives how many they are.

        Nothing but an earlier list of changed images is written over.
        """
        _refuse_foreign(path)
        rows: list[Sequence[object]] = [_HEADER]
        for row, changes in zip(self.runs, self.changes, strict=True):
            for change in changes:
                order = "as stored" if change.order is None else change.order
                rows.append([row["run"], *({**asdict(change), "order": order}).values()])
        write_whole(path, csv_bytes(rows))
        return sum(map(len, self.changes))


def compare(
    *runs: str | Path | Run | Sequence[Run], against: str | Path | None = None
) -> Comparison:
    """Pair runs image by image.

    Args:
        runs: run folders, runs, or several orders of a method; two or more, with labels.
        against: the folder to pair the others with. By default the first; of many, the only one
            of MARC.

    >>> import marc
    >>> stream = marc.synthetic_stream(n_images=200)
    >>> good, bad = (marc.run(marc.MARC(space), stream) for space in ("classes", "noise"))
    >>> marc.compare(bad, good).runs[0]["difference"] > 0
    True
    """
    for given in runs:
        if isinstance(given, list | tuple) and any(isinstance(each, str | Path) for each in given):
            got = f"{type(given).__name__} of {len(given)}"
            raise MarcError("each run folder is its own argument", got=got, hint=_SPREAD)
    stored = [stored_run(run) for run in runs]
    if len(runs) < 2:
        raise MarcError("a comparison needs two runs", got=len(runs), hint="marc compare A B")
    for run in stored:
        if "label" not in run.arrays:
            raise MarcError("this run has no labels, so right answers are not known", got=run.path)
    reference = _reference(stored, against)
    others = [run for run in stored if run is not reference]
    rows = tuple(_against(reference, other) for other in others)
    return Comparison(_row(reference), rows, (reference, *others))


def _reference(stored: Sequence[Stored], against: str | Path | None) -> Stored:
    if against is None:
        ours = [run for run in stored if run.config["method"]["method"] == "marc"]
        return ours[0] if len(ours) == 1 and len(stored) > 2 else stored[0]
    named = [run for run in stored if Path(against) in (run.path, Path(run.path.name))]
    if len(named) != 1:
        allowed, hint = ", ".join(str(run.path) for run in stored), f"--against {stored[0].path}"
        raise MarcError("--against names one of the runs", got=against, allowed=allowed, hint=hint)
    return named[0]


def _against(reference: Stored, other: Stored) -> dict[str, Any]:
    seeds = _common_orders(reference, other)
    label = reference.arrays["label"]
    right, before = (_by_order(run, "prediction", seeds) == label for run in (other, reference))
    theirs, ours = (certainty_of(r.arrays, rows=_places(r, seeds)) for r in (other, reference))
    interval = paired_difference(right, before)
    by_order = (right.mean(axis=1) - before.mean(axis=1)).tolist()
    repairs, regressions = (
        (x & ~y).sum(axis=1).tolist() for x, y in ((right, before), (before, right))
    )
    return {
        **_row(other),
        "orders": seeds,
        "difference": interval.estimate,
        "interval": [interval.low, interval.high],
        "difference_by_order": by_order,
        "interval_over_orders": [*seed_interval(by_order)[1:]] if len(seeds) > 1 else None,
        "worst_tenth_difference": worst_tenth(by_order),
        "repairs": repairs,
        "regressions": regressions,
        "mcnemar_p": [mcnemar_exact(a, b) for a, b in zip(right, before, strict=True)],
        "mcnemar_log10_p": [*map(mcnemar_log10, repairs, regressions)],
        "calibration_vs": calibration_difference(theirs, right, ours, before),
        "protocol_differences": _differences(reference.config, other.config),
    }


def _by_order(run: Stored, name: str, seeds: _Orders) -> NDArray[np.int64]:
    """An array (orders, images) of a run in some of its orders."""
    return run.arrays[name][_places(run, seeds)]


def _places(run: Stored, seeds: _Orders) -> NDArray[np.int64]:
    return np.array([run.config["seeds"].index(seed) for seed in seeds])


def _common_orders(reference: Stored, other: Stored) -> list[int | None]:
    """The orders that both runs have; runs over other images are refused."""
    ours, theirs = reference.config, other.config
    kinds = [run.get("ordering", "shuffled") for run in (ours, theirs)]
    if kinds[0] != kinds[1]:
        raise MarcError(
            "the runs cannot be paired: their orders are of different kinds",
            got=f"{reference.path} ({kinds[0]}), {other.path} ({kinds[1]})",
            hint=f"marc run ... --order {kinds[0]} for both",
        )
    for what in ("ids", "labels", "class_names"):
        digests = {run["fingerprint"].get(what) for run in (ours, theirs)}
        if len(digests - {None}) > 1:  # a run that is not of a folder has no ids
            raise MarcError(
                f"the runs cannot be paired: their {what} differ",
                got=f"{reference.path} ({ours['stream']}, {ours['n_images']} images), "
                f"{other.path} ({theirs['stream']}, {theirs['n_images']} images)",
                hint="compare runs over the same images",
            )
    seeds = [seed for seed in ours["seeds"] if seed in theirs["seeds"]]
    if not seeds:
        raise MarcError(
            "the runs have no stream order in common",
            got=" / ".join(", ".join(map(order_name, run["seeds"])) for run in (ours, theirs)),
            hint="marc run ... --seed 0 1 2 for both, or --in-order for both",
        )
    if (_by_order(reference, "order", seeds) != _by_order(other, "order", seeds)).any():
        raise MarcError("the runs have orders that no seed drew, and they differ", got=seeds)
    return seeds


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    flat, other = flatten(first), flatten(second)
    ignored = ("versions.", "source", "stream", "kind")
    names = dict.fromkeys([*flat, *other])
    if "not stored" in (first["stream"], second["stream"]):  # a run that is in no folder
        names = dict.fromkeys(name for name in flat if name in other)
    return [
        f"{name}: {flat.get(name, 'none')} / {other.get(name, 'none')}"
        for name in names
        if flat.get(name) != other.get(name) and not name.startswith(ignored)
    ]


def _row(run: Stored) -> dict[str, Any]:
    names = ("accuracy", "base_accuracy", "gain", "selection")
    settings = run.config["method"]
    name = settings["method"]
    card = METHODS.get(name)
    return {
        "run": str(run.path),
        "method": name,
        **{name: run.metrics[name] for name in names},
        "worst_tenth_gain": worst_tenth([order["gain"] for order in run.metrics["orders"]]),
        "ordering": run.config.get("ordering", "shuffled"),
        "calibration": run.metrics.get("calibration"),
        "images_per_second": run.timing.get("images_per_second"),
        "memory_bytes": run.timing.get("memory_bytes"),
        "gradients": card.gradients if card else None,
        "resets": _resets(card, settings) if card else None,
        "reads_before_writes": card.reads_first(settings) if card else None,
        "sees": _sees(card, settings) if card else None,
        "uses": _uses(card, settings) if card else [],
        "views_used": 1 if card and card.views == MethodCard.views else run.config.get("n_views"),
        "published": _published(card, run.config) if card else None,
        "tuned": card.tuned if card else None,
        "reconstruction": card.reconstruction if card else False,
    }


def _published(card: MethodCard, config: Mapping[str, Any]) -> str | None:
    """The data set whose published settings were taken, and which of them were changed."""
    name = config.get("published")
    if name is None:
        return None
    settings = card.published.get(name, {})
    changed = [key for key, value in settings.items() if config["method"].get(key) != value]
    return f"{name}'s" + (f" but {' and '.join(changed)}" if changed else "")


def _resets(card: MethodCard, settings: Mapping[str, Any]) -> str | None:
    in_batches = card.resets == "stream" and settings.get("batch_size") is not None
    return "batch" if in_batches else card.resets


def _sees(card: MethodCard, settings: Mapping[str, Any]) -> str:
    if card.sees == "batch" or settings.get("batch_size") is not None:
        return f"batches of {settings.get('batch_size', 'several')}"
    return {"image": "one image", "stream": "the whole stream"}[card.sees]


def _uses(card: MethodCard, settings: Mapping[str, Any]) -> list[str]:
    """What a method has beyond the stream's features: a space, prompts, labels, more images."""
    more = {"prompts": "prompts", "shots": "labels", "unlabelled": "unlabelled images"}
    return [*named_spaces(settings), *(word for need, word in more.items() if need in card.needs)]


def _changes(reference: Stored, other: Stored, seeds: _Orders) -> list[_Change]:
    labels, ids = reference.arrays["label"], reference.arrays["ids"]
    names = class_names(reference, other)
    answers = (_by_order(run, "prediction", seeds) for run in (reference, other))
    return [
        _Change(
            order=seed,
            id=str(ids[row]),
            label=names[labels[row]],
            reference_answer=names[before[row]],
            answer=names[after[row]],
            change="repair" if after[row] == labels[row] else "regression",
        )
        for seed, before, after in zip(seeds, *answers, strict=True)
        for row in np.flatnonzero((before == labels) != (after == labels))
    ]


def class_names(*runs: Stored) -> list[str]:
    """The names of the classes; their numbers where no folder has them."""
    for run in runs:
        if "class_names" in run.arrays:
            return [str(name) for name in run.arrays["class_names"]]
    return [str(number) for number in range(max(run.config["n_classes"] for run in runs))]


def _refuse_foreign(path: Path) -> None:
    ours = not path.exists()
    if path.is_file():
        with path.open("rb") as file:
            ours = file.readline(1000).rstrip() == ",".join(_HEADER).encode()
    if not ours:
        problem = "this path is not a list of changed images, so it is left alone"
        raise MarcError(problem, got=path, hint="-o FILE.csv")
