"""The commands `marc study` and `marc verify`; what they do is loaded when it is asked for."""

from __future__ import annotations

from pathlib import Path

import typer

from marc.cli import console
from marc.cli._ray import RAY
from marc.cli.listing import matching


def study(
    plan: str = typer.Argument("", help="A plan in TOML: streams, spaces, grids and seeds."),
    lab: bool = typer.Option(False, "--lab", help="The plan of the embedded lab."),
    paper: bool = typer.Option(False, "--paper", help="The paper's: needs stores of its images."),
    quick: bool = typer.Option(False, "--quick", help="With --lab: a small plan, in a minute."),
    only: list[str] = typer.Option([], help="Some experiments by name; all by default."),
    output: str = typer.Option("", "-o", "--output", help="Folder of the study."),
    force: bool = typer.Option(False, "--force", help="Make again; shared work that holds stays."),
    ray: str | None = RAY,
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be done, and stop."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Make the paper's tables and figures on your streams, in one folder to browse.

    Example:  marc study --lab -o studies/lab

    Your own:  marc study PLAN.toml --only spaces controls -o studies/mine
    """
    from marc_paper.cli.study_command import (  # many experiments: loaded when needed
        StudyOptions,
        run_study,
    )

    options = StudyOptions(plan, lab, paper, quick, tuple(only), output, force, ray, dry_run, json)
    raise typer.Exit(run_study(options))


def verify(
    study: Path = typer.Argument(help="Folder of a study."),
    with_unmatched: bool = typer.Option(False, "--all", help="Each value without a match, too."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Compare a study with every value that the paper prints.

    A value is compared only where data set, predictor, prompts, spaces and protocol are the
    paper's. The exit status is 0 where something was compared and nothing differs, 1 where a
    value differs (of so many, some do in a good replication, too) or nothing could be compared,
    and 2 where there is no study.

    Example:  marc verify studies/paper
    """
    from marc_paper.cli.verify_command import run_verify  # a thousand values: loaded when needed

    raise typer.Exit(run_verify(study, with_unmatched=with_unmatched, json=json))


def list_experiments(pattern: str, card: str, json: bool) -> None:
    """Experiments of `marc study` and what of the paper they answer."""
    from marc_paper.study.experiments import EXPERIMENTS

    known = {each.name: each for each in EXPERIMENTS}
    shown = [known[n] for n in matching("experiment", "experiments", known, pattern, card)]
    if json:
        data = {each.name: {"title": each.title, "answers": each.answers} for each in shown}
        console.as_json("experiments", data)
        return
    rows = [[each.name, each.title, ", ".join(each.answers[:3])] for each in shown]
    console.table(["experiment", "what it asks", "in the paper"], rows, numbers=False, always=True)


def list_paper(pattern: str, card: str, json: bool) -> None:
    """Rows of the paper's benchmark tables, beside what ran here."""
    from marc_paper.cli import paper_rows

    paper_rows.list_paper(pattern, card, json)
