"""Renders pictures of the lab's world into a work folder, on all cores, to be read many times.

    python -m training.pictures --work training/work --pictures 240000

Pictures come in chunks of a thousand, one file each, that appear complete or not at all: killed
at any moment, the next call goes on. Needs NumPy alone.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from marc_lab.caption_texts import caption, tokens
from marc_lab.world import render

TRAINING_SEED, VALIDATION_SEED = 1, 2
CHUNK = 1000
CAPTION_DRAW = 5
"""Sets the random numbers of a caption apart from those of its picture."""
VALIDATION_PICTURES = 2000
PROBES = 96
"""Pictures that tell one version of the world from another."""
UNFINISHED = 3
"""Exit status when the time was up before the last picture."""

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class PictureSet:
    """Pictures 0, stride, 2 stride, ... of a seed: `count` of them, in files under `folder`."""

    folder: Path
    seed: int
    count: int
    stride: int = 1

    @property
    def chunks(self) -> list[Chunk]:
        """The pieces in which the set is rendered and read."""
        starts = range(0, self.count, CHUNK)
        return [Chunk(self, start, min(CHUNK, self.count - start)) for start in starts]


@dataclass(frozen=True)
class Chunk:
    """`count` pictures of a set, from position `start` on."""

    pictures: PictureSet
    start: int
    count: int

    @property
    def path(self) -> Path:
        """Where the chunk is, or will be."""
        of = self.pictures
        return of.folder / f"seed{of.seed}-stride{of.stride}-{self.start:07d}-{self.count}.npz"


def training_pictures(work: Path, count: int) -> PictureSet:
    """What every encoder is trained on: clips, both frames."""
    return PictureSet(_folder(work), TRAINING_SEED, count)


def validation_pictures(work: Path) -> PictureSet:
    """Unseen clean pictures, one frame for each object so that no neighbour is a partner."""
    return PictureSet(_folder(work), VALIDATION_SEED, VALIDATION_PICTURES, stride=2)


@functools.cache
def fingerprint() -> str:
    """A name for what the world draws and says, so that no chunk outlives a change to it."""
    drawn = hashlib.sha256()
    for index in range(PROBES):
        image, label, words = _one(TRAINING_SEED, index)
        drawn.update(image.tobytes() + bytes([label]) + words.tobytes())
    return drawn.hexdigest()[:12]


def chunks(pictures: PictureSet) -> Iterator[Arrays]:
    """Images (n, 64, 64, 3), labels (n,) and tokens (n, length) of each chunk in turn."""
    for chunk in pictures.chunks:
        with np.load(chunk.path) as arrays:
            yield arrays["images"], arrays["labels"], arrays["tokens"]


def render_missing(sets: list[PictureSet], limit_seconds: float) -> bool:
    """Render what is not there yet; False when the time was up before the end."""
    missing = [chunk for of in sets for chunk in of.chunks if not chunk.path.exists()]
    for of in sets:
        of.folder.mkdir(parents=True, exist_ok=True)
    started, done = time.monotonic(), 0
    print(f"{sum(chunk.count for chunk in missing)} pictures to render", flush=True)
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        for chunk in pool.imap_unordered(_render_chunk, missing):
            done += chunk.count
            seconds = time.monotonic() - started
            if seconds > limit_seconds:
                return False
            if done % (20 * CHUNK) == 0 or len(missing) * CHUNK <= done:
                print(f"rendered {done} in {seconds:.0f} s, {done / seconds:.0f}/s", flush=True)
    return True


def render_apart(work: Path, count: int, limit_seconds: float) -> bool:
    """Render in a process of its own, with one thread a worker; False when not all is there."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    command = [sys.executable, "-m", "training.pictures"]
    command += [f"--work={work}", f"--pictures={count}", f"--limit-seconds={limit_seconds}"]
    finished = subprocess.run(command, env=os.environ | dict.fromkeys(threads, "1"), check=False)
    if finished.returncode not in (0, UNFINISHED):
        raise RuntimeError(f"rendering failed with status {finished.returncode}")
    return finished.returncode == 0


def _folder(work: Path) -> Path:
    return work / "pictures" / fingerprint()


def _one(seed: int, index: int) -> tuple[np.ndarray, int, np.ndarray]:
    picture = render(seed, index)
    words = caption(picture.facts, np.random.default_rng([seed, index, CAPTION_DRAW]))
    return picture.image, picture.label, tokens(words).astype(np.int16)


def _render_chunk(chunk: Chunk) -> Chunk:
    of = chunk.pictures
    indices = range(chunk.start * of.stride, (chunk.start + chunk.count) * of.stride, of.stride)
    images, labels, words = zip(*(_one(of.seed, index) for index in indices), strict=True)
    partial = chunk.path.with_suffix(f".{os.getpid()}.partial")
    with partial.open("wb") as file:
        np.savez(file, images=np.stack(images), labels=np.array(labels), tokens=np.stack(words))
    partial.replace(chunk.path)
    return chunk


def main() -> int:
    """Render the training and the validation pictures."""
    parser = argparse.ArgumentParser(description="Render the pictures that train the encoders.")
    parser.add_argument("--work", type=Path, default=Path("training/work"))
    parser.add_argument("--pictures", type=int, default=240_000)
    parser.add_argument("--limit-seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    sets = [validation_pictures(options.work), training_pictures(options.work, options.pictures)]
    return 0 if render_missing(sets, options.limit_seconds) else UNFINISHED


if __name__ == "__main__":
    sys.exit(main())
