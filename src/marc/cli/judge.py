"""`marc judge`: does a run help, from a few labels."""

from __future__ import annotations

import math
from pathlib import Path
from shlex import join
from typing import Any

import typer

from marc.cli import console
from marc.report.audit import refuse_foreign_page, write_audit_page
from marc.results.judge import Judgement
from marc.results.judge import judge as judge_run
from marc.types import order_name


def judge(
    run: Path = typer.Argument(help="A run folder."),
    labels: list[Path] = typer.Option(
        [], "--labels", help="Files of labels: .csv with the columns id and label."
    ),
    audit: int | None = typer.Option(
        None, "--audit", help="Write so many disagreements to label, drawn at random."
    ),
    output: Path = typer.Option(Path("audit.csv"), "-o", "--output", help="File of the audit."),
    seed: int = typer.Option(0, "--seed", help="Draws the audit; keep it from batch to batch."),
    order: int | None = typer.Option(
        None, "--order", help="Seed of the order to judge, if the run has several; the first."
    ),
    alpha: float = typer.Option(
        0.05, help="How often 'helps', and how often 'harms', may be said wrongly."
    ),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Judge a run on a stream without labels, from a few that you give.

    Example:  marc judge runs/photos --audit 50 -o audit.csv

    Fill in the column label, then:  marc judge runs/photos --labels audit.csv

    The next batch:  marc judge runs/photos --labels audit.csv --audit 50 -o audit-2.csv
    """
    judgement = judge_run(run, labels, alpha, order=order)
    written = None
    if audit is not None:
        written = _write_audit(judgement, run, audit, output, seed)
    if json:
        console.as_json("judge", {**judgement.to_dict(), "audit": written})
        return
    _show(judgement)
    if written:
        all_left = ", all that are left" if written["n_rows"] == judgement.left else ""
        console.say(f"written: {written['table']} ({written['n_rows']} rows to label{all_left})")
        no_page = "no page: the pictures cannot be opened here"
        console.say(f"written: {written['page']}" if written["page"] else no_page)
    elif judgement.verdict == "not shown" and judgement.left:
        given = ["--labels", *map(str, labels)] if labels else []
        rows = min(judgement.labels_needed or 50, judgement.left)
        words = ["marc", "judge", str(run), *given, "--audit", str(rows), "-o", "FILE.csv"]
        console.say(f"next: {join(words)}")


def _write_audit(
    judgement: Judgement, run: Path, n: int, output: Path, seed: int
) -> dict[str, Any]:
    refuse_foreign_page(output.with_suffix(".html"))  # before anything is written
    drawn = judgement.write_audit(output, n, seed)
    page = write_audit_page(run, drawn, output)
    return {"table": str(output), "page": page and str(page), "n_rows": len(drawn), "seed": seed}


def _show(judgement: Judgement) -> None:
    """What was labelled, the verdict, and the gain with its bounds."""
    total, (won, lost, neither) = len(judgement.disagreements), judgement.tally
    share, labelled = console.percent(total / judgement.n_images), won + lost + neither
    console.say(
        f"{judgement.run}, {order_name(judgement.order)}: the adapted and the base answer differ\n"
        f"on {total:,} of {judgement.n_images:,} images ({share} %), {labelled:,} of them labelled"
    )
    if judgement.n_agreements:
        console.say(
            f"not used: {console.count(judgement.n_agreements, 'label')} of images on which both "
            "agree; an audit of another\nrun or order is no random draw from this one"
        )
    console.say(judgement.sentence, bold=True, always=True)
    if labelled:
        _show_numbers(judgement)
    if judgement.has_truth and not labelled:
        console.say("this stream has labels: marc run and marc compare give exact numbers")


def _show_numbers(judgement: Judgement) -> None:
    """What the verdict rests on, and the gain with its bounds."""
    gain, (won, lost, neither) = judgement.gain, judgement.tally
    helps, harms = (console.p_value(each / math.log(10)) for each in judgement.log_e)
    console.say(
        f"right: adapted {won:,}, base {lost:,}, neither {neither:,}; evidence that it helps "
        f"{helps},\nthat it harms {harms}, enough: {1 / judgement.alpha:.3g}"
    )
    ends = console.interval([gain.low, gain.high]) if gain else ""
    sure = f"{100 * (1 - 2 * judgement.alpha):.3g} % {ends}"
    how = sure if judgement.left else "exactly: all are labelled"
    console.say(f"gain on these images {console.points(gain and gain.estimate)} points, {how}")
    if judgement.left:
        needed = judgement.labels_needed
        about = f"about {needed} of the {judgement.left} left" if needed else "cannot be said"
        if needed != 0:
            console.say(f"labels still needed: {about}")
        console.say(
            f"helps and harms are each said wrongly with at most {100 * judgement.alpha:.3g} %, "
            "however often one\nlooks, if chance alone chose what was labelled (--audit)"
        )
