"""`marc study`: every table and figure of the paper, from one plan."""

from __future__ import annotations

import typer


def study(
    plan: str = typer.Argument("", help="A plan in TOML: streams, spaces, grids and seeds."),
    lab: bool = typer.Option(False, "--lab", help="The plan of the embedded lab."),
    paper: bool = typer.Option(False, "--paper", help="The paper's: needs stores of its images."),
    quick: bool = typer.Option(False, "--quick", help="With --lab: a small plan, in a minute."),
    only: list[str] = typer.Option([], help="Some experiments by name; all by default."),
    output: str = typer.Option("", "-o", "--output", help="Folder of the study."),
    force: bool = typer.Option(False, "--force", help="Make anew; shared work that holds is kept."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be done, and stop."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Make the paper's tables and figures on your streams, in one folder to browse.

    Example:  marc study --lab -o studies/lab

    Your own:  marc study PLAN.toml --only spaces controls -o studies/mine
    """
    from marc.cli.studying import Asked, study_as_asked  # many experiments: loaded when needed

    asked = Asked(plan, lab, paper, quick, tuple(only), output, force, dry_run, json)
    raise typer.Exit(study_as_asked(asked))
