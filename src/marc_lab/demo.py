"""`marc demo`: the whole story on the embedded lab, command by command."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from marc.cli import console
from marc.cli._options import open_stream
from marc.cli.select import choose_aloud
from marc.errors import MarcError
from marc.files import read_json
from marc.results.folder import Folder, Stored
from marc.spaces.calibration import Calibration
from marc.spaces.selection import Selection
from marc.stream import Stream
from marc_lab.classes import CLASSES
from marc_lab.streams import StreamPlan, plan_stream

_NOT_CANDIDATES = {
    "captions": "the predictor's own space, which repeats its mistakes",
    "labels": "an upper reference that has learned these very labels",
    "random": "a control",
    "pixels": "a control",
}
_TAUGHT = {  # and these where all 48 classes are shown
    "labels-half": "has learned 24 of these labels",
    "labels-contrastive": "has learned 36 of these labels",
}


def demo(
    context: typer.Context,
    stream: str = typer.Option("lab/sketch-12", help="A stream: marc list datasets 'lab/*'."),
    quick: bool = typer.Option(False, "--quick", help="One order, fewer calibration batches."),
    output: Path = typer.Option(Path("demo"), "-o", "--output", help="Folder for everything."),
    force: bool = typer.Option(False, "--force", help="Make everything again."),
    json: bool = typer.Option(False, "--json", help="Print JSON, and nothing before it."),
) -> None:
    """Choose a space without labels, run, sweep and explain, on drawn pictures; about a minute.

    Example:  marc demo --stream lab/neon-12 -o demo
    """
    started = time.monotonic()
    if json:
        console.speak(quiet=True)
    name = stream.removeprefix("lab/")
    plan, source = plan_stream(name), f"lab/{name}"
    # a folder for each stream: results of two demos do not get into each other's way
    folder = _make_folder(output / (f"{name}-quick" if quick else name))
    shuffled = ["--seed", "0"] if quick else ["--seed", "0", "1", "2"]
    # where shifts follow each other, the order is the point
    orders = ["--in-order"] if len(set(plan.shifts)) > 1 else shuffled

    _introduce(plan)
    pictures = open_stream(source, 0)
    not_asked = _NOT_CANDIDATES if len(plan.classes) < len(CLASSES) else _NOT_CANDIDATES | _TAUGHT
    selection = _chapter_choice(
        source, pictures, not_asked, 50 if quick else Calibration.REPLICATES
    )
    good, bad = selection.ranking[0].space, selection.ranking[-1].space
    again = ["--force"] if force or _is_stale(folder / "first", pictures, good) else []

    steps = _Steps(context, first=2)
    run = ["run", source, *orders, *again]
    candidates = [each.space for each in selection.ranking]
    steps.run(
        "No choice at all: class means in every space, each believed as far as the stream shows",
        [*run, "--space", *candidates, "-o", folder / "means"],
    )
    console.say(
        "\nThe memory of the paper keeps, for each class, the past images that the predictor was\n"
        "surest of. A new image asks for those that look like it; they vote for what they were\n"
        "taken for, and all depends on the space in which they are asked."
    )
    paper = [*run, "--method", "marc", "--space"]
    steps.run(f"That memory, read in {good}", [*paper, good, "-o", folder / "first"])
    steps.run(f"The same memory, read in {bad}", [*paper, bad, "-o", folder / "last"])
    steps.run("Paired, image by image", ["compare", folder / "first", folder / "last"])
    steps.run(
        f"Class means in {bad} alone: what cannot be believed is left alone",
        [*run, "--space", bad, "-o", folder / "unbelieved"],
    )
    pure = ["--space", good, bad, "captions", "--neighbors", "10"]
    steps.run("Why: whose neighbours are right?", ["geometry", source, *pure])
    other = f"lab/{_another(name)}"
    swept, held_out = folder / "sweep", folder / "other"
    steps.run(
        f"Another stream, {other}: its labels may choose a capacity and a weight",
        ["sweep", other, *shuffled, *again, "-o", held_out],
    )
    steps.run(
        "Every space, capacity and weight",
        ["sweep", source, *orders, "--held-out", held_out, *again, "-o", swept],
    )
    page = folder / "report.html"
    words = ["report", folder / "first", swept, "--against", bad, "--held-out", held_out]
    steps.run("The page", [*words, "--force", "-o", page])  # it follows from the others
    if json:
        console.as_json("demo", _as_data(folder, page))
    else:
        _conclude(folder, page, time.monotonic() - started)


def _introduce(plan: StreamPlan) -> None:
    """What the reader is going to see, and what it cannot show."""
    console.say(
        f"A laboratory in miniature: {len(plan)} drawn pictures, lab/{plan.name}", bold=True
    )
    console.say(
        f"{len(plan.classes)} kinds of things: {', '.join(plan.class_names[:6])}, ...\n"
        "The predictor has learned from captions of clean pictures alone.\n"
        "Pictures and encoders are our own and small: the numbers show how a memory behaves,\n"
        "not what it is worth on photographs."
    )


def _another(name: str) -> str:
    """A stream of the same size on which a capacity and a weight may be chosen."""
    kind, dash, few = name.partition("-")
    return ("neon" if kind == "sketch" else "sketch") + dash + few


def _make_folder(folder: Path) -> Path:
    """A place for the results, refused before any work is done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MarcError(
            "there cannot be a folder here", got=f"{folder}: {error.strerror}", hint="-o FOLDER"
        ) from error
    return folder


