"""What a GPU is worth, and that its numbers are those of the CPU.

    python -m benchmarks.gpu                                    on a GPU, some minutes
    python -m benchmarks.gpu --device cpu --images 2000         that it runs, anywhere

Random features around class means. Prints a table for sweeps and one for geometry, in Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from benchmarks.ratios import CLIP_DIM, make_stream
from benchmarks.words import table
from marc.replay.sweep_job import SweepJob
from marc.scores import unit
from marc.spaces.calibration import Calibration
from marc.spaces.neighbors import nearest
from marc.types import CAPACITIES, WEIGHTS

N_CLASSES, N_NEIGHBORS = 1000, 10
_SAMPLE = 5000  # rows of the table that the CPU makes too
_QUERIES = 8192  # rows of one product
_SMALL = 7500  # images of the sweep that is compared


def seconds(work: Callable[[], object], device: str, times: int = 3) -> float:
    """The shortest time of a few calls, after one that is not counted."""
    import torch

    def wait() -> None:
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize(device)

    work()
    taken = []
    for _ in range(times):
        wait()
        start = time.perf_counter()
        work()
        wait()
        taken.append(time.perf_counter() - start)
    return min(taken)


def geometry(device: str, n_images: int, dim: int) -> list[list[str]]:
    """The table of `marc geometry --neighbors 10` and its batches, beside their product."""
    import torch

    draw = np.random.default_rng(0)
    labels = draw.integers(N_CLASSES, size=n_images)
    centers = 0.3 * draw.standard_normal((N_CLASSES, dim), dtype=np.float32)
    keys = unit(centers[labels] + draw.standard_normal((n_images, dim), dtype=np.float32))
    card = torch.tensor(keys, device=device)

    def product() -> None:
        for start in range(0, n_images, _QUERIES):
            card[start : start + _QUERIES] @ card.T

    calibration = Calibration(n_images, N_NEIGHBORS)
    width, everything = calibration.table_width(), np.arange(n_images)
    sample = np.sort(draw.permutation(n_images)[:_SAMPLE])
    plain = seconds(product, device)
    whole = seconds(lambda: nearest(keys, everything, width, gpu=device), device)
    here = seconds(lambda: nearest(keys, sample, width), device, times=1)
    found = nearest(keys, everything, width, gpu=device)
    unequal = int((found[sample] != nearest(keys, sample, width)).any(axis=1).sum())

    def batches(gpu: str | None, n_replicates: int) -> np.ndarray:
        sizes = (calibration.error_size,)
        settings = ([labels], [N_NEIGHBORS], sizes, n_replicates, 0, None, gpu)
        return calibration.purities(keys, found, *settings)

    some, many = 20, Calibration.REPLICATES
    there = seconds(lambda: batches(device, many), device, times=1)
    cpu_batches = seconds(lambda: batches(None, some), device, times=1)
    differing = int((batches(device, some) != batches(None, some)).sum())
    return [
        ["float32 product of all pairs", f"{plain:.3f}", "1"],
        [f"table of {width} neighbours", f"{whole:.3f}", f"{whole / plain:.2f}"],
        [f"{len(sample):,} rows of it on the CPU", f"{here:.3f}", f"{here / plain:.2f}"],
        ["rows of these that are unequal", str(unequal), ""],
        [f"{many} batches for intervals", f"{there:.3f}", f"{there / plain:.2f}"],
        [f"{some} of them on the CPU", f"{cpu_batches:.3f}", f"{cpu_batches / plain:.2f}"],
        ["batches of these that are unequal", str(differing), ""],
    ]


def sweep(device: str, n_images: int, dim: int) -> list[list[str]]:
    """A sweep of one space beside its product; a sample of its answers beside the CPU's."""
    import torch

    stream = make_stream(n_images, min(N_CLASSES, n_images // 10), CLIP_DIM, dim)
    card = torch.tensor(stream.features.keys("space"), device=device)
    job = replace(SweepJob.plan(stream), gpu=device)
    _ = stream.features.base

    def product() -> None:
        for start in range(0, n_images, _QUERIES):
            card[start : start + _QUERIES] @ card.T

    plain = seconds(product, device)
    shared = seconds(lambda: replace(job).histories, device)
    whole = seconds(lambda: job.space("space"), device)
    small = make_stream(min(n_images, _SMALL), min(200, n_images // 10), CLIP_DIM, dim)
    here, there = SweepJob.plan(small), replace(SweepJob.plan(small), gpu=device)
    same = all(
        np.array_equal(one.items, other.items) and np.array_equal(one.last, other.last)
        for one, other in zip(here.histories, there.histories, strict=True)
    )
    ends = [replace(job).result({"space": job.space("space")}) for job in (here, there)]
    cells = [(k, w, s) for k in CAPACITIES for w in WEIGHTS for s in here.seeds]
    near = sum(
        int((ends[0].correct("space", *cell) != ends[1].correct("space", *cell)).sum())
        for cell in cells
    )
    return [
        ["float32 product of all pairs", f"{plain:.3f}", "1"],
        ["trajectories, which all spaces share", f"{shared:.3f}", f"{shared / plain:.2f}"],
        ["one space, 8 capacities, 3 orders, all w", f"{whole:.3f}", f"{whole / plain:.2f}"],
        [f"{len(small):,} images: the items of the CPU are retained", "yes" if same else "NO", ""],
        [f"answers of the CPU's {len(cells) * len(small):,} that differ", str(near), ""],
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", help="As torch names it.")
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--dim", type=int, default=768)
    arguments = parser.parse_args()
    for measured in (sweep, geometry):
        rows = measured(arguments.device, arguments.images, arguments.dim)
        head = f"{measured.__name__}: {arguments.device}, {arguments.images:,} x {arguments.dim}"
        print(table([head, "seconds", "times the product"], rows))


if __name__ == "__main__":
    main()
