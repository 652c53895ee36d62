"""Speed as ratios measured in one run, so that they mean something on another machine.

    make benchmark                          everything, about five minutes on two cores
    python -m benchmarks.ratios sweep step  some of it: sweep, loop, step, geometry,
                                            memory, growth, import, store

Prints one table in Markdown; docs/performance.md holds such a table.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

import marc
from benchmarks.loops import dictionary_loop
from marc.class_means import ClassMeans
from marc.embed.opening import check_lengths
from marc.embed.sealed import SealedArray
from marc.replay.replay import admit
from marc.replay.sweep_job import SweepJob
from marc.scores import unit
from marc.spaces.geometry import antihub_fraction, measure, neighbors, purity

Row = tuple[str, str, str, str]
N_IMAGES, N_CLASSES, CLIP_DIM, DIM = 7500, 200, 512, 768


def make_stream(n_images: int, n_classes: int, clip_dim: int = CLIP_DIM, dim: int = DIM):
    """Clustered random features: sizes matter here, values only keep the memory busy."""
    draw = np.random.default_rng(0)
    labels = draw.integers(n_classes, size=n_images)
    prototypes = draw.standard_normal((n_classes, clip_dim), dtype=np.float32)
    views = 0.15 * prototypes[labels] + draw.standard_normal((n_images, clip_dim), dtype=np.float32)
    centers = draw.standard_normal((n_classes, dim), dtype=np.float32)
    keys = 0.3 * centers[labels] + draw.standard_normal((n_images, dim), dtype=np.float32)
    return marc.Stream.from_arrays(views, prototypes, {"space": keys}, labels=labels)


def seconds(work: Callable[[], object], summary: Callable = np.median) -> float:
    """Median time of five calls, after one that is not counted."""
    work()
    times = []
    for _ in range(5):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(summary(times))


def sweep_against_product() -> list[Row]:
    """Sweep of one space against the plain product of its features with themselves."""
    stream = make_stream(N_IMAGES, N_CLASSES)
    keys = stream.features.keys("space")
    other = keys.copy()  # a product with itself would let the library compute half of it
    _ = stream.features.base
    job = SweepJob.plan(stream)
    product = seconds(lambda: keys @ other.T)
    half = seconds(lambda: keys @ keys.T)
    space = seconds(lambda: job.space("space"))
    whole = seconds(lambda: marc.sweep(stream))
    case = f"T {N_IMAGES:,}, C {N_CLASSES}, d {DIM}, 8 capacities, 3 orders, all w"
    names = (
        f"sweep of one space / its T x T x d product ({case})",
        "the same with the trajectories, which all spaces share",
        "sweep of one space / `X @ X.T`, of which BLAS computes half",
    )
    return [
        (names[0], ratio(space, product), "<= 3", "<= 1.7"),
        (names[1], ratio(whole, product), "", "<= 1.5"),
        (names[2], ratio(space, half), "", ""),
    ]


def sweep_against_loop() -> list[Row]:
    """Sweep of one space against the dictionary-of-lists loop, run for every capacity."""
    stream = make_stream(N_IMAGES, N_CLASSES)
    job = SweepJob.plan(stream)
    space = seconds(lambda: job.space("space"))
    order = stream.shuffled(0).order
    [admitted] = admit(job.method, [stream.shuffled(0)], [0])
    base, keys = stream.features.base.logits[order], stream.features.keys("space")[order]
    trajectory = admitted.trajectory
    ours = job.result({"space": job.space("space")}).accuracy[0, :, :, 0]
    start = time.perf_counter()
    for k, capacity in enumerate(marc.CAPACITIES):
        found = dictionary_loop(
            base, trajectory.label, trajectory.priority, keys, capacity, marc.WEIGHTS
        )
        right = (found == stream.row_labels[order]).mean(axis=1)
        assert np.abs(right - ours[k]).max() * N_IMAGES < 5, "the loop computes something else"
    loop = 3 * (time.perf_counter() - start)
    what = "dictionary-of-lists loop for 8 capacities, x 3 orders (one timed) / sweep of one space"
    return [(what, f"{loop / space:.0f}x ({loop:.0f} s / {space:.2f} s)", ">= 150x", ">= 350x")]


def step_against_products() -> list[Row]:
    """One live step with full memories against the two products that it cannot do without."""
    n_classes, capacity = 1000, 16
    draw = np.random.default_rng(0)
    stream = make_stream(400, n_classes)
    method = marc.MARC("space", capacity=capacity)
    method.step(stream.query(0))
    state = method.state()
    full = n_classes * capacity
    for part, dim in (("retrieval", DIM), ("clip", CLIP_DIM)):
        state["arrays"] |= {
            f"{part}/keys": unit(draw.standard_normal((full, dim))),
            f"{part}/items": np.arange(full),
            f"{part}/labels": np.repeat(np.arange(n_classes), capacity),
            f"{part}/priorities": np.tile(-np.arange(capacity) * 1e-3 - 3.0, n_classes),
            f"{part}/rank": np.tile(np.arange(capacity), n_classes),
        }
    method = marc.MARC.from_state(state)
    features = stream.features
    clip_keys, keys = state["arrays"]["clip/keys"], state["arrays"]["retrieval/keys"]
    times: dict[str, list[float]] = defaultdict(list)
    means = {n: (ClassMeans(), repeated(stream, n)) for n in (1, 6)}

    def timed(name: str, work: Callable[[], object]) -> None:
        start = time.perf_counter()
        work()
        times[name].append(time.perf_counter() - start)

    for item in range(1, 400):
        view, key = features.views[item], features.spaces["space"][item]
        query = stream.query(item)
        # they take turns, so that a busy moment hits them alike
        timed("products", lambda: (clip_keys @ view[0], keys @ key))  # noqa: B023
        timed("step", lambda: method.step(query))  # noqa: B023
        timed(
            "query and step",
            lambda: method.step(
                marc.Query.from_features(view, features.predictor, {"space": key}, item=item)  # noqa: B023
            ),
        )
        for n, (other, others) in means.items():
            query = others.query(item)
            timed(f"means {n}", lambda: other.step(query))  # noqa: B023
    median = {name: float(np.median(values)) for name, values in times.items()}
    case = "M 1, C 1,000, K = K_C = 16, d 512 and 768"
    return [
        (f"`MARC.step` / the two `keys @ q` products ({case})",
         ratio(median["step"], median["products"]), "<= 2", "<= 1.2"),
        ("the same from raw features, zero-shot logits included",
         ratio(median["query and step"], median["products"]), "", ""),
        ("class means in one space, `ClassMeans.step` / `MARC.step`",
         ratio(median["means 1"], median["step"]), "<= 1.5", ""),
        ("class means in six spaces / `MARC.step` in one",
         ratio(median["means 6"], median["step"]), "", ""),
    ]  # fmt: skip


def repeated(stream: marc.Stream, n: int) -> marc.Stream:
    """The same images with the space `space` n times, each time that of other images."""
    keys = stream.features.spaces["space"]
    spaces = {f"space {number}": np.roll(keys, number, axis=0) for number in range(n)}
    return replace(stream, features=replace(stream.features, spaces=spaces))


def geometry_against_product() -> list[Row]:
    """Purity and anti-hubs of one space against the plain product of its features."""
    n_images = 10_000
    stream = make_stream(n_images, N_CLASSES)
    keys, labels = stream.features.keys("space"), stream.row_labels
    other = keys.copy()  # a product with itself would let the library compute half of it

    def measured() -> tuple[float, float]:
        table = neighbors(keys, 10)
        return purity(None, labels, table=table), antihub_fraction(None, table=table)

    product = seconds(lambda: keys @ other.T, min)
    half = seconds(lambda: keys @ keys.T, min)
    both = seconds(measured, min)
    whole = seconds(lambda: measure(stream, "space"), min)
    case = f"n {n_images:,}, d {DIM}, kappa 10"
    names = (
        f"purity and anti-hubs of one space / its n x n x d product ({case})",
        "the same with pseudo-purity, hubs, duplicates and intervals of 300 batches",
        "purity and anti-hubs / `X @ X.T`, of which BLAS computes half",
    )
    return [
        (names[0], ratio(both, product), "<= 2.5", ""),
        (names[1], ratio(whole, product), "", ""),
        (names[2], ratio(both, half), "", ""),
    ]


def peak_memory() -> list[Row]:
    """Memory that a large sweep needs beyond its inputs; measured in a process of its own."""
    code = """
