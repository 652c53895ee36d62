"""Proposition 1: which answers cannot change when one retrieval space is swapped for another.

Both spaces share what is stored, so their evidence differs at most by D_c, the kernel's slope
times the change of cosines over the retained items of class c. Where the winner leads by more than
w (D_winner + max of the other D), no swap can change the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.method import MARC
from marc.replay.evidence import KernelValues, read_all
from marc.replay.lifetimes import History
from marc.replay.replay import admit
from marc.scores import Float, Int, fuse
from marc.stream import Stream


@dataclass(frozen=True)
class Stability:
    """Per image in stream order, (T,): how far the winner leads and how much a swap can move."""

    gap: NDArray[np.float64]
    """Fused score of the winner minus the best other, in the first space."""
    bound: NDArray[np.float64]
    """w (D_winner + max of the other D)."""

    @property
    def certain(self) -> NDArray[np.bool_]:
        """Images whose answer is the same in both spaces, proved without asking the second."""
        return self.gap > self.bound


@dataclass(frozen=True)
class _CosineChanges:
    """alpha beta |u - u'| between items and queries of two spaces."""

    keys: NDArray[np.float32]
    other: NDArray[np.float32]
    slope: float

    def to(self, items: Int) -> Callable[[Int], Float]:
        keys, other = self.keys[items], self.other[items]
        return lambda q: keys @ self.keys[q].T - other @ self.other[q].T

    def finish(self, products: Float, values: Float) -> None:
        np.abs(products, out=values)
        values *= np.float32(self.slope)


def stability(method: MARC, stream: Stream, other: str) -> Stability:
    """Bound the change of every answer when `method.space` is replaced by the space `other`."""
    if method.weight == "auto":
        raise MarcError(
            "the bound holds for one weight, and this one is learned from the first space",
            got="weight='auto'",
            hint="weight=10.0",
        )
    weight, features = method.weight, stream.features
    [admitted] = admit(method, [stream], [method.seed])
    history = History.trace(admitted.trajectory, (method.capacity,), stream.n_classes)
    size = len(features.ids)
    winner = np.empty(size, dtype=np.int64)
    gap, bound = np.empty(size), np.empty(size)

    def lead(order: int, items: Int, evidence: NDArray[np.float32]) -> None:
        logits = fuse(features.base.logits[items], evidence[0].T, weight)
        winner[items] = logits.argmax(axis=-1)
        top = np.partition(logits, -2, axis=-1)
        gap[items] = top[:, -1] - top[:, -2]

    def move(order: int, items: Int, changes: NDArray[np.float32]) -> None:
        change = changes[0].T.astype(np.float64)
        own = winner[items][:, np.newaxis]
        most = np.take_along_axis(change, own, axis=-1)[:, 0]
        np.put_along_axis(change, own, -np.inf, axis=-1)
        bound[items] = weight * (most + change.max(axis=-1))

    keys, other_keys = features.keys(method.space), features.keys(other)
    read_all(KernelValues(keys, method.alpha, method.beta), [history], lead)
    read_all(_CosineChanges(keys, other_keys, method.alpha * method.beta), [history], move)
    return Stability(gap[stream.order], bound[stream.order])
