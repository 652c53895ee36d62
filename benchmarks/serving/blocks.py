"""What a query costs when several are answered together, beside one step after the other.

    python -m benchmarks.serving.blocks

Prints one table in Markdown. Ratios are of medians measured in turns in one run.
"""

from __future__ import annotations

import platform
import time

import numpy as np

import marc
from benchmarks.ratios import CLIP_DIM, DIM, make_stream, ratio
from marc.replay.ahead import apply, step_block
from marc.scores import unit
from marc.types import Query

BLOCKS = (1, 2, 4, 8, 16, 32, 64)
ROUNDS = 7
N_CLASSES, CAPACITY = 1000, 16
_CASE = f"M 1, C {N_CLASSES:,}, K = K_C = {CAPACITY}, d {CLIP_DIM} and {DIM}"


def filled(query: Query, **settings: object) -> marc.MARC:
    """A method whose memories are full."""
    draw = np.random.default_rng(0)
    method = marc.MARC("space", capacity=CAPACITY, **settings)
    method.step(query)
    state, full = method.state(), N_CLASSES * CAPACITY
    state["n_seen"] = full
    for part, dim in (("retrieval", DIM), ("clip", CLIP_DIM)):
        state["arrays"] |= {
            f"{part}/keys": unit(draw.standard_normal((full, dim), dtype=np.float32)),
            f"{part}/items": np.arange(full),
            f"{part}/labels": np.repeat(np.arange(N_CLASSES), CAPACITY),
            f"{part}/priorities": np.tile(-np.arange(CAPACITY) * 1e-3 - 3.0, N_CLASSES),
            f"{part}/rank": np.tile(np.arange(CAPACITY), N_CLASSES),
        }
    return marc.MARC.from_state(state)


def measured(queries: list[Query], **settings: object) -> dict[str, float]:
    """Median seconds a query: of single steps, of blocks by their length, of repeating effects."""
    method = filled(queries[0], **settings)
    twin = marc.MARC.from_state(method.state())
    times: dict[str, list[float]] = {name: [] for name in ("step", "apply", *map(str, BLOCKS))}
    sizes = {"n_classes": N_CLASSES, "dim": DIM, "clip_dim": CLIP_DIM}
    for turn in range(ROUNDS):
        start = time.perf_counter()
        for query in queries[:8]:
            twin.step(query)
        times["step"].append((time.perf_counter() - start) / 8)
        for length in BLOCKS:
            block = (queries * 2)[turn * 31 : turn * 31 + length]
            start = time.perf_counter()
            answered = step_block(method, block)
            times[str(length)].append((time.perf_counter() - start) / length)
        other = marc.MARC.from_state(twin.state())
        start = time.perf_counter()
        for each in answered:
            apply(other, [w._replace(priority=0.0) for w in each.writes], each.followed, **sizes)
        times["apply"].append((time.perf_counter() - start) / len(answered))
    return {name: float(np.median(values)) for name, values in times.items()}


def rows() -> list[tuple[str, str, str]]:
    """One row for each length of a block, and one for repeating what a block did."""
    stream = make_stream(256, N_CLASSES)
    queries = [stream.query(t) for t in range(len(stream))]
    fixed, auto = measured(queries), measured(queries, weight="auto")
    named = [(f"`step_block` of {n} / `MARC.step`, a query ({_CASE})", str(n)) for n in BLOCKS]
    named.append(("`apply` of one query's effects / `MARC.step`", "apply"))
    return [
        (what, ratio(fixed[name], fixed["step"]), ratio(auto[name], auto["step"]))
        for what, name in named
    ]


if __name__ == "__main__":
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}\n")
    print('| what | `weight=10` | `weight="auto"` |\n|---|---|---|')
    for row in rows():
        print("| " + " | ".join(row) + " |", flush=True)
