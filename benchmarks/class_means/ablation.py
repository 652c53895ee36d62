"""Parts four and five: class means with one part exchanged, and with other memories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.class_means.cells import ALL
from benchmarks.class_means.reads import read
from benchmarks.class_means.streams import Plan, Source
from benchmarks.class_means.variants import ABLATION, BOUNDED, OWN, Variant, answer
from marc.stream import Stream

BOUNDED_KINDS = ("shuffled", "sorted", "dirichlet:gamma=0.1", "domains", "returning")


@dataclass(frozen=True)
class Gain:
    """Of one variant in one space, mean over orders."""

    group: str
    stream: str
    kind: str
    variant: str
    space: str
    gain: float


def ablation_of(source: Source, plan: Plan) -> Iterator[Gain]:
    """Every part in turn; photographs are shown sorted by class too."""
    photographs = source.group == "photographs"
    for stream in source.streams():
        for kind in ("shuffled", "sorted") if photographs else ("shuffled",):
            n_orders = plan.few if photographs else 1
            yield from _gains(source.group, stream, kind, n_orders, ABLATION)


def bounded_of(source: Source, plan: Plan) -> Iterator[Gain]:
    """Every memory in every kind of order."""
    stream = source.open()
    for kind in BOUNDED_KINDS:
        if kind in ("domains", "returning") and stream.row_domains is None:
            continue
        yield from _gains(source.group, stream, kind, plan.few, BOUNDED)


def _gains(
    group: str, stream: Stream, kind: str, n_orders: int, variants: Mapping[str, Variant]
) -> Iterator[Gain]:
    """Each variant in each space and in all of them."""
    found: dict[tuple[str, str], list[float]] = {}
    for seed in range(n_orders):
        for key, gain in _in_order(stream.ordered(kind, seed=seed), variants):
            found.setdefault(key, []).append(gain)
    for (name, space), gains in found.items():
        yield Gain(group, stream.name, kind, name, space, float(np.mean(gains)))


def _in_order(
    order: Stream, variants: Mapping[str, Variant]
) -> Iterator[tuple[tuple[str, str], float]]:
    """The gain of each variant and space; z is read once for all variants that share it."""
    features, labels = order.features, order.labels
    base = features.base.logits[order.order].astype(np.float64)
    without = (base.argmax(axis=1) == labels).mean()
    every = [*order.spaces, OWN]
    for how in dict.fromkeys(variant.read for variant in variants.values()):
        z = {space: read(features.keys(space)[order.order], base, how) for space in every}
        for name, variant in variants.items():
            if variant.read == how:
                for space in (*order.spaces, ALL):
                    names = every if space == ALL else [space]
                    answers = answer(base, z, names, variant).logits.argmax(axis=1)
                    yield (name, space), float((answers == labels).mean() - without)
