"""Part six: what an unlabelled stream says of a memory, beside how good the memory is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from benchmarks.class_means.cells import ALL
from benchmarks.class_means.reads import Array, read, read_written, shares
from benchmarks.class_means.streams import Plan, Source
from benchmarks.class_means.variants import OWN, answer, kappa
from marc.scores import softmax
from marc.stats import spearman

Answers = NDArray[np.integer]
_TRUSTS = np.linspace(0, 1, 21)
ESTIMATES = {
    "kappa": "k: agreement with the predictor in doubt, beyond chance",
    "relative": "k / k_0: relative to a memory in the predictor's own space",
    "other spaces": "agreement with the memories of the other spaces, mean",
    "halves": "agreement of a memory of the odd images with one of the even images",
    "shuffled labels": "margin of z over the margin with means of permuted labels",
    "three answerers": "sqrt(k_PA k_AB / k_PB) over other memories B, median",
}


@dataclass(frozen=True)
class Trusted:
    """One memory at the end of a stream, or the predictor."""

    group: str
    stream: str
    space: str
    """The predictor's own memory is not judged; `predictor` is the predictor itself."""
    estimates: dict[str, float]
    accuracy: float
    best_trust: float = np.nan
    """Of a grid, chosen with the labels."""
    best_gain: float = np.nan
    gain: float = np.nan
    """With the trust that ships."""


def trusts_of(source: Source, plan: Plan) -> Iterator[Trusted]:
    """Every space of a stream in one order, all at once, and the predictor."""
    del plan
    stream = source.open()
    order = stream.shuffled(0)
    base = stream.features.base.logits[order.order].astype(np.float64)
    keys = {space: stream.features.keys(space)[order.order] for space in (*stream.spaces, OWN)}
    z = {space: read(keys[space], base) for space in keys}
    memories = {space: z[space].argmax(axis=1) for space in stream.spaces}
    label, truth = base.argmax(axis=1), order.labels
    own = kappa(base, z[OWN], errors=1.0)[-1]
    for space, said in memories.items():
        rest = {other: each for other, each in memories.items() if other != space}
        k = float(kappa(base, z[space])[-1])
        estimates = {
            "kappa": k,
            "relative": min(1.0, k / max(own, 1e-6)),
            "other spaces": float(np.mean([agreed(said, each) for each in rest.values()])),
            "halves": _halves(keys[space], base),
            "shuffled labels": _against_shuffled(keys[space], base, z[space]),
            "three answerers": _of_three(said, label, rest),
        }
        best = _best_trust(base, z, [space], truth)
        accuracy = float((said == truth).mean())
        yield Trusted(source.group, stream.name, space, estimates, accuracy, *best)
    best = _best_trust(base, z, [*stream.spaces, OWN], truth)
    yield Trusted(source.group, stream.name, ALL, {}, np.nan, *best)
    estimates = {
        "confidence": float(softmax(base).max(axis=1).mean()),
        "agreement with memories": float(np.mean([agreed(label, m) for m in memories.values()])),
        "three answerers": _of_three(label, None, memories),
    }
    yield Trusted(source.group, stream.name, OWN, estimates, float((label == truth).mean()))


def agreed(first: Answers, second: Answers) -> float:
    """Cohen's kappa of two answers to every image."""
    size = int(max(first.max(), second.max())) + 1
    rates = [np.bincount(each, minlength=size) / len(each) for each in (first, second)]
    chance = float(rates[0] @ rates[1])
    same = float((first == second).mean())
    return (same - chance) / (1 - chance) if chance < 1 else 0.0


def _halves(keys: NDArray[np.floating], base: Array) -> float:
    """How far memories of either half of the images agree on all images."""
    written, odd = shares(softmax(base)), np.arange(len(base))[:, np.newaxis] % 2
    first, second = (read_written(keys, written * half).argmax(axis=1) for half in (odd, 1 - odd))
    return agreed(first, second)


def _against_shuffled(keys: NDArray[np.floating], base: Array, z: NDArray[np.floating]) -> float:
    """How far the best class leads, over how far it leads when labels mean nothing."""
    permuted = np.random.default_rng(0).permutation(len(base))
    nothing = read_written(keys, shares(softmax(base))[permuted])
    leads = []
    for each in (z, nothing):
        second, first = np.sort(each, axis=1)[:, -2:].T
        leads.append(float((first - second).mean()))
    return leads[0] / max(leads[1], 1e-6)


def _of_three(said: Answers, other: Answers | None, rest: Mapping[str, Answers]) -> float:
    """The accuracy of an answerer if three make their mistakes independently.

    Without a second answerer, the median over pairs of the rest.
    """
    pairs = [(other, each) for each in rest.values()] if other is not None else None
    found = []
    for a, b in pairs or combinations(rest.values(), 2):
        between = agreed(a, b)
        if between > 0:
            found.append(np.sqrt(max(agreed(said, a) * agreed(said, b), 0.0) / between))
    return float(min(np.median(found), 1.0)) if found else 0.0


def _best_trust(
    base: Array, z: Mapping[str, NDArray[np.floating]], names: list[str], truth: Answers
) -> tuple[float, float, float]:
    """The best trust, the middle one where several are; its gain; the gain of what ships."""
    found = answer(base, z, names)
    without = (base.argmax(axis=1) == truth).mean()
    gains = np.array(
        [((base + r * found.evidence).argmax(axis=1) == truth).mean() for r in _TRUSTS]
    )
    best = float(np.median(_TRUSTS[gains == gains.max()]))
    gain = float((found.logits.argmax(axis=1) == truth).mean() - without)
    return best, float(gains.max() - without), gain


def correlation(cells: list[Trusted], estimate: str, of: str) -> tuple[float, float]:
    """Spearman's over all cells, and its mean over streams of that inside each stream."""

    def of_cells(some: list[Trusted]) -> float:
        values = [each.estimates[estimate] for each in some]
        return spearman(values, [getattr(each, of) for each in some])

    streams = dict.fromkeys(each.stream for each in cells)
    inside = [of_cells([each for each in cells if each.stream == name]) for name in streams]
    known = [value for value in inside if not np.isnan(value)]
    return of_cells(cells), float(np.mean(known)) if known else float("nan")
