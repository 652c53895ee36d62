"""The verb: a source of pictures and some encoders in, a filled store and its stream out."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ParamSpec, cast

from marc.embed.estimate import Estimate
from marc.embed.fill import Embedded
from marc.embed.fill import embed as embed_here
from marc.embed.plan import EmbeddingPlan, EncoderSpec, Jobs
from marc.embed.store import FeatureStore
from marc.embed.workers import ViewPlan, Workers
from marc.encoders import Encoder, TextEncoder, check_encoder
from marc.encoders.cards import LARGEST_BATCH, Loading
from marc.encoders.torch_runtime import import_libraries
from marc.errors import MarcError, instance, integer, one_of
from marc.files import user_path
from marc.pictures import ImageSet, open_images, with_class_names
from marc.pictures.crops import Crop
from marc.pictures.tables import with_generated
from marc.pictures.views import MOST_VIEWS, read_recipe
from marc.replay.evidence import n_threads
from marc.stream import Stream
from marc.types import OnProgress

_MOST_WORKERS = 1024
_FEW = 64  # pictures that are read sooner than a process starts
_Options = ParamSpec("_Options")


@dataclass(frozen=True)
class _Embedding:
    """What was done, or with `dry_run` what would be."""

    plan: EmbeddingPlan
    jobs: Jobs
    done: Embedded | None
    estimate: Estimate | None

    @property
    def outcome(self) -> Stream | Embedded | Estimate:
        """The stream of the store; what was done if no predictor makes it one; the estimate."""
        if self.done is None:
            return cast(Estimate, self.estimate)
        store = FeatureStore(self.plan.store)
        whole = (store.is_complete(each) for each in (store.VIEWS, store.PROTOTYPES))
        return store.stream() if all(whole) else self.done


def embed_pictures(
    source: str | os.PathLike[str] | ImageSet,
    encoders: Sequence[str | Encoder] = (),
    *,
    predictor: str | TextEncoder = "",
    prompts: Sequence[str] = (),
    class_names: str | os.PathLike[str] | Sequence[str] = "",
    views: int = 1,
    recipe: str = ViewPlan.RECIPE,
    view_seed: int = 0,
    generated: str | os.PathLike[str] = "",
    root: str | os.PathLike[str] = "",
    weights: Sequence[str] = (),
    offline: bool = False,
    device: str = "auto",
    precision: str = "auto",
    compiled: bool = False,
    resize: str = "exact",
    batch: int = 0,
    workers: int = -1,
    chunk: int = 0,
    ray: bool = False,
    output: str | os.PathLike[str] = "",
    force: bool = False,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
    on_estimate: Callable[[Estimate], None] | None = None,
) -> _Embedding:
    """Fill a feature store with the features of pictures. Killed at any moment, it goes on.

    `marc.embed` gives the stream of the store; without a predictor, which a stream needs, what was
    done; and with `dry_run` the estimate.

    Args:
        source: pictures, for example `folder/DIR`, `csv/FILE` or `imagenet-a`; or a list of them.
        encoders: retrieval encoders: names, or objects with a `card` and `encode`.
        predictor: the zero-shot classifier, or `none`; `clip-b16-text`, or what the store has.
        prompts: prompt sets by name or file, pooled; those of the data set by default.
        class_names: what to call the classes, as a list, or as a file with one per line.
        views: views of each picture, the plain one included.
        recipe: how views are drawn if there are several: VA to VD.
        view_seed: the seed of the views.
        generated: a table `id,path` of pictures that a model of yours made from each picture, as
            many of each: the predictor's last views, for DiffTPT.
        root: the folder of a named data set.
        weights: weights on disk: a file, a folder with NAME.safetensors, or NAME=PATH.
        offline: never touch the network.
        device: `auto`, `cpu`, `cuda`, `cuda:N` or `mps`.
        precision: `auto`, `float32`, `bfloat16` or `pure-bfloat16`.
        compiled: let torch compile the encoders, on a GPU of CUDA.
        resize: `exact`, PIL's, or `fast`, torch's: a few values of a square differ by one level.
        batch: pictures in a batch; 0 chooses by device.
        workers: processes that read pictures, one per core for -1; with `ray` one per GPU, or two.
        chunk: pictures in a chunk; 256, or what the store has.
        ray: spread the chunks over Ray workers.
        output: folder of the store; `stores/SOURCE` by default.
        force: replace what was made differently; if nothing was, compute it again.
        dry_run: estimate what would be done, and stop.
        on_progress: called with how far the work has come.
        on_estimate: called before work that may take a while, with what it will take.
    """
    instance("source", source, str, os.PathLike, ImageSet, hint='marc.embed("folder/photos")')
    encoders = [encoders] if isinstance(encoders, str) else encoders
    instance("encoders", encoders, Sequence, hint='["dinov2-b"]')
    _check_numbers(views=views, view_seed=view_seed, batch=batch, workers=workers, chunk=chunk)
    if one_of("way to compute a resize", resize, Crop.WAYS) == "fast":
        import_libraries("torch")
    if not ray:  # also for encoders that run on the CPU whatever is asked for
        _check_device(device)
    report = on_progress or (lambda what, done, total: None)
    images = source
    report("listing the pictures", 0, 1)
    if not isinstance(images, ImageSet):
        images = open_images(os.fspath(images), user_path(root) if root else None)
    if class_names:
        is_file = isinstance(class_names, str | os.PathLike)
        names = user_path(cast(str, class_names)) if is_file else cast(Sequence[str], class_names)
        images = with_class_names(images, names)
    n_generated, digest = 0, ""
    if generated:
        images, n_generated, digest = with_generated(images, user_path(generated))
    drawn = (read_recipe(recipe).id, views, view_seed) if views > 1 else ("V0", 1, 0)
    seen = ViewPlan(drawn[0], drawn[1] + n_generated, drawn[2], n_generated, digest)
    store = user_path(output) if output else FeatureStore.default_path(images.name)
    for_predictor = [views > 1, recipe != ViewPlan.RECIPE, view_seed, prompts, class_names]
    for_predictor.append(generated)
    chosen = _choose_predictor(_opened(store, force=force), predictor, needed=any(for_predictor))
    options = {"offline": offline, "device": device, "precision": precision, "batch": batch}
    options["compiled"] = compiled
    every = EncoderSpec.of_all([*([chosen] if chosen else []), *encoders], weights, **options)

    plan = EmbeddingPlan(
        images=images,
        store=store,
        spaces=tuple(every[1:] if chosen else every),
        predictor=every[0] if chosen else None,
        prompts=tuple(prompts),
        views=seen,
        chunk=chunk or getattr(_opened(store, force=force), "chunk", FeatureStore.CHUNK),
        resize=resize,
    )
    n_readers = min(n_threads(), len(images) // _FEW)  # none for a handful of pictures
    n_readers = workers if workers != -1 else n_readers
    with Workers(0 if ray else n_readers) as pool:
        jobs = plan.load(fetch=not dry_run, on_progress=report)
        if dry_run:
            return _Embedding(plan, jobs, None, Estimate.of(plan, jobs, n_readers, force=force))
        if on_estimate is not None and len(images) > _FEW:
            on_estimate(Estimate.of(plan, jobs, n_readers, force=force))
        if ray:
            from marc.embed.ray import embed_with_ray

            done = embed_with_ray(plan, jobs, max(0, workers), force=force, on_progress=report)
        else:
            done = embed_here(plan, jobs, pool, force=force, on_progress=report)
    said = [
        note
        for spec, job in zip(every, jobs, strict=True)
        for note in spec.notes_on(job.encoder.card)
    ]
    return _Embedding(plan, jobs, replace(done, notes=(*said, *done.notes)), None)


def _outcome_of(work: Callable[_Options, _Embedding]) -> Callable[_Options, Stream]:
    @functools.wraps(work)
    def verb(*args: _Options.args, **options: _Options.kwargs) -> Stream:
        # the usual outcome; who asks for an estimate, or for no predictor, knows what comes
        return cast(Stream, work(*args, **options).outcome)

    return verb


embed = _outcome_of(embed_pictures)
"""`marc.embed`: what `embed_pictures` does, for what comes of it."""


def _check_numbers(*, views: int, view_seed: int, batch: int, workers: int, chunk: int) -> None:
    """Refuse at once what no machine could do, before pictures are listed."""
    integer("views", views, 1, MOST_VIEWS)
    integer("view_seed", view_seed, 0)
    integer("batch", batch, 0, LARGEST_BATCH)
    integer("workers", workers, -1, _MOST_WORKERS)
    integer("chunk", chunk, 0, FeatureStore.LARGEST_CHUNK)


def _check_device(device: str) -> None:
    if Loading(device=device).device not in ("auto", "cpu"):
        from marc.encoders.torch_runtime import choose_device

        import_libraries("torch")
        choose_device(device)


def _opened(path: Path, *, force: bool) -> FeatureStore | None:
    """The store, if there is one; a damaged one is none if it is replaced anyway."""
    if not FeatureStore.exists(path):
        return None
    try:
        store = FeatureStore(path)
        store.is_complete(store.VIEWS)
        return store
    except MarcError:
        if not force:
            raise
        return None


def _choose_predictor(
    store: FeatureStore | None, predictor: str | TextEncoder, *, needed: bool
) -> str | TextEncoder | None:
    """What predicts: none if the store has a predictor already.

    `needed`: whether there are options that only a predictor heeds.
    """
    has_one = store is not None and store.is_complete(store.VIEWS)
    chosen = predictor or ("none" if has_one else EmbeddingPlan.PREDICTOR)
    if not isinstance(chosen, str):
        return cast(TextEncoder, check_encoder(chosen))
    if chosen != "none":
        return chosen
    if needed:
        known = (
            store.attributes(store.VIEWS)["card"]["name"]
            if store is not None and has_one
            else EmbeddingPlan.PREDICTOR
        )
        raise MarcError(
            "--views, --recipe, --view-seed, --generated, --prompts and --class-names are for a "
            "predictor",
            got="no predictor to embed with" + (f": the store has {known}" if has_one else ""),
            hint=f"--predictor {known}, or none of these options",
        )
    return None
