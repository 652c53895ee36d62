"""Answers from z, (3) to (5) of `marc.class_means`, with one part taken away or exchanged.

The whole stream at once, as cumulative sums; what is known at an image is what came before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from benchmarks.class_means.reads import SHIPPED, Array, Read
from marc.auto_weight import beyond_chance
from marc.scores import softmax
from marc.types import WEIGHTS

OWN = "predictor"


@dataclass(frozen=True)
class Variant:
    """What is done with z; the defaults are what ships."""

    read: Read = SHIPPED
    beyond_mean: bool = False
    """Take the running mean of z away first."""
    trust: str = "relative"
    """Relative to the predictor's own space; `plain` kappa; or relative to its `confidence`."""
    exponent: float = 1.5
    marginals: bool = True
    """Whether the preference of the memory for some classes is taken away."""
    grid: tuple[float, ...] = field(default=tuple(WEIGHTS))


DEFAULT = Variant()

ABLATION = {
    "as it ships": DEFAULT,
    "not centred": Variant(Read(centred=False)),
    "written with p": Variant(Read(power=1.0)),
    "hard labels": Variant(Read(hard=True)),
    "directions not scaled": Variant(Read(scaled=False)),
    "running mean of z taken away": Variant(beyond_mean=True),
    "plain kappa, k for r": Variant(trust="plain", exponent=1.0),
    "relative to the confidence": Variant(trust="confidence"),
    "marginals not matched": Variant(marginals=False),
    "grid to 200": Variant(grid=(*WEIGHTS, 150.0, 200.0)),
    "exponent 1": Variant(exponent=1.0),
    "exponent 2": Variant(exponent=2.0),
}

BOUNDED = {
    "running mean": DEFAULT,
    "best 16": Variant(Read(best=16)),
    "best 64": Variant(Read(best=64)),
    "last 64": Variant(Read(last=64)),
    "half-life 16": Variant(Read(half_life=16.0)),
    "half-life 64": Variant(Read(half_life=64.0)),
}


@dataclass(frozen=True)
class Answered:
    """The answer to every image, and what led to it."""

    logits: Array
    """(T, C)."""
    trust: Array
    """R, (T,)."""
    evidence: Array
    """w z + k ln(pi_m / pi_b), which r multiplies, (T, C)."""


def answer(
    base: Array,
    z: Mapping[str, NDArray[np.floating]],
    names: Sequence[str],
    variant: Variant = DEFAULT,
) -> Answered:
    """Read these spaces of z, (T, C) each; the predictor's own is always there to compare with."""
    used = {space: np.asarray(z[space], dtype=np.float64) for space in {*names, OWN}}
    if variant.beyond_mean:
        counts = np.arange(1, len(base) + 1)[:, np.newaxis]
        used = {space: each - each.cumsum(axis=0) / counts for space, each in used.items()}
    k = {space: kappa(base, used[space]) for space in names}
    nothing = np.sum([k[space] for space in names], axis=0) <= 0
    squares = [np.where(nothing, 1.0, k[space] ** 2)[:, np.newaxis] for space in names]
    parts = [share * used[space] for share, space in zip(squares, names, strict=True)]
    together = np.sum(parts, axis=0) / np.sum(squares, axis=0)

    agreed = kappa(base, together)
    weight = best_weight(base, together, variant.grid)[:, np.newaxis]
    evidence = weight * together
    if variant.marginals:
        memory, predictor = (1 + softmax(each).cumsum(axis=0) for each in (evidence, base))
        evidence = evidence + agreed[:, np.newaxis] * np.log(memory / predictor)
    others = [k[space] for space in names if space != OWN]
    trust = trusted(base, agreed, others, used[OWN], variant)
    return Answered(base + trust[:, np.newaxis] * evidence, trust, evidence)


def trusted(
    base: Array, agreed: Array, others: Sequence[Array], own: Array, variant: Variant
) -> Array:
    """R, (T,)."""
    if variant.trust == "plain":
        return agreed**variant.exponent
    if variant.trust == "confidence":
        relative = agreed / np.maximum(claimed(base), 1e-6)
    else:
        best = np.max([np.zeros(len(base)), *others], axis=0)
        reference = kappa(base, own, errors=1.0)
        relative = np.where(reference > 0, best / np.where(reference > 0, reference, 1.0), best > 0)
    return np.maximum(agreed, np.minimum(relative, 1)) ** variant.exponent


def kappa(base: Array, evidence: Array, errors: float = -1.0) -> Array:
    """Agreement beyond chance in doubt, plus some standard errors, before each image, (T,)."""
    label, said = base.argmax(axis=1), evidence.argmax(axis=1)
    doubt = 1 - softmax(base).max(axis=1)
    classes = np.eye(base.shape[1])
    sums, squares, same = (before(each) for each in (doubt, doubt**2, doubt * (label == said)))
    votes = [before(doubt[:, np.newaxis] * classes[answers]) for answers in (label, said)]
    known = sums > 0
    sums, squares = np.where(known, sums, 1.0), np.where(known, squares, 1.0)
    chance = np.einsum("tc,tc->t", *votes) / sums**2
    found = beyond_chance(same / sums, chance, sums**2 / squares, errors)
    return np.where(known, found, 0.0)


def claimed(base: Array) -> Array:
    """What kappa would be of a memory as good as the predictor says that it is, (T,)."""
    posterior = softmax(base)
    label, confidence = base.argmax(axis=1), posterior.max(axis=1)
    doubt = (1 - confidence)[:, np.newaxis]
    sums = before(doubt[:, 0])
    known = sums > 0
    sums = np.where(known, sums, 1.0)
    votes = before(doubt * np.eye(base.shape[1])[label]), before(doubt * posterior)
    chance = np.einsum("tc,tc->t", *votes) / sums**2
    rate = before(doubt[:, 0] * confidence) / sums
    beyond = (rate - chance) / np.where(chance < 1, 1 - chance, 1.0)
    return np.where(known & (chance < 1), beyond.clip(0, 1), 0.0)


def best_weight(base: Array, evidence: Array, grid: Sequence[float]) -> Array:
    """The weight that predicted the predictor's sure answers best before each image, (T,)."""
    confidence, label = softmax(base).max(axis=1), base.argmax(axis=1)
    sure = np.flatnonzero(confidence >= confidence.cumsum() / np.arange(1, len(base) + 1))
    scores = np.zeros((len(base), len(grid)))
    for place, weight in enumerate(grid):
        posterior = softmax(weight * evidence[sure])
        hit = posterior[np.arange(len(sure)), label[sure]]
        scores[sure, place] = 2 * hit - (posterior**2).sum(axis=1)
    return np.array(grid)[before(scores).argmax(axis=1)]


def before(added: Array) -> Array:
    """Sums (T, ...) of what came before each image."""
    sums = np.zeros_like(added, dtype=np.float64)
    np.cumsum(added[:-1], axis=0, out=sums[1:])
    return sums
