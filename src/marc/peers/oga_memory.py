"""What OGA keeps, and the Gaussians that are fitted to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marc.peers.equal_rows import distinct_rows
from marc.scores import Float, Int

MEANS_OVER = ("capacity", "filled")
SHRINKAGES = ("always", "auto", "never")

_PSEUDO_INVERSE_CUT = float(np.finfo(np.float32).eps)  # times D, as float32 code cuts it
_KEPT = ("keys", "entropies", "filled", "items")
_NO_SPREAD = 1e-20  # squared residuals of unit features that are rounding alone


class ConfidentMemory:
    """The images of lowest entropy of each class, in slots that start at the entropy ln C.

    A newcomer takes the first of the slots with the highest entropy, if its own is strictly lower.
    """

    def __init__(self, n_classes: int, capacity: int, dim: int, *, half: bool = False) -> None:
        self._half = half
        self.keys = np.zeros((n_classes, capacity, dim), dtype=np.float32)
        self.entropies = self.rounded(np.full((n_classes, capacity), np.log(n_classes)))
        self.filled = np.zeros((n_classes, capacity), dtype=bool)
        self.items = np.full((n_classes, capacity), -1, dtype=np.int64)

    def write(self, key: Float, label: int, entropy: float, item: int) -> bool:
        """Offer one image to its class; returns whether it was stored."""
        slot = int(self.entropies[label].argmax())
        if not entropy < self.entropies[label, slot]:
            return False
        self.keys[label, slot] = self.rounded(key)
        self.entropies[label, slot] = self.rounded(np.array(entropy))
        self.filled[label, slot] = True
        self.items[label, slot] = item
        return True

    def rounded(self, values: Float) -> Float:
        """The values as a memory in half precision holds them, or as they are."""
        return values.astype(np.float16).astype(values.dtype) if self._half else values

    def state(self) -> dict[str, NDArray]:
        """Copies of everything that is kept."""
        return {name: getattr(self, name).copy() for name in _KEPT}

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray], *, half: bool = False) -> ConfidentMemory:
        """The memory that gave a state."""
        memory = cls(*arrays["keys"].shape, half=half)
        for name in _KEPT:
            getattr(memory, name)[...] = arrays[name]
        return memory


@dataclass(frozen=True)
class Gaussians:
    """One mean per class and one precision for all, in the form that answers queries."""

    slopes: Float
    """P mu for each distinct mean mu, (c, D)."""
    offsets: Float
    """-mu P mu / 2, (c,)."""
    place: Int
    """Which of the means each class has, (C,)."""
    precision: Callable[[Float], Float]
    """P x for rows x (N, D)."""

    @classmethod
    def fitted(cls, means: Float, precision: Callable[[Float], Float]) -> Gaussians:
        """Each distinct mean is multiplied once: classes that share one then tie exactly."""
        first, place = distinct_rows(means)
        distinct = means[first]
        slopes = precision(distinct)
        offsets = -np.einsum("cd,cd->c", distinct, slopes) / 2
        return cls(slopes, offsets, place, precision)

    def log_likelihoods(self, rows: Float) -> NDArray[np.float64]:
        """-(x - mu_c) P (x - mu_c) / 2 for rows (N, D): (N, C)."""
        rows = rows.astype(np.float64)
        squares = np.einsum("nd,nd->n", rows, self.precision(rows))
        linear = rows @ self.slopes.T + self.offsets
        return linear[:, self.place] - squares[:, np.newaxis] / 2


def class_means(
    memory: ConfidentMemory, prototypes: Float, *, over: str, least: int, normalise: bool
) -> NDArray[np.float64]:
    """mu_c (C, D): the mean of what is stored, or the text prototype below `least` images.

    `capacity` divides the sum by the number of slots, empty ones too, as released; `filled` by
    the number of images.
    """
    means = prototypes.astype(np.float64)
    counts = memory.filled.sum(axis=1)
    known = counts >= least
    sums = memory.keys[known].sum(axis=1, dtype=np.float64)
    parts = counts[known, np.newaxis] if over == "filled" else memory.filled.shape[1]
    means[known] = sums / parts
    if normalise:
        means[known] /= np.linalg.norm(means[known], axis=1, keepdims=True)
    means[known] = memory.rounded(means[known])
    return means


def shared_precision(
    memory: ConfidentMemory, means: Float, shrinkage: str
) -> Callable[[Float], Float]:
    """P as a function of rows: D times the identity until some class holds three images."""
    dim = means.shape[1]
    if not (memory.filled.sum(axis=1) > 2).any():
        return lambda rows: dim * rows
    residuals = memory.rounded(memory.keys[memory.filled] - means[np.nonzero(memory.filled)[0]])
    residuals -= residuals.mean(axis=0)
    n_stored = len(residuals)
    if shrinkage == "never" or (shrinkage == "auto" and n_stored > 4 * dim):
        return pseudo_inverse(residuals)
    return ridge_inverse(residuals, dual=n_stored <= dim)


def ridge_inverse(residuals: Float, *, dual: bool) -> Callable[[Float], Float]:
    """D (R^T R + t I)^-1 for centred residuals R (n, D), where t = trace(R^T R) / (n - 1).

    The dual form inverts n x n instead of D x D; the results agree to rounding. t is at least a
    share 1 / n of every eigenvalue, so the inverse is well conditioned. Residuals that are all
    zero have the pseudo-inverse 0: the Gaussians then say nothing.
    """
    from scipy.linalg import cho_factor, cho_solve

    n_stored, dim = residuals.shape
    trace = float(np.einsum("nd,nd->", residuals, residuals))
    if trace < _NO_SPREAD:
        return np.zeros_like
    ridge = trace / (n_stored - 1)
    matrix = residuals @ residuals.T if dual else residuals.T @ residuals
    np.fill_diagonal(matrix, np.diagonal(matrix) + ridge)
    factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)

    def of_primal(rows: Float) -> Float:
        return dim * cho_solve(factor, rows.T, check_finite=False).T

    def of_dual(rows: Float) -> Float:
        inside = cho_solve(factor, residuals @ rows.T, check_finite=False).T @ residuals
        return (dim / ridge) * (rows - inside)

    return of_dual if dual else of_primal


def pseudo_inverse(residuals: Float) -> Callable[[Float], Float]:
    """The pseudo-inverse of the covariance R^T R / (n - 1), cut where float32 would cut it."""
    values, vectors = np.linalg.eigh(residuals.T @ residuals / (len(residuals) - 1))
    kept = values > max(_NO_SPREAD, len(values) * _PSEUDO_INVERSE_CUT * values[-1])
    vectors, values = vectors[:, kept], values[kept]
    return lambda rows: (rows @ vectors / values) @ vectors.T
