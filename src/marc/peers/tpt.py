"""TPT: the prompt is tuned to each image by one step down the entropy over its surest views.

Four vectors stand before the class names, at first those of "a photo of a". The views of an image
with the lowest entropy are kept; one step of AdamW lowers the entropy of their mean posterior. The
plain image is answered with the prompt that this gives, and the prompt is as before for the next
image. Nothing passes through the image encoder: stored features of the views are enough.

C-TPT also holds up how far the text features of the classes lie apart, because prompts that let
them fall together give answers that are too sure.

The first step of AdamW is almost a step by the sign: where a gradient is at the level of rounding,
the direction of its coordinate is chance. Two programs then agree in answers, not in every digit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

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
from marc.types import Query, Step


@dataclass(eq=False)
class TPT(Resumable):
    """Test-time prompt tuning: one step per image, then forgotten.

    >>> TPT(steps=3).config()["steps"]
    3
    """

    name: ClassVar[str] = "tpt"

    rate: float = 5e-3
    """The learning rate."""
    steps: int = 1
    """Steps for each image; the views are those that were selected before the first."""
    fraction: float = 0.1
    """The fraction of the views that is kept, where there is more than one view."""
    prompt: str = PROMPT
    """What the prompts are at first, with braces for the name; words before them are tuned."""

    _start: Start | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.rate = number("rate", self.rate)
        self.steps = integer("steps", self.steps, 1, MOST_STEPS)
        self.fraction = check_fraction(self.fraction)
        check_prompt(self.prompt)

    def check(self, stream: Any) -> None:
        """Refuse a stream without its predictor's text encoder."""
        tower_of(stream.features.predictor)

    def step(self, query: Query) -> Step:
        """Tune the prompt to this image, and answer its plain view."""
        if self._start is None or self._start.source is not query.predictor:
            self._start = Start.of(query.predictor, self.prompt)
        select = partial(select_views, fraction=self.fraction, method=self.name)
        return tuned_step(query, self._start, self._tuning, select)

    @property
    def _tuning(self) -> Tuning:
        return Tuning(self.rate, self.steps)


@dataclass(eq=False)
class CTPT(TPT):
    """TPT that holds up the spread of the text features, for answers that are less too sure."""

    name: ClassVar[str] = "c-tpt"

    dispersion: float = 50.0
    """The weight of the mean distance of the text features from their mean."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.dispersion = number("dispersion", self.dispersion)

    @property
    def _tuning(self) -> Tuning:
        return Tuning(self.rate, self.steps, self.dispersion)
