"""What a study will cost, from the sizes of its streams: before anything is computed.

Shared work is matrix products and passes over their entries; how fast this machine does them is
measured in a moment. Loops over images are taken from times of the reference machine, so that an
estimate is right within a factor of about three, and says so.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final

import numpy as np

from marc.encoders import encoder_card
from marc.encoders.mini import PREFIX
from marc.images import NAMED_SETS
from marc.lab.streams import plan_stream
from marc.sources import load_stream
from marc.store import is_store
from marc.study.declared import store_of
from marc.study.pieces import Piece
from marc.study.plan import Plan, StreamEntry

_ENTRY = 6e-9  # seconds that one entry of a kernel matrix takes beside its product
_BATCH = 6e-8  # seconds that one image of one calibration batch takes, and one neighbour of it
_STEP = 1e-3  # seconds that an image takes in a loop over the stream
_STEPS = {"cosmic": 1.5e-4, "dota": 2e-4, "boostadapter": 4e-5, "dmn-zs": 4e-5, "etta": 4e-5}
"""Seconds more for each class."""
_REPLAYED = ("marc", "tda")  # whole streams at once
WRITTEN = 1.0
"""Seconds that an experiment takes beside its shared work: tables, figures and bootstraps."""
_DRAWN, _EMBEDDED = 5e-3, 7e-4  # seconds of a picture of the lab, and of one encoder's look at it


@final
@dataclass(frozen=True)
class Size:
    """What of a stream decides the cost of work over it."""

    n_images: int
    n_classes: int
    dims: Mapping[str, int]
    seconds: float
    """To make its features, where a source makes them when it is first used."""


def size_of(entry: StreamEntry, spaces: Iterable[str]) -> Size:
    """The size of a stream; the lab's are not drawn for it, and a published one need not be there.

    A published set that is not embedded yet has the size that it was published with.
    """
    kind, _, name = entry.source.partition("/")
    if kind == "lab":
        drawn = plan_stream(name)
        dims = {space: encoder_card(PREFIX + space).dim for space in spaces}
        looks = len(dims) + entry.views - 1
        seconds = len(drawn) * (_DRAWN + looks * _EMBEDDED)
        return Size(len(drawn), len(drawn.classes), dims, seconds)
    store = store_of(entry.source)
    if store is not None and not is_store(store) and entry.dataset in NAMED_SETS:
        published = NAMED_SETS[entry.dataset]
        dims = {space: encoder_card(space).dim for space in spaces}
        return Size(published.images, published.classes, dims, 0.0)
    stream = load_stream(entry.source)
    dims = {space: stream.features.dim(space) for space in spaces}
    return Size(len(stream), stream.n_classes, dims, 0.0)


def seconds_of(piece: Piece, size: Size, plan: Plan, speed: float) -> float:
    """About how long a piece takes, where `speed` products are added up in a second."""
    settings, entries = dict(piece.settings), size.n_images**2
    dim = size.dims.get(piece.space.partition("+")[0], max(size.dims.values()))
    products = entries * dim / speed
    if piece.kind == "run":
        method = str(settings["method"])
        if method in _REPLAYED and settings.get("policy") != "retrieval_aware":
            return products + entries * _ENTRY
        return size.n_images * (_STEP + size.n_classes * _STEPS.get(method, 0.0))
    if piece.kind == "sweep":
        return products + entries * _ENTRY * len(plan.seeds.orders)
    images = size.n_images if piece.kind == "geometry" else sum(plan.draws.sizes)
    batches = plan.draws.batches * images * max(plan.grids.neighbors)
    return products + entries * _ENTRY + batches * _BATCH


def measure_speed() -> float:
    """Products that this machine adds up in a second, in matrices of the size of a block."""
    rows = np.ones((1024, 512), dtype=np.float32)
    rows @ rows.T
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < 0.1:
        rows @ rows.T
        done += 1
    return done * 1024 * 1024 * 512 / (time.perf_counter() - started)
