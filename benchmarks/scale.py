"""What commands cost on large streams: rates measured here, and arithmetic with them.

    OMP_NUM_THREADS=1 python -m benchmarks.scale
    python -m benchmarks.scale --card 2.5e13    what a GPU of that many float32 multiplications
                                                a second takes, if it meets the bar

Times are those of processors, not of clocks, so that other work on the machine hardly counts: what
is spread over two cores takes half of them. docs/scale.md holds the three tables. Streams of the
arithmetic have one view of 512 numbers, 1,000 classes and sixteen spaces of 768; a sweep has eight
capacities and three orders.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Mapping

import numpy as np

import marc
from benchmarks.ratios import make_stream, repeated
from marc.encoders.published import COSTS, PUBLISHED
from marc.replay.evidence import Plan
from marc.replay.lifetimes import History
from marc.replay.sweep_job import SweepJob
from marc.report.text import duration
from marc.spaces.geometry import measure
from marc.types import Trajectory

SIZES = (50_000, 1_280_000, 100_000_000)
CLASSES, CLIP_DIM, DIM, SPACES, ORDERS = 1000, 512, 768, 16, 3
WINDOW = 1024  # queries that read one set of items, where orders are read apart
SAMPLE = 20_000
LARGEST = marc.CAPACITIES[-1]
ADMISSION = 16  # items of a class in the memory that decides what is admitted
ENCODERS = ("clip-b16-text", "dinov2-b")
EMBEDDED, CORES = 1.7, 2  # images/s on so many cores, docs/performance.md
BAR = 3  # times its own product that a GPU may take
ON_CARD = ("sweep: CLIP memory", "sweep: sixteen spaces", "geometry, select: all images")


def seconds(work: Callable[[], object], times: int = 1) -> float:
    """The least of some times, all cores together."""
    taken = []
    for _ in range(times):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def trajectory(n_images: int, n_classes: int) -> Trajectory:
    """Labels and priorities of a stream that holds its classes alike, in no order."""
    draw = np.random.default_rng(0)
    return Trajectory(
        np.arange(n_images), draw.integers(n_classes, size=n_images), draw.random(n_images)
    )


def admitted(n_images: int, n_classes: int, largest: int) -> float:
    """Items that one order ever holds: the later an image comes, the seldomer it is admitted."""
    at_once = min(largest * n_classes, n_images)
    return at_once * (1 + math.log(n_images / at_once))


def alive(n_images: int, n_classes: int, largest: int) -> float:
    """Items that can be read in a window of queries, mean over a stream without an order.

    A class has as many as arrived until it is full, and the window brings some of its own.
    """
    most = min(largest * n_classes, n_images)
    arriving = WINDOW * admitted(n_images, n_classes, largest) / n_images
    return most * (1 - most / n_images / 2) + arriving


def in_sweep(n_images: int, n_classes: int = CLASSES, largest: int = LARGEST) -> tuple[str, float]:
    """How a space is swept, and the pairs of image and item whose product that takes."""
    ever = admitted(n_images, n_classes, largest)
    union = n_images * (1 - (1 - ever / n_images) ** ORDERS)
    apart = ORDERS * n_images * alive(n_images, n_classes, largest)
    return ("shared", n_images * union) if n_images * union <= apart else ("apart", apart)


def measure_rates() -> dict[str, float]:
    """Seconds of this machine for a unit of each kind of work."""
    draw = np.random.default_rng(0)
    left, right = (draw.standard_normal((n, DIM), dtype=np.float32) for n in (8192, 4096))
    rates = {"product": seconds(lambda: left @ right.T, 3) / (8192 * 4096 * DIM)}
    history = trajectory(SIZES[1], CLASSES)
    trace = lambda: History.trace(history, marc.CAPACITIES, CLASSES)  # noqa: E731
    trace()  # compiles
    rates["lifetime"] = seconds(trace, 3) / SIZES[1]
    # as many classes for the images as in the large streams, so that the parts keep their weights
    for n_images, n_classes, largest in ((20_000, 400, LARGEST), (40_000, 125, LARGEST)):
        stream = make_stream(n_images, n_classes, CLIP_DIM, DIM)
        job = SweepJob.plan(stream)
        _ = stream.features.base, job.histories
        way = Plan.of(DIM, job.histories).way
        expected, pairs = in_sweep(n_images, n_classes, largest)
        assert way == expected, "the arithmetic takes another way than the sweep"
        rates[way] = seconds(lambda: job.space("space")) / (pairs * DIM)  # noqa: B023
    stream = make_stream(SAMPLE, CLASSES)
    rates["geometry"] = seconds(lambda: measure(stream, "space")) / (SAMPLE**2 * DIM)
    few = make_stream(500, CLASSES)
    for n in (1, SPACES):
        stream, method = repeated(few, n), marc.create_method("class-means")
        rates[f"run {n}"] = seconds(lambda: marc.run(method, stream)) / len(few)  # noqa: B023
    return rates


def costs(n_images: int, rates: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Multiplications and core seconds on this machine, by command."""
    encoders = sum(COSTS[PUBLISHED[name].tag].operations for name in ENCODERS)
    means = CLASSES * (2 * CLIP_DIM + SPACES * DIM)
    first_way, first = in_sweep(n_images, largest=ADMISSION)
    way, pairs = in_sweep(n_images)
    passes = 2 * ORDERS * n_images * rates["lifetime"]
    exact, part = (n**2 * DIM * SPACES for n in (n_images, SAMPLE))
    return {
        "embed, two encoders": (encoders * n_images, CORES * n_images / EMBEDDED),
        "run, class means, an order": (means * n_images, n_images * rates[f"run {SPACES}"]),
        "sweep: lifetimes": (0, passes),
        "sweep: CLIP memory": (first * CLIP_DIM, first * CLIP_DIM * rates[first_way]),
        "sweep: sixteen spaces": (pairs * DIM * SPACES, pairs * DIM * SPACES * rates[way]),
        "geometry, select: all images": (exact, exact * rates["geometry"]),
        f"geometry, select: {SAMPLE:,} images": (part, part * rates["geometry"]),
    }


