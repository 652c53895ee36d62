"""TDA: a memory of confident images votes for classes, one of uncertain images votes against them.

Per pseudo-class, the three images of lowest entropy are kept, and two more whose entropy lies in a
middle band. An image is stored first and answered then: an admitted image votes for its own
pseudo-label with its own squared length as similarity. With several views, the mean feature of the
selected ones is both key and query, and it is not brought back to unit length, so its votes are
damped. `TDA.replay` gives the same answers for whole streams at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, check_same_shape, integer, number
from marc.memory import (
    Memory,
    NegativeMemory,
    NegativeRule,
    Resumable,
)
from marc.peers._arrays import MOST_SLOTS
from marc.peers.view_selection import check_fraction, select_views
from marc.replay.evidence import KernelValues, read_all
from marc.replay.lifetimes import History, lifetimes
from marc.scores import SHARPEST, Certainty, Int, entropy, kernel, softmax, unit
from marc.stream import Stream
from marc.stream.predictor import Predictor
from marc.types import Query, Run, Step, Trajectory

_ROWS = 256  # images of a block of posteriors
_BLOCK = 2**21  # numbers of a block of views: small enough to stay in a cache


@dataclass(frozen=True)
class Seen:
    """What the views that count say together, of one image or of a block of them."""

    key: NDArray[np.float32]
    """Mean of their unit features, (..., D), not of unit length."""
    logits: NDArray[np.float32]
    """Mean of their logits, (..., C)."""
    posterior: NDArray[np.float64]
    """Mean of their posteriors, (..., C)."""
    entropy: NDArray[np.float64]
    """Of that posterior, in nats, (...)."""
    label: Int
    """argmax of the logits, (...)."""

    @classmethod
    def together(cls, views: NDArray[np.float32], view_logits: NDArray[np.float32]) -> Seen:
        """From the views that count, (..., r, D), and their logits, (..., r, C)."""
        logits = view_logits.mean(axis=-2, dtype=np.float64).astype(np.float32)
        posterior = softmax(view_logits).mean(axis=-2)
        key = views.mean(axis=-2, dtype=np.float64).astype(np.float32)
        return cls(key, logits, posterior, entropy(posterior), logits.argmax(axis=-1))

    @classmethod
    def alone(cls, query: Query) -> Seen:
        """What the only view says: the base scores, which were computed before."""
        base = query.base
        posterior = softmax(base.logits)
        return cls(query.clip_key, base.logits, posterior, base.entropy_as("tda"), base.label)

    def answer(
        self,
        item: int,
        positive: NDArray[np.float64],
        negative: NegativeMemory | None,
        negative_weight: float,
    ) -> Step:
        """Votes for are added to the logits; those against, its own vote too, are subtracted."""
        label, uncertainty = int(self.label), float(self.entropy)
        evidence, weights = {"positive": positive}, {"positive": 1.0}
        if negative is not None:
            negative.write(self.key, label, uncertainty, self.posterior)
            evidence["negative"], weights["negative"] = negative.read(self.key), -negative_weight
        return Step(item, self.logits, evidence, weights, label, -uncertainty)


def check_settings(method: Any) -> None:
    """Check the settings that TDA shares with what was built on it."""
    for name in ("capacity", "negative_capacity"):
        setattr(method, name, integer(name, getattr(method, name), 0, MOST_SLOTS))
    for name in ("alpha", "negative_weight"):
        setattr(method, name, number(name, getattr(method, name)))
    for name in ("beta", "negative_beta"):
        setattr(method, name, number(name, getattr(method, name), at_most=SHARPEST))
    for low, high in (("band_low", "band_high"), ("mask_low", "mask_high")):
        for name in (low, high):
            setattr(method, name, number(name, getattr(method, name)))
        bounds = getattr(method, low), getattr(method, high)
        if bounds[0] > bounds[1]:
            raise MarcError(f"{low} is above {high}", got=bounds, allowed=f"{low} <= {high}")
    method.fraction = check_fraction(method.fraction)


@dataclass(eq=False)
class TDA(Resumable):
    """Training-free dynamic adapter. The defaults are the values released for ImageNet.

    >>> TDA(alpha=1.0, beta=8.0).config()["negative_weight"]
    0.117
    """

    name: ClassVar[str] = "tda"

    capacity: int = 3
    """Images per pseudo-class in the positive memory."""
    alpha: float = 2.0
    beta: float = 5.0
    negative_weight: float = 0.117
    """What the votes against count; 0 keeps no negative memory."""
    negative_capacity: int = NegativeRule.capacity
    negative_beta: float = NegativeRule.beta
    band_low: float = NegativeRule.band[0]
    """The band, both ends open, is of entropy in nats over log2(C): 0.69 is its largest value."""
    band_high: float = NegativeRule.band[1]
    mask_low: float = NegativeRule.mask[0]
    """An item votes against the classes whose probability lies between these bounds."""
    mask_high: float = NegativeRule.mask[1]
    fraction: float = 0.1
    """The fraction of the views that counts, those of lowest entropy."""

    _memory: _Memories | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_settings(self)

    def step(self, query: Query) -> Step:
        """Store one image, then answer it with what is remembered, itself included."""
        seen = Seen.alone(query) if len(query.views) == 1 else self._selected(query)
        memories = self._memories(query)
        memories.positive.write(seen.key, int(seen.label), -float(seen.entropy), query.item)
        positive = memories.positive.read(seen.key)
        return seen.answer(query.item, positive, memories.negative, self.negative_weight)

    @property
    def negative_rule(self) -> NegativeRule:
        """How the negative memory keeps and votes."""
        return NegativeRule.of(self)

    def replay(self, stream: Stream) -> Run:
        """What `marc.run(self, stream)` gives, for the whole stream at once."""
        return _replay(self, stream)

    def _restored(self, state: dict[str, Any]) -> _Memories:
        positive, negative = state["arrays"]["positive"], state["arrays"].get("negative")
        kernel, n_classes = {"alpha": self.alpha, "beta": self.beta}, positive.pop("n_classes")
        return _Memories(
            Memory.from_state(positive, int(n_classes[0]), self.capacity, **kernel),
            NegativeMemory.from_state(negative, self.negative_rule) if negative else None,
        )

    def _selected(self, query: Query) -> Seen:
        view_logits = query.view_logits
        kept = select_views(view_logits, self.fraction, method=self.name)
        return Seen.together(query.views[kept], view_logits[kept])

    def _memories(self, query: Query) -> _Memories:
        shape = query.predictor.prototypes.shape
        if self._memory is None:
            n_classes, dim = shape
            self._memory = _Memories(
                Memory(n_classes, self.capacity, dim, alpha=self.alpha, beta=self.beta),
                NegativeMemory(n_classes, dim, self.negative_rule)
                if self.negative_weight
                else None,
            )
        for memory in (self._memory.positive, self._memory.negative):
            if memory is not None:
                check_same_shape(shape, (memory.n_classes, memory.dim))
        return self._memory


@dataclass
class _Memories:
    """Everything TDA remembers."""

    positive: Memory
    negative: NegativeMemory | None

    def state(self) -> dict[str, Any]:
        positive = {"n_classes": np.array([self.positive.n_classes]), **self.positive.state()}
        negative = {} if self.negative is None else self.negative.state()
        return {"positive": positive, "negative": negative}


def _replay(method: TDA, stream: Stream) -> Run:
    """The same `Run` as `run(method, stream)`, up to the rounding of a sum.

    What TDA stores depends on no answer, so lifetimes say who can be read when. It writes before it
    reads: image t reads what it has stored itself, and no longer what it has pushed out. So an item
    that arrived at i and was pushed out at last(i) is read by t where i <= t < last(i). For t after
    i that is a window as MARC's, one step shorter; for t = i it is an image's vote for itself.
    """
    offers = _Offers.of(method, stream)
    order = stream.order
    predictions, labels = np.empty(len(order), dtype=np.int64), stream.row_labels
    certainty, base_certainty = (Certainty.room(len(order), labels) for _ in range(2))

    def answer(items: Int, logits: NDArray[np.float64]) -> None:
        predictions[items] = logits.argmax(axis=1)
        certainty.put(items, softmax(logits), labels)
        base_certainty.put(items, softmax(offers.logits[items]), labels)

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
        ordering=stream.ordering.name,
        certainty=certainty.at(order),
        base_certainty=base_certainty.at(order),
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
