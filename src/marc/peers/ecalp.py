"""ECALP: a graph of class texts and all images so far, in which labels spread anew for each image.

An image is joined to the classes and to the images that are most like it, and these to it. Three
rounds of label propagation follow over the whole graph, from the texts and from a fifth of what
each older image had in its likeliest class. The image is in the graph before it is answered, and
as released it is there twice: its second node is answered, and is gone when the next image comes.

All images are kept, and each answer takes time that grows with their number. The released loop
builds sparse tensors of the whole graph for every image; here lists of neighbours are updated, and
one compiled pass makes the symmetric graph and propagates. Classes with the same text are one node
of the graph, so that they stay tied.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import check_same_text, integer, number
from marc.memory import MOST_CLASSES, MOST_DIMS, Resumable, check_keys, check_stored
from marc.peers._arrays import check_arrays, distinct_rows, largest
from marc.types import Query, Step

_CARRIED = 0.2
"""The share of its best score that an image brings into the next propagation."""
_SPARE = 2
"""Entries of a list beyond those that are edges: what is dropped leaves the list long enough."""
_MOST = 1000
_LARGEST = 1.01
"""No similarity of unit features is larger, nor of such in half precision."""
_STORED = ("keys", "neighbors", "similarity", "texts", "cosines", "labels", "scores")


@dataclass(eq=False)
class ECALP(Resumable):
    """Label propagation over a graph that every image joins.

    >>> ECALP().config()["n_neighbors"]
    8
    """

    name: ClassVar[str] = "ecalp"

    n_texts: int = 3
    """Classes to which an image is joined."""
    n_neighbors: int = 8
    """Images to which an image is joined, itself among them."""
    gamma: float = 10.0
    """The power of a similarity that makes it a weight; the sign of the similarity is lost."""
    alpha: float = 1.0
    """The share of the neighbours in a round; the rest is what the image started from."""
    rounds: int = 3
    """Rounds of propagation for each image."""

    _memory: _Graph | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.n_texts = integer("n_texts", self.n_texts, 1, _MOST)
        self.n_neighbors = integer("n_neighbors", self.n_neighbors, 1, _MOST)
        self.gamma = number("gamma", self.gamma, at_most=1000)
        self.alpha = number("alpha", self.alpha, at_most=1)
        self.rounds = integer("rounds", self.rounds, 1, _MOST)

    def step(self, query: Query) -> Step:
        """Join the image to the graph, and propagate."""
        predictor = query.predictor
        if self._memory is None:
            self._memory = _Graph(predictor.prototypes, self)
        graph = self._memory
        graph.prototypes = check_same_text(predictor.prototypes, graph.prototypes)
        base = predictor.logits(query.views[:1])[0]
        graph.join(query.clip_key, base / np.float32(predictor.logit_scale))
        return Step(
            query.item,
            base,
            {"propagated": graph.propagate(self.rounds, self.alpha)},
            {"propagated": 1.0},
            int(base.argmax()),
            0.0,
            base_weight=0.0,
            to_probabilities=None,  # what arrives at the image over its edges
        )

    def _restored(self, state: dict[str, Any]) -> _Graph:
        return _Graph.from_state(state["arrays"], self)


class _Graph:
    """Images in order of arrival; the last one has a second node, which has the next number."""

    def __init__(self, prototypes: NDArray[np.float32], settings: ECALP) -> None:
        self.prototypes, dim = prototypes, prototypes.shape[1]
        self._texts, self._text_of = distinct_rows(prototypes)
        n_listed, n_texts = settings.n_neighbors + _SPARE, min(settings.n_texts, len(self._texts))
        self._k, self._gamma = settings.n_neighbors, settings.gamma
        self._size = 0
        self._emphasis = _emphasis(prototypes)
        self._rows: dict[str, NDArray[Any]] = {
            "keys": np.empty((0, dim), dtype=np.float32),
            "neighbors": np.empty((0, n_listed), dtype=np.int64),
            "similarity": np.empty((0, n_listed), dtype=np.float32),
            "weights": np.empty((0, n_listed)),
            "texts": np.empty((0, n_texts), dtype=np.int64),
            "cosines": np.empty((0, n_texts), dtype=np.float32),
            "pulls": np.empty((0, n_texts)),
            "labels": np.empty(0, dtype=np.int64),
            "scores": np.empty(0),
        }

    def join(self, feature: NDArray[np.float32], cosines: NDArray[np.float32]) -> None:
        """Add both nodes of an image with a unit feature (D,) and cosines (C,) to the texts.

        Lists of older images hold cos(w f_old, f_new) of whatever came after them; its own list
        holds the same, so that it is the old feature which is weighted there too, as released.
        """
        from marc.peers._ecalp_kernel import admit

        n, width = self._size, _n_listed(self._size + 2, self._k)
        self._grow_to(n + 2)
        rows, both = self._rows, slice(n, n + 2)
        rows["keys"][both] = _unit_or_zero(self._emphasis * feature)
        # Not a matrix product: that may give other bits to the copy of an image in another row.
        similarity = np.einsum("nd,d->n", rows["keys"][: n + 2], feature)
        cosines = cosines[self._texts]
        lists = rows["neighbors"], rows["similarity"], rows["weights"]
        admit(*lists, _n_listed(n + 1, self._k), width, similarity[:n], self._gamma)
        nearest, closest = largest(similarity, width), largest(cosines, rows["texts"].shape[1])
        rows["neighbors"][both, :width], rows["texts"][both] = nearest, closest
        rows["similarity"][both, :width] = similarity[nearest]
        rows["cosines"][both] = cosines[closest]
        rows["labels"][both], rows["scores"][both] = 0, 0
        self._weigh(both)
        self._size = n + 1

    def propagate(self, rounds: int, alpha: float) -> NDArray[np.float64]:
        """What arrives at the second node of the last image, (C,); every image keeps its best."""
        from marc.peers._ecalp_kernel import propagate

        n, k = self._size + 1, min(self._k, self._size + 1)
        rows = {name: array[:n] for name, array in self._rows.items()}
        lists = rows["neighbors"][:, :k], rows["weights"][:, :k], rows["texts"], rows["pulls"]
        start = rows["labels"], rows["scores"]
        answer, labels, scores = propagate(*lists, *start, len(self._texts), rounds, alpha)
        rows["labels"][:], rows["scores"][:] = labels, _CARRIED * scores
        return np.asarray(answer[self._text_of], dtype=np.float64)

    def state(self) -> dict[str, NDArray[np.generic]]:
        """What is kept of every image; the second node of the last one is not."""
        kept = {name: self._rows[name][: self._size].copy() for name in _STORED}
        width = _n_listed(self._size + 1, self._k)
        for name in ("neighbors", "similarity"):
            kept[name] = np.ascontiguousarray(kept[name][:, :width])
        return {"prototypes": self.prototypes.copy(), **kept}

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]], settings: ECALP) -> _Graph:
        """A graph with what `state` gave."""
        n_classes, dim = arrays["prototypes"].shape
        possible = 0 < n_classes <= MOST_CLASSES and 0 < dim <= MOST_DIMS
        check_stored(possible, "its prototypes are none")
        graph, n = cls(arrays["prototypes"].copy(), settings), len(arrays["keys"])
        graph._check(arrays, n)
        graph._grow_to(n)
        for name in _STORED:
            inside = (slice(length) for length in arrays[name].shape)
            graph._rows[name][tuple(inside)] = arrays[name]
        graph._weigh(slice(n))
        graph._size = n
        return graph

    def _check(self, arrays: dict[str, NDArray[Any]], n: int) -> None:
        """Refuse arrays of n images that no graph of these texts and settings has."""
        n_texts, width = self._rows["texts"].shape[1], _n_listed(n + 1, self._k)
        shapes = {"prototypes": ("f4", *self.prototypes.shape)}
        shapes |= {"keys": ("f4", n, self.prototypes.shape[1])}
        shapes |= {"labels": ("i8", n), "scores": ("f8", n)}
        shapes |= {"neighbors": ("i8", n, width), "similarity": ("f4", n, width)}
        shapes |= {"texts": ("i8", n, n_texts), "cosines": ("f4", n, n_texts)}
        check_arrays(arrays, shapes)
        check_keys(arrays["keys"])
        check_keys(arrays["prototypes"])
        n_nodes = {"texts": len(self._texts), "labels": len(self._texts), "neighbors": n + 1}
        for name, most in n_nodes.items():
            inside = (arrays[name] >= 0) & (arrays[name] < most)
            check_stored(inside.all(), f"{name} name what is not there")
        for name, of in (("neighbors", "similarity"), ("texts", "cosines")):
            apart = np.diff(np.sort(arrays[name], axis=1), axis=1) > 0
            check_stored(apart.all(), f"{name} name something twice")
            check_stored((np.diff(arrays[of], axis=1) <= 0).all(), f"{of} is not in order")
            check_stored((np.abs(arrays[of]) <= _LARGEST).all(), f"{of} is out of range")
        check_stored((arrays["scores"] >= 0).all(), "scores are negative")

    def _weigh(self, part: slice) -> None:
        from marc.peers._ecalp_kernel import weigh

        rows = self._rows
        for weights, of in (("weights", "similarity"), ("pulls", "cosines")):
            weigh(rows[of][part], self._gamma, rows[weights][part])

    def _grow_to(self, n: int) -> None:
        """Double the rows when they run out."""
        have = len(self._rows["keys"])
        if n > have:
            for name, array in self._rows.items():
                more = np.zeros((max(64, have, n - have), *array.shape[1:]), dtype=array.dtype)
                self._rows[name] = np.concatenate([array, more])


def _n_listed(n_nodes: int, k: int) -> int:
    """Entries of each list when the images have so many nodes, as released: k + 2 in the end."""
    return min(n_nodes, k) if n_nodes < k + 3 else min(n_nodes - 2, k + _SPARE)


def _emphasis(prototypes: NDArray[np.float32]) -> NDArray[np.float32]:
    """The variance of each dimension over the texts, brought to unit length: w, (D,)."""
    variance = prototypes.var(axis=0, ddof=1, dtype=np.float64).astype(np.float32)
    return _unit_or_zero(variance)


def _unit_or_zero(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """To unit length, unless it is 0, as all variances are where all texts are the same."""
    return vector / np.maximum(np.linalg.norm(vector), np.float32(1e-12))
