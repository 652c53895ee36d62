"""Print docs/results/peers.md: every method on the same images, views, prompts and orders.

    python -m benchmarks.peers.results [-o FOLDER] PACK.npz ... > docs/results/peers.md

Feature packs of photographs with views come from the command line; the lab is drawn. Runs are kept
in the folder (runs/peers) and not made twice: a call that was stopped goes on. About forty minutes
on two cores, most of it for the methods whose cost grows with the stream or that learn in networks.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from benchmarks.peers.blocks import (
    HARD,
    LAB,
    LAB_PREDICTOR,
    LAB_SHOTS,
    LAB_SPACE,
    OURS,
    SHOTS,
    VIEWS,
    blocks,
)
from benchmarks.words import percent, points, table, wrapped
from marc.peers.cards import Need
from marc.peers.registry import METHODS, absent_methods

_FORGETS = {None: "-", "image": "image", "batch": "batch", "stream": "stream", "never": "never"}
_SEES = {"image": "one image", "batch": "a batch", "stream": "all images"}
_NEEDS = {
    None: "features alone",
    "space": "a second encoder",
    "prompts": "prompts",
    "shots": "labels",
    "unlabelled": "more images",
    "text-tower": "text encoder",
    "image-tower": "image encoder",
}
_DASH = "-"
_Row = Mapping[str, Any]
"""What `compare` says of a run."""


@dataclass(frozen=True)
class Outcome:
    """A block that was run: a row for each method, and why others did not run."""

    rows: Mapping[str, _Row]
    left_out: Mapping[str, str]


def outcomes_of(packs: Sequence[Path], folder: Path) -> dict[str, Outcome]:
    """Every block by its name."""
    found = {}
    for block in blocks(packs, folder):
        comparison, left_out = block.compared(folder)
        rows = {row["method"]: row for row in (comparison.reference, *comparison.runs)}
        found[block.name] = Outcome(rows, left_out)
    return found


def document(found: Mapping[str, Outcome], packs: Sequence[str]) -> Iterable[str]:
    """The parts of the page."""
    yield "# Every method on the same images"
    yield (
        "Printed by `make peers-results PACKS='...'`. All methods see the same features, prompts, "
        "views and orders, at their released settings for ImageNet, none of which was tuned for "
        f"these streams: *fixed*. `{OURS}`, the default of `marc run`, was developed with the "
        "packs and the lab in view (class-means.md), so its rows flatter it; MARC's settings are "
        "the paper's. What each method needs and does, and what is done here, is on its card: "
        "`marc list methods --card NAME`."
    )
    yield (
        "The packs are photographs whose predictor **is not CLIP** (real-packs.md); copies of "
        "their prototypes stand for prompts, so that ETTA has nothing to choose among. They have "
        "no networks behind them: methods that learn in an encoder run on the lab, as its "
        f"transformer `{LAB_PREDICTOR}` sees it, where all of them run. MARC, COSMIC and GPUA read "
        "`resnet50` in the packs that have it, else their second space, and "
        f"`{LAB_SPACE}` in the lab; so does `{OURS}` here, which by default reads all."
    )
    yield "## Gains"
    yield means_table(found, packs)
    yield (
        "Mean gain in points over the packs, one view, three orders, and the pack with the lowest. "
        "Methods that see the whole stream before they answer are marked: they do not compare with "
        "those that answer as images arrive."
    )
    yield gains_table(found, packs)
    yield (
        "Accuracy in percent, and in brackets the gain in points over the method's own answers "
        "without memory or learning: the plain image, or the mean over the views it uses. *m1* "
        f"is one view, three orders; *m{VIEWS}* is {VIEWS} views, of which methods that keep a "
        "tenth keep a quarter, one order; the lab is 500 pictures a stream, eight views, one order."
    )
    yield "## Against the default"
    yield differences_table(found, packs)
    yield (
        f"Accuracy minus that of `{OURS}` in points, with 95 % over images, paired; "
        "negative: the default is better."
    )
    yield "## Hard orders"
    yield orders_table(found, packs)
    yield (
        "Gains in points over the method's own baseline, one view, one order of each kind. The "
        "smaller gamma, the fewer classes come at a time; *sorted* is one class after the other. "
        "Methods that see all images at once do not change."
    )
    yield "## Calibration"
    yield calibration_table(found, packs)
    yield (
        "Expected calibration error in 15 bins and log-loss in nats, without memory / with; "
        "less is better. A dash: its scores are votes or cosines, no probabilities."
    )
    yield "## With labels, or with more images"
    yield files_table(found, packs)
    yield (
        "The stream is the second half of each pack, one view, one order. The methods below are "
        f"given what the others are not: {SHOTS} labelled images of each class, or all images of "
        f"the first half without labels. In the lab, {LAB_SHOTS} labelled pictures of each class "
        "of the world before any shift."
    )
    yield "## Cost"
    yield cost_table(found, packs)
    yield (
        "Milliseconds an image and MiB remembered at the end, on the stream named, on the machine "
        "that printed this page: compare within a column. From features, encoders not counted, nor "
        "what is learned from files before the first image (CoOp, CoCoOp, GPUA); methods that "
        "learn in an image encoder run it themselves."
    )
    yield "## Not here"
    yield table(
        ["method", "why"], [[n, " ".join(m.reason.split())] for n, m in absent_methods().items()]
    )


def means_table(found: Mapping[str, Outcome], packs: Sequence[str]) -> str:
    """Methods by their mean gain over the packs."""
    columns = [f"{pack} one view" for pack in packs]
    gains = {
        name: {block: row["gain"] for block in columns if (row := found[block].rows.get(name))}
        for name in _methods(found, columns)
    }
    whole = {name: each for name, each in gains.items() if len(each) == len(columns)}
    ranked = sorted(whole, key=lambda name: -sum(whole[name].values()))
    rows = []
    for name in ranked:
        lowest = min(whole[name], key=lambda block, of=whole[name]: of[block])
        mean = sum(whole[name].values()) / len(columns)
        worst = f"{points(whole[name][lowest])} ({_short(lowest)})"
        rows.append([name, points(mean), worst, _SEES[METHODS[name].sees]])
    return table(["method", "mean", "worst", "sees"], rows)


def gains_table(found: Mapping[str, Outcome], packs: Sequence[str]) -> str:
    """Accuracy and gain of every method."""
    columns = _main_columns(found, packs)
    rows = [
        [
            name,
            _need(name),
            *(_with_gain(found[block].rows.get(name)) for block in columns.values()),
        ]
        for name in _methods(found, columns.values())
    ]
    return table(["method", "needs", *columns], rows)


def differences_table(found: Mapping[str, Outcome], packs: Sequence[str]) -> str:
    """Every method minus ours."""
    columns = _main_columns(found, packs)
    rows = [
        [name, *(_difference(row) for row in _of(found, name, columns.values()))]
        for name in _methods(found, columns.values())
        if name != OURS
    ]
    return table(["method", *columns], rows)


def orders_table(found: Mapping[str, Outcome], packs: Sequence[str]) -> str:
    """Gains in hard orders beside those in shuffled ones."""
    columns = {}
    for pack in _with_views(found, packs):
        columns[f"{_short(pack)} shuffled"] = f"{pack} one view"
        columns |= {
            f"{_short(pack)} {kind.removeprefix('dirichlet:')}": f"{pack} {kind}" for kind in HARD
        }
    rows = [
        [name, *(_gain(row) for row in _of(found, name, columns.values()))]
        for name in _methods(found, columns.values())
    ]
    return table(["method", *columns], rows)


def calibration_table(found: Mapping[str, Outcome], packs: Sequence[str]) -> str:
    """Calibration error and log-loss."""
    columns = {_short(pack): f"{pack} one view" for pack in _with_views(found, packs)}
    columns[LAB[1]] = f"lab {LAB[1]}"
    heads = [f"{head}: {what}" for head in columns for what in ("ECE", "log-loss")]
    rows = []
    for name in _methods(found, columns.values()):
        cells = []
        for block in columns.values():
            known = (found[block].rows.get(name) or {}).get("calibration") or {}
            cells += [_both(known, measure) for measure in ("ece", "log_loss")]
        rows.append([name, *cells])
    return table(["method", *heads], rows)


def files_table(found: Mapping[str, Outcome], packs: Sequence[str]) -> str:
    """Methods with labelled or further images."""
    columns = {_short(pack): f"{pack} second half" for pack in _with_views(found, packs)}
    columns |= {name: f"lab {name}" for name in LAB}
    needing = [n for n in METHODS if {"shots", "unlabelled"} & {*METHODS[n].needs}]
    rows = [
        [
            name,
            _need(name),
            *(_with_gain(found[block].rows.get(name)) for block in columns.values()),
        ]
        for name in ("zero-shot", OURS, *needing)
    ]
    return table(["method", "has", *columns], rows)


def cost_table(found: Mapping[str, Outcome], packs: Sequence[str]) -> str:
    """Time, memory, gradients, and what is forgotten."""
    largest = _with_views(found, packs)[-1]
    blocks_of = [f"{largest} one view", f"lab {LAB[1]}"]
    heads = [f"{what} {name}" for name in (_short(largest), LAB[1]) for what in ("ms,", "MiB,")]
    rows = []
    for name in _methods(found, blocks_of):
        card = METHODS[name]
        facts = ["yes" if card.gradients else _DASH, _FORGETS[card.resets], _SEES[card.sees]]
        costs = [cell for block in blocks_of for cell in _cost(found[block].rows.get(name))]
        rows.append([name, *costs, *facts, "yes" if card.grows else _DASH])
    return table(["method", *heads, "gradients", "forgets after", "sees", "grows"], rows)


def _main_columns(found: Mapping[str, Outcome], packs: Sequence[str]) -> dict[str, str]:
    """Heads of the main tables, and the block of each."""
    columns = {f"{_short(pack)}, m1": f"{pack} one view" for pack in packs}
    for pack in _with_views(found, packs):
        columns[f"{_short(pack)}, m{VIEWS}"] = f"{pack} eight views"
    return {**columns, **{name: f"lab {name}" for name in LAB}}


def _with_views(found: Mapping[str, Outcome], packs: Sequence[str]) -> list[str]:
    return [pack for pack in packs if f"{pack} eight views" in found]


def _of(found: Mapping[str, Outcome], name: str, names: Iterable[str]) -> list[_Row | None]:
    """What a method did in each of these blocks."""
    return [found[block].rows.get(name) for block in names]


def _methods(found: Mapping[str, Outcome], names: Iterable[str]) -> list[str]:
    """Methods that ran in any of these blocks, by what they need."""
    ran = {method for name in names for method in found[name].rows}
    order = [None, *get_args(Need)]
    return sorted(
        (name for name in METHODS if name in ran), key=lambda name: order.index(_most(name))
    )


def _most(name: str) -> Need | None:
    return max(METHODS[name].needs, key=get_args(Need).index, default=None)


def _need(name: str) -> str:
    if "spaces" in METHODS[name].settings:
        return "any encoders"
    return ", ".join(_NEEDS[need] for need in METHODS[name].needs) or _NEEDS[None]


def _with_gain(row: _Row | None) -> str:
    return _DASH if row is None else f"{percent(row['accuracy'])} ({points(row['gain'])})"


def _gain(row: _Row | None) -> str:
    return _DASH if row is None else points(row["gain"])


def _difference(row: _Row | None) -> str:
    if row is None or "difference" not in row:
        return _DASH
    low, high = map(points, row["interval"])
    return f"{points(row['difference'])} [{low}, {high}]"


def _both(known: Mapping[str, float], measure: str) -> str:
    if measure not in known:
        return _DASH
    return f"{known[f'base_{measure}']:.3f} / {known[measure]:.3f}"


def _cost(row: _Row | None) -> list[str]:
    if row is None or row["images_per_second"] is None:
        return [_DASH, _DASH]
    return [f"{1000 / row['images_per_second']:.3g}", f"{row['memory_bytes'] / 2**20:.1f}"]


def _short(pack: str) -> str:
    """The name of a pack or of a block of it, as far as a table has room."""
    return re.split("[_ ]", pack)[0]


def main(words: Sequence[str]) -> None:
    """Run what was not run yet, and print the page."""
    folder = Path("runs/peers")
    if words and words[0] == "-o":
        folder, words = Path(words[1]), words[2:]
    packs = [Path(word) for word in words]
    found = outcomes_of(packs, folder)
    print("\n\n".join(map(wrapped, document(found, [path.stem for path in packs]))))


if __name__ == "__main__":
    main(sys.argv[1:])
