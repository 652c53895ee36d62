"""What a study will cost, from the sizes of its streams: before anything is computed.

Shared work is matrix products and passes over their entries; how fast this computer multiplies is
measured in a moment. All else is taken from times of single pieces on two cores, so that an
estimate says whether a study takes minutes, hours or days, and no more.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from marc.embed.store import FeatureStore
from marc.encoders import encoder_card
from marc.pictures import NAMED_SETS
from marc.sources import load_stream
from marc_lab.encoders import PREFIX
from marc_lab.streams import plan_stream
from marc_paper.study.plan import Plan, StreamEntry
from marc_paper.study.streams import store_of
from marc_paper.study.work import Experiment, Piece

_PIECE = 0.01  # seconds that any piece takes
_ENTRY = 2e-9  # seconds that one entry of a kernel matrix takes beside its product, in each order
_BATCH = 1e-6  # seconds that one image of one calibration batch takes
_STEP, _CLASS = 1e-4, 1e-6  # seconds of an image in a loop over the stream, and more for each class
_STEPS = {"cosmic": 8e-4, "dota": 1e-3, "dmn-zs": 2e-4}  # of methods that are slower
_PAIR = {"cosmic": 1.5e-7}  # and more for each pair of classes: its graphs
_REPLAYED = ("marc", "tda")  # whole streams at once
_WRITTEN = 1.0  # seconds of an experiment beside its shared work: tables, figures, bootstraps
_DRAWN, _EMBEDDED = 5e-3, 7e-4  # seconds of a picture of the lab, and of one encoder's look at it


@final
@dataclass(frozen=True)
class _Size:
    """What of a stream decides the cost of work over it."""

    n_images: int
    n_classes: int
    dims: Mapping[str, int]
    seconds: float
    """To make its features, where a source makes them when it is first used."""


@final
@dataclass(frozen=True)
class _ExperimentCost:
    """One experiment before it is made."""

    name: str
    status: str
    """to be made, already there, or not possible with the reason."""
    pieces: int
    """Shared work that no experiment before it has done."""
    seconds: float


@final
@dataclass(frozen=True)
class StudyCost:
    """A study before it is made."""

    rows: tuple[_ExperimentCost, ...]
    seconds_of_features: float
    """To make the features of its streams."""

    @property
    def seconds(self) -> float:
        """Of all experiments together."""
        return sum(row.seconds for row in self.rows)

    @classmethod
    def estimate(cls, plan: Plan, asked: Sequence[Experiment], made: Collection[str]) -> StudyCost:
        """What making some experiments would take where `made` are there already."""
        sizes = {name: _size_of(entry, plan.spaces.all) for name, entry in plan.streams.items()}
        speed, rows = _measure_speed(), []
        seen: set[Piece] = set()
        for experiment in asked:
            reason = experiment.missing(plan)
            status = f"not possible: {reason}" if reason else "to be made"
            status = "already there" if experiment.name in made else status
            is_left = not reason and experiment.name not in made
            fresh = set(experiment.pieces(plan)) - seen if is_left else set()
            seen |= fresh
            seconds = sum(_seconds_of(piece, sizes[piece.stream], plan, speed) for piece in fresh)
            rows.append(
                _ExperimentCost(experiment.name, status, len(fresh), seconds + _WRITTEN * is_left)
            )
        opened = {piece.stream for piece in seen}
        return StudyCost(tuple(rows), sum(sizes[name].seconds for name in opened))


def _size_of(entry: StreamEntry, spaces: Iterable[str]) -> _Size:
    """The size of a stream; the lab's are not drawn for it, and a published one need not be there.

    A published set that is not embedded yet has the size that it was published with.
    """
    kind, _, name = entry.source.partition("/")
    if kind == "lab":
        drawn = plan_stream(name)
        dims = {space: encoder_card(PREFIX + space).dim for space in spaces}
        looks = len(dims) + entry.views - 1
        seconds = len(drawn) * (_DRAWN + looks * _EMBEDDED)
        return _Size(len(drawn), len(drawn.classes), dims, seconds)
    store = store_of(entry.source)
    if store is not None and not FeatureStore.exists(store) and entry.dataset in NAMED_SETS:
        published = NAMED_SETS[entry.dataset]
        dims = {space: encoder_card(space).dim for space in spaces}
        return _Size(published.images, published.classes, dims, 0.0)
    stream = load_stream(entry.source)
    dims = {space: stream.features.dim(space) for space in spaces}
    return _Size(len(stream), stream.n_classes, dims, 0.0)


def _seconds_of(piece: Piece, size: _Size, plan: Plan, speed: float) -> float:
    """About how long a piece takes, where `speed` products are added up in a second."""
    settings, entries = dict(piece.settings), size.n_images**2
    dim = size.dims.get(piece.space.partition("+")[0], max(size.dims.values()))
    products = _PIECE + entries * dim / speed
    if piece.kind == "run":
        method = str(settings["method"])
        if method in _REPLAYED and settings.get("policy") != "retrieval_aware":
            return products + entries * _ENTRY
        step = _STEPS.get(method, _STEP) + _CLASS * size.n_classes
        return size.n_images * (step + _PAIR.get(method, 0.0) * size.n_classes**2)
    if piece.kind == "sweep":
        return products + entries * _ENTRY * len(plan.seeds.orders)
    fitting = sum(each for each in plan.draws.sizes if each < size.n_images)
    images = size.n_images if piece.kind == "geometry" else fitting or size.n_images // 2
    return products + entries * _ENTRY + plan.draws.batches * images * _BATCH


def _measure_speed() -> float:
    """Products that this machine adds up in a second, in matrices of the size of a block."""
    rows = np.ones((1024, 512), dtype=np.float32)
    rows @ rows.T
    started, done = time.perf_counter(), 0
    while time.perf_counter() - started < 0.1:
        rows @ rows.T
        done += 1
    return done * 1024 * 1024 * 512 / (time.perf_counter() - started)
