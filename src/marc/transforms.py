"""Space transforms: a space seen through a mean, a whitening or a projection.

All are fitted on the unlabelled features of the whole stream, so a run that uses one is
transductive and its record says so. Rows come back as unit float32 vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, one_of
from marc.scores import Float, unit

_SMALLEST = 1e-12  # a shorter vector is rounding, not a feature
_EIGENVALUE_FLOOR = 1e-6  # of the largest: directions with less variance are noise of the encoder


def center(rows: Float) -> NDArray[np.float32]:
    """Subtract the mean direction of the stream."""
    rows = np.asarray(rows, dtype=np.float64)
    return _renormalised(rows - rows.mean(axis=0))


def whiten(rows: Float) -> NDArray[np.float32]:
    """PCA whitening: equal variance in every direction that has any."""
    centered, values, vectors = _principal(rows)
    floor = max(_EIGENVALUE_FLOOR * values[0], np.finfo(np.float64).tiny)
    return _renormalised((centered @ vectors) / np.sqrt(np.maximum(values, floor)))


def pca(rows: Float, n_dims: int) -> NDArray[np.float32]:
    """The `n_dims` directions of largest variance."""
    centered, _, vectors = _principal(rows)
    return _renormalised(centered @ vectors[:, :n_dims])


def random(rows: Float, n_dims: int, seed: int = 0) -> NDArray[np.float32]:
    """A Gaussian random projection to `n_dims` dimensions, drawn from `seed`."""
    rows = np.asarray(rows, dtype=np.float64)
    projection = np.random.default_rng(seed).standard_normal((rows.shape[1], n_dims))
    return _renormalised(rows @ projection)


def apply(rows: NDArray[np.float32], steps: Sequence[str]) -> NDArray[np.float32]:
    """Apply transforms written as `center`, `whiten`, `pca:N` or `random:N[:SEED]`, in turn."""
    for step in steps:
        _, transform = _parse(step, rows.shape[1])
        rows = transform(rows)
    return rows


def dimension(dim: int, steps: Sequence[str]) -> int:
    """The dimension that transforms lead to from `dim`; refuses what `apply` cannot read."""
    for step in steps:
        dim, _ = _parse(step, dim)
    return dim


def _parse(step: str, dim: int) -> tuple[int, Callable[[Float], NDArray[np.float32]]]:
    """The dimension after a step, and the step as a function."""
    name, *numbers = step.split(":")
    one_of("space transform", name, ("center", "whiten", "pca", "random"), "NAME+pca:64")
    allowed = {"center": (0,), "whiten": (0,), "pca": (1,), "random": (1, 2)}[name]
    if len(numbers) not in allowed or not all(number.isdecimal() for number in numbers):
        raise MarcError(
            f"the space transform {name!r} is not written like that",
            got=repr(step),
            allowed="center, whiten, pca:N, random:N, random:N:SEED",
        )
    values = [int(number) for number in numbers]
    if values and not 1 <= values[0] <= dim:
        raise MarcError(f"{name} cannot give that dimension", got=values[0], allowed=f"1 to {dim}")
    if name in ("center", "whiten"):
        return dim, center if name == "center" else whiten
    if name == "pca":
        return values[0], lambda rows: pca(rows, values[0])
    return values[0], lambda rows: random(rows, *values)


def _principal(rows: Float) -> tuple[Float, Float, Float]:
    """Centred rows (N, D), and eigenvalues (D,) and vectors (D, D) of their covariance."""
    rows = np.asarray(rows, dtype=np.float64)
    centered = rows - rows.mean(axis=0)
    values, vectors = np.linalg.eigh(centered.T @ centered / len(centered))
    return centered, values[::-1], vectors[:, ::-1]


def _renormalised(rows: Float) -> NDArray[np.float32]:
    norms = np.linalg.norm(rows, axis=-1)
    if not ((norms > _SMALLEST) & np.isfinite(norms)).all():
        raise MarcError(
            "the space transform maps an image to the zero vector",
            got=f"{len(rows)} images of {rows.shape[1]} dimensions",
            hint="use more dimensions, or the space as it is",
        )
    return unit(rows)
