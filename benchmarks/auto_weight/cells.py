"""Streams, spaces and evidence on which rules for a weight without labels are judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

import marc
from marc.auto_weight import AutoWeight
from marc.replay.evidence import KernelValues, read_all
from marc.replay.lifetimes import History
from marc.replay.replay import admit
from marc.scores import softmax
from marc.stream import Stream
from marc.types import WEIGHTS

CAPACITY = 8
SEEDS = (0, 1, 2)
SHIFTS = (
    *("clean", "sketch", "neon", "clutter", "fog", "noise", "pixel"),
    *("negative", "thermal", "halftone", "mosaic", "mixed", "drift"),
)
HOSTILE = ("clutter", "noise")
"""Lab streams of which hostile variants are made, besides the photographs."""
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Cell:
    """One stream in one order, read in one space; arrays are in stream order."""

    group: str
    stream: str
    space: str
    base: Array
    """Base logits (T, C)."""
    evidence: Array
    """L (T, C)."""
    halves: tuple[NDArray[np.int64], NDArray[np.int64]]
    """The answers of either half of the memory on its own, (T,) each."""
    labels: NDArray[np.int64]

    @cached_property
    def beyond(self) -> Array:
        """Evidence beyond its running mean."""
        return beyond_mean(self.evidence)

    @cached_property
    def learned(self) -> Array:
        """The weight of each image by `weight="auto"`."""
        return AutoWeight.replay(self.base, self.evidence)[0]

    @cached_property
    def confidence(self) -> Array:
        """Top probability of the predictor."""
        return softmax(self.base).max(axis=1)

    @property
    def base_right(self) -> float:
        """Accuracy without memory."""
        return float((self.base.argmax(axis=1) == self.labels).mean())

    def gain(self, weight: float | Array, evidence: Array) -> float:
        """Accuracy at a weight, or at one weight an image, minus that without memory."""
        scores = self.base + np.reshape(weight, (-1, 1)) * evidence
        return float((scores.argmax(axis=1) == self.labels).mean()) - self.base_right

    @cached_property
    def oracle(self) -> float:
        """The best gain on the paper's grid, chosen with the labels."""
        return max(self.gain(weight, self.evidence) for weight in WEIGHTS)

    @cached_property
    def oracle_beyond(self) -> float:
        """The same with evidence beyond its running mean."""
        return max(self.gain(weight, self.beyond) for weight in WEIGHTS)


def beyond_mean(evidence: Array) -> Array:
    """Evidence (T, C) minus its running mean."""
    return evidence - evidence.cumsum(axis=0) / np.arange(1, len(evidence) + 1)[:, np.newaxis]


def all_streams(packs: list[str]) -> Iterator[tuple[str, Stream]]:
    """Every judged stream with its group: photographs, lab, and hostile variants of some."""
    photographs = [with_bad_spaces(marc.load_stream(f"arrays/{pack}")) for pack in packs]
    for stream in photographs:
        yield "photographs", stream
    lab = {
        f"{shift}{few}": with_bad_spaces(marc.load_stream(f"lab/{shift}{few}"))
        for few in ("", "-12")
        for shift in SHIFTS
    }
    for stream in lab.values():
        yield "lab", stream
    for stream in (*photographs, *(lab[name] for name in HOSTILE)):
        for variant in hostile(stream):
            yield "hostile", variant


def with_bad_spaces(stream: Stream) -> Stream:
    """Two spaces more that are bad on purpose: random vectors, and another image's key."""
    draw, features = np.random.default_rng(0), stream.features
    n_images = len(features.ids)
    first = features.keys(stream.spaces[1])
    bad = {
        "bad: random vectors": draw.standard_normal((n_images, 64), dtype=np.float32),
        "bad: shuffled keys": first[draw.permutation(n_images)],
    }
    return rebuilt(stream, features.predictor.prototypes, 1.0, {**features.spaces, **bad})


def hostile(stream: Stream) -> Iterator[Stream]:
    """The same images under a predictor that is wrong about itself, or wrong by system."""
    features, draw = stream.features, np.random.default_rng(0)
    prototypes = features.predictor.prototypes
    spaces = {name: keys for name, keys in features.spaces.items() if not name.startswith("bad")}
    for factor in (0.5, 2.0, 4.0):
        yield rebuilt(stream, prototypes, factor, spaces, f"{stream.name}, scale x {factor:g}")
    noise = draw.standard_normal(prototypes.shape)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    for level in (0.7, 1.2, 2.0):
        noisy = prototypes + level * noise
        yield rebuilt(stream, noisy, 1.0, spaces, f"{stream.name}, noise {level:g} in the text")
    for seed in (1, 2):
        mixed = prototypes.copy()
        chosen = np.random.default_rng(seed).permutation(len(mixed))[: len(mixed) // 2]
        mixed[chosen] = 0.4 * prototypes[chosen] + 0.6 * prototypes[np.roll(chosen, 1)]
        yield rebuilt(stream, mixed, 1.0, spaces, f"{stream.name}, names confused ({seed})")


def rebuilt(
    stream: Stream,
    prototypes: NDArray[np.floating],
    factor: float,
    spaces: dict[str, NDArray[np.floating]],
    name: str | None = None,
) -> Stream:
    """One view of a stream with other prototypes, another logit scale or other spaces."""
    features = stream.features
    made = Stream.from_arrays(
        features.views[:, :1],
        prototypes,
        spaces,
        logit_scale=factor * features.predictor.logit_scale,
        labels=stream.row_labels,
    )
    return replace(made, name=name or stream.name)


def cells_of(group: str, stream: Stream) -> Iterator[Cell]:
    """Every space and order of a stream, space by space; bad spaces are a group of their own."""
    orders = [stream.shuffled(seed) for seed in SEEDS]
    method = marc.MARC("predictor")
    admitted = [found.trajectory for found in admit(method, orders, SEEDS)]
    whole = [History.trace(trajectory, (CAPACITY,), stream.n_classes) for trajectory in admitted]
    split = [
        History.trace(
            replace(each, label=2 * each.label + np.arange(len(each.label)) % 2),
            (CAPACITY // 2,),
            2 * stream.n_classes,
        )
        for each in admitted
    ]
    for space in stream.spaces:
        values = KernelValues(stream.features.keys(space), method.alpha, method.beta)
        evidence, halves = gathered(values, whole), gathered(values, split)
        for order, trajectory in enumerate(admitted):
            rows = trajectory.order
            both = (halves[order][rows, side::2] for side in (0, 1))
            yield Cell(
                group="bad on purpose" if space.startswith("bad") else group,
                stream=stream.name,
                space=space,
                base=stream.features.base.logits[rows].astype(np.float64),
                evidence=evidence[order][rows].astype(np.float64),
                halves=tuple(beyond_mean(half).argmax(axis=1) for half in both),
                labels=stream.row_labels[rows],
            )


def gathered(values: KernelValues, histories: list[History]) -> NDArray[np.float32]:
    """The evidence of every order, (orders, N, C) by stored row."""
    n_classes = len(histories[0].starts) - 1
    found = np.empty((len(histories), len(histories[0].time), n_classes), dtype=np.float32)

    def take(order: int, items: NDArray[np.integer], sums: NDArray[np.float32]) -> None:
        found[order, items] = sums[0].T

    read_all(values, histories, take)
    return found
