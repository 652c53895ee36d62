"""Training a context on labelled shots: cross-entropy, down a slope that a schedule makes flatter.

The optimiser is stochastic gradient descent with momentum and weight decay, as the released recipes
have it. One epoch warms up at a small rate; from the second on the rate falls along a cosine. An
epoch shows every shot once, through one of its stored views, in an order that the seed draws.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import cos, pi
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, integer, number
from marc.memory import check_stored
from marc.peers._arrays import coded, decoded
from marc.peers._learned import Learned
from marc.peers._prompt_tuning import tower_of
from marc.peers._shots import Shots
from marc.scores import Float, Int, softmax, unit
from marc.stream.predictor import Predictor
from marc.types import Query, Step

if TYPE_CHECKING:
    from marc.peers._prompts import Prompts

Arrays = dict[str, NDArray[Any]]
"""What is trained, by name."""
_TOWER = "tower"
"""The name under which a state says which weights its context was trained with, in bytes."""
_WARM_UP, _MOMENTUM, _DECAY = 1e-5, 0.9, 5e-4
_outcomes: Learned[Arrays] = Learned()


@dataclass(frozen=True)
class Recipe:
    """How long and how fast is trained."""

    rate: float
    epochs: int
    batch: int
    seed: int

    @classmethod
    def of(cls, method: Any) -> Recipe:
        """That of a method with settings of these names, which are checked."""
        return cls(
            number("rate", method.rate),
            integer("epochs", method.epochs, 0, 100_000),
            integer("batch", method.batch, 1),
            integer("seed", method.seed, 0),
        )

    def rate_in(self, epoch: int) -> float:
        """The learning rate in an epoch, counted from 0."""
        if epoch == 0:
            return _WARM_UP
        return self.rate * (1 + cos(pi * (epoch - 1) / self.epochs)) / 2


class _Trainee(Protocol):
    """A method that trains arrays on shots."""

    def initial(self, prompts: Prompts, dim: int, draw: np.random.Generator) -> Arrays:
        """The arrays before training, for features of `dim` dimensions."""

    def gradient(
        self, prompts: Prompts, arrays: Arrays, views: Float, labels: Int, scale: float
    ) -> Arrays:
        """That of the mean cross-entropy of a batch, views (b, D) and labels (b,)."""


def _train(
    trainee: _Trainee, prompts: Prompts, shots: Shots, recipe: Recipe, scale: float
) -> Arrays:
    """The arrays after all epochs; the same settings give the same ones."""
    draw = np.random.default_rng(recipe.seed)
    arrays = trainee.initial(prompts, shots.plain.shape[1], draw)
    moving = {name: np.zeros_like(array) for name, array in arrays.items()}
    for epoch in range(recipe.epochs):
        rate = recipe.rate_in(epoch)
        for views, labels in _batches(shots, recipe.batch, draw):
            with np.errstate(over="ignore", invalid="ignore"):  # what diverges is refused below
                for name, slope in trainee.gradient(prompts, arrays, views, labels, scale).items():
                    moving[name] = _MOMENTUM * moving[name] + slope + _DECAY * arrays[name]
                    arrays[name] = (arrays[name] - rate * moving[name]).astype(arrays[name].dtype)
            if not all(np.isfinite(array).all() for array in arrays.values()):
                raise _diverged(f"rate {recipe.rate:g}, in epoch {epoch + 1} of {recipe.epochs}")
    return arrays


def _diverged(got: str) -> MarcError:
    return MarcError(
        "the training of the context diverged: its numbers are no longer finite",
        got=got,
        hint="a lower rate; published: rate=2e-3",
    )


def _batches(
    shots: Shots, size: int, draw: np.random.Generator
) -> Iterator[tuple[NDArray[np.float32], Int]]:
    """One epoch in batches: unit views (b, D) and labels (b,).

    The last shots are left out where they fill no batch, unless there are fewer than one batch.
    """
    n_shots, n_views, _ = shots.views.shape
    order, seen = draw.permutation(n_shots), draw.integers(0, [n_views] * n_shots)
    for start in range(0, max(n_shots - size, 0) + 1, size):
        rows = order[start : start + size]
        yield unit(np.asarray(shots.views[rows, seen[rows]])), shots.labels[rows]


def context_gradient(
    prompts: Prompts, context: Float, views: Float, labels: Int, scale: float
) -> NDArray[np.floating]:
    """The gradient by a context (n, W) of the mean cross-entropy of views (b, D) and labels (b,).

    By the logits it is (p - y) / b, so by the text features scale (p - y)^T f / b, summed over b.
    """
    features, pull = prompts.with_gradient(context)
    slope = softmax(prompts.logits(views, features, scale))
    slope[np.arange(len(labels)), labels] -= 1
    slope *= scale / len(labels)
    by_class = slope.T.astype(features.dtype) @ views.astype(features.dtype)
    return pull(prompts.by_name(by_class))


@dataclass(frozen=True, eq=False)
class Trained:
    """What was trained, beside the prompts of the predictor that it serves."""

    source: Predictor
    prompts: Prompts
    arrays: Arrays
    """By name, with the digest of the tower's weights under `_TOWER`."""

    def __deepcopy__(self, memo: Any) -> Trained:
        return self  # nothing in it ever changes

    def answer(self, query: Query, features: Float) -> Step:
        """The plain image of a query against text features (U, D); the prototypes are the base."""
        predictor = query.predictor
        base = predictor.logits(query.views[:1])[0]
        scores = self.prompts.logits(query.views[:1], features, predictor.logit_scale)[0]
        if not np.isfinite(scores).all():
            raise _diverged("text features that are no numbers")
        trained, weights = {"trained": scores.astype(np.float64)}, {"trained": 1.0}
        return Step(query.item, base, trained, weights, int(base.argmax()), 0.0, base_weight=0.0)