def _is_stale(run: Path, pictures: Stream, space: str) -> bool:
    """Whether a demo of other pictures, other encoders or another choice has left this run."""
    if not (run / Folder.CONFIG).is_file():
        return False
    config, now = read_json(run / Folder.CONFIG), Folder.describe("run", "", pictures)
    space_then = config.get("method", {}).get("space")
    return config.get("fingerprint") != now["fingerprint"] or space_then != space


def _chapter_choice(
    source: str, pictures: Stream, not_asked: dict[str, str], replicates: int
) -> Selection:
    """Choose a space without labels, as `marc select` does."""
    spaces = [space for space in pictures.features.spaces if space not in not_asked]
    console.say("\n1. Which space? A choice without labels", bold=True)
    for space, reason in not_asked.items():
        console.say(f"not asked: {space}, {reason}")
    fewer = "" if replicates == Calibration.REPLICATES else f" --replicates {replicates}"
    console.say(f"$ marc select {source} --space {' '.join(spaces)}{fewer}\n")
    selection = choose_aloud(replace(pictures, row_labels=None), spaces, replicates)
    if selection.space is None:
        first = selection.ranking[0].space
        console.say(f"any of them may be the best; the demo goes on with the first, {first}")
    return selection


class _Steps:
    """Commands under numbered headings, each shown as it would be typed."""

    def __init__(self, context: typer.Context, first: int) -> None:
        self._command = context.find_root().command
        self._number = first

    def run(self, title: str, words: list[Any]) -> None:
        """Show a command and run it."""
        arguments = [str(word) for word in words]
        console.say(f"\n{self._number}. {title}", bold=True)
        console.say(f"$ marc {shlex.join(arguments)}\n")
        self._command.main(console.spread(arguments), prog_name="marc", standalone_mode=False)
        self._number += 1


_CONCLUDED = ("means", "first")  # the runs that the demo ends with


def _as_data(folder: Path, page: Path) -> dict[str, Any]:
    """What `_conclude` says, for a machine."""
    stored = {name: Stored.numbers(folder / name, "run") for name in _CONCLUDED}
    runs = [
        {
            "folder": str(folder / name),
            "method": config["method"],
            "selection": config["selection"],
            **{key: metrics[key] for key in ("base_accuracy", "accuracy", "gain", "gain_interval")},
        }
        for name, (config, metrics) in stored.items()
    ]
    return {"folder": str(folder), "page": str(page), "runs": runs}


def _conclude(folder: Path, page: Path, seconds: float) -> None:
    """The gains with their intervals and their baseline, and where to look."""
    for name in _CONCLUDED:
        config, metrics = Stored.numbers(folder / name, "run")
        method = config["method"]
        how, setting = "class means in every space", "nothing to set"
        if method["method"] == "marc":
            how = f"the paper's memory in {method['space']}"
            setting = f"K = {method['capacity']}, w = {method['weight']:g}"
        console.say(
            f"\nWithout memory {console.percent(metrics['base_accuracy'])} %, with {how} "
            f"{console.percent(metrics['accuracy'])} %:",
            bold=True,
        )
        console.say(
            f"gain {console.points(metrics['gain'])} points "
            f"{console.interval(metrics['gain_interval'])}, fixed ({setting}), "
            "paired over the same images",
            bold=True,
        )
    console.say(f"open {page} in a browser; this took {seconds:.0f} s")
    console.say("your own pictures: marc adapt photos/ --classes 'cat,dog'; docs/own-pictures.md")
