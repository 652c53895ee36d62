"""Part one: each stream in each space, the paper's read beside class means."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.auto_weight.cells import with_bad_spaces
from benchmarks.class_means.streams import BAD, Plan, Source
from marc.auto_weight import AutoWeight
from marc.class_means import ClassMeans
from marc.method import MARC
from marc.replay.evidence import KernelValues, read_all
from marc.replay.lifetimes import History
from marc.replay.replay import admit, replay
from marc.scores import fuse
from marc.stream import Stream
from marc.types import WEIGHTS

AUTO_CAPACITY, PAPER_CAPACITY, PAPER_WEIGHT = 8, 16, 10.0
ALL = "all"


@dataclass(frozen=True)
class Cell:
    """Mean gains over orders in one space, as shares of the images."""

    group: str
    stream: str
    space: str
    """`all` for class means in all spaces at once, where there is nothing to compare."""
    class_means: float
    paper: float = np.nan
    auto: float = np.nan
    oracle: float = np.nan


def cells_of(source: Source, plan: Plan) -> Iterator[Cell]:
    """Every space of a stream, and all of them; bad spaces are a group of their own."""
    for stream in source.streams():
        shown = stream if source.variants else with_bad_spaces(stream)
        orders = [shown.shuffled(seed) for seed in range(plan.n_orders(source))]
        yield from _cells(source.group, shown, orders)


def _cells(group: str, stream: Stream, orders: list[Stream]) -> Iterator[Cell]:
    good = [space for space in stream.spaces if not space.startswith("bad: ")]
    yield Cell(group, stream.name, ALL, mean_gain(orders, [*good, "predictor"]))
    if len(good) < len(stream.spaces):
        yield Cell(BAD, stream.name, ALL, mean_gain(orders, [*stream.spaces, "predictor"]))
    admitted = [found.trajectory for found in admit(MARC("predictor"), orders, range(len(orders)))]
    capacities = (AUTO_CAPACITY, PAPER_CAPACITY)
    histories = [History.trace(each, capacities, stream.n_classes) for each in admitted]
    for space in stream.spaces:
        kernels = [_kernel_gains(*each) for each in _evidence(stream, space, orders, histories)]
        means = mean_gain(orders, [space])
        shown = group if space in good else BAD
        yield Cell(shown, stream.name, space, means, *np.mean(kernels, axis=0).tolist())


def mean_gain(orders: list[Stream], spaces: list[str]) -> float:
    """Of class means, over orders."""
    return float(np.mean([replay(ClassMeans(spaces), order).gain for order in orders]))


def _evidence(
    stream: Stream, space: str, orders: list[Stream], histories: list[History]
) -> Iterator[tuple[Stream, NDArray[np.float32], NDArray[np.float32]]]:
    """Each order with the evidence of both capacities, (T, C) in stream order."""
    settings = MARC(space)
    values = KernelValues(stream.features.keys(space), settings.alpha, settings.beta)
    shape = (len(orders), 2, len(stream), stream.n_classes)
    found = np.empty(shape, dtype=np.float32)

    def take(order: int, items: NDArray[np.integer], sums: NDArray[np.float32]) -> None:
        found[order][:, items] = sums.transpose(0, 2, 1)

    read_all(values, histories, take)
    for order, (small, large) in zip(orders, found, strict=True):
        yield order, small[order.order], large[order.order]


def _kernel_gains(
    order: Stream, small: NDArray[np.float32], large: NDArray[np.float32]
) -> tuple[float, float, float]:
    """Of the paper's fixed weight, of `auto`, and of the best weight chosen with the labels."""
    base = order.features.base.logits[order.order]
    labels = order.labels
    without = (base.argmax(axis=1) == labels).mean()

    def gain(evidence: NDArray[np.floating], weight: float | NDArray[np.floating]) -> float:
        return float((fuse(base, evidence, weight).argmax(axis=1) == labels).mean() - without)

    weights, beyond = AutoWeight.replay(base, small)
    oracle = max(gain(small, weight) for weight in WEIGHTS)
    return gain(large, PAPER_WEIGHT), gain(beyond, weights[:, np.newaxis]), oracle
