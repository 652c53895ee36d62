"""BaFTA, reconstructed: online clustering beside the text, mixed by Renyi entropy.

Class centroids start at the text prototypes, in a space from which the direction that all texts
share is removed. Each image is scored against the text and against the centroids, over all its
views, and each prediction counts more the lower its Renyi entropy is. Then the image joins a
centroid.

There is no public code, and the abstract leaves much open. These are choices of this project,
each with its setting where one is named:

- the projection is that of ReCLIP: the left singular vectors of the prototypes but the first, up
  to the C-th, or the 250th where there are more than 500 classes (`project`);
- the centroid of a class starts as its text, which counts as one image (`prior`);
- a prediction counts exp(-R), one over its effective number of classes (`weighting`);
- views are averaged per source, then the sources, with the entropies of the averages;
- it reads before it writes (`writes_first`), and writes the plain image into the centroid of the
  fused answer (`update="hard"`) or into each by its fused probability (`"soft"`);
- centroids are read at the predictor's logit scale.

No published number belongs beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, check_same_shape, number, one_of, switch
from marc.memory import Resumable, check_stored
from marc.peers._arrays import check_arrays, first_equal
from marc.scores import Float, Int, share, softmax
from marc.types import Query, Step

_WEIGHTINGS = ("exponential", "inverse")
_UPDATES = ("hard", "soft")
_MANY_CLASSES, _MOST_DIRECTIONS = 500, 250
_NOTHING = 1e-12
_LARGEST_ORDER = 50  # the power of a probability that is 1 in a million is still a number


@dataclass(eq=False)
class BaFTA(Resumable):
    """Centroids of an online clustering beside the text prototypes.

    >>> BaFTA().config()["order"]
    0.5
    """

    name: ClassVar[str] = "bafta"

    order: float = 0.5
    """a of the Renyi entropy ln(sum p^a) / (1 - a); 1 is not one of them."""
    prior: float = 1.0
    """How many images the text counts for in its centroid."""
    weighting: str = "exponential"
    """What a prediction of Renyi entropy R counts: exp(-R), or 1 / R for `inverse`."""
    update: str = "hard"
    """Whether an image joins one centroid or all by their probability, `soft`."""
    writes_first: bool = False
    """Whether an image joins before it is read; its class is then that of the text."""
    project: bool = True
    """Whether centroids live in the projected space."""

    _memory: _Centroids | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.order = number("order", self.order, at_most=_LARGEST_ORDER)
        self.prior = number("prior", self.prior)
        if self.order == 1:
            raise MarcError("order 1 has no Renyi entropy of this form", got=1, hint="order=0.5")
        if self.prior == 0:
            raise MarcError(
                "prior must be above 0: a centroid starts at its text", got=0, hint="prior=1.0"
            )
        one_of("weighting", self.weighting, _WEIGHTINGS)
        one_of("update", self.update, _UPDATES)
        self.writes_first = switch("writes_first", self.writes_first)
        self.project = switch("project", self.project)

    def step(self, query: Query) -> Step:
        """Mix what the text and the centroids say of all views, then move a centroid."""
        memory = self._memory_for(query)
        text = self._over_views(softmax(query.view_logits))
        if self.writes_first:
            memory.write(memory.turn(query.views[:1])[0], text, self.update)
        turned = memory.turn(query.views)
        scale = query.predictor.logit_scale
        centroids = self._over_views(softmax(scale * memory.cosines(turned)))
        of_text, of_centroids = self._counts(np.stack([text, centroids]))
        fraction = float(of_centroids / (of_text + of_centroids))
        fused = (1 - fraction) * text + fraction * centroids
        if not self.writes_first:
            memory.write(turned[0], fused, self.update)
        label = int((text if self.writes_first else fused).argmax())
        return Step(
            query.item,
            text.astype(np.float32),
            {"centroids": centroids},
            {"centroids": fraction},
            label,
            0.0,
            base_weight=1 - fraction,
            to_probabilities=share,
        )

    def _over_views(self, posteriors: Float) -> NDArray[np.float64]:
        """The weighted mean (C,) of posteriors (M, C)."""
        counts = self._counts(posteriors)
        # not a matrix product, which may round equal columns differently
        return np.asarray((counts[:, np.newaxis] * posteriors).sum(axis=0) / counts.sum())

    def _counts(self, posteriors: Float) -> NDArray[np.float64]:
        return _view_weights(_renyi_entropy(posteriors, self.order), self.weighting)

    def _memory_for(self, query: Query) -> _Centroids:
        prototypes = query.predictor.prototypes
        if self._memory is None:
            self._memory = _Centroids.fresh(prototypes, self.prior, project=self.project)
        known = len(self._memory.sums), len(self._memory.basis)
        check_same_shape(prototypes.shape, known)
        return self._memory

    @property
    def varies_with(self) -> frozenset[str]:
        """The centroids follow the fused answers, unless the image is written first."""
        return (
            frozenset()
            if self.writes_first
            else frozenset({"order", "weighting", "prior", "update", "project"})
        )

    def _restored(self, state: dict[str, Any]) -> _Centroids:
        arrays, place = state["arrays"], state["arrays"]["place"]
        (n_classes, rank), dim = arrays["sums"].shape, len(arrays["basis"])
        shapes = {"basis": ("f8", dim, rank), "sums": ("f8", n_classes, rank)}
        check_arrays(arrays, {**shapes, "place": ("i8", n_classes)})
        check_stored(((place >= 0) & (place < n_classes)).all(), "place is out of range")
        return _Centroids(**{name: array.copy() for name, array in arrays.items()})


@dataclass(eq=False)
class _Centroids:
    """Running sums of unit features, in the coordinates of the projected space."""

    basis: NDArray[np.float64]
    """Orthonormal columns (D, R)."""
    sums: NDArray[np.float64]
    """(C, R): a centroid is its sum, made unit."""
    place: Int
    """The first class with the same centroid, (C,): the two then tie to the bit."""

    @classmethod
    def fresh(cls, prototypes: Float, prior: float, *, project: bool) -> _Centroids:
        basis = _projection(prototypes) if project else np.eye(prototypes.shape[1])
        turned = _unit(prototypes.astype(np.float64) @ basis)
        return cls(basis, prior * turned, first_equal(prototypes))

    def state(self) -> dict[str, NDArray[np.generic]]:
        return {name: getattr(self, name).copy() for name in ("basis", "sums", "place")}

    def turn(self, features: Float) -> NDArray[np.float64]:
        """Features (N, D) in the projected space, of unit length, (N, R)."""
        return _unit(features.astype(np.float64) @ self.basis)

    def cosines(self, turned: Float) -> NDArray[np.float64]:
        """Cosines (M, C) of turned features with the centroids."""
        return np.asarray(turned @ _unit(self.sums).T)[:, self.place]

    def write(self, turned: Float, posterior: Float, update: str) -> None:
        """Let one image (R,) join."""
        if update == "soft":
            self.sums += posterior[:, np.newaxis] * turned
            return
        label = int(posterior.argmax())
        self.sums[label] += turned
        others = np.flatnonzero(self.place == self.place[label])
        others = others[others != label]  # they stay where they were, together
        self.place[others], self.place[label] = others[:1], label


def _projection(prototypes: Float) -> NDArray[np.float64]:
    """Left singular vectors 2 to r of the prototypes (D x C), as columns.

    Directions of length 0 are left out, as they say nothing of the classes.
    """
    n_classes = len(prototypes)
    rank = _MOST_DIRECTIONS if n_classes > _MANY_CLASSES else n_classes
    _, lengths, rows = np.linalg.svd(prototypes.astype(np.float64), full_matrices=False)
    kept = lengths[1:rank] > 1e-6 * lengths[0]
    if not kept.any():
        raise MarcError(
            "BaFTA projects onto the directions in which classes differ, and there is none",
            got=f"{n_classes} classes",
            allowed="at least 2 classes with different texts",
            hint="project=False",
        )
    return np.ascontiguousarray(rows[1:rank][kept].T)


def _renyi_entropy(posteriors: Float, order: float) -> NDArray[np.float64]:
    """R_a(p) = ln(sum p^a) / (1 - a) over the last axis; p = 0 adds nothing.

    >>> float(_renyi_entropy(np.full(4, 0.25), 0.5)) == float(np.log(4))
    True
    """
    powers = np.where(posteriors > 0, posteriors, 0.0) ** order * (posteriors > 0)
    return np.asarray(np.log(powers.sum(axis=-1)) / (1 - order))


def _view_weights(entropies: Float, weighting: str) -> NDArray[np.float64]:
    """What predictions of these entropies count: less the higher they are."""
    if weighting == "inverse":
        return 1 / (np.maximum(entropies, 0) + 1e-6)
    return np.exp(-entropies)


def _unit(rows: Float) -> NDArray[np.float64]:
    lengths = np.sqrt((rows * rows).sum(axis=-1, keepdims=True))
    return np.asarray(rows / np.maximum(lengths, _NOTHING))
