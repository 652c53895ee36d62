"""`marc embed`: pictures in, a feature store out."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

import typer

from marc.cli import console
from marc.cli.console import count
from marc.embed.estimate import Estimate, estimate
from marc.embed.fill import QUARANTINE, Embedded, embed
from marc.embed.plan import EmbeddingPlan, EncoderSpec, Jobs, load_jobs
from marc.embed.store import CHUNK, FeatureStore, is_store
from marc.embed.workers import ViewPlan, Workers
from marc.errors import MarcError, integer
from marc.pictures import open_images, with_class_names
from marc.pictures.views import read_recipe
from marc.replay.evidence import n_threads
from marc.report.text import duration
from marc.sources import default_store

_PREDICTOR, _RECIPE = "clip-b16-text", "VC"
_FEW = 64  # pictures that are read sooner than a process starts


def embed_pictures(
    source: str = typer.Argument(help="Pictures: folder/DIR, csv/FILE, imagenet-a, ..."),
    encoder: list[str] = typer.Option([], help="Retrieval encoders: marc list encoders."),
    predictor: str = typer.Option(
        "", help=f"The zero-shot classifier, or none; {_PREDICTOR}, or what the store has."
    ),
    prompts: list[str] = typer.Option(
        [], help="Prompt sets by name or file, pooled; those of the data set by default."
    ),
    class_names: str = typer.Option("", help="A file with what to call the classes."),
    views: int = typer.Option(1, help="Views of each picture, the plain one included."),
    recipe: str = typer.Option(_RECIPE, help="How views are drawn if there are several: VA to VD."),
    view_seed: int = typer.Option(0, help="The seed of the views."),
    root: str = typer.Option("", help="Where a named data set lies."),
    weights: list[str] = typer.Option(
        [], help="Weights on disk: a file, a folder with NAME.safetensors, or NAME=PATH."
    ),
    offline: bool = typer.Option(False, "--offline", help="Never touch the network."),
    device: str = typer.Option("auto", help="auto, cpu, cuda or cuda:N."),
    precision: str = typer.Option("auto", help="auto, float32 or bfloat16."),
    batch: int = typer.Option(0, help="Pictures in a batch; 0 chooses by device."),
    workers: int = typer.Option(
        -1, help="Processes that read pictures, one a core; with --ray: one a GPU, or two."
    ),
    chunk: int = typer.Option(0, help=f"Pictures in a chunk; {CHUNK}, or what the store has."),
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
    """
    images = open_images(source, Path(root).expanduser() if root else None)
    if class_names:
        images = with_class_names(images, Path(class_names).expanduser())
    store = Path(output).expanduser() if output else default_store(source)
    integer("views", views, 1)
    for_predictor = [views > 1, recipe != _RECIPE, view_seed, prompts, class_names]
    names, zero_shot = _choose(store, encoder, predictor, wanted=any(for_predictor))
    specs = {
        name: EncoderSpec(name, weights_of(name, weights, names), offline, device, precision, batch)
        for name in names
    }
    plan = EmbeddingPlan(
        images=images,
        store=store,
        spaces=tuple(specs[name] for name in encoder),
        predictor=specs.get(zero_shot),
        prompts=tuple(prompts),
        views=ViewPlan(read_recipe(recipe).id, views, view_seed) if views > 1 else ViewPlan(),
        chunk=integer("chunk", chunk, 0) or _stored_chunk(store),
    )
    n_readers = _check_workers(workers, len(images))
    with console.progress() as bar, Workers(0 if ray else n_readers) as pool:
        report = console.reporter(bar)
        report("loading the encoders", 0, 1)
        jobs = load_jobs(plan)
        report("loading the encoders", 1, 1)
        if dry_run:
            cost = estimate(plan, jobs, n_readers, force=force)
        elif ray:
            from marc.embed.ray import embed_with_ray

            done = embed_with_ray(plan, jobs, max(0, workers), force=force, on_progress=report)
        else:
            done = embed(plan, jobs, pool, force=force, on_progress=report)
    if dry_run:
        _tell_cost(plan, cost, json=json)
    else:
        _tell(plan, jobs, done, json=json)


