"""`marc export`: a run for the tools that people already use."""

from __future__ import annotations

from pathlib import Path

import typer

from marc.cli import console
from marc.cli.console import count
from marc.report.exchange import FORMATS
from marc.report.export import Exported
from marc.report.export import export as export_run
from marc.types import order_name


def export(
    run: Path = typer.Argument(help="A run folder."),
    to: str = typer.Option(help=f"The format: {', '.join(FORMATS)}."),
    output: str = typer.Option(
        "", "-o", "--output", help="The file or folder; in exports/ by default."
    ),
    order: int | None = typer.Option(
        None, "--order", help="Seed of the order to export, if the run has several; the first."
    ),
    space: list[str] = typer.Option(
        [], help="Of atlas: spaces to draw; those that the run reads by default."
    ),
    pixels: int = typer.Option(
        Exported.PIXELS, help="The longer side of a picture; 0: as large as it is."
    ),
    force: bool = typer.Option(False, "--force", help="Replace what lies there."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Export a run: one row per picture, with both answers and the picture itself.

    Example:  marc export runs/photos --to atlas -o photos.parquet

    A folder for FiftyOne, or for Hugging Face datasets:  marc export runs/photos --to fiftyone

    The answers alone:  marc export runs/photos --to csv
    """
    with console.notes(), console.progress() as bar:
        task = bar.add_task("export", total=None, note="")
        done = export_run(
            run,
            to,
            output,
            order=order,
            spaces=space,
            pixels=pixels,
            force=force,
            progress=lambda step: bar.update(task, description=step),
        )
    if json:
        console.as_json("export", {**vars(done), "path": str(done.path)})
    else:
        _show(done)


def _show(done: Exported) -> None:
    said = [count(done.n_images, "row")]
    if done.n_pictures is not None and done.to not in ("csv", "parquet"):
        said.append(count(done.n_pictures, "picture") if done.n_pictures else "no pictures")
    others = " or ".join(map(str, done.others))
    more = f"; the run has others: --order {others}" if others else ""
    console.say(f"{', '.join(said)}, in the order {order_name(done.order)}{more}")
    console.done(done.path, was_there=done.was_there)
    for command in done.commands:
        console.say(f"open: {command}")
