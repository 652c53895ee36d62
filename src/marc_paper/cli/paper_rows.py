"""`marc list methods --paper`: the benchmark tables of the paper beside what ran here.

A number of a run is put beside a printed one only where the data set and the predictor are the
printed ones; views, prompts and orders may differ, and are what `marc verify` looks at.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from marc.cli import console
from marc.embed.store import FeatureStore
from marc.errors import MarcError
from marc.peers.registry import METHODS, absent_methods
from marc.pictures import NAMED_SETS
from marc.results.folder import Folder, Stored
from marc.sources import load_stream
from marc.stream import digest
from marc_paper.printed import table
from marc_paper.printed.sheets import common

RUNS = Path("runs")
"""Where `marc run` puts its folders."""
_TABLES = ("ood", "cross_domain")
_BACKBONES = {"clip-rn50-text": "RN50", "clip-b16-text": "ViT"}
_CALLED = {
    **{"CLIP": "zero-shot", "ZERO+Ens": "zero", "ensemble": "no-memory"},
    **{name: name.lower() for name in ("CoOp", "CoCoOp", "TPT", "DiffTPT", "TDA", "ETTA")},
    **{name: name.lower() for name in ("BoostAdapter", "SCAP", "TaTa", "COSMIC", "MARC")},
}
"""The methods of the printed rows, as they are called here."""


@dataclass(frozen=True)
class _Row:
    """A printed row."""

    table: str
    backbone: str
    printed_as: str
    method: str
    numbers: dict[str, str]
    """What is printed, by data set."""


@dataclass(frozen=True)
class _Ran:
    """A run on a data set and a predictor of the paper's; accuracies are fractions."""

    backbone: str
    dataset: str
    method: str
    printed: dict[str, str]
    """What the paper has for this method, by row."""
    accuracy: float
    base_accuracy: float
    gain: float
    selection: str
    views: int
    folder: str


def list_paper(pattern: str, card: str, json: bool) -> None:
    """The rows of the paper's benchmark tables whose method has a name like the pattern."""
    if card:
        raise MarcError("the paper's rows have no cards", got=f"--card {card}")
    rows = [row for row in _printed_rows() if fnmatch.fnmatch(row.method, pattern)]
    if not rows:
        known = ", ".join(dict.fromkeys(_CALLED.values()))
        raise MarcError("the paper prints no number of this method", got=pattern, allowed=known)
    ran = [each for each in _runs(rows) if fnmatch.fnmatch(each.method, pattern)]
    if json:
        found = {"printed": [asdict(row) for row in rows], "ran": [asdict(each) for each in ran]}
        console.as_json("paper", found)
        return
    for name in _TABLES:
        _show_printed(name, [row for row in rows if row.table == name])
    _show_ran(ran)


def _printed_rows() -> Iterator[_Row]:
    datasets = common()["datasets"]
    for name in _TABLES:
        printed = table(name)
        columns = [column for column in printed.columns if column in datasets]
        for row in printed.rows:
            backbone, _, method = row.partition(" ") if name == "ood" else ("ViT", "", row)
            called = _CALLED.get(method.partition(",")[0])
            if called is None:
                continue  # a difference of two rows
            numbers = {datasets[column]: printed.cell(row, column) for column in columns}
            yield _Row(name, backbone, method, called, numbers)


def _show_printed(name: str, rows: list[_Row]) -> None:
    if not rows:
        return
    datasets = list(rows[0].numbers)
    console.say(f"\nprinted in {table(name).label}, top-1 in percent", bold=True)
    lines = [
        [f"{row.backbone} {row.printed_as}", _here(row.method), *row.numbers.values()]
        for row in rows
    ]
    console.table(["method", "here", *datasets], lines, always=True)


def _here(method: str) -> str:
    """What a printed method is called here."""
    return method if method in METHODS else f"not here: {method}"


def _show_ran(ran: list[_Ran]) -> None:
    console.say(f"\nran here, on the same data set with the same predictor ({RUNS}/)", bold=True)
    if not ran:
        example = "marc run imagenet-a --method all"
        console.say(f"nothing yet; embed the pictures, then for example: {example}")
    else:
        _show_runs(ran)
    absent = [method for method in absent_methods() if method in _CALLED.values()]
    for method in absent:
        console.say(f"not here: {method}: marc list methods --card {method}")


def _show_runs(ran: list[_Ran]) -> None:
    lines = [
        [
            f"{each.backbone} {each.method}",
            each.dataset,
            " / ".join(each.printed.values()) or "-",
            console.percent(each.accuracy),
            console.percent(each.base_accuracy),
            console.points(each.gain),
            each.selection,
            str(each.views),
            each.folder,
        ]
        for each in ran
    ]
    columns = ["method", "data set", "printed", "here", "no memory", "gain", "settings", "views"]
    console.table([*columns, "run"], lines, numbers=False, always=True)
    console.paragraph(
        "printed: of each row of that method and predictor; here: over the orders of the run;\n"
        "views, prompts and orders may differ from the paper's: marc verify looks at these"
    )


def _runs(rows: list[_Row]) -> Iterator[_Ran]:
    """Finished runs that have a place beside printed rows."""
    for config_file in sorted(RUNS.rglob(Folder.CONFIG)):
        path = config_file.parent
        try:
            config, metrics = Stored.numbers(path, "run")
            place = _place(config)
        except MarcError:  # a sweep, a run that is not finished, a store that is gone
            continue
        if place is None or "accuracy" not in metrics:
            continue
        backbone, dataset = place
        method = config["method"]["method"]
        printed = {
            row.printed_as: row.numbers[dataset]
            for row in rows
            if (row.backbone, row.method) == (*place[:1], method) and dataset in row.numbers
        }
        values = (metrics[name] for name in ("accuracy", "base_accuracy", "gain"))
        found = (*values, config["selection"], config["n_views"], str(path))
        yield _Ran(backbone, dataset, method, printed, *found)


def _place(config: dict[str, Any]) -> tuple[str, str] | None:
    """The backbone and the data set of a run, if both are the paper's."""
    known = _predictor(config["source"])
    if known is None:
        return None
    name, dataset, prototypes = known
    if prototypes != config["fingerprint"].get("prototypes") or name not in _BACKBONES:
        return None
    return _BACKBONES[name], dataset


@cache
def _predictor(source: str) -> tuple[str, str, str] | None:
    """The predictor of a store, its data set and a digest of its prototypes."""
    kind, _, rest = source.partition("/")
    path = Path(rest) if kind == "store" else FeatureStore.default_path(source)
    if not FeatureStore.exists(path):
        return None
    store = FeatureStore(path)
    dataset = store.about["source"]
    if dataset not in NAMED_SETS:
        return None
    prototypes = load_stream(f"store/{path}").features.predictor.prototypes
    return (
        store.attributes(store.PROTOTYPES)["made"]["encoder"]["name"],
        dataset,
        digest(prototypes),
    )
