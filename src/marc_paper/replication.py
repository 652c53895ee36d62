"""What it takes to replicate the paper: weights, speed of every encoder, gigabytes and hours.

    python -m marc_paper.replication --device cuda
    python -m marc_paper.replication --encoders dinov2-s resnet50 --images 8 --files 2 --views 2

Weights are random (speed does not depend on their values) but otherwise as published: the same
architecture, classifier included, in a file that is loaded by the same code as a trained one. One
file at a time is written and removed again. Data sets and encoders are those of the plan
`marc study --paper`. Prints three tables in Markdown; docs/replicate.md holds them.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from marc.embed.fill import fill
from marc.embed.plan import EmbeddingPlan, EncoderSpec, Job, Jobs
from marc.embed.store import FeatureStore
from marc.embed.workers import ViewPlan, Workers
from marc.encoders import encoder_card
from marc.errors import integer, one_of
from marc.pictures import NAMED_SETS, ImageSet, open_images
from marc_paper.markdown import table
from marc_paper.study.plan import PLANS, Plan, read_plan

_WIDTH, _HEIGHT, _N_DISTINCT = 500, 375, 64  # of the JPEG files, and how many differ
_DOWNLOADS = {
    "imagenet-a": 0.69,
    "imagenet-v2": 1.26,
    "imagenet-r": 2.19,
    "imagenet-sketch": 7.6,
    "imagenet-val": 6.74,
    "caltech101": 0.13,
    "dtd": 0.63,
    "eurosat": 0.09,
    "flowers102": 0.34,
    "oxford-pets": 0.79,
    "ucf101": 0.3,
    "fgvc-aircraft": 2.77,
    "food101": 5.00,
}
"""Gigabytes of the archives as they are published, about; all pictures, not only those tested."""


@dataclass(frozen=True)
class _Measured:
    """An encoder: the size of its weights, and its speed."""

    parameters: int
    n_bytes: int
    images_per_second: float
    """From decoded squares in memory."""
    views_per_second: float | None = None
    """Of a predictor, from files: read, decoded, cropped and encoded."""


def _encoders_of(plan: Plan) -> list[str]:
    """Predictors and spaces of a plan, each once."""
    predictors = [entry.predictor or plan.predictor for entry in plan.streams.values()]
    return list(dict.fromkeys([*predictors, *plan.spaces.all]))


def _store_bytes(n_images: int, n_views: int, predictor_dim: int, space_dims: Sequence[int]) -> int:
    """Bytes of the features in a store: views in float16, spaces in float32.

    >>> _store_bytes(10, 64, 512, [768, 384])
    701440
    """
    return n_images * (2 * n_views * predictor_dim + 4 * sum(space_dims))


def _embedding_hours(
    n_images: int, n_views: int, predictor: _Measured, spaces: Sequence[_Measured]
) -> float:
    """Hours in which the encoders see a data set one after the other.

    Of the predictor's views as many as its pipeline and its encoder both allow.
    """
    from_files = predictor.views_per_second or math.inf
    viewed = min(predictor.images_per_second, from_files) / n_views
    seconds = n_images / viewed + sum(n_images / space.images_per_second for space in spaces)
    return seconds / 3600


def _encoder_rows(measured: Mapping[str, _Measured]) -> list[list[str]]:
    """Sizes and speeds, and the weights of all together."""
    rows = []
    for name, each in measured.items():
        sizes = [f"{count / 1e6:,.0f}" for count in (each.parameters, each.n_bytes)]
        rows.append([f"`{name}`", *sizes, rate_text(each.images_per_second)])
    total = sum(each.n_bytes for each in measured.values())
    return [*rows, ["all", "", f"{total / 1e6:,.0f}", ""]]


def _view_rows(measured: Mapping[str, _Measured], n_views: int) -> list[list[str]]:
    """Images per second from files, and of the encoder alone, with the measured views."""
    return [
        [f"`{name}`", rate_text(viewed / n_views), rate_text(each.images_per_second / n_views)]
        for name, each in measured.items()
        if (viewed := each.views_per_second) is not None
    ]


def _data_rows(plan: Plan, measured: Mapping[str, _Measured]) -> list[list[str]]:
    """Images, gigabytes and hours of every stream of a plan, then their sums.

    Encoders that were not measured are not counted in the hours. A set that two streams share is
    downloaded once.
    """
    spaces = [measured[space] for space in plan.spaces.all if space in measured]
    dims = [encoder_card(space).dim for space in plan.spaces.all]
    downloads = dict(_DOWNLOADS)
    rows, sums = [], [0.0, 0.0, 0.0]
    for name, entry in plan.streams.items():
        predictor = entry.predictor or plan.predictor
        size = NAMED_SETS[entry.dataset].images, entry.views
        stored = _store_bytes(*size, encoder_card(predictor).dim, dims) / 1e9
        timed = measured.get(predictor)
        hours = _embedding_hours(*size, timed, spaces) if timed else 0.0
        numbers = [downloads.pop(entry.dataset, 0.0), stored, hours]
        sums = [a + b for a, b in zip(sums, numbers, strict=True)]
        rows.append([f"`{name}`", f"{size[0]:,}", str(size[1]), *map(_cell, numbers)])
    return [*rows, ["all", "", "", *map(_cell, sums)]]


def _cell(value: float) -> str:
    return f"{value:,.2f}" if value else ""


def rate_text(each: float) -> str:
    """A rate as a person reads it."""
    return f"{each:,.0f}" if each >= 10 else f"{each:.1f}"


def rate(count: int, work: Callable[[], object]) -> float:
    """Things done per second; the first call warms up."""
    work()
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


def draw_photographs(folder: Path, n_images: int) -> None:
    """JPEG files with the spectrum of photographs (amplitude falls with frequency)."""
    draw = np.random.default_rng(0)
    across, down = np.fft.fftfreq(_WIDTH), np.fft.fftfreq(_HEIGHT)[:, np.newaxis]
    fall = 1 / np.maximum(np.hypot(down, across), 1 / _WIDTH)
    paths = [folder / f"{number % 2}" / f"{number:06}.jpg" for number in range(n_images)]
    for number, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        if number >= _N_DISTINCT:
            path.write_bytes(paths[number % _N_DISTINCT].read_bytes())
            continue
        noise = np.fft.fft2(draw.standard_normal((3, _HEIGHT, _WIDTH)))
        waves = np.fft.ifft2(noise * fall).real
        waves = 128 + 50 * waves / waves.std()
        picture = Image.fromarray(waves.clip(0, 255).astype(np.uint8).transpose(1, 2, 0))
        picture.save(path, quality=90)


def encoder_rates(plan: EmbeddingPlan, jobs: Jobs, n_images: int) -> dict[str, float]:
    """Images per second of each encoder, and of both in turn, from decoded squares in memory."""
    pieces = plan.images.ids[:_N_DISTINCT], plan.images.locations[:_N_DISTINCT]
    squares = Job.pixels(list(jobs), True).prepare(pieces).squares
    many = {crop: np.tile(s, (n_images // len(s) or 1, 1, 1, 1)) for crop, s in squares.items()}
    rates = {}
    for job in jobs:
        pixels, encode = many[job.encoder.card.crop], job.encoder.encode
        rates[job.encoder.card.name] = rate(len(pixels), lambda e=encode, p=pixels: e(p))  # type: ignore[misc]
    rates["both"] = 1 / sum(1 / each for each in rates.values())
    return rates


@contextmanager
def _random_weights(folder: Path, name: str) -> Iterator[tuple[Path, int, int]]:
    """A file like the published one for as long as it is needed, its parameters and bytes."""
    from safetensors.torch import save_file

    from marc.encoders.torch_runtime import import_libraries

    card = encoder_card(name)
    import_libraries(card.library)
    if card.library == "open_clip":
        import open_clip

        model = open_clip.create_model(card.tag.rpartition("/")[0], pretrained=None)
    else:  # with its classifier and at its own size, which the loader takes off and changes
        import timm

        model = timm.create_model(card.tag)
    tensors = {key: value.contiguous().clone() for key, value in model.state_dict().items()}
    path = folder / f"{name}.safetensors"
    try:
        save_file(tensors, path)
        yield path, sum(each.numel() for each in model.parameters()), path.stat().st_size
    finally:
        path.unlink(missing_ok=True)


class _Unwritten:
    """Takes the chunks of a store and forgets them: only what is before the disk is timed."""

    STATUS, CONTENT = FeatureStore.STATUS, FeatureStore.CONTENT

    def __init__(self, n_images: int) -> None:
        self._n_images = n_images

    def rows(self, chunk: int) -> range:
        return range(
            chunk * FeatureStore.CHUNK, min((chunk + 1) * FeatureStore.CHUNK, self._n_images)
        )

    def has(self, name: str, chunk: int) -> bool:
        return False

    def write(self, name: str, chunk: int, values: object) -> None:
        pass


def _views_from_files(job: Job, images: ImageSet, workers: Workers) -> float:
    """Views per second of `marc embed` with one predictor, but for writing the store."""
    store: Any = _Unwritten(len(images))
    work = {chunk: [job] for chunk in range(math.ceil(len(images) / FeatureStore.CHUNK))}
    count = len(images) * job.shape[0]
    return rate(count, lambda: fill(store, images, work, workers, lambda *_: None))


def _measure(
    folder: Path, names: Sequence[str], options: argparse.Namespace
) -> dict[str, _Measured]:
    """Every encoder in turn, and views per second from files of those that predict."""
    photographs = folder / "photographs"
    photographs.mkdir()
    draw_photographs(photographs, options.files)
    images = open_images(f"folder/{photographs}")
    measured = {}
    views = ViewPlan("VC" if options.views > 1 else "V0", options.views, 0)
    with Workers(options.workers) as workers:
        for name in names:
            with _random_weights(folder, name) as (path, parameters, n_bytes):
                spec = EncoderSpec(name, str(path), True, options.device, options.precision)
                encoders = ((), spec) if encoder_card(name).has_text else ((spec,), None)
                plan = EmbeddingPlan(images, folder / "store", *encoders)
                jobs = plan.load()
            speed, viewed = encoder_rates(plan, jobs, options.images)[name], None
            if jobs.predictor is not None:
                viewed = _views_from_files(replace(jobs.predictor, views=views), images, workers)
            measured[name] = _Measured(parameters, n_bytes, speed, viewed)
            from_files = f", {rate_text(viewed)} views/s from files" if viewed else ""
            print(f"{name}: {rate_text(speed)} images/s{from_files}", file=sys.stderr, flush=True)
    return measured


def _report(plan: Plan, measured: Mapping[str, _Measured], options: argparse.Namespace) -> str:
    """The three tables, and what was measured."""
    parts = [
        f"{options.device}, {options.workers} processes that read, {options.precision}; "
        f"{options.images:,} squares per encoder, {options.files:,} JPEG files",
        table(
            ["encoder", "million parameters", "weights, MB", "images/s"], _encoder_rows(measured)
        ),
        table(
            [f"predictor, {options.views} views", "images/s, from files", "the encoder alone"],
            _view_rows(measured, options.views),
        ),
        table(
            ["stream", "images", "views", "download, GB", "store, GB", "embedding, hours"],
            _data_rows(plan, measured),
        ),
    ]
    left_out = [name for name in _encoders_of(plan) if name not in measured]
    if left_out:
        parts.append(f"Hours without those of {', '.join(left_out)}, which were not measured.")
    return "\n\n".join(parts)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--encoders", nargs="*", default=[], help="all of the plan by default")
    parser.add_argument("--images", type=int, default=2048, help="decoded squares of each encoder")
    parser.add_argument("--files", type=int, default=512, help="JPEG files of the view pipeline")
    parser.add_argument("--views", type=int, default=64)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    integer("files", options.files, 2)  # one of each class; a predictor needs two
    logging.disable(logging.WARNING)  # open_clip's, of weights that are random on purpose
    plan = read_plan(PLANS / "paper.toml")
    known = _encoders_of(plan)
    names = [one_of("encoder of the plan", name, known) for name in options.encoders] or known
    with tempfile.TemporaryDirectory() as folder:
        measured = _measure(Path(folder), names, options)
    print(_report(plan, measured, options))


if __name__ == "__main__":
    _main()
