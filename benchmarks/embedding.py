"""How fast pictures become features, stage by stage, and how busy the encoders are kept.

    python -m benchmarks.embedding                              on this machine's CPU
    python -m benchmarks.embedding --device cuda --images 16384 --views 8

CLIP ViT-B/16 and DINOv2 ViT-B/14 at 224 pixels with random weights (speed does not depend on their
values), loaded through the same files and code as trained ones; JPEG files of 500 x 375 pixels.
Prints tables in Markdown; docs/performance.md holds such tables. On a GPU a stage is timed by
events, and what encoders are busy is the time that their networks need, so timed, of the whole.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import marc
from benchmarks.words import table
from marc.embed.fill import embed
from marc.embed.plan import EmbeddingPlan, EncoderSpec, Job, Jobs
from marc.embed.workers import PixelSpec, ViewPlan, Workers
from marc.pictures import ImageSet, open_images
from marc.pictures.crops import Crop
from marc.pictures.decoding import decode, read_bytes
from marc_paper.replication import draw_photographs, rate, rate_text

PREDICTOR, SPACE = "clip-b16-text", "dinov2-b"
_FEW = 8  # pictures that stages before the encoders are timed with, and of which vectors compared
_WARM = 4  # pictures that a session answers before it is timed
_TIMES = 5
_CLASSES = [f"thing {number}" for number in range(20)]


@dataclass(frozen=True)
class _Way:
    """One way to embed."""

    precision: str
    compiled: bool = False
    resize: str = "exact"

    def __str__(self) -> str:
        words = [self.precision, "compiled" * self.compiled, "fast" * (self.resize == "fast")]
        return ", ".join(filter(None, words))


@dataclass(frozen=True)
class _Bench:
    """What is measured: pictures, files of weights, and where it runs."""

    folder: Path
    images: ImageSet
    device: str
    batch: int
    n_squares: int
    """From which the rate of an encoder alone is taken."""

    def plan(self, way: _Way, views: ViewPlan | None = None) -> EmbeddingPlan:
        """A plan whose store is not there yet."""
        store = Path(tempfile.mkdtemp(dir=self.folder)) / "store"
        weights = self.folder / "weights"
        clip, dino = (
            EncoderSpec(
                name,
                str(weights / f"{name}.safetensors"),
                True,
                self.device,
                way.precision,
                self.batch,
                way.compiled,
            )
            for name in (PREDICTOR, SPACE)
        )
        seen = views or ViewPlan()
        return EmbeddingPlan(self.images, store, (dino,), clip, views=seen, resize=way.resize)

    @property
    def on_cuda(self) -> bool:
        """Whether there is a card to be timed."""
        return self.device.startswith("cuda")

    def milliseconds(self, run: Callable[[], object], times: int = 3) -> float:
        """The shortest of some runs, warmed up; on a card by its own clock."""
        run()
        return min(self._once(run) for _ in range(times if self.on_cuda else 1))

    def _once(self, run: Callable[[], object]) -> float:
        if not self.on_cuda:
            start = time.perf_counter()
            run()
            return 1000 * (time.perf_counter() - start)
        import torch

        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        first.record()
        run()
        last.record()
        torch.cuda.synchronize()
        return float(first.elapsed_time(last))


def save_random_weights(folder: Path) -> None:
    """Weights of both architectures, as files."""
    from safetensors.torch import save_file

    from marc.encoders import encoder_card
    from marc.encoders.from_timm import _build_tower
    from marc.encoders.torch_runtime import import_libraries

    import_libraries("open_clip", "timm")
    import open_clip

    clip = open_clip.create_model(encoder_card(PREDICTOR).tag.split("/")[0], pretrained=None)
    for name, model in ((PREDICTOR, clip), (SPACE, _build_tower(encoder_card(SPACE)))):
        tensors = {key: value.contiguous().clone() for key, value in model.state_dict().items()}
        for key in tensors:
            if key.endswith(".gamma"):  # or no block would be seen in the vectors
                tensors[key].fill_(1)
        save_file(tensors, folder / f"{name}.safetensors")


def picture_rows(images: ImageSet) -> list[list[str]]:
    """Milliseconds of a core that a picture takes, by stage."""
    places = images.locations[:_FEW]
    files = [read_bytes(place) for place in places]
    pictures = [decode(data, upright=True) for data in files]
    crop = Crop(224, 224)

    stages: dict[str, Callable[[], object]] = {
        "read": lambda: [read_bytes(place) for place in places],
        "decode": lambda: [decode(data, upright=True) for data in files],
        "resize and crop, exact": lambda: [crop.cut(each) for each in pictures],
        "resize and crop, fast": lambda: [crop.by("fast").cut(each) for each in pictures],
    }
    return [[name, f"{_core_milliseconds(run) / len(files):.2f}"] for name, run in stages.items()]


def _core_milliseconds(run: Callable[[], object]) -> float:
    run()
    start = time.process_time()  # the core may have other work
    for _ in range(_TIMES):
        run()
    return 1000 * (time.process_time() - start) / _TIMES


def reading_rows(bench: _Bench, workers: Workers) -> list[list[str]]:
    """Pictures a second read, decoded and cropped: in one process, and in all workers."""
    rows = []
    for resize in Crop.WAYS:
        spec = PixelSpec((Crop(224, 224).by(resize),), None, True)
        ids, places = bench.images.ids, bench.images.locations
        pieces = [((ids[s : s + 16], places[s : s + 16]), spec) for s in range(0, len(ids), 16)]
        few = pieces[:16]
        one = rate(sum(len(ids) for (ids, _), _ in few), lambda f=few: [s.prepare(p) for p, s in f])  # type: ignore[misc]
        every = rate(len(ids), lambda p=pieces: list(workers.prepare(p)))  # type: ignore[misc]
        rows.append([f"read, decode and crop, {resize}, one process", rate_text(one)])
        rows.append([f"the same, {workers.count} processes", rate_text(every)])
    return rows


def stage_row(bench: _Bench, job: Job, few: np.ndarray, exact: np.ndarray) -> list[str]:
    """Milliseconds of a batch by stage, pictures a second, and how far vectors are from float32."""
    encoder: Any = job.encoder
    forward, full = encoder._forward, np.resize(few, (encoder.batch, *few.shape[1:]))
    with forward._link.sent(full) as pixels:
        pixels = pixels.clone()
    normal = lambda: (pixels.permute(0, 3, 1, 2).float() / 255 - forward._mean) / forward._std  # noqa: E731
    rows = forward._pass(pixels)
    whole = bench.milliseconds(lambda: forward._pass(pixels))
    stages = [_sending(bench, forward, full), bench.milliseconds(normal), whole]
    stages.append(bench.milliseconds(lambda: forward._link.fetched(rows)()))
    squares = np.resize(few, (bench.n_squares, *few.shape[1:]))
    alone = rate(len(squares), lambda: encoder.encode(squares))
    apart = _apart(encoder.encode(few), exact)
    return [*(f"{each:.2f}" for each in stages), rate_text(alone), apart]


def computing(bench: _Bench, jobs: Jobs, few: np.ndarray) -> float:
    """Milliseconds that the networks of a plan need for a picture, views and all."""
    total = 0.0
    for job in jobs:
        encoder: Any = job.encoder
        full = np.resize(few, (encoder.batch, *few.shape[1:]))
        with encoder._forward._link.sent(full) as pixels:
            pixels = pixels.clone()
        each = bench.milliseconds(lambda e=encoder, p=pixels: e._forward._pass(p))  # type: ignore[misc]
        total += each / encoder.batch * (job.shape[0] if job.views else 1)
    return total


def _sending(bench: _Bench, forward: Any, full: np.ndarray) -> float:
    def send() -> None:
        with forward._link.sent(full):
            pass

    return bench.milliseconds(send)


def _apart(vectors: np.ndarray, exact: np.ndarray) -> str:
    distances = 1 - (vectors.astype(np.float64) * exact).sum(axis=1)
    return f"{distances.mean():.1e}, {distances.max():.1e}"


def answer_rows(bench: _Bench, jobs: Jobs, words: str) -> list[list[str]]:
    """Milliseconds from the bytes of a picture to its answer, with and without CUDA graphs."""
    encoders: list[Any] = [job.encoder for job in jobs]
    session = marc.Session(_CLASSES, encoders[0], encoders[1])
    files = [read_bytes(place) for place in bench.images.locations[:_FEW]]

    def median() -> float:
        seconds = []
        for data in [*files[:_WARM], *files]:
            start = time.perf_counter()
            session.step(data)
            seconds.append(time.perf_counter() - start)
        return 1000 * statistics.median(seconds[_WARM:])

    rows = [[f"one picture to answer, {words}", f"{median():.1f}"]]
    if bench.on_cuda:
        rows[0][0] += ", CUDA graphs"
        for encoder in encoders:
            encoder._forward._one = encoder._forward._eager
        rows.append([f"the same, {words}, without", f"{median():.1f}"])
    return rows


def _embedded(
    bench: _Bench, plan: EmbeddingPlan, jobs: Jobs, workers: Workers, few: np.ndarray
) -> list[str]:
    """Pictures a second of `marc embed`, how busy encoders were, and how long it wrote."""
    needed = computing(bench, jobs, few) if bench.on_cuda else 0.0
    start = time.perf_counter()
    timing = embed(plan, jobs, workers).timing
    wall = time.perf_counter() - start
    busy = needed * timing.images / 1000 / wall
    return [
        rate_text(timing.images / wall),
        f"{busy if bench.on_cuda else timing.busy:.0%}",
        f"{timing.writing / wall:.0%}",
    ]


def measure(bench: _Bench, ways: Iterable[_Way], views: list[int], workers: Workers) -> None:
    """Everything, printed table by table."""
    print(
        table(["stage, one process", "ms of a core, a picture"], picture_rows(bench.images)), "\n"
    )
    print(table(["stage", "images/s"], reading_rows(bench, workers)), "\n")
    stages, rates, answers = [], [], []
    few, exact = _exact(bench)
    for way in ways:
        print(f"{way} ...", file=sys.stderr, flush=True)
        plan = bench.plan(way)
        jobs = plan.load()
        if way.resize == "exact":
            for job in jobs:
                name = job.encoder.card.name
                stages.append([f"{name}, {way}", *stage_row(bench, job, few, exact[name])])
            answers += answer_rows(bench, jobs, str(way))
            jobs = plan.load()  # as they were before they were timed
        rates.append([f"`marc embed`, {way}", *_embedded(bench, plan, jobs, workers, few)])
        for count in views if way == _Way("bfloat16") else []:
            plan = bench.plan(way, ViewPlan("VC", count, 0))
            each = _embedded(bench, plan, plan.load(), workers, few)
            rates.append([f"the same, {count} views (VC)", *each])
    columns = ["to the device", "normalise", "normalise and forward", "back", "images/s"]
    print(table(["ms a batch", *columns, "1 - cosine to float32, mean, most"], stages), "\n")
    print(table(["from JPEG files", "images/s", "encoders busy", "writing"], rates), "\n")
    print(table(["stage", "ms"], answers))


def _exact(bench: _Bench) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Squares of some pictures, and their vectors in float32 by encoder."""
    jobs = bench.plan(_Way("float32")).load()
    piece = bench.images.ids[:_FEW], bench.images.locations[:_FEW]
    [few] = Job.pixels(list(jobs), True).prepare(piece).squares.values()
    encoders = [job.encoder for job in jobs]
    return few, {each.card.name: each.encode(few).astype(np.float64) for each in encoders}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    every = ["float32", "bfloat16", "pure-bfloat16"]
    parser.add_argument("--precision", nargs="*", choices=every, default=every)
    parser.add_argument("--images", type=int, default=2 * _FEW)
    parser.add_argument("--views", type=int, nargs="*", default=[])
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    ways = [_Way(each) for each in given.precision]
    if given.device.startswith("cuda"):
        ways += [_Way(each, compiled=True) for each in given.precision if each != "float32"]
    ways += [_Way(given.precision[-1], resize="fast")]
    with tempfile.TemporaryDirectory() as folder, Workers(given.workers) as workers:
        photographs, weights = Path(folder, "photographs"), Path(folder, "weights")
        photographs.mkdir()
        weights.mkdir()
        draw_photographs(photographs, given.images)
        save_random_weights(weights)
        images = open_images(f"folder/{photographs}")
        on_cuda = given.device.startswith("cuda")
        sizes = (0, 4096) if on_cuda else (_FEW // 2, _FEW // 2)
        bench = _Bench(Path(folder), images, given.device, *sizes)
        print(f"{given.device}, {given.images:,} pictures, {given.workers} processes that read\n")
        measure(bench, ways, given.views, workers)


if __name__ == "__main__":
    main()
