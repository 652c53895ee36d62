"""OGA: Gaussians fitted online to the most confident images of each class.

A memory keeps the eight images of lowest zero-shot entropy per class. Their means and one shrunk
precision for all classes give each image a log-likelihood per class, which is added with a small
weight to its zero-shot logits. Each batch is written before it is read, so an image may be
answered by a memory that holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import check_same_shape, integer, number, one_of, switch
from marc.memory import Resumable, check_keys
from marc.peers._arrays import MOST_SLOTS, check_arrays, distinct_rows, gather
from marc.peers.view_selection import ridged_entropy
from marc.scores import Float, Int, softmax
from marc.types import Query, Step

_RIDGE = 1e-9  # inside the logarithm of the released entropies
_MEANS_OVER = ("capacity", "filled")
_SHRINKAGES = ("always", "auto", "never")
_PSEUDO_INVERSE_CUT = float(np.finfo(np.float32).eps)  # times D, as float32 code cuts it
_KEPT = ("keys", "entropies", "filled", "items")
_NO_SPREAD = 1e-20  # squared residuals of unit features that are rounding alone


@dataclass(eq=False)
class OGA(Resumable):
    """Online Gaussian adaptation. The defaults are the released ones.

    >>> OGA(mean_over="filled").config()["weight"]
    0.05
    """

    name: ClassVar[str] = "oga"

    batch_size: int = 32
    capacity: int = 8
    """Images per class in the memory."""
    weight: float = 0.05
    """What the log-likelihoods count beside the zero-shot logits (tau in the paper)."""
    shrinkage: str = "auto"
    """`auto` shrinks the covariance while at most 4 D images are stored and takes its
    pseudo-inverse beyond; `always` and `never` keep to one of the two."""
    mean_over: str = "capacity"
    """`capacity` divides sums by the number of slots, as released; `filled` gives true means."""
    means_from: int = 2
    """Images from which a class has a mean of its own; below, its text prototype is its mean."""
    normalise_means: bool = False
    writes_first: bool = True
    """Whether each batch is stored before it is answered, as released."""
    half_precision: bool = False
    """Keep keys, entropies, means and residuals in float16, as released on a GPU."""

    _memory: _ConfidentMemory | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.batch_size = integer("batch_size", self.batch_size, 1)
        self.capacity = integer("capacity", self.capacity, 1, MOST_SLOTS)
        self.means_from = integer("means_from", self.means_from, 1)
        self.weight = number("weight", self.weight)
        one_of("shrinkage", self.shrinkage, _SHRINKAGES)
        one_of("mean_over", self.mean_over, _MEANS_OVER)
        self.normalise_means = switch("normalise_means", self.normalise_means)
        self.writes_first = switch("writes_first", self.writes_first)
        self.half_precision = switch("half_precision", self.half_precision)

    def step_batch(self, queries: Sequence[Query]) -> list[Step]:
        """Offer the whole batch to the memory, then answer it."""
        if not len(queries):
            return []
        batch = gather(queries)
        prototypes = batch.predictor.prototypes
        memory = self._memory_for(prototypes)
        labels = batch.logits.argmax(axis=1)
        entropies = ridged_entropy(softmax(batch.logits), _RIDGE)
        if not self.writes_first:
            evidence = self._read(batch.keys, prototypes, memory)
        for row, item in enumerate(batch.items):
            memory.write(batch.keys[row], int(labels[row]), float(entropies[row]), item)
        if self.writes_first:
            evidence = self._read(batch.keys, prototypes, memory)
        return [
            Step(
                item,
                batch.logits[row],
                {"gaussian": evidence[row]},
                {"gaussian": self.weight},
                int(labels[row]),
                -float(entropies[row]),
            )
            for row, item in enumerate(batch.items)
        ]

    def _read(self, keys: Float, prototypes: Float, memory: _ConfidentMemory) -> Float:
        """Log-likelihoods (N, C); the Gaussians are fitted only if the memory has changed."""
        if memory.gaussians is None:
            means = _class_means(
                memory,
                prototypes,
                over=self.mean_over,
                least=self.means_from,
                normalise=self.normalise_means,
            )
            precision = _shared_precision(memory, means, self.shrinkage)
            memory.gaussians = _Gaussians.fitted(means, precision)
        return memory.gaussians.log_likelihoods(keys)

    def _memory_for(self, prototypes: Float) -> _ConfidentMemory:
        """The memory, made empty at the first batch, when C and D are known."""
        n_classes, dim = prototypes.shape
        if self._memory is None:
            self._memory = _ConfidentMemory(n_classes, self.capacity, dim, half=self.half_precision)
        classes, _, stored_dim = self._memory.keys.shape
        check_same_shape((n_classes, dim), (classes, stored_dim))
        return self._memory

    @property
    def memory(self) -> _ConfidentMemory | None:
        """The memory, to look into; None before the first batch."""
        return self._memory

    def _restored(self, state: dict[str, Any]) -> _ConfidentMemory:
        arrays = state["arrays"]
        n_classes, _, dim = arrays["keys"].shape
        slots = n_classes, self.capacity
        shapes = {"entropies": ("f8", *slots), "filled": ("b1", *slots), "items": ("i8", *slots)}
        check_arrays(arrays, {**shapes, "keys": ("f4", *slots, dim)})
        check_keys(arrays["keys"].reshape(-1, dim))
        return _ConfidentMemory.from_state(arrays, half=self.half_precision)


class _ConfidentMemory:
    """The images of lowest entropy of each class, in slots that start at the entropy ln C.

    A newcomer takes the first of the slots with the highest entropy, if its own is strictly lower.
    """

    def __init__(self, n_classes: int, capacity: int, dim: int, *, half: bool = False) -> None:
        self._half = half
        self.keys = np.zeros((n_classes, capacity, dim), dtype=np.float32)
        self.entropies = self.rounded(np.full((n_classes, capacity), np.log(n_classes)))
        self.filled = np.zeros((n_classes, capacity), dtype=bool)
        self.items = np.full((n_classes, capacity), -1, dtype=np.int64)
        self.gaussians: _Gaussians | None = None
        """What was fitted to the memory as it is; None if it changed since."""

    def write(self, key: Float, label: int, entropy: float, item: int) -> None:
        """Offer one image to its class."""
        slot = int(self.entropies[label].argmax())
        if not entropy < self.entropies[label, slot]:
            return
        self.keys[label, slot] = self.rounded(key)
        self.entropies[label, slot] = self.rounded(np.array(entropy))
        self.filled[label, slot] = True
        self.items[label, slot] = item
        self.gaussians = None

    def rounded(self, values: Float) -> Float:
        """The values as a memory in half precision holds them, or as they are."""
        return values.astype(np.float16).astype(values.dtype) if self._half else values

    def state(self) -> dict[str, NDArray]:
        """Copies of all arrays."""
        return {name: getattr(self, name).copy() for name in _KEPT}

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray], *, half: bool = False) -> _ConfidentMemory:
        """The memory that gave a state."""
        memory = cls(*arrays["keys"].shape, half=half)
        for name in _KEPT:
            getattr(memory, name)[...] = arrays[name]
        return memory


@dataclass(frozen=True)
class _Gaussians:
    """One mean per class and one precision for all, in the form that answers queries."""

    slopes: Float
    """P mu for each distinct mean mu, (c, D)."""
    offsets: Float
    """-mu P mu / 2, (c,)."""
    which: Int
    """Which of the means each class has, (C,)."""
    precision: Callable[[Float], Float]
    """P x for rows x (N, D)."""

    @classmethod
    def fitted(cls, means: Float, precision: Callable[[Float], Float]) -> _Gaussians:
        """Each distinct mean is multiplied once: classes that share one then tie exactly."""
        first, which = distinct_rows(means)
        distinct = means[first]
        slopes = precision(distinct)
        offsets = -np.einsum("cd,cd->c", distinct, slopes) / 2
        return cls(slopes, offsets, which, precision)

    def log_likelihoods(self, rows: Float) -> NDArray[np.float64]:
        """-(x - mu_c) P (x - mu_c) / 2 for rows (N, D): (N, C)."""
        rows = rows.astype(np.float64)
        squares = np.einsum("nd,nd->n", rows, self.precision(rows))
        linear = rows @ self.slopes.T + self.offsets
        return linear[:, self.which] - squares[:, np.newaxis] / 2


def _class_means(
    memory: _ConfidentMemory, prototypes: Float, *, over: str, least: int, normalise: bool
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


def _shared_precision(
    memory: _ConfidentMemory, means: Float, shrinkage: str
) -> Callable[[Float], Float]:
    """P as a function of rows: D times the identity until some class holds three images."""
    dim = means.shape[1]
    if not (memory.filled.sum(axis=1) > 2).any():
        return lambda rows: dim * rows
    residuals = memory.rounded(memory.keys[memory.filled] - means[np.nonzero(memory.filled)[0]])
    residuals -= residuals.mean(axis=0)
    n_stored = len(residuals)
    if shrinkage == "never" or (shrinkage == "auto" and n_stored > 4 * dim):
        return _pseudo_inverse(residuals)
    return _ridge_inverse(residuals, dual=n_stored <= dim)


def _ridge_inverse(residuals: Float, *, dual: bool) -> Callable[[Float], Float]:
    """D (R^T R + t I)^-1 for centred residuals R (n, D), where t = trace(R^T R) / (n - 1).

    The dual form inverts n x n instead of D x D; the results agree to rounding. t is at least a
    fraction 1 / n of every eigenvalue, so the inverse is well conditioned. Residuals that are all
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


def _pseudo_inverse(residuals: Float) -> Callable[[Float], Float]:
    """The pseudo-inverse of the covariance R^T R / (n - 1), cut where float32 would cut it."""
    values, vectors = np.linalg.eigh(residuals.T @ residuals / (len(residuals) - 1))
    kept = values > max(_NO_SPREAD, len(values) * _PSEUDO_INVERSE_CUT * values[-1])
    vectors, values = vectors[:, kept], values[kept]
    return lambda rows: (rows @ vectors / values) @ vectors.T
