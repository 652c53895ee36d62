"""Space transforms: a space seen through a mean, a whitening or a projection.

All are fitted on the unlabelled features of the whole stream, so a run that uses one is
transductive and its record says so. Rows come back as unit float32 vectors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, Registry, is_reference
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


@dataclass(frozen=True)
class Transform:
    """A space transform by name: `NAME+center`, or with integers `NAME+pca:64`."""

    name: str
    apply: Callable[..., Float]
    """Rows (N, D), and the integers, to rows (N, D'); they need not have unit length."""
    dimension: Callable[..., int] = lambda dim: dim
    """D' from D and the integers; takes as many as `apply`."""
    spelling: str = ""
    """How it is written; the name if it takes no integers."""


def _reduced(name: str, dim: int, n_dims: int) -> int:
    if not 1 <= n_dims <= dim:
        raise MarcError(f"{name} cannot give that dimension", got=n_dims, allowed=f"1 to {dim}")
    return n_dims


def _transform(name: str, thing: Any) -> Transform:
    """What was registered as a transform: one, or a function of rows alone."""
    if isinstance(thing, Transform):
        return thing
    if not callable(thing):
        raise MarcError(f"{name} is no space transform", got=type(thing).__name__, hint="Transform")
    return Transform(name.rpartition(":")[2], thing)


_OWN: dict[str, Transform | str] = {
    "center": Transform("center", center),
    "whiten": Transform("whiten", whiten),
    "pca": Transform("pca", pca, lambda dim, n: _reduced("pca", dim, n), "pca:N"),
    "random": Transform(
        "random",
        random,
        lambda dim, n, seed=0: _reduced("random", dim, n),
        "random:N, random:N:SEED",
    ),
}
TRANSFORMS = Registry("space transform", "marc.transforms", _OWN, _transform, "NAME+pca:64")
"""Transforms by name: ours, registered ones, and those that installed packages bring."""


def apply(rows: NDArray[np.float32], steps: Sequence[str]) -> NDArray[np.float32]:
    """Apply transforms written as `center`, `whiten`, `pca:N` or `random:N[:SEED]`, in turn."""
    for step in steps:
        transform, numbers, dim = _parse(step, rows.shape[1])
        made = np.asarray(transform.apply(rows, *numbers))
        if made.shape != (len(rows), dim):
            raise MarcError(
                f"the space transform {transform.name!r} gave rows of another shape",
                got=made.shape,
                allowed=(len(rows), dim),
            )
        rows = made if transform.name in TRANSFORMS.own else _renormalised(made)
    return rows


def dimension(dim: int, steps: Sequence[str]) -> int:
    """The dimension that transforms lead to from `dim`; refuses what `apply` cannot read."""
    for step in steps:
        _, _, dim = _parse(step, dim)
    return dim


def resolve(space: str) -> str:
    """A space as a person types it, `NAME+package.module:fn:64`, with its transforms by name.

    >>> resolve("dinov2-b+pca:64"), resolve("dinov2-b+marc.stream.transforms:center")
    ('dinov2-b+pca:64', 'dinov2-b+center')
    """
    name, *steps = space.split("+")
    for index, step in enumerate(steps):
        module, *rest = step.split(":")
        if rest and is_reference(reference := f"{module}:{rest[0]}"):
            steps[index] = ":".join([TRANSFORMS.resolve(reference), *rest[1:]])
    return "+".join([name, *steps])


def _parse(step: str, dim: int) -> tuple[Transform, list[int], int]:
    """A step as a transform and its integers, and the dimension after it."""
    name, *numbers = step.split(":")
    transform = TRANSFORMS.known(name)
    try:
        if not all(number.isdecimal() for number in numbers):
            raise TypeError(numbers)
        values = [int(number) for number in numbers]
        inspect.signature(transform.dimension).bind(dim, *values)
    except TypeError:
        usable, _ = TRANSFORMS.load_all()
        raise MarcError(
            f"the space transform {name!r} is not written like that",
            got=repr(step),
            allowed=", ".join(each.spelling or each.name for each in usable.values()),
        ) from None
    return transform, values, transform.dimension(dim, *values)


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