import resource, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import ratios, marc
stream = ratios.make_stream(50_000, 1000)
Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making the inputs
def status(name):
    [line] = [l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(name)]
    return int(line.split()[1]) / 2**20
before, start = status("VmRSS"), time.perf_counter()
marc.sweep(stream)
print(status("VmHWM") - before, time.perf_counter() - start)
"""
    if not Path("/proc/self/clear_refs").exists():
        return [("peak memory of a sweep", "not measured on this system", "<= 2 GiB", "<= 1 GiB")]
    arguments = [sys.executable, "-c", code, str(Path(__file__).parent)]
    output = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    peak, took = (float(number) for number in output.split())
    case = "T 50,000, C 1,000, K <= 64, d 768, 3 orders"
    return [(f"peak memory of a sweep beyond its inputs ({case})",
             f"{peak:.2f} GiB (in {took:.0f} s)", "<= 2 GiB", "<= 1 GiB")]  # fmt: skip


def growth() -> list[Row]:
    """How the time of one space grows with the stream."""
    cases = (
        ("C 200, K <= 64", (4000, 8000, 16_000), 200, marc.CAPACITIES, 2.0),
        ("C 10, K <= 16", (20_000, 40_000, 80_000), 10, (1, 2, 4, 8, 16), 1.1),
    )
    rows = []
    for what, sizes, n_classes, capacities, bar in cases:
        times, products = [], []
        for size in sizes:
            stream = make_stream(size, n_classes, clip_dim=64, dim=DIM)
            job, keys = SweepJob.plan(stream, capacities), stream.features.keys("space")
            # the least of five: an exponent from three sizes does not forgive a busy moment
            times.append(seconds(lambda: job.space("space"), min))  # noqa: B023
            if bar == 2.0:  # the plain product does not grow by exactly 2 either
                other = keys.copy()
                products.append(seconds(lambda: keys @ other.T, min))  # noqa: B023
        name = f"growth of sweep time with T ({what}, T {sizes[0]:,} to {sizes[-1]:,})"
        measured = f"T^{exponent(sizes, times):.2f}"
        if products:
            measured += f" (the product alone T^{exponent(sizes, products):.2f})"
        rows.append((name, measured, f"<= {bar:g}", ""))
    return rows


def exponent(sizes: tuple[int, ...], times: list[float]) -> float:
    """The power of T that fits the times best."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def import_time() -> list[Row]:
    """`import marc` beyond starting Python."""
    start = seconds(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
    both = seconds(lambda: subprocess.run([sys.executable, "-c", "import marc"], check=True))
    named = "import marc; marc.MARC, marc.Stream, marc.sweep"
    used = seconds(lambda: subprocess.run([sys.executable, "-c", named], check=True))
    return [
        ("`import marc`", f"{both - start:.3f} s", "<= 0.3 s", "<= 0.15 s"),
        ("`import marc` and first use of its main names (NumPy)", f"{used - start:.3f} s", "", ""),
    ]


def checks_against_sweep() -> list[Row]:
    """What it costs to check all that is read, as a part of a sweep from a feature store."""
    n_views, stream = 8, make_stream(N_IMAGES, N_CLASSES)
    draw = np.random.default_rng(0)
    views = unit(draw.standard_normal((N_IMAGES, n_views, CLIP_DIM), dtype=np.float32))
    features = replace(stream.features, views=views.astype(np.float16))
    with tempfile.TemporaryDirectory() as folder:
        made = {"made": {}, "versions": {}}
        arrays = []
        for name, values in (
            ("views", views.astype("f2")),
            ("space", stream.features.keys("space")),
        ):
            array = SealedArray(Path(folder), name, "", values.shape, 256, values.dtype.name, made)
            array.begin()
            for chunk in range(array.n_chunks):
                array.write(chunk, values[chunk * 256 : (chunk + 1) * 256])
            arrays.append(array)
        files = [file for file in Path(folder).glob("*/c/**/*") if file.is_file()]
        checked = seconds(lambda: [check_lengths(replace(array).read()) for array in arrays])
        plain = seconds(lambda: [np.frombuffer(file.read_bytes(), "u1").copy() for file in files])
    sweep = seconds(lambda: marc.sweep(replace(stream, features=replace(features))))
    case = f"T {N_IMAGES:,}, {n_views} views of {CLIP_DIM}, d {DIM}"
    what = f"checking what is read of a store / sweep of one space ({case})"
    return [(what, ratio(max(0.0, checked - plain), sweep), "<= 0.05", "")]


def ratio(time_: float, against: float) -> str:
    """A ratio with the two times behind it."""
    unit, scale = ("ms", 1e3) if against < 0.1 else ("s", 1.0)
    return f"{time_ / against:.2f} ({scale * time_:.2f} {unit} / {scale * against:.2f} {unit})"


PARTS = {
    "sweep": sweep_against_product,
    "loop": sweep_against_loop,
    "step": step_against_products,
    "geometry": geometry_against_product,
    "memory": peak_memory,
    "growth": growth,
    "import": import_time,
    "store": checks_against_sweep,
}

if __name__ == "__main__":
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [name for name in wanted if name not in PARTS]
    if unknown:
        sys.exit(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}\n")
    print("| what | measured | bar | goal |\n|---|---|---|---|")
    for name in wanted:
        for row in PARTS[name]():
            print("| " + " | ".join(row) + " |", flush=True)
