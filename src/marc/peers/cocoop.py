"""CoCoOp: a trained context that a small network shifts by what the image looks like.

The context starts as "a photo of a". The network has two layers; what it makes of an image's
feature is added to every vector of the context. Both are trained on labelled shots before the
stream, one shot at a time, through the text encoder alone. Then nothing is learned any more; but
every image has prompts of its own, which are encoded for it.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.memory import Resumable, check_stored
from marc.peers._context_training import (
    Arrays,
    Recipe,
    Trained,
    check_arrays_of,
    context_gradient,
    trained,
)
from marc.peers._prompt_tuning import PROMPT, check_prompt, tower_of
from marc.peers._shots import Shots
from marc.scores import Float, Int
from marc.types import Query, Step

if TYPE_CHECKING:
    from marc.peers._prompts import Prompts

_NARROWER = 16  # times, the inner layer of the network than a feature


@dataclass(eq=False)
class CoCoOp(Resumable):
    """Conditional context optimisation: each image shifts the context."""

    name: ClassVar[str] = "cocoop"

    shots: str
    """Path of a feature pack, or of a feature store, of labelled training images."""
    rate: float = 2e-3
    """The learning rate after the first epoch, which warms up at 1e-5."""
    epochs: int = 10
    """How often every shot is seen."""
    batch: int = 1
    """Shots of one step."""
    seed: int = 1
    """Of the network at first, the order of the shots, and the view that each is seen through."""
    prompt: str = PROMPT
    """What the prompts are at first, with braces for the name; words before them are trained."""
    digest: str = ""
    """Of what is read from `shots`; filled in, and if given it must agree."""

    _memory: Arrays | None = field(default=None, init=False, repr=False)
    _shots: Shots = field(init=False, repr=False)
    _trained: Trained | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.rate, self.epochs, self.batch, self.seed = astuple(Recipe.of(self))
        check_prompt(self.prompt)
        self._shots = Shots.read(self.shots, self.digest)
        self.shots, self.digest = self._shots.path, self._shots.digest

    def check(self, stream: Any) -> None:
        """Refuse shots of the stream or of other classes, and a stream without its text encoder."""
        self._shots.check_stream(stream)
        tower_of(stream.features.predictor)

    def step(self, query: Query) -> Step:
        """Answer the plain image with the context that it shifts, trained before the first."""
        if self._trained is None or self._trained.source is not query.predictor:
            self._trained = trained(self, query.predictor, self.prompt, self._shots, self._memory)
        self._memory = arrays = self._trained.arrays
        context = arrays["context"] + _shift(arrays, query.views[0])[0]
        return self._trained.answer(query, self._trained.prompts.features(context))

    def initial(self, prompts: Prompts, dim: int, draw: np.random.Generator) -> Arrays:
        """The context (n, W), and two layers as torch draws linear ones."""
        words = prompts.words
        inner = max(1, dim // _NARROWER)
        return {
            "context": words.copy(),
            "inner_weight": _uniform((inner, dim), dim, draw, words),
            "inner_bias": _uniform((inner,), dim, draw, words),
            "outer_weight": _uniform((words.shape[1], inner), inner, draw, words),
            "outer_bias": _uniform((words.shape[1],), inner, draw, words),
        }

    def gradient(
        self, prompts: Prompts, arrays: Arrays, views: Float, labels: Int, scale: float
    ) -> Arrays:
        """That of the mean cross-entropy of a batch by the context and both layers."""
        total = {name: np.zeros_like(array) for name, array in arrays.items()}
        for row, view in enumerate(views):
            moved, inner = _shift(arrays, view)
            one, label = views[row : row + 1], labels[row : row + 1]
            by_context = context_gradient(prompts, arrays["context"] + moved, one, label, scale)
            for name, slope in _shift_gradient(arrays, view, inner, by_context).items():
                total[name] += slope / len(views)
        return total

    def _restored(self, state: dict[str, Any]) -> Arrays:
        arrays = state["arrays"]
        layers = {"inner_weight": 2, "inner_bias": 1, "outer_weight": 2, "outer_bias": 1}
        check_arrays_of(arrays, {"context": 2, **layers})
        (inner, dim), width = arrays["inner_weight"].shape, arrays["context"].shape[1]
        fits = dim == self._shots.plain.shape[1] and arrays["inner_bias"].shape == (inner,)
        fits &= arrays["outer_weight"].shape == (width, inner)
        check_stored(fits and arrays["outer_bias"].shape == (width,), "its layers do not fit")
        return {name: array.copy() for name, array in arrays.items()}


def _shift(arrays: Arrays, view: Float) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """What a view (D,) adds to each vector of the context, (W,), and the inner layer (h,)."""
    inner = np.maximum(arrays["inner_weight"] @ view + arrays["inner_bias"], 0)
    return arrays["outer_weight"] @ inner + arrays["outer_bias"], inner


def _shift_gradient(arrays: Arrays, view: Float, inner: Float, by_context: Float) -> Arrays:
    """Gradients by the context and both layers, of one by the shifted context (n, W)."""
    by_shift = by_context.sum(axis=0)
    by_inner = (arrays["outer_weight"].T @ by_shift) * (inner > 0)
    return {
        "context": by_context,
        "inner_weight": np.outer(by_inner, view),
        "inner_bias": by_inner,
        "outer_weight": np.outer(by_shift, inner),
        "outer_bias": by_shift,
    }


def _uniform(
    shape: tuple[int, ...], n_inputs: int, draw: np.random.Generator, like: Float
) -> NDArray[Any]:
    bound = n_inputs**-0.5
    return draw.uniform(-bound, bound, shape).astype(like.dtype)
