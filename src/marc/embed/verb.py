"""The verb: a source of pictures and some encoders in, a filled store and its stream out."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, cast

from marc.embed.changes import Estimate
from marc.embed.fill import Embedded
from marc.embed.fill import embed as embed_here
from marc.embed.plan import EmbeddingPlan, EncoderSpec, Jobs
from marc.embed.store import FeatureStore
from marc.embed.workers import ViewPlan, Workers
from marc.encoders import Encoder, TextEncoder, check_encoder
from marc.errors import MarcError, integer
from marc.pictures import open_images, with_class_names
from marc.pictures.views import read_recipe
from marc.replay.evidence import n_threads
from marc.stream import Stream
from marc.types import OnProgress

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
    def stream(self) -> Stream:
        """The stream of the store; it needs a predictor."""
        if self.done is None:
            raise MarcError("nothing was embedded", got="dry_run=True", hint="dry_run=False")
        return FeatureStore(self.plan.store).stream()


def embed_pictures(
    source: str | os.PathLike[str],
    encoders: Sequence[str | Encoder] = (),
    *,
    predictor: str | TextEncoder = "",
    prompts: Sequence[str] = (),
    class_names: str | os.PathLike[str] = "",
    views: int = 1,
    recipe: str = ViewPlan.RECIPE,
    view_seed: int = 0,
    root: str | os.PathLike[str] = "",
    weights: Sequence[str] = (),
    offline: bool = False,
    device: str = "auto",
    precision: str = "auto",
    batch: int = 0,
    workers: int = -1,
    chunk: int = 0,
    ray: bool = False,
    output: str | os.PathLike[str] = "",
    force: bool = False,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
) -> _Embedding:
    """Fill a feature store with the features of pictures. Killed at any moment, it goes on.

    Args:
        source: pictures, for example `folder/DIR`, `csv/FILE` or `imagenet-a`.
        encoders: retrieval encoders: names, or objects with a `card` and `encode`.
        predictor: the zero-shot classifier, or `none`; `clip-b16-text`, or what the store has.
        prompts: prompt sets by name or file, pooled; those of the data set by default.
        class_names: a file with what to call the classes.
        views: views of each picture, the plain one included.
        recipe: how views are drawn if there are several: VA to VD.
        view_seed: the seed of the views.
        root: the folder of a named data set.
        weights: weights on disk: a file, a folder with NAME.safetensors, or NAME=PATH.
        offline: never touch the network.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        precision: `auto`, `float32` or `bfloat16`.
        batch: pictures in a batch; 0 chooses by device.
        workers: processes that read pictures, one per core for -1; with `ray` one per GPU, or two.
        chunk: pictures in a chunk; 256, or what the store has.
        ray: spread the chunks over Ray workers.
        output: folder of the store; `stores/SOURCE` by default.
        force: replace what was made differently; if nothing was, compute it again.
        dry_run: estimate what would be done, and stop.
        on_progress: called with how far the work has come.
    """
    encoders = [encoders] if isinstance(encoders, str) else encoders
    source, report = os.fspath(source), on_progress or (lambda what, done, total: None)
    images = open_images(source, Path(root).expanduser() if root else None)
    if class_names:
        images = with_class_names(images, Path(class_names).expanduser())
    store = Path(output).expanduser() if output else FeatureStore.default_path(source)
    integer("views", views, 1)
    for_predictor = [views > 1, recipe != ViewPlan.RECIPE, view_seed, prompts, class_names]
    encoders = [each if isinstance(each, str) else check_encoder(each) for each in encoders]
    chosen = _choose_predictor(store, predictor, needed=any(for_predictor))
    names = [_name(each) for each in (*([chosen] if chosen else []), *encoders)]

    def spec(encoder: str | Encoder) -> EncoderSpec:
        if not isinstance(encoder, str):
            return EncoderSpec(_name(encoder), given=encoder)
        found = EncoderSpec.weights_of(encoder, [*weights], names)
        return EncoderSpec(encoder, found, offline, device, precision, batch)

    plan = EmbeddingPlan(
        images=images,
        store=store,
        spaces=tuple(map(spec, encoders)),
        predictor=spec(chosen) if chosen else None,
        prompts=tuple(prompts),
        views=ViewPlan(read_recipe(recipe).id, views, view_seed) if views > 1 else ViewPlan(),
        chunk=integer("chunk", chunk, 0) or _stored_chunk(store),
    )
    n_readers = min(n_threads(), len(images) // _FEW)  # none for a handful of pictures
    n_readers = workers if integer("workers", workers, -1) != -1 else n_readers
    with Workers(0 if ray else n_readers) as pool:
        report("loading the encoders", 0, 1)
        jobs = plan.load()
        report("loading the encoders", 1, 1)
        if dry_run:
            return _Embedding(plan, jobs, None, Estimate.of(plan, jobs, n_readers, force=force))
        if ray:
            from marc.embed.ray import embed_with_ray

            done = embed_with_ray(plan, jobs, max(0, workers), force=force, on_progress=report)
        else:
            done = embed_here(plan, jobs, pool, force=force, on_progress=report)
    return _Embedding(plan, jobs, done, None)


def _stream_of(work: Callable[_Options, _Embedding]) -> Callable[_Options, Stream]:
    @functools.wraps(work)
    def verb(*args: _Options.args, **options: _Options.kwargs) -> Stream:
        return work(*args, **options).stream

    return verb


embed = _stream_of(embed_pictures)
"""`marc.embed`: what `embed_pictures` does, for the stream of the store."""


def _name(encoder: str | Encoder) -> str:
    return encoder if isinstance(encoder, str) else encoder.card.name


def _choose_predictor(
    store: Path, predictor: str | TextEncoder, *, needed: bool
) -> str | TextEncoder | None:
    """What predicts: none if the store has a predictor already.

    `needed`: whether there are options that only a predictor heeds.
    """
    has_one = FeatureStore.exists(store) and FeatureStore(store).is_complete(FeatureStore.VIEWS)
    chosen = predictor or ("none" if has_one else EmbeddingPlan.PREDICTOR)
    if not isinstance(chosen, str):
        return cast(TextEncoder, check_encoder(chosen))
    if chosen != "none":
        return chosen
    if needed:
        known = (
            FeatureStore(store).attributes(FeatureStore.VIEWS)["card"]["name"]
            if has_one
            else EmbeddingPlan.PREDICTOR
        )
        raise MarcError(
            "--views, --recipe, --view-seed, --prompts and --class-names are for a predictor",
            got="no predictor to embed with" + (f": the store has {known}" if has_one else ""),
            hint=f"--predictor {known}, or none of these options",
        )
    return None


def _stored_chunk(store: Path) -> int:
    return FeatureStore(store).chunk if FeatureStore.exists(store) else FeatureStore.CHUNK