def sizes(n_images: int) -> dict[str, float]:
    """Bytes of what is stored and held."""
    ever = admitted(n_images, CLASSES, LARGEST)
    n_capacities = len(marc.CAPACITIES)
    return {
        "store: views, float16": 2 * CLIP_DIM * n_images,
        "store: one space, float32": 4 * DIM * n_images,
        "store: sixteen spaces": 4 * DIM * SPACES * n_images,
        "trajectories of three orders": ORDERS * (4 * n_images + (8 + 4 * n_capacities) * ever),
        "result of a sweep, one space": 2 * 8 * ORDERS * n_capacities * n_images,
        "keys that a window of queries reads": 4 * DIM * alive(n_images, CLASSES, LARGEST),
        "class means in sixteen spaces": 8 * CLASSES * (CLIP_DIM + SPACES * DIM),
    }


def core_time(value: float) -> str:
    """Seconds of one core, or of a GPU."""
    return duration(value) if value < 1e5 else f"{value / 3600:,.0f} h"


def number(value: float) -> str:
    """A large number with two digits."""
    if value == 0:
        return "0"
    power = math.floor(math.log10(value))
    return f"{value / 10**power:.1f} x 10^{power}"


def n_bytes(value: float) -> str:
    """Bytes in the unit that suits them."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if value >= scale:
            return f"{value / scale:,.1f} {unit}"
    return f"{value / 1e3:,.1f} kB"


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """Print rows as Markdown."""
    for row in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def on_card(rate: float) -> None:
    """What a GPU takes at the bar: multiplications over its rate, nothing measured."""
    whatever = dict.fromkeys(("lifetime", "shared", "apart", "geometry", f"run {SPACES}"), 0.0)
    by_size = [costs(size, whatever) for size in SIZES]
    rows = [
        [name, *(core_time(BAR * each[name][0] / rate) for each in by_size)] for name in ON_CARD
    ]
    head = f"{BAR} x the product at {number(rate)}/s"
    print_table([head, *(f"T {size:,}" for size in SIZES)], rows)


def main() -> None:
    """Measure, then print what follows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--card", type=float, help="multiplications a second of a GPU")
    if rate := parser.parse_args().card:
        on_card(rate)
        return
    rates = measure_rates()
    kinds = {
        "multiplications of float32 products": "product",
        "the same in a sweep, all orders at once (T 20,000, C 400)": "shared",
        "the same, order by order (T 40,000, C 125)": "apart",
        f"the same in geometry, with its intervals (n {SAMPLE:,})": "geometry",
        f"lifetimes: arrivals (T {SIZES[1]:,}, C 1,000, 8 capacities)": "lifetime",
        "class means: images (C 1,000, one space)": "run 1",
        "class means: images (C 1,000, sixteen spaces)": f"run {SPACES}",
    }
    rows = [[what, number(1 / rates[name])] for what, name in kinds.items()]
    print_table(["measured here", "in a second of one core"], rows)
    head = ["", *(f"T {size:,}" for size in SIZES)]
    by_size = [costs(size, rates) for size in SIZES]
    rows = []
    for name in by_size[0]:
        cells = [
            f"{number(made)}; {core_time(taken)}" for made, taken in (c[name] for c in by_size)
        ]
        rows.append([name, *cells])
    print_table(head, rows)
    stored = [sizes(size) for size in SIZES]
    print_table(head, [[name, *(n_bytes(each[name]) for each in stored)] for name in stored[0]])


if __name__ == "__main__":
    main()
