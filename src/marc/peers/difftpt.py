"""DiffTPT: TPT over views of which some were generated, once both filters have had their say.

A diffusion model paints variants of an image; that is done elsewhere, and the variants are embedded
beside the views of the image. Those that look least like it are dropped, by cosine. Of what is
left, augmented and generated together, the surest are kept, and the prompt takes some steps down
the entropy of their mean posterior, as in TPT.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from marc.errors import integer, number
from marc.memory import Resumable
from marc.peers._prompt_tuning import (
    MOST_STEPS,
    PROMPT,
    Start,
    Tuning,
    check_prompt,
    tower_of,
    tuned_step,
)
from marc.peers.view_selection import check_fraction, select_views
from marc.scores import Float, Int
from marc.types import Query, Step


@dataclass(eq=False)
class DiffTPT(Resumable):
    """TPT with generated views; without any, TPT with its own steps and fraction.

    >>> DiffTPT(steps=2).config()["similar"]
    0.8
    """

    name: ClassVar[str] = "difftpt"

    similar: float = 0.8
    """The fraction of the generated views that is kept: those most like the plain image."""
    fraction: float = 0.3
    """The fraction of the views left that is kept, where there is more than one: the surest."""
    rate: float = 5e-3
    """The learning rate."""
    steps: int = 4
    """Steps for each image; the views are those that were selected before the first."""
    prompt: str = PROMPT
    """What the prompts are at first, with braces for the name; words before them are tuned."""

    _start: Start | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.similar = check_fraction(self.similar, "similar")
        self.fraction = check_fraction(self.fraction)
        self.rate = number("rate", self.rate)
        self.steps = integer("steps", self.steps, 1, MOST_STEPS)
        check_prompt(self.prompt)

    def check(self, stream: Any) -> None:
        """Refuse a stream without its predictor's text encoder."""
        tower_of(stream.features.predictor)

    def step(self, query: Query) -> Step:
        """Tune the prompt to this image, and answer its plain view."""
        if self._start is None or self._start.source is not query.predictor:
            self._start = Start.of(query.predictor, self.prompt)
        generated = query.views[:0] if query.generated is None else query.generated
        both = replace(query, views=np.concatenate([query.views, generated]))
        like = _similar_views(both.views, len(generated), self.similar)

        def select(logits: Float) -> Int:
            return like[select_views(logits[like], self.fraction, method=self.name)]

        return tuned_step(both, self._start, Tuning(self.rate, self.steps), select)


def _similar_views(views: Float, n_generated: int, similar: float) -> Int:
    """Indices of unit views (M, D) without the generated ones least like the plain image.

    Of the last `n_generated` views the fraction `similar` stays, but one at least; of equal ones
    the earlier.

    >>> _similar_views(np.array([[1.0, 0], [0, 1], [0.6, 0.8], [0.8, 0.6]]), 2, 0.5).tolist()
    [0, 1, 3]
    """
    others = len(views) - n_generated
    cosines = (views[others:] @ views[0]).astype(np.float64)
    nearest = np.argsort(-cosines, kind="stable")[: max(1, int(similar * n_generated))]
    return np.concatenate([np.arange(others), others + np.sort(nearest)])
