"""`--track`: what a command has finished goes to MLflow too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from marc.cli import console
from marc.results.tracking import Tracked, Tracker

TRACK = typer.Option(
    None,
    "--track",
    help="Log the result to MLflow: an experiment, or the address of a store; alone, the "
    "experiment marc in MLflow's own store.",
)


def open_tracker(where: str | None, *, dry_run: bool = False) -> Tracker | None:
    """Where results go, if it was asked for; what cannot be is refused before work begins."""
    return None if where is None or dry_run else Tracker.open(where)


def log_to(tracker: Tracker | None, *folders: Path, json: bool) -> dict[str, Any]:
    """Log finished results, and say so; gives what JSON says of it, if it was asked for."""
    if tracker is None:
        return {}
    done = [tracker.log(folder) for folder in folders]
    for each in [] if json else done:
        console.say(_sentence(each))
    return {"tracked": [vars(each) for each in done]}


def _sentence(tracked: Tracked) -> str:
    word = "already tracked" if tracked.was_there else "tracked"
    return f"{word}: {tracked.run_id}, experiment {tracked.experiment} in {tracked.store}"
