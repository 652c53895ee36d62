"""What `benchmarks.peers.results` runs: every method on the same images, views and orders.

A block is one `marc run --method all`, whose folders are kept: what was run is not run again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import marc
from benchmarks.peers.packs import few_of_each, with_prompts
from marc.peers.registry import METHODS
from marc.results.all_methods import AllMethods
from marc.results.compare import Comparison, compare
from marc.sources.pack import read_pack, write_pack
from marc.stream import Stream

OURS = "class-means"
VIEWS, FRACTION = 8, 0.25
"""Of the views a tenth is kept as published; of eight that is none, so a quarter of them."""
HARD = ("dirichlet:gamma=0.1", "dirichlet:gamma=0.01", "sorted")
LAB = ("sketch-12", "clutter-12", "fog-12")
LAB_PREDICTOR, LAB_SPACE = "captions-vit", "pairs-large"
SHOTS, LAB_SHOTS = 4, 16
"""Labelled images of each class, for the methods that need some."""
FROM_FILES = ("shots", "unlabelled")


@dataclass(frozen=True)
class Block:
    """One stream in some orders, and what the methods are told."""

    name: str
    open: Callable[[], Stream]
    orders: Sequence[int]
    space: str
    settings: Mapping[str, Any]
    only: Callable[[str], bool] = lambda name: True

    def compared(self, folder: Path) -> tuple[Comparison, dict[str, str]]:
        """Every method that can run, against ours, and why the others cannot."""
        every = AllMethods(self.open(), self.orders, {"spaces": [self.space]}, self.settings)
        every.check()
        names = [name for name in METHODS if self.only(name)]
        refused = {name: why for name in names if (why := every.refusal(name)) is not None}
        names = [name for name in names if name not in refused]
        place = folder / self.name.replace(" ", "-").replace(":", "-").replace(",", "")
        failed = every.write(place, names, self._tell)
        done = [place / name for name in names if name not in failed]
        return compare(*done, against=place / OURS), {**refused, **failed}

    def _tell(self, name: str, stream: Stream, done: int) -> None:
        print(f"{self.name}: {name}, seed {stream.seed}", flush=True, file=sys.stderr)


def blocks(packs: Sequence[Path], folder: Path) -> Iterator[Block]:
    """All of them, those of a pack together."""
    for path in packs:
        yield from _of_pack(path, folder)
    for name in LAB:
        settings = {"fraction": FRACTION, "shots": str(_lab_shots(folder))}
        yield Block(f"lab {name}", partial(_lab, name), [0], LAB_SPACE, settings)


def _of_pack(path: Path, folder: Path) -> Iterator[Block]:
    """One view in shuffled orders; of a pack with views also all the rest."""
    name, pack = path.stem, read_pack(path)
    space = "resnet50" if "resnet50" in pack.spaces else pack.spaces[1]

    def stream(n_views: int = 1) -> Stream:
        return with_prompts(pack).with_views(n_views)

    yield Block(f"{name} one view", stream, [0, 1, 2], space, {})
    if pack.n_views < VIEWS:
        return
    yield Block(f"{name} eight views", lambda: stream(VIEWS), [0], space, {"fraction": FRACTION})
    for kind in HARD:
        yield Block(f"{name} {kind}", lambda k=kind: stream().ordered(k), [0], space, {})
    files = {need: str(folder / f"{name}-{need}.npz") for need in FROM_FILES}
    first, second = _halves(pack)
    folder.mkdir(parents=True, exist_ok=True)
    write_pack(replace(first, row_labels=None), Path(files["unlabelled"]))
    write_pack(first.subset(few_of_each(first.row_labels, SHOTS)), Path(files["shots"]))

    def needs_files(method: str) -> bool:
        return method in (OURS, "zero-shot") or bool({*FROM_FILES} & {*METHODS[method].needs})

    yield Block(f"{name} second half", lambda: second, [0], space, files, needs_files)


def _halves(stream: Stream) -> tuple[Stream, Stream]:
    """The first and the second half of the images in the order of seed 0, seen in one view."""
    order, stream = stream.shuffled(0).order, stream.with_views(1)
    half = len(order) // 2
    known = {stream.features.clip_keys[row].tobytes() for row in order[:half]}
    rest = [row for row in order[half:] if stream.features.clip_keys[row].tobytes() not in known]
    return stream.subset(order[:half]), stream.subset(np.array(rest))


def _lab(name: str) -> Stream:
    return marc.load_stream(f"lab/{name}@{LAB_PREDICTOR}", n_views=VIEWS)


def _lab_shots(folder: Path) -> Path:
    """Labelled pictures of the world that no shift has touched."""
    path = folder / "lab-shots.npz"
    stream = marc.load_stream(f"lab/clean-12@{LAB_PREDICTOR}")
    folder.mkdir(parents=True, exist_ok=True)
    write_pack(stream.subset(few_of_each(stream.row_labels, LAB_SHOTS)), path)
    return path
