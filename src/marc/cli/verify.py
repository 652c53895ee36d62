"""`marc verify`: the values that the paper prints, held against the tables of a study."""

from __future__ import annotations

from pathlib import Path

import typer


def verify(
    study: Path = typer.Argument(help="Folder of a study."),
    everything: bool = typer.Option(False, "--all", help="Each value without a match, too."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Compare a study with every value that the paper prints.

    A value is compared only where data set, predictor, prompts, spaces and protocol are the
    paper's. The exit status is 0 where something was compared and nothing differs, 1 where a
    value differs (of so many, some do in a good replication, too) or nothing could be compared,
    and 2 where there is no study.

    Example:  marc verify studies/paper
    """
    from marc.cli.verifying import verify_and_tell  # a thousand values: loaded when needed

    raise typer.Exit(verify_and_tell(study, everything=everything, json=json))
