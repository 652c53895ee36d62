"""CoOp: sixteen vectors in front of every class name, trained on labelled shots before the stream.

They start at random and go down the cross-entropy of the shots, through the text encoder alone: the
stored features of the shots' views are what is classified. Then every image is answered from the
text features that they give, and nothing is learned any more. So it knows more than methods that
see the unlabelled stream alone: a comparison must say so.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from marc.errors import integer
from marc.memory import Resumable
from marc.peers._context_training import (
    Arrays,
    Recipe,
    Trained,
    check_arrays_of,
    context_gradient,
    trained,
)
from marc.peers._prompt_tuning import tower_of
from marc.peers._shots import Shots
from marc.scores import Float, Int
from marc.types import Query, Step

if TYPE_CHECKING:
    from marc.peers._prompts import Prompts

_WORD = "a"  # any that every text encoder knows: vectors take the place of its copies
_SPREAD = 0.02  # of the vectors at first
_MOST_CONTEXT = 74  # vectors that leave a token of the 77 that CLIP reads to the name


@dataclass(eq=False)
class CoOp(Resumable):
    """Context optimisation: one context for all classes, the name at the end."""

    name: ClassVar[str] = "coop"

    shots: str
    """Path of a feature pack, or of a feature store, of labelled training images."""
    n_context: int = 16
    """Vectors before the class name."""
    rate: float = 2e-3
    """The learning rate after the first epoch, which warms up at 1e-5."""
    epochs: int = 200
    """How often every shot is seen."""
    batch: int = 32
    """Shots of one step."""
    seed: int = 1
    """Of the vectors at first, the order of the shots, and the view that each is seen through."""
    digest: str = ""
    """Of what is read from `shots`; filled in, and if given it must agree."""

    _memory: Arrays | None = field(default=None, init=False, repr=False)
    _shots: Shots = field(init=False, repr=False)
    _trained: Trained | None = field(default=None, init=False, repr=False)
    _features: Float | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.n_context = integer("n_context", self.n_context, 1, _MOST_CONTEXT)
        self.rate, self.epochs, self.batch, self.seed = astuple(Recipe.of(self))
        self._shots = Shots.read(self.shots, self.digest)
        self.shots, self.digest = self._shots.path, self._shots.digest

    def check(self, stream: Any) -> None:
        """Refuse shots of the stream or of other classes, and a stream without its text encoder."""
        self._shots.check_stream(stream)
        tower_of(stream.features.predictor)

    def step(self, query: Query) -> Step:
        """Answer the plain image with the trained context, which is trained before the first."""
        if self._trained is None or self._trained.source is not query.predictor:
            prompt = " ".join([_WORD] * self.n_context) + " {}."
            self._trained = trained(self, query.predictor, prompt, self._shots, self._memory)
            self._features = self._trained.prompts.features(self._trained.arrays["context"])
        self._memory = self._trained.arrays
        assert self._features is not None
        return self._trained.answer(query, self._features)

    def initial(self, prompts: Prompts, dim: int, draw: np.random.Generator) -> Arrays:
        """The context at first, (n, W)."""
        words = prompts.words
        return {"context": (_SPREAD * draw.standard_normal(words.shape)).astype(words.dtype)}

    def gradient(
        self, prompts: Prompts, arrays: Arrays, views: Float, labels: Int, scale: float
    ) -> Arrays:
        """That of the mean cross-entropy of a batch by the context."""
        return {"context": context_gradient(prompts, arrays["context"], views, labels, scale)}

    def _restored(self, state: dict[str, Any]) -> Arrays:
        check_arrays_of(state["arrays"], {"context": 2})
        return {name: array.copy() for name, array in state["arrays"].items()}
