"""TPS: every prototype is shifted for each image, by one step down the entropy over its views.

The surest views of an image are kept, and the entropy of their mean posterior is the loss. A shift
of the prototypes starts at zero, takes one step of AdamW, serves the plain image and is forgotten.
Nothing passes through a network: the gradient is a product of features, written out here.

The first step of AdamW is almost a step by the sign: every coordinate moves by the whole rate,
however small its gradient is. Where a gradient is at the level of rounding the direction of its
coordinate is chance, so two programs agree in answers, and in scores to some thousandths.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import number, switch
from marc.memory import Resumable
from marc.peers._residuals import SameTexts, adamw_step, lengths, marginal_entropy
from marc.peers.view_selection import check_fraction, select_views
from marc.scores import Float
from marc.types import Query, Step

_EPSILON = 1e-8  # of AdamW, its default in torch


@dataclass(eq=False)
class TPS(Resumable):
    """Test-time prototype shifting: one step per image, then forgotten.

    >>> TPS().config()
    {'method': 'tps', 'rate': 0.005, 'per_class': True, 'fraction': 0.1}
    """

    name: ClassVar[str] = "tps"

    rate: float = 5e-3
    """The learning rate: how far each coordinate of a shift moves."""
    per_class: bool = True
    """A shift for each class, as published; otherwise one for all of them."""
    fraction: float = 0.1
    """The fraction of the views that is kept, where there is more than one view."""

    _texts: SameTexts | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.rate = number("rate", self.rate)
        self.per_class = switch("per_class", self.per_class)
        self.fraction = check_fraction(self.fraction)

    def step(self, query: Query) -> Step:
        """Shift the prototypes for this image, and answer its plain view with them."""
        predictor, logits = query.predictor, query.view_logits
        if self._texts is None or self._texts.source is not predictor:
            self._texts = SameTexts.of(predictor)
        kept = select_views(logits, self.fraction, method=self.name)
        scale, texts = predictor.logit_scale, predictor.prototypes
        pull = marginal_entropy(logits[kept])[1]
        if self.per_class:
            gradient = _class_gradient(pull, logits[kept], query.views[kept], texts, scale)
        else:
            gradient = _shared_gradient(pull, logits[kept], texts)
        shifted = texts + adamw_step(gradient, self.rate, _EPSILON)
        cosines = np.einsum("cd,d->c", shifted, query.clip_key) / lengths(shifted)
        scores = np.asarray(scale * cosines, dtype=np.float64)
        self._texts.tie(scores)
        base = logits[0]
        return Step(
            query.item,
            base,
            {"shifted": scores},
            {"shifted": 1.0},
            int(base.argmax()),
            0.0,
            base_weight=0.0,
        )


def _class_gradient(
    pull: Float, logits: Float, views: Float, texts: Float, scale: float
) -> NDArray[np.float32]:
    """The gradient (C, D) by a shift of each class, at a shift of zero.

    Args:
        pull: that by the logits of the kept views, (r, C).
        logits: of the kept views, scale <f_j, t_c>, (r, C).
        views: the kept views f_j, (r, D).
        texts: unit prototypes t_c, (C, D).
        scale: tau.

    The gradient by t_c is scale sum_j pull_jc f_j; through the normalisation it loses what lies
    along t_c, and that is sum_j pull_jc z_jc, as scale <f_j, t_c> is z_jc.
    """
    along = (pull * logits).sum(axis=0).astype(np.float32)
    gradient = (scale * pull.T).astype(np.float32) @ views
    gradient -= along[:, np.newaxis] * texts
    return np.asarray(gradient, dtype=np.float32)


def _shared_gradient(pull: Float, logits: Float, texts: Float) -> NDArray[np.float32]:
    """The gradient (D,) by one shift for all classes: the sum of those of `_class_gradient`.

    Each view's pull is 0 in sum over the classes, so that what is left are the parts along t_c.
    """
    along = (pull * logits).sum(axis=0).astype(np.float32)
    return -(along @ texts).astype(np.float32)
