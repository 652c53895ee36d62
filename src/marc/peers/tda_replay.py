"""TDA for whole streams at once: what `run` gives, without a loop over time.

What TDA stores depends on no answer, so lifetimes say who can be read when. It writes before it
reads: image t reads what it has stored itself, and no longer what it has pushed out. So an item
that arrived at i and was pushed out at last(i) is read by t where i <= t < last(i). For t after i
that is a window as MARC's, one step shorter; for t = i it is an image's vote for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.peers.tda import TDA, Seen
from marc.peers.view_selection import select_views
from marc.replay.evidence import KernelValues, read_all
from marc.replay.lifetimes import History, lifetimes
from marc.scores import Int, kernel, softmax, unit
from marc.stream import Stream
from marc.types import Predictor, Run, Trajectory

_ROWS = 256  # images of a block of posteriors
_BLOCK = 2**21  # numbers of a block of views: small enough to stay in a cache


def replay_tda(method: TDA, stream: Stream) -> Run:
    """The same `Run` as `run(method, stream)`, up to the rounding of a sum."""
    offers = _Offers.of(method, stream)
    order = stream.order
    predictions = np.empty(len(order), dtype=np.int64)

    def answer(items: Int, logits: NDArray[np.float64]) -> None:
        predictions[items] = logits.argmax(axis=1)

    trajectory = Trajectory(
        order, offers.labels[order], -offers.entropies[order], method.varies_with
    )
    _fuse_all(method, offers, trajectory, answer)
    return Run(
        method=method.config(),
        predictions=predictions[order],
        base_predictions=trajectory.label,
        trajectory=trajectory,
        labels=stream.labels,
        weights=np.zeros(len(order)),
        seed=stream.seed,
    )


def _fuse_all(
    method: TDA,
    offers: _Offers,
    trajectory: Trajectory,
    consume: Callable[[Int, NDArray[np.float64]], None],
) -> None:
    """Give images (Q,) and their fused scores (Q, C), some at a time and from several threads."""
    n_classes = offers.logits.shape[1]
    history = History.trace(trajectory, (method.capacity,), n_classes)
    own = np.zeros(len(offers.labels))  # what an image adds to its own class: 0 if not admitted
    keys = offers.keys[history.items]  # those that are ever held: the admitted
    own[history.items] = method.alpha * kernel(np.einsum("nd,nd->n", keys, keys), method.beta)
    against = _Against.trace(method, offers, trajectory.order) if method.negative_weight else None

    def take(_: int, items: Int, sums: NDArray[np.float32]) -> None:
        logits = offers.logits[items].astype(np.float64) + sums[0].T
        logits[np.arange(len(items)), offers.labels[items]] += own[items]
        if against is not None:
            logits -= method.negative_weight * against.evidence(items)
        consume(items, logits)

    values = KernelValues(offers.keys, method.alpha, method.beta)
    read_all(values, [replace(history, last=history.last - 1)], take)


@dataclass(frozen=True)
class _Offers:
    """What every image, by stored row, offers to the memories."""

    keys: NDArray[np.float32]
    """(N, D), not of unit length where views are averaged."""
    logits: NDArray[np.float32]
    labels: Int
    entropies: NDArray[np.float64]
    admitted: NDArray[np.bool_]
    """Whether the entropy is in the band of the negative memory, (N,)."""
    against: NDArray[np.bool_]
    """Which classes an image in the band votes against, (N, C)."""

    @classmethod
    def of(cls, method: TDA, stream: Stream) -> _Offers:
        """The offers of a stream, the same in every order."""
        return _averaged(method, stream) if stream.n_views > 1 else _plain(method, stream)


def _plain(method: TDA, stream: Stream) -> _Offers:
    """One view: the base scores are what TDA sees."""
    features, rule = stream.features, method.negative_rule
    base, entropies = features.base, features.base.entropy_as("tda")
    admitted = rule.admits(entropies, stream.n_classes)
    against = np.zeros(base.logits.shape, dtype=bool)
    items = np.flatnonzero(admitted)
    for start in range(0, len(items), _ROWS):
        rows = items[start : start + _ROWS]
        against[rows] = rule.votes_against(softmax(base.logits[rows]))
    return _Offers(features.clip_keys, base.logits, base.label, entropies, admitted, against)


def _averaged(method: TDA, stream: Stream) -> _Offers:
    """Several views: what the loop sees, in blocks of images."""
    n_images, n_views, dim = stream.features.views.shape
    n_classes, rule = stream.n_classes, method.negative_rule
    keys = np.empty((n_images, dim), dtype=np.float32)
    logits = np.empty((n_images, n_classes), dtype=np.float32)
    against = np.empty((n_images, n_classes), dtype=bool)
    labels, entropies = np.empty(n_images, dtype=np.int64), np.empty(n_images)
    size = max(1, _BLOCK // (n_views * max(dim, n_classes)))
    for start in range(0, n_images, size):
        rows = slice(start, start + size)
        seen = _seen(method, unit(stream.features.views[rows]), stream.features.predictor)
        keys[rows], logits[rows] = seen.key, seen.logits
        labels[rows], entropies[rows] = seen.label, seen.entropy
        against[rows] = rule.votes_against(seen.posterior)
    admitted = rule.admits(entropies, n_classes)
    return _Offers(keys, logits, labels, entropies, admitted, against)


def _seen(method: TDA, views: NDArray[np.float32], predictor: Predictor) -> Seen:
    """A block of unit views (n, M, D); products are made per image, which fixes their rounding."""
    view_logits = predictor.logits(views)
    kept = select_views(view_logits, method.fraction, method=method.name)
    images = np.arange(len(views))[:, np.newaxis]
    return Seen.together(views[images, kept], view_logits[images, kept])


@dataclass(frozen=True)
class _Against:
    """The negative memory along the stream: who votes against what, and when."""

    beta: float
    keys: NDArray[np.float32]
    """Of all images by stored row, (N, D)."""
    time: Int
    """Position of every stored row, (N,)."""
    items: Int
    """Images that are ever held, by arrival, (n,)."""
    last: Int
    """The position that pushed each out, (n,)."""
    masks: Any
    """What each votes against, sparse (n, C): few classes are plausible."""

    @classmethod
    def trace(cls, method: TDA, offers: _Offers, order: Int) -> _Against:
        """From what arrived inside the band."""
        from scipy.sparse import csr_array

        rule, n_classes = method.negative_rule, offers.logits.shape[1]
        inside = np.flatnonzero(offers.admitted[order])
        items = order[inside]
        labels, priorities = offers.labels[items], -offers.entropies[items]
        ends = lifetimes(labels, priorities, (rule.capacity,), n_classes)[0]
        last = np.append(inside, len(order))[ends]  # positions: of the band, then of the stream
        held = last > inside
        masks = csr_array(offers.against[items[held]], dtype=np.float32)
        return cls(rule.beta, offers.keys, np.argsort(order), items[held], last[held], masks)

    def evidence(self, queries: Int) -> NDArray[np.float32]:
        """R_t (Q, C) of some images by stored row; those near in time share what they read."""
        times, arrivals = self.time[queries], self.time[self.items]
        alive = np.flatnonzero((arrivals <= times.max()) & (self.last > times.min()))
        weights = kernel(self.keys[queries] @ self.keys[self.items[alive]].T, self.beta)
        now = times[:, np.newaxis]
        weights *= (arrivals[alive] <= now) & (now < self.last[alive])
        return np.asarray(weights @ self.masks[alive], dtype=np.float32)
