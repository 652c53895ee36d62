"""A million images on a small machine: time and memory of the commands, and how they grow.

    python -m benchmarks.million --images 320000                    all commands, at N/16, N/4 and N
    python -m benchmarks.million --images 1280000 --sizes 1280000 --commands geometry select
    python -m benchmarks.million --images 1280000 --commands run --limit 300   stopped after that

A stream is written as a feature store without pictures: C classes, a predictor of 512 dimensions
that is right in some 60 % of the images, one space of 768. Each command runs in a process of its
own. The store of 1,280,000 images has 5 GiB; it is put into --folder and taken away again.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from marc.embed.store import FeatureStore
from marc.scores import unit

CLIP_DIM, DIM, CHUNK = 512, 768, 4096
_SEEN, _CLUSTERED = 0.157, 0.4  # how much of a feature is that of its class
_SAMPLE = 20_000

COMMANDS = {
    "run": ("run", "--seed", "0"),
    "run-marc": ("run", "--method", "marc", "--space", "space", "--seed", "0"),
    "geometry": ("geometry", "--images"),
    "select": ("select", "--images"),
    "sweep": ("sweep", "--capacity", "1", "2", "4", "8", "16", "--seed", "0"),
}


def make_store(path: Path, n_images: int, n_classes: int) -> None:
    """Write a store of random features with classes; the same for the same numbers."""
    draw = np.random.default_rng([n_images, n_classes])
    labels = draw.integers(n_classes, size=n_images)
    prototypes = unit(draw.standard_normal((n_classes, CLIP_DIM), dtype=np.float32))
    centers = unit(draw.standard_normal((n_classes, DIM), dtype=np.float32))
    store = _begin(path, labels, prototypes)
    space = f"{store.SPACES}/space"
    store.prepare(space, (DIM,), "float32", made={"encoder": {"name": "space"}})
    for chunk in range(store.n_chunks):
        rows = store.rows(chunk)
        draw, of = np.random.default_rng([n_images, chunk]), labels[rows.start : rows.stop]
        views = _around(prototypes[of], _SEEN, draw)
        store.write(store.VIEWS, chunk, views[:, np.newaxis].astype(np.float16))
        store.write(space, chunk, _around(centers[of], _CLUSTERED, draw))
        store.write(store.STATUS, chunk, np.zeros(len(rows), np.uint8))
        store.write(store.CONTENT, chunk, np.zeros((len(rows), 16), np.uint8))
        _say(f"{n_images:,} images: {rows.stop:,} written")
    for name in (store.STATUS, store.CONTENT, store.VIEWS, space):
        store.finish(name)
        _say(f"{n_images:,} images: sealed {name}")


def _begin(path: Path, labels: np.ndarray, prototypes: np.ndarray) -> FeatureStore:
    n_images, n_classes = len(labels), len(prototypes)
    about = {"format": FeatureStore.FORMAT, "source": f"synthetic/{n_images}", "root": ""}
    about |= {"folder": "", "n_images": n_images, "list": "none", "labelled": True}
    store = FeatureStore(path, begin={**about, "upright": False, "chunk": CHUNK})
    store.put(store.IDS, np.array([f"image-{n:07}" for n in range(n_images)], object), {})
    store.put(store.LABELS, labels, {})
    store.prepare(store.STATUS, (), "uint8", made={})
    store.prepare(store.CONTENT, (16,), "uint8", made={})
    store.mark()
    encoder = {"name": "synthetic", "library": "none", "tag": ""}
    names = [f"class {n}" for n in range(n_classes)]
    made = {"encoder": encoder, "views": {"recipe": "V0", "n_views": 1, "seed": 0}}
    store.prepare(store.VIEWS, (1, CLIP_DIM), "float16", made=made, card=encoder)
    words = {"encoder": encoder, "logit_scale": 100.0, "prompts": [["none", 1, ""]]}
    words["class_names"] = names
    store.put(store.PROMPTS, prototypes, words)
    store.put(store.PROMPT_CLASS, np.arange(n_classes), words)
    store.put(store.TEXTS, np.array(names, object), words)
    store.put(store.PROTOTYPES, prototypes, words)
    return store


def _around(centers: np.ndarray, part: float, draw: np.random.Generator) -> np.ndarray:
    noise = draw.standard_normal(centers.shape, dtype=np.float32)
    return unit(part * centers + noise / np.float32(math.sqrt(centers.shape[1])))


def measure(command: str, store: Path, work: Path, n_images: int, limit: float) -> tuple:
    """Seconds, peak GiB and how one command ended, in a process of its own."""
    words = [*COMMANDS[command]]
    words += [str(min(_SAMPLE, n_images))] if words[-1] == "--images" else ["-o", str(work)]
    started = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "marc", words[0], f"store/{store}", *words[1:]],
        stdout=subprocess.DEVNULL,
    )
    timer = threading.Timer(limit, child.send_signal, [signal.SIGKILL])
    timer.start()
    _, status, used = os.wait4(child.pid, 0)
    timer.cancel()
    seconds = time.perf_counter() - started
    code = os.waitstatus_to_exitcode(status)
    child.returncode = code  # it was waited for here
    ended = {0: "", -signal.SIGKILL: "stopped"}.get(code, f"failed ({code})")
    return seconds, used.ru_maxrss / 2**20, ended


def _say(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:60}", end="", file=sys.stderr, flush=True)


def _row(command: str, found: dict[int, tuple]) -> str:
    """A line of the table: time and peak at each size, and the exponent between the outer ones."""
    cells = [f"{s:.0f} s, {peak:.2f} GiB {ended}".strip() for s, peak, ended in found.values()]
    sizes = [size for size, (*_, ended) in found.items() if not ended]
    growth = ""
    if len(sizes) > 1:
        times = [found[size][0] for size in (sizes[0], sizes[-1])]
        growth = f"{math.log(times[1] / times[0]) / math.log(sizes[-1] / sizes[0]):.2f}"
    return f"| {command} | {' | '.join(cells)} | {growth} |"


def main() -> None:
    """Write the stores, run the commands over each, print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--images", type=int, default=320_000, help="N")
    parser.add_argument("--sizes", type=int, nargs="+", help="instead of N/16, N/4 and N")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--commands", nargs="+", choices=COMMANDS, default=[*COMMANDS])
    parser.add_argument("--limit", type=float, default=1e6, help="seconds of one command")
    parser.add_argument("--folder", type=Path, help="where the stores are put")
    options = parser.parse_args()
    sizes = options.sizes or [options.images // part for part in (16, 4, 1)]
    found: dict[str, dict[int, tuple]] = {command: {} for command in options.commands}
    folder = Path(tempfile.mkdtemp(prefix="million-", dir=options.folder))
    try:
        for size in sizes:
            store = folder / f"store-{size}"
            make_store(store, size, options.classes)
            for command in options.commands:
                work = folder / f"{command}-{size}"
                found[command][size] = measure(command, store, work, size, options.limit)
                print(f"{size:,} images: {_row(command, {size: found[command][size]})}", flush=True)
            shutil.rmtree(store)
    finally:
        shutil.rmtree(folder)
    print(f"\n| C {options.classes:,} | {' | '.join(f'T {n:,}' for n in sizes)} | exponent |")
    print("|---" * (len(sizes) + 2) + "|")
    print("\n".join(_row(command, each) for command, each in found.items()))


if __name__ == "__main__":
    main()
