"""Parts two and three: photographs, every method that can run, in shuffled and in hard orders."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import marc
from benchmarks.class_means.streams import Plan, Source
from benchmarks.peers.packs import with_prompts
from marc.class_means import ClassMeans
from marc.loop import AnyMethod, Replayable
from marc.method import MARC
from marc.peers.registry import METHODS
from marc.spaces.trust import is_own
from marc.stream import Stream

KINDS = (
    *("shuffled", "stored", "sorted"),
    *("dirichlet:gamma=1", "dirichlet:gamma=0.1", "dirichlet:gamma=0.01"),
    *("long-tail", "bursts", "domains", "returning"),
)
IN_ORDERS = ("etta", "oga", "tda", "marc", "marc, auto")
"""Methods beside class means in hard orders."""
WITHOUT_COPY = "class-means, without the copy"
"""In the predictor's own space, and in all others that are no copy of it."""


@dataclass(frozen=True)
class Outcome:
    """One method on one stream, in one kind of order."""

    stream: str
    kind: str
    method: str
    gains: tuple[float, ...]
    """By order, as shares of the images."""
    correct: NDArray[np.bool_]
    """Of each stored image in each order, (orders, N)."""
    commonest: float
    """The share of the answer that is given most often, mean over orders."""

    @property
    def gain(self) -> float:
        """Mean over orders."""
        return float(np.mean(self.gains))


def peers_of(source: Source, plan: Plan) -> Iterator[Outcome]:
    """Every method in shuffled orders."""
    stream = with_prompts(source.open())
    for name in method_names(stream):
        seeds = range(1 if name in plan.slow else plan.orders)
        yield outcome(stream, "shuffled", name, [stream.shuffled(seed) for seed in seeds])


def orders_of(source: Source, plan: Plan) -> Iterator[Outcome]:
    """Class means and some others in every kind of order that the stream has."""
    stream = with_prompts(source.open())
    for kind in KINDS:
        if kind in ("domains", "returning") and stream.row_domains is None:
            continue
        seeds = range(1 if kind == "stored" else plan.orders)
        orders = [stream.ordered(kind, seed=seed) for seed in seeds]
        single = [f"class-means, {space}" for space in stream.spaces]
        for name in ("class-means", *single, *IN_ORDERS):
            yield outcome(stream, kind, name, orders)


def method_names(stream: Stream) -> list[str]:
    """Everything that a pack has all for, MARC and class means in more than one setting."""
    beyond = {"shots", "unlabelled", "text-tower", "image-tower"}
    names = [name for name in marc.list_methods() if not beyond & {*METHODS[name].needs}]
    single = [f"class-means, {space}" for space in stream.spaces]
    return [*names, "marc, auto", WITHOUT_COPY, *single]


def paper_space(stream: Stream) -> str:
    """The space of methods that need one; the first is the predictor's own in these packs."""
    return "resnet50" if "resnet50" in stream.spaces else stream.spaces[1]


def method_of(name: str, stream: Stream) -> AnyMethod:
    """A method at its fixed settings."""
    if name == WITHOUT_COPY:
        others = [space for space in stream.spaces if not is_own(stream.features, space)]
        return ClassMeans([*others, "predictor"])
    if name.startswith("class-means, "):
        return ClassMeans(name.removeprefix("class-means, "))
    if name == "marc, auto":
        return MARC(paper_space(stream), capacity=8, weight="auto")
    settings = {"space": paper_space(stream)} if "space" in METHODS[name].needs else {}
    return marc.create_method(name, **settings)


def outcome(stream: Stream, kind: str, name: str, orders: list[Stream]) -> Outcome:
    """Run a method in each order."""
    gains, correct, commonest = [], [], []
    for order in orders:
        method = method_of(name, order)
        fast = isinstance(method, MARC | Replayable)
        run = marc.replay(method, order) if fast else marc.run(method, order)
        gains.append(float(run.gain))
        right = np.empty(len(order), dtype=bool)
        right[order.order] = run.predictions == order.labels
        correct.append(right)
        commonest.append(np.bincount(run.predictions).max() / len(order))
    every = np.array(correct)
    return Outcome(stream.name, kind, name, tuple(gains), every, float(np.mean(commonest)))
