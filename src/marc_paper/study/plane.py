"""A plane on which neighbours stay together: exact t-SNE, for pictures and never for numbers.

Each point spreads one unit of probability over the others, by distance, so that it has about
`perplexity` neighbours. Positions on the plane are moved until distances there, under a Student
kernel, say the same: the Kullback-Leibler divergence of the two falls along its gradient. Steps,
momentum and gains are the usual ones of van der Maaten and Hinton (2008). Nothing is random: the
positions begin at the first two principal components. Time and memory grow with the square of the
points, so this is for a thousand or so.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, integer, number

PERPLEXITY = 30.0

_EXAGGERATION, _EARLY_STEPS = 12.0, 250
_MOMENTUM, _EARLY_MOMENTUM = 0.8, 0.5
_GAIN_UP, _GAIN_DOWN, _LEAST_GAIN = 0.2, 0.8, 0.01
_HALVINGS = 60  # a range of 20 powers of ten, halved down to the precision of a float
_SMALLEST = 1e-12

Matrix = NDArray[np.float64]


def plane(points: Matrix, perplexity: float = PERPLEXITY, n_steps: int = 1000) -> Matrix:
    """Positions (n, 2) of points (n, d); the same points always give the same positions."""
    points = np.asarray(points, dtype=np.float64)
    n_steps = integer("n_steps", n_steps, 1)
    joint = joint_affinities(conditional_affinities(squared_distances(points), perplexity))
    positions = principal_plane(points)
    rate = max(len(points) / _EXAGGERATION / 4, 50.0)
    step, gains = np.zeros_like(positions), np.ones_like(positions)
    for place in range(n_steps):
        early = place < min(_EARLY_STEPS, n_steps // 2)
        slope = gradient(positions, joint * _EXAGGERATION if early else joint)
        turned = step * slope > 0  # the last step went uphill
        gains = np.where(turned, gains * _GAIN_DOWN, gains + _GAIN_UP).clip(_LEAST_GAIN)
        momentum = _EARLY_MOMENTUM if early else _MOMENTUM
        step = momentum * step - rate * gains * slope
        positions = positions + step
    return positions - positions.mean(axis=0)


def allowed_perplexity(n_points: int, perplexity: float = PERPLEXITY) -> float:
    """The perplexity, or less where there are too few points to have so many neighbours."""
    return max(1.0, min(perplexity, (n_points - 1) / 3))


def conditional_affinities(distances: Matrix, perplexity: float) -> Matrix:
    """How each point spreads over the others, (n, n): rows add up to 1, the diagonal is 0.

    The precision of each row is bisected until the exponential of its entropy is the perplexity.
    """
    n = len(distances)
    others = ~np.eye(n, dtype=bool)
    if not 1 <= number("perplexity", perplexity) <= n - 1:
        raise MarcError("a perplexity counts neighbours", got=perplexity, allowed=f"1 to {n - 1}")
    apart = distances[others].reshape(n, n - 1)
    apart = apart - apart.min(axis=1, keepdims=True)
    scale = np.maximum(apart.mean(axis=1, keepdims=True), _SMALLEST)
    low, high = np.full((n, 1), -10.0), np.full((n, 1), 10.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        wide = np.exp(_entropies(_spread(apart * 10**middle / scale))) > perplexity
        low, high = np.where(wide, middle, low), np.where(wide, high, middle)
    spread = np.zeros((n, n))
    spread[others] = _spread(apart * 10**high / scale).ravel()
    return spread


def joint_affinities(conditional: Matrix) -> Matrix:
    """One distribution over all pairs, symmetric (n, n)."""
    return (conditional + conditional.T) / (2 * len(conditional))


def divergence(positions: Matrix, joint: Matrix) -> float:
    """The Kullback-Leibler divergence of the pairs on the plane from those of the points."""
    kernel = _kernel(positions)
    there = joint > 0
    return float((joint[there] * np.log(joint[there] * kernel.sum() / kernel[there])).sum())


def gradient(positions: Matrix, joint: Matrix) -> Matrix:
    """The slope of the divergence at each position, (n, 2)."""
    kernel = _kernel(positions)
    pulls = (joint - kernel / kernel.sum()) * kernel
    slope: Matrix = 4 * (pulls.sum(axis=1, keepdims=True) * positions - pulls @ positions)
    return slope


def principal_plane(points: Matrix) -> Matrix:
    """The first two principal components (n, 2), tiny, with a sign that is always the same."""
    centered = points - points.mean(axis=0)
    axes = np.linalg.svd(centered, full_matrices=False)[2][:2]
    largest = np.abs(axes).argmax(axis=1)[:, np.newaxis]
    axes = axes * np.sign(np.take_along_axis(axes, largest, axis=1))
    found = np.zeros((len(points), 2))
    found[:, : len(axes)] = centered @ axes.T
    return 1e-4 * found / max(float(found[:, 0].std()), _SMALLEST)


def squared_distances(points: Matrix) -> Matrix:
    """Between all pairs, (n, n), never below 0."""
    squares = (points**2).sum(axis=1)
    distances = squares[:, np.newaxis] + squares - 2 * points @ points.T
    np.fill_diagonal(distances, 0.0)
    return distances.clip(0.0)


def _kernel(positions: Matrix) -> Matrix:
    kernel = 1 / (1 + squared_distances(positions))
    np.fill_diagonal(kernel, 0.0)
    return kernel


def _spread(exponents: Matrix) -> Matrix:
    weights = np.exp(-exponents)
    return weights / weights.sum(axis=1, keepdims=True)


def _entropies(spread: Matrix) -> Matrix:
    logs = np.log(np.where(spread > 0, spread, 1.0))
    entropies: Matrix = -(spread * logs).sum(axis=1, keepdims=True)
    return entropies
