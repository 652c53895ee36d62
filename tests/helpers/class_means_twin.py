"""Class means again, from the equations (1) to (6) of `marc.class_means`, slowly and obviously.

Everything that an image is answered with is found anew from all images before it: no running sum,
no block, no inner product that is kept. Of the product it takes only the update of the principal
directions, which has a test of its own.
"""

from dataclasses import dataclass

import numpy as np

from marc.class_means import principal_directions
from marc.types import WEIGHTS


@dataclass
class Answered:
    """What one image was answered with."""

    logits: np.ndarray
    evidence: dict[str, np.ndarray]
    weights: dict[str, float]
    trust: float

    @property
    def prediction(self):
        return int(self.logits.argmax())


def probabilities(logits):
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


def answers(base, keys, names, preferred):
    """Every image of a stream: base logits (T, C) and keys (T, D_s) by space, in its order.

    `preferred` (T,) are places in the grid of weights, taken where they are as good as the best:
    at large weights an answer is certain, and between equal scores rounding decides.
    """
    base = base.astype(np.float64)
    spaces = list(dict.fromkeys([*names, "predictor"]))
    keys = {space: keys[space].astype(np.float64) for space in spaces}
    z = {space: [] for space in spaces}  # (2) of every image so far
    fused, memory_posteriors, answered = [], [], []
    for t in range(len(base)):
        for space in spaces:
            z[space].append(cosines(keys[space][:t], base[:t], keys[space][t]))
        k = {space: agreement(base[:t], z[space][:t], -1) for space in spaces}
        share = shares({space: k[space] for space in names})
        fused.append(sum(share[space] * z[space][t] for space in names))  # (3)
        together = agreement(base[:t], fused[:t], -1)
        w = best_weight(base[:t], fused[:t], preferred[t])

        own = agreement(base[:t], z["predictor"][:t], +1)
        best = max([k[space] for space in names if space != "predictor"], default=0.0)
        relative = min(1.0, best / own) if own > 0 else float(best > 0)
        trust = max(together, relative) ** 1.5  # (4)

        memory_posteriors.append(probabilities(w * fused[t]))
        of_base = np.ones(base.shape[1]) + sum(probabilities(row) for row in base[: t + 1])
        of_memory = np.ones(base.shape[1]) + sum(memory_posteriors)
        evidence = {space: z[space][t] for space in names}
        evidence["class marginals"] = np.log(of_memory / of_base)
        weights = {space: trust * w * share[space] for space in names}
        weights["class marginals"] = trust * together
        logits = base[t] + sum(weights[name] * evidence[name] for name in evidence)  # (5)
        answered.append(Answered(logits, evidence, weights, trust))
    return answered


def cosines(images, base, image):
    """(2), float32, of one image to the means (1) of the images (t, D) before it."""
    n_classes, dim = base.shape[1], len(image)
    middle = images.mean(axis=0) if len(images) else np.zeros(dim)
    A = metric(images, dim)
    found, posteriors = np.zeros(n_classes), [probabilities(logits) for logits in base]
    for c in range(n_classes):
        total, count = np.zeros(dim), 0.0
        for row, posterior in zip(images, posteriors, strict=True):
            if posterior[c] > 0.001:
                total += posterior[c] ** 2 * row  # (6)
                count += posterior[c] ** 2
        if count == 0:
            continue
        u, v = image - middle, total / count - middle
        if u @ A @ u > 1e-9 and v @ A @ v > 1e-9:
            found[c] = (u @ A @ v) / np.sqrt((u @ A @ u) * (v @ A @ v))
    return found.astype(np.float32)


def metric(images, dim):
    """A of (2): the four leading directions scaled to the variance of the fifth, from 48 images."""
    if len(images) < 48:
        return np.eye(dim)
    kept = min(8, dim)
    basis, strengths, center = np.zeros((kept, dim)), np.zeros(kept), np.zeros(dim)
    for start in range(0, len(images) // 16 * 16, 16):
        block = images[start : start + 16]
        basis, strengths, center = principal_directions(basis, strengths, center, start, block)
    variances = strengths**2
    A = np.eye(dim)
    for direction, variance in zip(basis[:4], variances[:4], strict=False):
        scale = min(1.0, max(0.01, variances[min(4, kept - 1)] / max(variance, 1e-9)))
        A -= (1 - scale) * np.outer(direction, direction)
    return A


def agreement(base, evidence, errors):
    """Kappa where the predictor doubts, plus some standard errors, over the images that passed."""
    if len(base) == 0:
        return 0.0
    label = [int(row.argmax()) for row in base]
    answer = [int(row.argmax()) for row in evidence]
    doubt = [1 - probabilities(row)[c] for row, c in zip(base, label, strict=True)]
    whole = sum(doubt)
    if whole == 0:
        return 0.0

    def share(of):
        return sum(d for d, counted in zip(doubt, of, strict=True) if counted) / whole

    rate = share([a == b for a, b in zip(label, answer, strict=True)])
    chance = sum(
        share([b == c for b in label]) * share([a == c for a in answer])
        for c in range(base.shape[1])
    )
    if chance >= 1 - 1e-12:
        return 0.0
    n = whole**2 / sum(d * d for d in doubt)
    error = np.sqrt(max(rate * (1 - rate), 1 / n) / n)
    return float(np.clip((rate + errors * error - chance) / (1 - chance), 0, 1))


def shares(agreements):
    """k_s^2 / sum k_s^2; alike where nothing agrees."""
    whole = sum(k**2 for k in agreements.values())
    if whole == 0:
        return {space: 1 / len(agreements) for space in agreements}
    return {space: k**2 / whole for space, k in agreements.items()}


def best_weight(base, fused, preferred):
    """The weight that predicts the answers best that the predictor was surer of than on average."""
    score, confidences = np.zeros(len(WEIGHTS)), []
    for logits, z in zip(base, fused, strict=True):
        label = int(logits.argmax())
        confidences.append(probabilities(logits)[label])
        if confidences[-1] < np.cumsum(confidences)[-1] / len(confidences):
            continue
        each = [probabilities(weight * z) for weight in WEIGHTS]
        score += [2 * p[label] - (p**2).sum() for p in each]
    as_good = score[preferred] > score.max() - 1e-9
    return WEIGHTS[preferred if as_good else int(score.argmax())]