def trained(
    trainee: Any, predictor: Predictor, prompt: str, shots: Shots, held: Arrays | None
) -> Trained:
    """What a method trained for a predictor: what it already holds, or else what training gives."""
    shots.check_fit(predictor)
    tower = tower_of(predictor)
    shots.check_names(tower.class_names)
    from marc.peers._prompts import Prompts

    prompts = Prompts.of(tower, prompt)
    if held is not None:
        found = decoded(held[_TOWER])
        if found != tower.digest:
            raise MarcError(
                "this context was trained with a text encoder of other weights",
                got=tower.digest,
                allowed=found,
                hint="the predictor that it was trained with, or reset()",
            )
        check_stored(held["context"].shape == prompts.words.shape, "its context does not fit")
        return Trained(predictor, prompts, held)
    scale = predictor.logit_scale
    known = {**trainee.config(), "shots": "", "names": tower.class_names, "scale": scale}

    def learn() -> Arrays:
        arrays = _train(trainee, prompts, shots, Recipe.of(trainee), scale)
        return {**arrays, _TOWER: coded(tower.digest)}

    outcome = _outcomes.get({**known, _TOWER: tower.digest}, learn)
    return Trained(predictor, prompts, {name: array.copy() for name, array in outcome.items()})


def check_arrays_of(arrays: Mapping[str, NDArray[Any]], n_axes: Mapping[str, int]) -> None:
    """Refuse stored arrays that are not finite float32, or of other names or numbers of axes."""
    check_stored(set(arrays) == {*n_axes, _TOWER}, "its arrays have other names")
    for name, axes in n_axes.items():
        array = arrays[name]
        sound = array.dtype == np.float32 and array.ndim == axes and np.isfinite(array).all()
        check_stored(sound, f"{name} is no finite array of {axes} axes")
    digest = decoded(arrays[_TOWER])
    sound = digest.isascii() and digest.isprintable()
    check_stored(sound, "the digest of its text encoder is none")
