"""ZLaP: class labels spread from the texts over a graph of images, all at once or beforehand.

`zlap` is transductive: the graph is that of the whole stream, and every image is answered with what
arrives at it. `zlap-inductive` spreads the labels once, over unlabelled images that a file gives;
an image of the stream is answered with what has arrived at its neighbours there, weighted by how
near they are. No label goes through an image of the stream, so that its answers are independent.

The graph is in `_label_graph.py`. Classes with the same text are one node of it, and stay tied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import integer, number, switch
from marc.memory import Resumable
from marc.peers._arrays import distinct_rows, gather, largest
from marc.peers._image_search import Images
from marc.peers._label_graph import edge_weights, nearest_texts, normalised_graph, spread_texts
from marc.peers._unlabelled import Unlabelled
from marc.scores import Float, Int
from marc.stream import Stream
from marc.stream.predictor import Predictor
from marc.types import Query, Step

_Columns = Iterator[tuple[slice, Float]]
_Read = Callable[[Int, Float], NDArray[np.float64]]
"""Scores of texts from nodes (n,) and their weights."""
_ROWS = 1024  # images whose cosines to all texts are held at a time
_MOST_NEIGHBORS = 1000
_LARGEST_ALPHA = 0.999
"""At 1 there is no answer, and near it the answer takes ever more rounds."""


@dataclass(eq=False)
class ZLaP(Resumable):
    """Label propagation over the whole stream.

    >>> ZLaP().batch_size is None  # the whole stream
    True
    """

    name: ClassVar[str] = "zlap"

    n_neighbors: int = 5
    """Images to which an image is joined, itself among them, and classes to which it is."""
    gamma: float = 5.0
    """The power of a similarity to a text that makes it a weight."""
    alpha: float = 0.3
    """The share that goes on to the neighbours."""

    def __post_init__(self) -> None:
        _check(self)

    def step_batch(self, queries: Sequence[Query]) -> list[Step]:
        """Answer all queries together, each with what arrives at its node."""
        if not len(queries):
            return []
        batch = gather(queries)
        texts, text_of = distinct_rows(batch.predictor.prototypes)
        cosines = batch.logits[:, texts] / np.float32(batch.predictor.logit_scale)
        near = Images(batch.keys).nearest_to_each(min(self.n_neighbors, len(cosines)))
        closest = nearest_texts(cosines, min(self.n_neighbors, len(texts)))
        graph = normalised_graph(near, closest, len(texts), self.gamma)
        scores = np.empty(cosines.shape)
        for some, arrived in spread_texts(graph, len(texts), self.alpha):
            scores[:, some] = arrived[len(texts) :]
        rows = zip(batch.items, batch.logits, scores, strict=True)
        return [_answer(item, base, arrived[text_of]) for item, base, arrived in rows]

    @property
    def batch_size(self) -> int | None:
        """The whole stream."""
        return None


@dataclass(eq=False)
class InductiveZLaP(Resumable):
    """Label propagation over unlabelled images from a file; the stream is answered from it."""

    name: ClassVar[str] = "zlap-inductive"

    unlabelled: str
    """Path of a feature pack, or of a feature store, of images that are not in the stream."""
    sparse: bool = False
    """Whether a node passes on its largest class alone, so that little is kept of it."""
    n_neighbors: int = 5
    """Images to which an image is joined, and classes to which it is."""
    gamma: float = 5.0
    """The power of a similarity to a text that makes it a weight."""
    alpha: float = 0.3
    """The share that goes on to the neighbours."""
    digest: str = ""
    """Of what is read from `unlabelled`; filled in, and if given it must agree."""

    _images: Unlabelled = field(init=False, repr=False)
    _spread: _Spread | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.sparse = switch("sparse", self.sparse)
        _check(self)
        self._images = Unlabelled.read(self.unlabelled, self.digest)
        self.unlabelled, self.digest = self._images.path, self._images.digest

    def step(self, query: Query) -> Step:
        """Answer one image with what its neighbours pass on; it leaves no trace."""
        if self._spread is None or not self._spread.is_of(query.predictor):
            self._images.check_fit(query)
            self._spread = _Spread(self._images.plain, query.predictor, self)
        base = query.predictor.logits(query.views[:1])[0]
        cosines = base / np.float32(query.predictor.logit_scale)
        return _answer(query.item, base, self._spread.read(query.clip_key, cosines))

    def check(self, stream: Stream) -> None:
        """Refuse unlabelled images that are among the images of the stream."""
        self._images.check_apart(
            stream,
            "each answer would come from the others",
            "unlabelled=FILE of a training split, or the method zlap, which says so",
        )


class _Spread:
    """What has arrived at each node of the unlabelled images and the texts; made once and read."""

    def __init__(
        self, features: NDArray[np.float32], predictor: Predictor, settings: InductiveZLaP
    ) -> None:
        self._predictor, self._gamma = predictor, settings.gamma
        self._texts, self._text_of = distinct_rows(predictor.prototypes)
        self._images, n_texts = Images(features), len(self._texts)
        self._n_images = min(settings.n_neighbors, len(features))
        self._n_texts = min(settings.n_neighbors, n_texts)
        near = self._images.nearest_to_each(self._n_images)
        graph = normalised_graph(near, self._nearest_texts(features), n_texts, settings.gamma)
        columns = spread_texts(graph, n_texts, settings.alpha)
        keep = _best_of_each if settings.sparse else _all_of_each
        self._arrived = keep(columns, (graph.shape[0], n_texts))

    def is_of(self, predictor: Predictor) -> bool:
        """Whether these texts are those of a predictor."""
        if predictor is self._predictor:
            return True
        return np.array_equal(predictor.prototypes, self._predictor.prototypes)

    def read(self, feature: Float, cosines: Float) -> NDArray[np.float64]:
        """Scores (C,) of a unit feature (D,) with cosines (C,) to the texts."""
        near, similar = self._images.nearest(feature, self._n_images)
        cosines = cosines[self._texts]
        closest = largest(cosines, self._n_texts)
        weights = edge_weights(similar), edge_weights(cosines[closest], self._gamma)
        nodes = np.concatenate([near + len(self._texts), closest])
        return self._arrived(nodes, np.concatenate(weights))[self._text_of]

    def _nearest_texts(self, features: NDArray[np.float32]) -> tuple[Int, Float]:
        scale = np.float32(self._predictor.logit_scale)
        blocks = [
            nearest_texts(self._predictor.logits(some)[:, self._texts] / scale, self._n_texts)
            for some in np.split(features, range(_ROWS, len(features), _ROWS))
        ]
        places, cosines = zip(*blocks, strict=True)
        return np.concatenate(places), np.concatenate(cosines)


def _all_of_each(columns: _Columns, shape: tuple[int, int]) -> _Read:
    """What nodes pass on, of all texts."""
    arrived = np.empty(shape)
    for some, values in columns:
        arrived[:, some] = values
    return lambda nodes, weights: np.asarray(weights @ arrived[nodes])


def _best_of_each(columns: _Columns, shape: tuple[int, int]) -> _Read:
    """What nodes pass on, each of the text alone of which most has arrived there."""
    n_nodes, n_texts = shape
    labels, best = np.zeros(n_nodes, dtype=np.int64), np.zeros(n_nodes)
    for some, values in columns:
        own = values.argmax(axis=1)
        most = values[np.arange(n_nodes), own]
        better = most > best
        labels[better], best[better] = some.start + own[better], most[better]

    def read(nodes: Int, weights: Float) -> NDArray[np.float64]:
        scores = np.bincount(labels[nodes], weights * best[nodes], n_texts)
        return np.asarray(scores, dtype=np.float64)

    return read


def _check(method: ZLaP | InductiveZLaP) -> None:
    method.n_neighbors = integer("n_neighbors", method.n_neighbors, 1, _MOST_NEIGHBORS)
    method.gamma = number("gamma", method.gamma, at_most=1000)
    method.alpha = number("alpha", method.alpha, at_most=_LARGEST_ALPHA)


def _answer(item: int, base: NDArray[np.float32], scores: NDArray[np.float64]) -> Step:
    return Step(
        item,
        base,
        {"propagated": scores},
        {"propagated": 1.0},
        int(base.argmax()),
        0.0,
        base_weight=0.0,
        to_probabilities=None,  # what arrives at the image over its edges
    )
