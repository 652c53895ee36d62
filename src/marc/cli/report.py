"""`marc report`: one HTML page of a run, a sweep, or both."""

from __future__ import annotations

from pathlib import Path

import typer

from marc.cli import console
from marc.report.build import Report
from marc.report.build import report as write_report


def report(
    folders: list[Path] = typer.Argument(help="A run folder, a sweep folder, or one of each."),
    output: Path = typer.Option(Path("report.html"), "-o", "--output", help="The page."),
    against: str | None = typer.Option(
        None, help="Space shown beside the run's; that of lowest pseudo-purity by default."
    ),
    figures: Path | None = typer.Option(None, help="Folder for every figure as SVG, PDF and PNG."),
    queries: int = typer.Option(Report.QUERIES, help="Queries in the explorer, at most."),
    held_out: list[Path] = typer.Option(
        [], "--held-out", help="Sweep folders of other streams on which a weight is chosen."
    ),
    force: bool = typer.Option(False, "--force", help="Replace another report that lies there."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Explain a result on one page that opens in any browser, without a server or a network.

    Example:  marc report runs/photos sweeps/photos -o report.html
    """
    with console.notes(), console.progress() as bar:
        task = bar.add_task("report", total=None, note="")
        written = write_report(
            *folders,
            output=output,
            against=against,
            figures=figures,
            n_queries=queries,
            held_out=held_out,
            force=force,
            progress=lambda step: bar.update(task, description=step),
        )
    story = written.story
    if json:
        data = {
            "page": str(written.path),
            "bytes": written.n_bytes,
            "was_there": written.was_there,
            "title": story.title if story else None,
            "story": list(story.sentences) if story else None,
            "figures": [str(path) for path in written.figures],
        }
        console.as_json("report", data)
        return
    if story is not None:
        console.say(story.title, bold=True)
        console.say(story.text)
    for path in written.figures:
        console.say(f"figure: {path}")
    size = f" ({written.n_bytes / 1e6:.2f} MB)"
    console.done(written.path, was_there=written.was_there, more=size)
