"""`marc embed`: pictures in, a feature store out."""

from __future__ import annotations

from shlex import quote
from typing import Any

import typer

from marc.cli import console
from marc.cli._options import CLASS_NAMES, DEVICE, OFFLINE, ROOT, WEIGHTS, class_list
from marc.cli.console import count
from marc.embed.estimate import Estimate
from marc.embed.fill import Embedded
from marc.embed.plan import EmbeddingPlan, Jobs
from marc.embed.store import FeatureStore
from marc.embed.verb import embed_pictures as embed
from marc.embed.workers import ViewPlan
from marc.errors import MarcError
from marc.report.text import duration


def embed_pictures(
    source: str = typer.Argument(help="Pictures: folder/DIR, csv/FILE, imagenet-a, ..."),
    encoder: list[str] = typer.Option([], help="Retrieval encoders: marc list encoders."),
    predictor: str = typer.Option(
        "",
        help="The zero-shot classifier, or none; "
        f"{EmbeddingPlan.PREDICTOR}, or what the store has.",
    ),
    prompts: list[str] = typer.Option(
        [], help="Prompt sets by name or file, pooled; those of the data set by default."
    ),
    classes: str = typer.Option("", help='What to call the classes: "cat,dog,coffee cup".'),
    class_names: str = CLASS_NAMES,
    views: int = typer.Option(1, help="Views of each picture, the plain one included."),
    recipe: str = typer.Option(
        ViewPlan.RECIPE, help="How views are drawn if there are several: VA to VD."
    ),
    view_seed: int = typer.Option(0, help="The seed of the views."),
    generated: str = typer.Option(
        "", help="A table id,path of pictures that were generated from each: its last views."
    ),
    root: str = ROOT,
    weights: list[str] = WEIGHTS,
    offline: bool = OFFLINE,
    device: str = DEVICE,
    precision: str = typer.Option("auto", help="auto, float32, bfloat16 or pure-bfloat16."),
    compiled: bool = typer.Option(
        False, "--compile", help="Let torch compile the encoders, on a GPU of CUDA."
    ),
    resize: str = typer.Option(
        "exact", help="exact, PIL's; or fast, torch's: a few values differ by one level."
    ),
    batch: int = typer.Option(0, help="Pictures in a batch; 0 chooses by device."),
    workers: int = typer.Option(
        -1, help="Processes that read pictures, one per core; with --ray: one per GPU, or two."
    ),
    chunk: int = typer.Option(
        0, help=f"Pictures in a chunk; {FeatureStore.CHUNK}, or what the store has."
    ),
    ray: bool = typer.Option(False, "--ray", help="Spread the chunks over Ray workers."),
    output: str = typer.Option("", "-o", "--output", help="Folder of the store."),
    force: bool = typer.Option(
        False, "--force", help="Replace what was made otherwise; if nothing was, compute it again."
    ),
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be done, and stop."),
    json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Fill a feature store that every other command reads. Killed at any moment, it goes on.

    Example:  marc embed folder/photos --encoder dinov2-b --class-names names.txt

    Without a network:  marc embed folder/photos --encoder dinov2-b --weights models --offline

    Weights of yours:  marc embed folder/photos --encoder mine=timm:ARCH --weights mine=FILE
    """
    with console.progress() as bar:
        embedding = embed(
            source,
            encoder,
            predictor=predictor,
            prompts=prompts,
            class_names=class_list(classes, class_names),
            views=views,
            recipe=recipe,
            view_seed=view_seed,
            generated=generated,
            root=root,
            weights=weights,
            offline=offline,
            device=device,
            precision=precision,
            compiled=compiled,
            resize=resize,
            batch=batch,
            workers=workers,
            chunk=chunk,
            ray=ray,
            output=output,
            force=force,
            dry_run=dry_run,
            on_progress=bar.report,
        )
    if embedding.estimate is not None:
        _tell_cost(embedding.plan, embedding.estimate, json=json)
    elif embedding.done is not None:
        _tell(embedding.plan, embedding.jobs, embedding.done, json=json)


def _tell_cost(plan: EmbeddingPlan, cost: Estimate, *, json: bool) -> None:
    if json:
        cost_data = {**vars(cost), "seconds": cost.seconds, "dry_run": True}
        console.as_json("embed", {"store": str(plan.store), **cost_data})
        return
    _tell_source(plan)
    rows = [
        [name, str(done), str(left), _encoding(cost, name)]
        for name, (done, left) in cost.chunks.items()
    ]
    console.table(["array", "chunks done", "to do", "encoding"], rows)
    console.say(
        f"to write: {cost.n_bytes / 1e6:,.1f} MB; reading and cropping "
        f"{duration(cost.prepare_seconds)}; about {duration(cost.seconds)} in all"
    )
    for note in cost.notes:
        console.say(f"note: {note}")


def _encoding(cost: Estimate, array: str) -> str:
    if array in cost.unknown:
        return "unknown"
    mark = "~ " if array in cost.guessed else ""
    return mark + duration(cost.encode_seconds.get(array, 0.0))


def _tell(plan: EmbeddingPlan, jobs: Jobs, done: Embedded, *, json: bool) -> None:
    if json:
        console.as_json("embed", _as_data(plan, jobs, done))
        return
    _tell_source(plan)
    rows = [
        [job.array, job.encoder.card.name, " x ".join(map(str, job.shape)), job.encoder.precision]
        for job in jobs
    ]
    console.table(["array", "encoder", "features", "computed in"], rows, numbers=False)
    for note in done.notes:
        console.say(f"note: {note}")
    if done.quarantined:
        told = console.tally(reason for _, reason in done.quarantined)
        bad, where = count(len(done.quarantined), "picture"), plan.store / FeatureStore.QUARANTINE
        console.say(f"quarantined: {bad} ({told}); see {where}")
    made = [count(done.n_chunks, "chunk") + " of features"] if done.n_chunks else []
    made += [f"prototypes of {done.n_classes} classes"] if done.n_classes else []
    console.say(f"computed: {', '.join(made)}" if made else "everything was there already")
    if len(done.quarantined) == done.n_images:
        raise MarcError("no picture could be read", got=plan.images.name)
    images = plan.images.name
    source = quote(
        images if plan.store == FeatureStore.default_path(images) else f"store/{plan.store}"
    )
    if FeatureStore(plan.store).is_complete(FeatureStore.VIEWS):
        console.say(f"next: marc select {source}")
        return
    console.say("features alone: answers, and every method, need a predictor beside them")
    output = "" if plan.store == FeatureStore.default_path(images) else f" -o {plan.store}"
    names = "" if plan.images.class_names else ' --classes "cat,dog,coffee cup"'
    name = f"--predictor {EmbeddingPlan.PREDICTOR}"
    console.say(f"next: marc embed {quote(images)} {name}{names}{output}")


def _tell_source(plan: EmbeddingPlan) -> None:
    images = plan.images
    pictures = count(len(images), "picture")
    console.say(f"{images.name}: {pictures} -> store/{plan.store}", bold=True)
    for note in images.notes:
        console.say(f"note: {note}")
    if images.passed_over:
        told = console.tally(reason for _, reason in images.passed_over)
        first = images.passed_over[0][0]
        files = count(len(images.passed_over), "file")
        console.say(f"passed over: {files} ({told}), for example {first}")


def _as_data(plan: EmbeddingPlan, jobs: Jobs, done: Embedded) -> dict[str, Any]:
    return {
        "store": str(plan.store),
        "n_images": done.n_images,
        "quarantined": [list(each) for each in done.quarantined],
        "passed_over": [list(each) for each in plan.images.passed_over],
        "notes": [*plan.images.notes, *done.notes],
        "chunks_computed": done.n_chunks,
        "arrays": {job.array: job.made for job in jobs},
    }
