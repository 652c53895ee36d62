"""Which images changed between two runs: the list behind the counts of `marc compare`."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.results.folder import Stored
from marc.types import order_name

_HEADER = ("run", "order", "id", "label", "reference_answer", "answer", "change")
_SHOWN = 10  # ids of each kind on the terminal

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


def answers_of(run: Stored, seeds: _Orders) -> NDArray[np.int64]:
    """Answers (orders, images) of some orders, by stored row."""
    return run.arrays["prediction"][[run.config["seeds"].index(seed) for seed in seeds]]


def changes(reference: Stored, other: Stored, seeds: _Orders) -> list[_Change]:
    """Every repair and regression, order by order, by stored row."""
    labels, ids = reference.arrays["label"], reference.arrays["ids"]
    names = _class_names(reference, other)
    found = []
    before_all, after_all = answers_of(reference, seeds), answers_of(other, seeds)
    for seed, before, after in zip(seeds, before_all, after_all, strict=True):
        for row in np.flatnonzero((before == labels) != (after == labels)):
            found.append(
                _Change(
                    order=seed,
                    id=str(ids[row]),
                    label=names[labels[row]],
                    reference_answer=names[before[row]],
                    answer=names[after[row]],
                    change="repair" if after[row] == labels[row] else "regression",
                )
            )
    return found


def _class_names(*runs: Stored) -> list[str]:
    """The names of the classes; their numbers where the folders are of an older version."""
    for run in runs:
        if "class_names" in run.arrays:
            return [str(name) for name in run.arrays["class_names"]]
    return [str(number) for number in range(runs[0].config["n_classes"])]


def check_list(path: Path) -> None:
    """Refuse to write over anything but an earlier list of ours."""
    if not path.exists():
        return
    if path.is_file():
        with path.open("rb") as file:
            if file.readline().rstrip() == ",".join(_HEADER).encode():
                return
    raise MarcError(
        "this path is not a list of changed images, so it is left alone",
        got=path,
        hint="-o FILE.csv",
    )


def write_list(path: Path, found: Sequence[tuple[str, Sequence[_Change]]]) -> None:
    """Write the changes of each run in one piece: a killed write leaves the old file, or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".new")
    # an id that came from a file name of no encoding is written back as the bytes it was
    with partial.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_HEADER)
        for run, rows in found:
            for row in rows:
                order = "as stored" if row.order is None else row.order
                answers = (row.label, row.reference_answer, row.answer)
                writer.writerow([run, order, row.id, *answers, row.change])
    partial.replace(path)


def first_ids(run: str, found: Sequence[_Change], seeds: _Orders) -> list[str]:
    """Lines for a person: the first changed images of each kind and order."""
    lines = []
    for seed in seeds:
        for kind in ("repair", "regression"):
            ids = [each.id for each in found if (each.order, each.change) == (seed, kind)]
            more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
            shown = ", ".join(ids[:_SHOWN]) or "none"
            lines.append(f"{run}, {order_name(seed)}, {kind}s: {shown}{more}")
    return lines


def as_data(change: _Change) -> Mapping[str, Any]:
    """A change for JSON."""
    return {name: getattr(change, name) for name in _HEADER if name != "run"}
