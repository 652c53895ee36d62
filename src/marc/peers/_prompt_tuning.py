"""Tuning a prompt to one image: steps down the entropy of its surest views, then forgotten.

The gradient of the loss by the text features is written out; from there it goes back through the
text encoder. At the first step the context is the same for every image, so the prompts are encoded
once for all of them, and only the way back is gone for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marc.encoders.torch_runtime import import_libraries
from marc.errors import MarcError
from marc.peers._residuals import lengths, marginal_entropy
from marc.scores import Float, Int
from marc.stream.predictor import Predictor, TextTower
from marc.types import Query, Step

if TYPE_CHECKING:
    from marc.peers._prompts import Prompts, Pull

PROMPT = "a photo of a {}."
"""What the methods start from, as published."""
MOST_STEPS = 1000
_FIRST, _SECOND = 0.9, 0.999  # betas of AdamW, its defaults in torch as are the next two
_EPSILON, _DECAY = 1e-8, 0.01


def tower_of(predictor: Predictor) -> TextTower:
    """The predictor's text encoder, or what is missing for it."""
    if predictor.towers.text is not None:
        import_libraries()
    return predictor.text_tower


def check_prompt(prompt: str) -> str:
    """A prompt with one place for the name, and words before it."""
    if not isinstance(prompt, str) or prompt.count("{}") != 1 or not prompt.partition("{}")[0]:
        raise MarcError(
            "a prompt needs words, and {} behind them for the class name",
            got=repr(prompt)[:80],
            hint=f'prompt="{PROMPT}"',
        )
    return prompt


@dataclass(frozen=True, eq=False)
class Start:
    """A prompt before it is tuned: what every image starts from."""

    source: Predictor
    prompts: Prompts
    context: Float
    """(n, W)."""
    features: Float
    """Unit text features of the distinct names, (U, D)."""
    pull: Pull

    @classmethod
    def of(cls, predictor: Predictor, prompt: str) -> Start:
        """That of a prompt around the names of a predictor's classes."""
        tower = tower_of(predictor)
        from marc.peers._prompts import Prompts

        prompts = Prompts.of(tower, prompt)
        return cls(predictor, prompts, prompts.words, *prompts.with_gradient(prompts.words))

    def __deepcopy__(self, memo: Any) -> Start:
        return self  # nothing in it ever changes

    def logits(self, views: Float) -> NDArray[Any]:
        """Of views (r, D) with the untuned prompt, (r, C)."""
        return self.prompts.logits(views, self.features, self.source.logit_scale)


@dataclass(frozen=True)
class Tuning:
    """How far a prompt is moved, and down which slope."""

    rate: float
    steps: int
    dispersion: float = 0.0
    """The weight of the spread of the text features, which is held up."""

    def context(self, start: Start, views: Float) -> NDArray[np.floating]:
        """The context (n, W) after all steps for the selected views (r, D) of an image."""
        context = np.array(start.context)
        moments = np.zeros((2, *context.shape), dtype=context.dtype)
        features, pull = start.features, start.pull
        for step in range(1, self.steps + 1):
            if step > 1:
                features, pull = start.prompts.with_gradient(context)
            gradient = pull(start.prompts.by_name(self.slope(start, features, views)))
            context = _adamw(context, gradient, moments, step, self.rate)
        return context

    def slope(self, start: Start, features: Float, views: Float) -> Float:
        """The gradient (C, D) of the loss by the unit text features of the classes."""
        prompts, scale = start.prompts, start.source.logit_scale
        pull = marginal_entropy(prompts.logits(views, features, scale))[1]
        gradient = (scale * pull.T).astype(features.dtype) @ views.astype(features.dtype)
        if self.dispersion:
            spread = _dispersion_slope(features[prompts.which])
            gradient -= features.dtype.type(self.dispersion) * spread
        return np.asarray(gradient)


def _adamw(
    context: Float, gradient: Float, moments: Float, step: int, rate: float
) -> NDArray[np.floating]:
    """A context after one step, the `step`-th; `moments` (2, ...) of it are brought up to date."""
    moments[0] = _FIRST * moments[0] + (1 - _FIRST) * gradient
    moments[1] = _SECOND * moments[1] + (1 - _SECOND) * gradient * gradient
    spread = np.sqrt(moments[1] / (1 - _SECOND**step)) + _EPSILON
    moved = context * (1 - rate * _DECAY) - rate / (1 - _FIRST**step) * moments[0] / spread
    return np.asarray(moved, dtype=context.dtype)


def _dispersion_slope(features: Float) -> Float:
    """The gradient (C, D) of the mean distance of features (C, D) from their mean.

    With u_c = (t_c - m) / |t_c - m| it is (u_c - mean of u) / C, because m moves too.
    """
    apart = features - features.mean(axis=0)
    apart /= lengths(apart)[:, np.newaxis]
    return np.asarray((apart - apart.mean(axis=0)) / len(apart))


def tuned_step(query: Query, start: Start, tuning: Tuning, select: Callable[[Float], Int]) -> Step:
    """Tune the prompt to the views that `select` picks by their logits (M, C), and answer."""
    logits = start.logits(query.views)
    base = logits[0]
    context = tuning.context(start, query.views[select(logits)])
    features = start.prompts.features(context)
    scores = start.prompts.logits(query.views[:1], features, start.source.logit_scale)[0]
    return Step(
        query.item,
        base,
        {"tuned": scores.astype(np.float64)},
        {"tuned": 1.0},
        int(base.argmax()),
        0.0,
        base_weight=0.0,
    )
