"""What it takes to replicate the paper: weights, speed of every encoder, gigabytes and hours.

    python -m benchmarks.replication --device cuda
    python -m benchmarks.replication --encoders dinov2-s resnet50 --images 8 --files 2 --views 2

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.embedding import draw_photographs, encoder_rates, rate, shown
from benchmarks.words import table
from marc.embed.fill import fill
from marc.embed.plan import EmbeddingPlan, EncoderSpec, Job, load_jobs
from marc.embed.store import CHUNK
from marc.embed.workers import ViewPlan, Workers
from marc.encoders import encoder_card
from marc.encoders.published import PREDICTORS
from marc.errors import integer, one_of
from marc.pictures import NAMED_SETS, ImageSet, open_images
from marc_paper.study.plan import PLANS, Plan, read_plan

RECIPE = "VC"
DOWNLOADS = {
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
class Measured:
    """An encoder: the size of its weights, and its speed from decoded squares in memory."""

    parameters: int
    n_bytes: int
    images_per_second: float


@dataclass(frozen=True)
class Rates:
    """Speeds from which hours follow."""

    encoders: Mapping[str, float]
    """Images a second of each encoder, from decoded squares."""
    views: Mapping[str, float]
    """Views a second of each predictor, from files: read, decoded, cropped and encoded."""


def encoders_of(plan: Plan) -> list[str]:
    """Predictors and spaces of a plan, each once."""
    predictors = [entry.predictor or plan.predictor for entry in plan.streams.values()]
    return list(dict.fromkeys([*predictors, *plan.spaces.all]))


def store_bytes(n_images: int, n_views: int, predictor_dim: int, space_dims: Sequence[int]) -> int:
    """Bytes of the features in a store: views in float16, spaces in float32.

    >>> store_bytes(10, 64, 512, [768, 384])
    701440
    """
    return n_images * (2 * n_views * predictor_dim + 4 * sum(space_dims))


def viewed_per_second(n_views: int, encoded: float, from_files: float) -> float:
    """Images a second with several views: what the encoder or the whole pipeline allows.

    Args:
        n_views: views of an image.
        encoded: views a second of the encoder alone.
        from_files: views a second from files, the encoder included.
    """
    return min(encoded, from_files) / n_views


def embedding_hours(
    n_images: int, n_views: int, predictor: str, spaces: Sequence[str], rates: Rates
) -> float:
    """Hours in which the encoders see a data set one after the other."""
    viewed = viewed_per_second(n_views, rates.encoders[predictor], rates.views[predictor])
    seconds = n_images / viewed + sum(n_images / rates.encoders[space] for space in spaces)
    return seconds / 3600


def encoder_rows(measured: Mapping[str, Measured]) -> list[list[str]]:
    """Sizes and speeds, and the weights of all together."""
    rows = []
    for name, each in measured.items():
        sizes = [f"{count / 1e6:,.0f}" for count in (each.parameters, each.n_bytes)]
        rows.append([f"`{name}`", *sizes, shown(each.images_per_second)])
    total = sum(each.n_bytes for each in measured.values())
    return [*rows, ["all", "", f"{total / 1e6:,.0f}", ""]]


def view_rows(rates: Rates, n_views: int) -> list[list[str]]:
    """Images a second from files, and of the encoder alone, with as many views as were measured."""
    return [
        [f"`{name}`", shown(each / n_views), shown(rates.encoders[name] / n_views)]
        for name, each in rates.views.items()
    ]


def data_rows(plan: Plan, rates: Rates) -> list[list[str]]:
    """Images, gigabytes and hours of every stream of a plan, then their sums.

    Encoders without a rate are not counted in the hours. A set that two streams share is
    downloaded once.
    """
    spaces = [space for space in plan.spaces.all if space in rates.encoders]
    dims = [encoder_card(space).dim for space in plan.spaces.all]
    downloads = dict(DOWNLOADS)
    rows, sums = [], [0.0, 0.0, 0.0]
    for name, entry in plan.streams.items():
        predictor = entry.predictor or plan.predictor
        size = NAMED_SETS[entry.dataset].images, entry.views
        stored = store_bytes(*size, encoder_card(predictor).dim, dims) / 1e9
        is_timed = predictor in rates.views
        hours = embedding_hours(*size, predictor, spaces, rates) if is_timed else 0.0
        numbers = [downloads.pop(entry.dataset, 0.0), stored, hours]
        sums = [a + b for a, b in zip(sums, numbers, strict=True)]
        rows.append([f"`{name}`", f"{size[0]:,}", str(size[1]), *map(_cell, numbers)])
    return [*rows, ["all", "", "", *map(_cell, sums)]]


def _cell(value: float) -> str:
    return f"{value:,.2f}" if value else ""


def save_random_weights(name: str, path: Path) -> tuple[int, int]:
    """A file like the published one; how many parameters and bytes it has."""
    from safetensors.torch import save_file

    from marc.encoders.torch_runtime import import_libraries

    card = encoder_card(name)
    import_libraries(card.library)
    model = _open_clip_model(card.tag) if card.library == "open_clip" else _timm_model(card.tag)
    tensors = {key: value.contiguous().clone() for key, value in model.state_dict().items()}
    save_file(tensors, path)
    return sum(each.numel() for each in model.parameters()), path.stat().st_size


def _open_clip_model(tag: str) -> Any:
    import open_clip

    return open_clip.create_model(tag.rpartition("/")[0], pretrained=None)


def _timm_model(tag: str) -> Any:
    """With its classifier and at its own size, which the loader takes off and changes."""
    import timm

    return timm.create_model(tag)


@contextmanager
def random_weights(folder: Path, name: str) -> Iterator[tuple[Path, int, int]]:
    """A file of weights for as long as it is needed, with its parameters and bytes."""
    path = folder / f"{name}.safetensors"
    try:
        yield path, *save_random_weights(name, path)
    finally:
        path.unlink(missing_ok=True)


class Unwritten:
    """Takes the chunks of a store and forgets them: only what is before the disk is timed."""

    def __init__(self, n_images: int) -> None:
        self._n_images = n_images

    def rows(self, chunk: int) -> range:
        """Pictures of a chunk."""
        return range(chunk * CHUNK, min((chunk + 1) * CHUNK, self._n_images))

    def has(self, name: str, chunk: int) -> bool:
        """Nothing is ever there."""
        return False

    def write(self, name: str, chunk: int, values: object) -> None:
        """Forget it."""


def views_from_files(job: Job, images: ImageSet, workers: Workers) -> float:
    """Views a second of `marc embed` with one predictor, but for writing the store."""
    store: Any = Unwritten(len(images))
    work = {chunk: [job] for chunk in range(math.ceil(len(images) / CHUNK))}
    count = len(images) * job.shape[0]
    return rate(count, lambda: fill(store, images, work, workers, lambda *_: None))


def measure(
    folder: Path, names: Sequence[str], arguments: argparse.Namespace
) -> tuple[dict[str, Measured], Rates]:
    """Every encoder in turn, and views a second from files of those that predict."""
    photographs = folder / "photographs"
    photographs.mkdir()
    draw_photographs(photographs, arguments.files)
    images = open_images(f"folder/{photographs}")
    measured, viewed = {}, {}
    views = ViewPlan(RECIPE if arguments.views > 1 else "V0", arguments.views, 0)
    with Workers(arguments.workers) as workers:
        for name in names:
            with random_weights(folder, name) as (path, parameters, n_bytes):
                spec = EncoderSpec(name, str(path), True, arguments.device, arguments.precision)
                asked = ((), spec) if name in PREDICTORS else ((spec,), None)
                plan = EmbeddingPlan(images, folder / "store", *asked)
                jobs = load_jobs(plan)
            speed = encoder_rates(plan, jobs, arguments.images)[name]
            measured[name] = Measured(parameters, n_bytes, speed)
            tell(f"{name}: {shown(speed)} images/s")
            if jobs.predictor is not None:
                viewed[name] = views_from_files(
                    replace(jobs.predictor, views=views), images, workers
                )
                tell(f"{name}: {shown(viewed[name])} views/s from files")
    return measured, Rates(
        {name: each.images_per_second for name, each in measured.items()}, viewed
    )


def tell(text: str) -> None:
    """Progress, beside the tables."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--encoders", nargs="*", default=[], help="all of the plan by default")
    parser.add_argument("--images", type=int, default=2048, help="decoded squares of each encoder")
    parser.add_argument("--files", type=int, default=512, help="JPEG files of the view pipeline")
    parser.add_argument("--views", type=int, default=64)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    integer("files", arguments.files, 2)  # one of each class; a predictor needs two
    logging.disable(logging.WARNING)  # open_clip's, of weights that are random on purpose
    plan = read_plan(PLANS / "paper.toml")
    known = encoders_of(plan)
    names = [one_of("encoder of the plan", name, known) for name in arguments.encoders] or known
    with tempfile.TemporaryDirectory() as folder:
        measured, rates = measure(Path(folder), names, arguments)
    print(report(plan, measured, rates, arguments))


def report(
    plan: Plan, measured: Mapping[str, Measured], rates: Rates, arguments: argparse.Namespace
) -> str:
    """The three tables, and what was measured."""
    left_out = [name for name in encoders_of(plan) if name not in measured]
    parts = [
        f"{arguments.device}, {arguments.workers} processes that read, {arguments.precision}; "
        f"{arguments.images:,} squares an encoder, {arguments.files:,} JPEG files",
        table(["encoder", "million parameters", "weights, MB", "images/s"], encoder_rows(measured)),
        table(
            [f"predictor, {arguments.views} views", "images/s, from files", "the encoder alone"],
            view_rows(rates, arguments.views),
        ),
        table(
            ["stream", "images", "views", "download, GB", "store, GB", "embedding, hours"],
            data_rows(plan, rates),
        ),
    ]
    if left_out:
        parts.append(f"Hours without those of {', '.join(left_out)}, which were not measured.")
    return "\n\n".join(parts)


if __name__ == "__main__":
    main()
