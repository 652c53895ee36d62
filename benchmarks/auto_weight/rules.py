"""Rules for a weight without labels that were tried: each looks at base logits and evidence only.

A rule gives one weight for the whole stream, which it has then seen all of, or one an image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.auto_weight.cells import Array, Cell
from marc.auto_weight import beyond_chance
from marc.scores import softmax
from marc.types import WEIGHTS

GRID = np.array(WEIGHTS)


@dataclass(frozen=True)
class Rule:
    """A rule by name."""

    name: str
    idea: str
    weight: Callable[[Cell], float | Array]
    centred: bool = True
    """Whether it weighs evidence beyond its running mean, or plain evidence."""

    def gain(self, cell: Cell) -> float:
        """What it gains on a cell."""
        return cell.gain(self.weight(cell), cell.beyond if self.centred else cell.evidence)


def log_softmax(scores: Array) -> Array:
    """Ln softmax over the last axis."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def sure(cell: Cell) -> np.ndarray:
    """The half of the images that the predictor is surest of."""
    return cell.confidence >= np.median(cell.confidence)


def loudest(cell: Cell, evidence: Array, score: Callable[[Array, Array], Array]) -> float:
    """The weight at which softmax(w L) predicts the predictor's sure answers best."""
    rows = np.flatnonzero(sure(cell))
    labels = cell.base[rows].argmax(axis=1)[:, np.newaxis]
    totals = []
    for weight in GRID:
        logs = log_softmax(weight * evidence[rows])
        totals.append(score(np.take_along_axis(logs, labels, axis=1)[:, 0], logs).sum())
    return float(GRID[int(np.argmax(totals))])


def likelihood(own: Array, logs: Array) -> Array:
    """The logarithm of the probability of the answer."""
    del logs
    return own


def quadratic(own: Array, logs: Array) -> Array:
    """The quadratic score."""
    return 2 * np.exp(own) - np.exp(2 * logs).sum(axis=1)


def soft(cell: Cell, evidence: Array) -> float:
    """Cross-entropy of softmax(w L) to the predictor's whole posterior, all images."""
    posterior = softmax(cell.base)
    return float(GRID[np.argmax([(posterior * log_softmax(w * evidence)).sum() for w in GRID])])


def joint(cell: Cell, evidence: Array) -> float:
    """Likelihood of the pair if base and memory were independent given the class."""
    first = softmax(cell.base)
    totals = []
    for weight in GRID:
        second = softmax(weight * evidence)
        chance = first @ second.mean(axis=0)
        totals.append((np.log((first * second).sum(axis=1)) - np.log(chance)).mean())
    return float(GRID[int(np.argmax(totals))])


def discriminant(cell: Cell, evidence: Array) -> float:
    """Fisher's: the mean evidence of the predictor's classes over its variance."""
    evidence = evidence - evidence.mean(axis=0)
    evidence = evidence - evidence.mean(axis=1, keepdims=True)
    posterior, n_classes = softmax(cell.base), evidence.shape[1]
    lead = (posterior * evidence).sum() / posterior.sum()
    rest = -lead / (n_classes - 1)
    spread = (posterior * (evidence - lead) ** 2 + (1 - posterior) * (evidence - rest) ** 2).mean()
    return float(np.clip(lead / spread, 0, GRID[-1]))


def agreement(first: np.ndarray, second: np.ndarray, doubt: Array) -> tuple[float, float]:
    """The share of equal answers, weighted by doubt, and its chance."""
    n_classes = int(max(first.max(), second.max())) + 1
    votes = [np.bincount(a, doubt, minlength=n_classes) / doubt.sum() for a in (first, second)]
    return float((doubt * (first == second)).sum() / doubt.sum()), float(votes[0] @ votes[1])


def kappa(cell: Cell) -> float:
    """Agreement of predictor and memory beyond chance where the predictor doubts."""
    doubt = 1 - cell.confidence
    share, chance = agreement(cell.base.argmax(axis=1), cell.beyond.argmax(axis=1), doubt)
    return float(beyond_chance(np.array(share), np.array(chance), np.array(np.inf)))


