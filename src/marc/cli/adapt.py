"""`marc adapt`: a folder of pictures in, answers and a page out."""

from __future__ import annotations

from shlex import quote
from typing import Any

import typer

from marc.cli import console
from marc.cli._options import CLASS_NAMES, DEVICE, OFFLINE, ROOT, WEIGHTS, class_list
from marc.cli._tracking import TRACK, log_to, open_tracker
from marc.cli.console import count
from marc.embed.estimate import Estimate
from marc.embed.opening import IN_ANSWERS
from marc.embed.plan import EmbeddingPlan
from marc.embed.store import FeatureStore
from marc.report.text import duration
from marc.session.adapt import Adapted
from marc.session.adapt import adapt as adapt_pictures


def adapt(
    source: str = typer.Argument(help="A folder of pictures, or any other source of them."),
    classes: str = typer.Option("", help='What may be on them: "cat,dog,coffee cup".'),
    class_names: str = CLASS_NAMES,
    encoder: list[str] = typer.Option(
        ["dinov2-b"], help="Encoders whose spaces the memory is read in: marc list encoders."
    ),
    predictor: str = typer.Option(
        "", help=f"The zero-shot classifier; {EmbeddingPlan.PREDICTOR} by default."
    ),
    prompts: list[str] = typer.Option([], help="Prompt sets by name or file, pooled."),
    order: str = typer.Option(
        "stored", help="How the pictures come: stored, or by the time of their files."
    ),
    root: str = ROOT,
    weights: list[str] = WEIGHTS,
    offline: bool = OFFLINE,
    device: str = DEVICE,
    track: str | None = TRACK,
    output: str = typer.Option("", "-o", "--output", help="The folder; adapted/NAME by default."),
    force: bool = typer.Option(
        False, "--force", help="Replace other answers there; features that are right are kept."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what it would take, and stop."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Answer every picture of a folder, without labels, and show what the memory saw.

    Sub-folders are the classes if none are given; those that are called like one are labels.

    Example:  marc adapt photos/ --classes "cat,dog,coffee cup"

    Without a network:  marc adapt photos/ --class-names names.txt --weights models --offline
    """
    tracker = open_tracker(track, dry_run=dry_run)
    with console.notes(), console.progress() as bar:
        found = adapt_pictures(
            source,
            class_list(classes, class_names),
            predictor=predictor,
            encoders=encoder,
            prompts=prompts,
            root=root,
            weights=weights,
            offline=offline,
            device=device,
            order=order,
            output=output,
            force=force,
            dry_run=dry_run,
            on_progress=bar.report,
            on_estimate=None if json else lambda each: console.say(_cost(each), err=True),
        )
    if isinstance(found, Estimate):
        if json:
            console.as_json("estimate", {**vars(found), "seconds": found.seconds})
        else:
            console.say(_cost(found))
            for note in found.notes:
                console.say(f"note: {note}")
    elif json:
        tracked = log_to(tracker, found.folder / "run", json=True)
        console.as_json("adapt", {**_as_data(found), **tracked})
    else:
        _show(found)
        log_to(tracker, found.folder / "run", json=False)


def _cost(estimate: Estimate) -> str:
    """What embedding will take, in a line."""
    parts = {"reading": estimate.prepare_seconds, **estimate.encode_seconds}
    each = ", ".join(f"{name.rpartition('/')[2]} {duration(s)}" for name, s in parts.items())
    pictures = count(estimate.n_images, "picture")
    return f"{pictures}: about {duration(estimate.seconds)} to embed ({each})"


def _show(found: Adapted) -> None:
    run, n_images = found.run, len(found.run.order)
    for note in found.notes:
        console.say(f"note: {note}")
    if found.unreadable:
        where = found.folder / IN_ANSWERS / FeatureStore.QUARANTINE
        console.say(f"could not be read: {count(found.unreadable, 'picture')}; see {where}")
    console.say(f"{count(n_images, 'picture')}, {len(found.class_names)} classes", bold=True)
    trusts = ", ".join(f"{space} {value:.2f}" for space, value in found.trust.items())
    console.say(f"trust in the memory, 0 to 1, without labels: {trusts or 'no other space'}")
    if run.method["method"] == "zero-shot":
        console.say("no space agrees with the predictor where it doubts: its answers stay")
    else:
        part = f"{found.n_changed} of {n_images} answers"
        console.say(f"the memory changed {part} ({100 * found.n_changed / n_images:.1f} %)")
    if run.certainty is not None and run.base_certainty is not None:
        means = (float(each.confidence.mean()) for each in (run.certainty, run.base_certainty))
        console.say("mean confidence {:.3f}, without memory {:.3f}".format(*means))
    if run.labels is not None:
        console.say(
            f"sub-folders are labels: {100 * run.accuracy:.2f} % right, without memory "
            f"{100 * run.base_accuracy:.2f} %: {console.points(run.gain)} points, settings fixed"
        )
    console.say(f"answers: {found.answers}{' (already there)' if found.was_there else ''}")
    console.say(f"page:    {found.page}")
    if run.labels is None:
        run_folder = quote(str(found.folder / "run"))
        console.say(f"next: marc judge {run_folder} --audit 50   is it worth it? label 50")


def _as_data(found: Adapted) -> dict[str, Any]:
    run = found.run
    known = ("accuracy", "base_accuracy", "gain") if run.labels is not None else ()
    return {
        "folder": str(found.folder),
        "answers": str(found.answers),
        "page": str(found.page),
        "was_there": found.was_there,
        "method": run.method,
        "selection": "fixed",
        "n_images": len(run.order),
        "n_classes": len(found.class_names),
        "n_changed": found.n_changed,
        "n_unreadable": found.unreadable,
        "trust": dict(found.trust),
        "notes": list(found.notes),
        **{name: getattr(run, name) for name in known},
    }