def _choose(
    store: Path, encoders: list[str], predictor: str, *, wanted: bool
) -> tuple[list[str], str]:
    """All encoders by name, and which of them predicts: none if the store has one already.

    `wanted`: whether there are options that only a predictor heeds.
    """
    has_one = is_store(store) and FeatureStore(store).is_complete(FeatureStore.VIEWS)
    chosen = predictor or ("none" if has_one else _PREDICTOR)
    if chosen == "none" and wanted:
        known = (
            FeatureStore(store).attributes(FeatureStore.VIEWS)["card"]["name"]
            if has_one
            else _PREDICTOR
        )
        raise MarcError(
            "--views, --recipe, --view-seed, --prompts and --class-names are for a predictor",
            got="no predictor to embed with" + (f": the store has {known}" if has_one else ""),
            hint=f"--predictor {known}, or none of these options",
        )
    names = [*encoders] if chosen == "none" else [chosen, *encoders]
    return names, chosen


def _stored_chunk(store: Path) -> int:
    """The chunk of a store that is there, or the usual one."""
    return FeatureStore(store).chunk if is_store(store) else CHUNK


def _check_workers(asked: int, n_images: int) -> int:
    """How many processes read: one a core, but none for a handful of pictures."""
    usual = min(n_threads(), n_images // _FEW)
    return usual if integer("workers", asked, -1) == -1 else asked


def weights_of(name: str, given: list[str], names: list[str]) -> str | None:
    """Where the weights of an encoder lie, if anybody said; a folder may hold those of several."""
    named = [each.partition("=") for each in given]
    for other, _, path in named:
        if other == name:
            return path
    plain = [each for each in given if each.partition("=")[0] not in names]
    loaded = [other for other in names if not other.startswith(("mini:", "onnx:"))]
    if plain and not loaded:
        raise MarcError("no encoder here takes weights", got=", ".join(plain))
    if not plain or name not in loaded:
        return None  # those not loaded bring their weights
    if len(plain) > 1 or (len(loaded) > 1 and not Path(plain[0]).is_dir()):
        raise MarcError(
            f"it is not clear which weights are those of {name}",
            got=", ".join(plain),
            allowed=f"one folder with {name}.safetensors or {name}/ in it",
            hint=f"--weights {name}=PATH",
        )
    return plain[0]


def _tell_cost(plan: EmbeddingPlan, cost: Estimate, *, json: bool) -> None:
    """What would be done."""
    if json:
        console.as_json({"store": str(plan.store), **vars(cost), "seconds": cost.seconds})
        return
    _heading(plan)
    _tell_list(plan)
    rows = [
        [name, str(done), str(left), duration(cost.encode_seconds.get(name, 0.0))]
        for name, (done, left) in cost.chunks.items()
    ]
    console.table(["array", "chunks done", "to do", "encoding"], rows)
    console.say(
        f"to write: {cost.n_bytes / 1e6:,.1f} MB; reading and cropping "
        f"{duration(cost.prepare_seconds)}; about {duration(cost.seconds)} in all"
    )


def _tell(plan: EmbeddingPlan, jobs: Jobs, done: Embedded, *, json: bool) -> None:
    """What was done."""
    if json:
        console.as_json(_as_data(plan, jobs, done))
        return
    _heading(plan)
    _tell_list(plan)
    rows = [
        [job.array, job.encoder.card.name, " x ".join(map(str, job.shape)), job.encoder.precision]
        for job in jobs
    ]
    console.table(["array", "encoder", "features", "computed in"], rows, numbers=False)
    for note in done.notes:
        console.say(f"note: {note}")
    if done.quarantined:
        told = console.tally(reason for _, reason in done.quarantined)
        bad, where = count(len(done.quarantined), "picture"), plan.store / QUARANTINE
        console.say(f"quarantined: {bad} ({told}); see {where}")
    made = [count(done.n_chunks, "chunk") + " of features"] if done.n_chunks else []
    made += [f"prototypes of {done.n_classes} classes"] if done.n_classes else []
    console.say(f"computed: {', '.join(made)}" if made else "everything was there already")
    if len(done.quarantined) == done.n_images:
        raise MarcError("no picture could be read", got=plan.images.name)
    source = plan.images.name
    source = quote(source if plan.store == default_store(source) else f"store/{plan.store}")
    can_predict = FeatureStore(plan.store).is_complete(FeatureStore.VIEWS)
    console.say(f"next: marc select {source}" if can_predict else "next: add a --predictor")


def _heading(plan: EmbeddingPlan) -> None:
    """Which pictures go where."""
    pictures = count(len(plan.images), "picture")
    console.heading(f"{plan.images.name}: {pictures} -> store/{plan.store}")


def _tell_list(plan: EmbeddingPlan) -> None:
    """What was found at the source."""
    images = plan.images
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