def as_sure_as_it_agrees(cell: Cell) -> float:
    """The weight at which the memory is, where the predictor doubts, as sure as it agrees."""
    doubt, target = 1 - cell.confidence, kappa(cell)
    means = [(doubt * softmax(w * cell.beyond).max(axis=1)).sum() / doubt.sum() for w in GRID]
    return float(np.interp(target, means, GRID))


def halves(cell: Cell) -> tuple[float, float]:
    """Agreement of the two halves of the memory, and of either with the predictor."""
    doubt, labels = 1 - cell.confidence, cell.base.argmax(axis=1)
    own, _ = agreement(*cell.halves, doubt)
    other = [agreement(labels, half, doubt)[0] for half in cell.halves]
    return own, float(np.mean(other))


def loud(cell: Cell) -> float:
    """How loud the memory should be by the quadratic score."""
    return loudest(cell, cell.beyond, quadratic)


def only_if_halves_agree(cell: Cell) -> float:
    """Nothing, unless the memory agrees with itself more than with the predictor."""
    own, other = halves(cell)
    return loud(cell) * kappa(cell) if own > other else 0.0


def times_halves(cell: Cell) -> float:
    """As loud as the sure images say, times how far the two halves agree."""
    return loud(cell) * halves(cell)[0]


def against_overconfidence(cell: Cell) -> float:
    """Times the ratio of the halves' agreement to that with the predictor, three at most."""
    own, other = halves(cell)
    return loud(cell) * kappa(cell) * min(3.0, own / max(other, 0.02))


RULES = (
    Rule("fixed", "w = 10", lambda cell: 10.0, centred=False),
    Rule(
        "likelihood",
        "softmax(w L) predicts the sure half's answers best, by likelihood",
        lambda cell: loudest(cell, cell.evidence, likelihood),
        centred=False,
    ),
    Rule(
        "half of it",
        "half of that weight",
        lambda cell: 0.5 * loudest(cell, cell.evidence, likelihood),
        centred=False,
    ),
    Rule(
        "soft",
        "cross-entropy of softmax(w L) to the predictor's posterior, all images",
        lambda cell: soft(cell, cell.evidence),
        centred=False,
    ),
    Rule(
        "joint",
        "likelihood of both, independent given the class",
        lambda cell: joint(cell, cell.evidence),
        centred=False,
    ),
    Rule(
        "discriminant",
        "lead of the predicted class over its variance",
        lambda cell: discriminant(cell, cell.evidence),
        centred=False,
    ),
    Rule(
        "likelihood, L'",
        "as above, with evidence beyond its running mean",
        lambda cell: loudest(cell, cell.beyond, likelihood),
    ),
    Rule("soft, L'", "as above, with L'", lambda cell: soft(cell, cell.beyond)),
    Rule("joint, L'", "as above, with L'", lambda cell: joint(cell, cell.beyond)),
    Rule("quadratic, L'", "the quadratic score instead of the likelihood", loud),
    Rule(
        "as sure as it agrees",
        "the memory's mean confidence in doubt is kappa",
        as_sure_as_it_agrees,
    ),
    Rule(
        "likelihood x kappa",
        "times the agreement beyond chance in doubt",
        lambda cell: loudest(cell, cell.beyond, likelihood) * kappa(cell),
    ),
    Rule(
        "quadratic x root kappa",
        "a bolder use of the agreement",
        lambda cell: loud(cell) * np.sqrt(kappa(cell)),
    ),
    Rule(
        "quadratic x kappa",
        "`auto` if it could see the whole stream",
        lambda cell: loud(cell) * kappa(cell),
    ),
    Rule("only if halves agree", "0 where the memory's halves agree less", only_if_halves_agree),
    Rule("quadratic x halves", "agreement of the halves in place of kappa", times_halves),
    Rule(
        "against overconfidence",
        "more where halves agree more than memory and predictor",
        against_overconfidence,
    ),
    Rule("auto", "what ships: causal, less one standard error", lambda cell: cell.learned),
)
