"""Pseudo-labels that two encoders agree on, and a map from their features into the space of texts.

Three stages, all without labels. Images are assigned to classes by their distance to the texts in
the predictor's space and to class means in both spaces joined, so that all classes get the same
share of them (Sinkhorn). The orthogonal map that brings images nearest to the texts of their
classes is found in closed form (Procrustes). It is refined down a ranking loss, in which classes
that are near to many images must be left further behind.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marc.peers.transclip import surest_means
from marc.scores import Float, Int, softmax

_SOFTNESS, _REGULARISATION = 0.1, 0.05  # of distances, and of Sinkhorn
_SCALINGS, _SETTLED = 50, 1e-5  # of Sinkhorn: at most as many, and when it is done
_N_CONFIDENT = 8  # images from which a class mean starts
_N_NEAR, _MARGIN_SCALE, _HUB_WEIGHT = 3, 2.0, 2.0
_BATCH, _NOISE, _DROPOUT = 0.75, 0.035, 0.05
_LAST_RATE = 1e-7
_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # of AdamW, its defaults in torch
_SHORTEST = 1e-12


def mined_labels(
    joined: Float, plain: Float, texts: Float, *, scale: float, visual_weight: float, rounds: int
) -> Int:
    """A class for each of N images, from unit features in both spaces and unit texts (C, D).

    Args:
        joined: features of both encoders side by side, (N, D').
        plain: those of the predictor alone, (N, D).
        texts: its prototypes, (C, D).
        scale: tau.
        visual_weight: the share of the class means in the distances; the texts have the rest.
        rounds: of assignments and means.
    """
    cosines = plain.astype(np.float64) @ texts.T.astype(np.float64)
    assigned = softmax(scale * cosines)
    semantic = np.sqrt(np.maximum(2 - 2 * cosines, 0))
    joined = joined.astype(np.float64)
    means = surest_means(joined, assigned, _N_CONFIDENT)
    squares = np.einsum("nd,nd->n", joined, joined)[:, np.newaxis]
    for _ in range(rounds):
        lengths = np.einsum("cd,cd->c", means, means)
        visual = np.sqrt(np.maximum(squares - 2 * joined @ means.T + lengths, 0))
        distances = visual_weight * visual + (1 - visual_weight) * semantic
        assigned = _even_shares(-distances / _SOFTNESS)
        sums = assigned.T @ joined
        sums /= assigned.sum(axis=0)[:, np.newaxis] + 1e-6
        means = sums / (np.linalg.norm(sums, axis=1, keepdims=True) + 1e-6)
    return assigned.argmax(axis=1)


def _even_shares(scores: Float) -> NDArray[np.float64]:
    """Sinkhorn: exp(scores / 0.05) (N, C) scaled so that every class gets N / C, rows sum to 1."""
    n_images, n_classes = scores.shape
    plan = np.exp((scores - scores.max(axis=1, keepdims=True)) / _REGULARISATION)
    plan /= plan.sum()
    for _ in range(_SCALINGS):
        before = plan
        plan = plan / np.maximum(plan.sum(axis=0) * n_classes, _SHORTEST**2)
        plan /= plan.sum(axis=1, keepdims=True) * n_images
        if np.abs(plan - before).max() < _SETTLED:
            break
    return np.asarray(plan * n_images)


def orthogonal_map(joined: Float, targets: Float, identity: float) -> NDArray[np.float32]:
    """The map (D', D) of orthonormal rows or columns with joined @ map nearest to targets (N, D).

    `identity` is the part of the identity in its upper square, as the released code mixes it in.
    """
    left, _, right = np.linalg.svd(joined.T @ targets, full_matrices=False)
    mapping = np.asarray(left @ right, dtype=np.float32)
    side = min(mapping.shape)
    mapping[:side, :side] *= np.float32(1 - identity)
    mapping[np.arange(side), np.arange(side)] += np.float32(identity)
    return mapping


def refined(
    mapping: NDArray[np.float32],
    joined: NDArray[np.float32],
    labels: Int,
    texts: NDArray[np.float32],
    *,
    rate: float,
    decay: float,
    steps: int,
    seed: int,
) -> NDArray[np.float32]:
    """The map after some steps of AdamW whose rate falls along a cosine."""
    mapping, state = mapping.copy(), _Moments.of(mapping)
    for step, (rows, features) in enumerate(_disturbed_batches(joined, steps, seed)):
        gradient = _ranking_loss(mapping, features, labels[rows], texts)[1]
        now = _LAST_RATE + (rate - _LAST_RATE) * (1 + math.cos(math.pi * step / steps)) / 2
        state.descend(mapping, gradient, now, decay)
    return mapping


def _disturbed_batches(
    joined: NDArray[np.float32], steps: int, seed: int
) -> Iterator[tuple[Int, NDArray[np.float32]]]:
    """Three quarters of the images at each step, at times with noise or without some features."""
    draw, size = np.random.default_rng(seed), max(int(_BATCH * len(joined)), 1)
    for _ in range(steps):
        rows = draw.permutation(len(joined))[:size]
        features = joined[rows]
        if draw.random() > 0.5:
            noise = draw.standard_normal(features.shape, dtype=np.float32)
            features += np.float32(_NOISE) * noise
        if draw.random() > 0.5:
            kept = draw.random(features.shape, dtype=np.float32) >= _DROPOUT
            features = np.where(kept, features * np.float32(1 / (1 - _DROPOUT)), np.float32(0))
        yield rows, features


def _ranking_loss(
    mapping: NDArray[np.float32], features: NDArray[np.float32], labels: Int, texts: Float
) -> tuple[float, NDArray[np.float32]]:
    """The mean of max(0, d_own + margin_c - d_c) over the 3 nearest classes c, and its gradient.

    Distances are those of unit mapped features (n, D) to the texts; margin_c grows with how unlike
    c and the own class are, and with the share of the images that are near to c. With cosines
    x = <v, t>, d = sqrt(2 - 2 x), the gradient by a mapped feature of length l is that by x times
    (t - x v) / l.
    """
    from scipy.sparse import csr_array

    n, each = len(features), np.arange(len(features))[:, np.newaxis]
    mapped = features @ mapping
    norms = np.maximum(np.sqrt(np.einsum("nd,nd->n", mapped, mapped)), np.float32(_SHORTEST))
    mapped /= norms[:, np.newaxis]
    cosines = mapped @ texts.T
    near = _nearest(cosines, min(_N_NEAR, len(texts)))
    hubs = np.bincount(near.ravel(), minlength=len(texts)) / n
    own = labels[:, np.newaxis]
    alike = np.einsum("nkd,nd->nk", texts[near], texts[labels])
    margins = (1 - alike) / _MARGIN_SCALE + _HUB_WEIGHT * hubs[near]
    columns = np.concatenate([own, near], axis=1)
    distances = np.sqrt(np.maximum(2 - 2 * cosines[each, columns].astype(np.float64), 0))
    gaps = distances[:, :1] + margins - distances[:, 1:]
    active = gaps > 0
    pull = np.concatenate([active.sum(axis=1, keepdims=True), -active.astype(int)], axis=1)
    by_cosine = -pull / np.maximum(distances, 1e-6) / near.size  # d d / d x = -1 / d
    by_cosine[distances == 0] = 0
    along = (by_cosine * cosines[each, columns]).sum(axis=1)
    weights = by_cosine.astype(np.float32).ravel(), columns.ravel()
    starts = np.arange(n + 1) * columns.shape[1]
    pulls = csr_array((*weights, starts), shape=cosines.shape) @ texts
    pulls -= along.astype(np.float32)[:, np.newaxis] * mapped
    pulls /= norms[:, np.newaxis]
    return float(np.maximum(gaps, 0).mean()), features.T @ pulls


def _nearest(cosines: Float, n: int) -> Int:
    """The n classes (N, n) of largest cosine, by cosine; equal ones in their order."""
    return np.argsort(-cosines, axis=1, kind="stable")[:, :n]


@dataclass
class _Moments:
    """AdamW's moments of a gradient."""

    first: NDArray[np.float32]
    second: NDArray[np.float32]
    n_steps: int = 0

    @classmethod
    def of(cls, parameter: NDArray[np.float32]) -> _Moments:
        return cls(np.zeros_like(parameter), np.zeros_like(parameter))

    def descend(
        self, parameter: NDArray[np.float32], gradient: Float, rate: float, decay: float
    ) -> None:
        """One step, in place."""
        self.n_steps += 1
        parameter *= np.float32(1 - rate * decay)
        self.first += np.float32(1 - _BETA1) * (gradient - self.first)
        self.second *= np.float32(_BETA2)
        self.second += np.float32(1 - _BETA2) * gradient * gradient
        deviation = np.sqrt(self.second) / np.float32(math.sqrt(1 - _BETA2**self.n_steps))
        step = rate / (1 - _BETA1**self.n_steps)
        parameter -= np.float32(step) * self.first / (deviation + np.float32(_EPSILON))
