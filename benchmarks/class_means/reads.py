"""z of a whole stream in one space, equation (2) of `marc.class_means`, and what else was tried.

One image after the other, every product written out: slow, and obvious. What is in a class is the
running mean that ships, or a memory of K images, or a mean that forgets. Where the product can give
the same numbers faster, it is asked for them; the tests hold the two to each other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marc.class_means import _Means as _ProductMeans
from marc.class_means import principal_directions
from marc.scores import entropy, softmax

Array = NDArray[np.float64]

_BLOCK, _KEPT, _LEADING, _LEAST = 16, 8, 5, 0.01  # those of the product
_WRITTEN, _FLAT = 0.001, 1e-9


@dataclass(frozen=True)
class Read:
    """How classes are remembered and read; the defaults are those that ship."""

    power: float = 2.0
    """An image is written with p to this power."""
    hard: bool = False
    """Only into the class that the predictor answers, and fully."""
    centred: bool = True
    """Whether m, the mean of all images, is taken from images and means."""
    scaled: bool = True
    """Whether the leading principal directions are scaled down."""
    best: int | None = None
    """Only so many images a class, those of the lowest entropy, each written fully."""
    last: int | None = None
    """Only the last so many images a class, each written fully."""
    half_life: float | None = None
    """What a class holds counts half once as much as this was written into it."""


SHIPPED = Read()


def read(keys: NDArray[np.floating], base: Array, how: Read = SHIPPED) -> NDArray[np.float32]:
    """Z (T, C) of images (T, D) with base logits (T, C), in stream order."""
    posterior = softmax(base)
    if how.best or how.last:
        kept_by = -entropy(posterior) if how.best else np.arange(len(base), dtype=float)
        memory = _Bounded(base.shape[1], keys.shape[1], how, posterior.argmax(axis=1), kept_by)
        return followed(keys, memory)
    return read_written(keys, shares(posterior, how), how)


def shares(posterior: Array, how: Read = SHIPPED) -> Array:
    """How much of each image is written into each class, (T, C)."""
    if how.hard:
        return np.eye(posterior.shape[1])[posterior.argmax(axis=1)]
    return np.where(posterior > _WRITTEN, posterior**how.power, 0.0)


def read_written(
    keys: NDArray[np.floating], written: Array, how: Read = SHIPPED
) -> NDArray[np.float32]:
    """The same from what is written of each image, (T, C), whatever it comes from."""
    if how.centred and how.scaled and not how.half_life:
        return _read_by_product(keys, written)
    return read_slowly(keys, written, how)


def read_slowly(
    keys: NDArray[np.floating], written: Array, how: Read = SHIPPED
) -> NDArray[np.float32]:
    """The same, here."""
    return followed(keys, _Means(written.shape[1], keys.shape[1], how, written))


def _read_by_product(keys: NDArray[np.floating], written: Array) -> NDArray[np.float32]:
    means = _ProductMeans.fresh(written.shape[1], keys.shape[1])
    blocks = [slice(start, start + _BLOCK) for start in range(0, len(keys), _BLOCK)]
    return np.concatenate([means.follow(keys[block], written[block]) for block in blocks])


def followed(keys: NDArray[np.floating], memory: _Sums) -> NDArray[np.float32]:
    """Each image is read before it is written."""
    x = np.asarray(keys, dtype=np.float64)
    z = np.zeros((len(x), len(memory.counts)), dtype=np.float32)
    for t, image in enumerate(x):
        if t:
            z[t] = memory.cosines(image)
        changed = memory.write(t, image)
        memory.count(image, changed)
        if (t + 1) % _BLOCK == 0 and memory.how.scaled:
            memory.learn_directions(x[t + 1 - _BLOCK : t + 1])
    return z


class _Sums(ABC):
    """One sum a class, the sum of all images, and the principal directions."""

    def __init__(self, n_classes: int, dim: int, how: Read) -> None:
        self.how = how
        self.sums, self.counts = np.zeros((n_classes, dim)), np.zeros(n_classes)
        self.squares = np.zeros(n_classes)  # |S_c|^2
        self.total, self.n_images = np.zeros(dim), 0
        k = min(_KEPT, dim)
        self.directions = np.zeros((k, dim)), np.zeros(k), np.zeros(dim)
        self.projected = np.zeros((n_classes, k))  # S_c along the directions

    @abstractmethod
    def write(self, t: int, image: Array) -> NDArray[np.integer]:
        """Change sums and counts; the classes that changed."""

    def cosines(self, x: Array) -> Array:
        """Of one image with each class, (C,); 0 where there is nothing to compare."""
        some = self.counts > _FLAT
        n = np.where(some, self.counts, 1.0)
        m = self.total / self.n_images if self.how.centred else np.zeros(len(x))
        dots, middles, x_m, m_m = self.sums @ x / n, self.sums @ m / n, x @ m, m @ m
        both = dots - x_m - middles + m_m  # (x - m) . (mu_c - m)
        image = x @ x - 2 * x_m + m_m
        means = self.squares / n**2 - 2 * middles + m_m
        if self.how.scaled and self.n_images >= 3 * _BLOCK:
            basis, strengths, _ = self.directions
            variances = strengths**2
            less = 1 - (variances[:_LEADING][-1] / np.maximum(variances, _FLAT)).clip(_LEAST, 1)
            along = basis @ (x - m)
            classes = self.projected / n[:, np.newaxis] - basis @ m
            both = both - classes @ (less * along)
            image, means = image - less @ along**2, means - classes**2 @ less
        known = some & (means > _FLAT) & (image > _FLAT)
        return np.where(known, both / np.sqrt(np.where(known, means * image, 1.0)), 0.0).clip(-1, 1)

    def count(self, x: Array, changed: NDArray[np.integer]) -> None:
        """After an image was written: the mean of all, and what follows from changed sums."""
        self.total += x
        self.n_images += 1
        rows = self.sums[changed]
        self.squares[changed] = np.einsum("cd,cd->c", rows, rows)
        self.projected[changed] = rows @ self.directions[0].T

    def learn_directions(self, rows: Array) -> None:
        """Take the last images into the principal directions."""
        self.directions = principal_directions(*self.directions, self.n_images - len(rows), rows)
        self.projected = self.sums @ self.directions[0].T


class _Means(_Sums):
    """A running mean of each class, or one that forgets."""

    def __init__(self, n_classes: int, dim: int, how: Read, written: Array) -> None:
        super().__init__(n_classes, dim, how)
        self.written = written

    def write(self, t: int, image: Array) -> NDArray[np.integer]:
        changed = np.flatnonzero(self.written[t])
        share = self.written[t, changed]
        if self.how.half_life:
            left = 0.5 ** (share / self.how.half_life)
            self.sums[changed] *= left[:, np.newaxis]
            self.counts[changed] *= left
        self.sums[changed] += share[:, np.newaxis] * image
        self.counts[changed] += share
        return changed


class _Bounded(_Sums):
    """K images of each class, those of the highest `kept_by` (T,), all alike."""

    def __init__(
        self, n_classes: int, dim: int, how: Read, labels: NDArray[np.integer], kept_by: Array
    ) -> None:
        super().__init__(n_classes, dim, how)
        self.labels, self.kept_by = labels, kept_by
        self.kept: list[list[tuple[float, int, Array]]] = [[] for _ in range(n_classes)]

    def write(self, t: int, image: Array) -> NDArray[np.integer]:
        label = int(self.labels[t])
        kept = self.kept[label]
        kept.append((float(self.kept_by[t]), -t, image))
        self.sums[label] += image
        self.counts[label] += 1
        if len(kept) > int(self.how.best or self.how.last or 0):
            lost = min(range(len(kept)), key=lambda place: kept[place][:2])
            self.sums[label] -= kept.pop(lost)[2]
            self.counts[label] -= 1
        return np.array([label])
