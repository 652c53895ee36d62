"""MEMO: for each picture the whole encoder takes a step down the marginal entropy of its views.

The mean posterior over the views behind the plain picture is made surer by one step on all
parameters; the moved network answers the plain picture, and the published weights come back. As
released the optimiser is not reset with them: with AdamW its moments run on through the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import integer, number, one_of
from marc.memory import Resumable
from marc.peers._pictures import Adapted, answers, check_pictures, crops, few_views
from marc.stream.predictor import Predictor
from marc.types import Query, Step

if TYPE_CHECKING:
    from torch import Tensor

    from marc.peers._image_learning import Classifier, Learner

_MOST_STEPS = 1000
_OPTIMISERS = ("adamw", "sgd")


@dataclass(eq=False)
class MEMO(Resumable):
    """Marginal entropy minimisation with one test point; the defaults are those for transformers.

    >>> MEMO().config()["rate"]
    1e-05
    """

    name: ClassVar[str] = "memo"

    optimiser: str = "adamw"
    """`adamw`, whose moments run on through the stream, or `sgd`, which remembers nothing."""
    rate: float = 1e-5
    """The learning rate; published with sgd for residual networks: 2.5e-4."""
    decay: float = 0.01
    """Weight decay; published with sgd: 0."""
    steps: int = 1
    """How often each picture moves the network before it is answered."""
    prior_strength: float = 16
    """How many pictures the statistics that batch norms kept count as, beside those at hand."""

    _memory: Adapted | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        one_of("optimiser", self.optimiser, _OPTIMISERS)
        self.rate = number("rate", self.rate)
        self.decay = number("decay", self.decay)
        self.steps = integer("steps", self.steps, 1, _MOST_STEPS)
        self.prior_strength = number("prior_strength", self.prior_strength)

    def check(self, stream: Any) -> None:
        """Refuse a stream without pictures, or with the plain ones alone."""
        check_pictures(self.name, stream, n_views=2)

    def step(self, query: Query) -> Step:
        """Move the network by the views of a picture, answer it, and move the network back."""
        pictures = crops(query, self.name)
        if len(pictures) < 2:
            raise few_views(self.name, len(pictures), 2)
        predictor = query.predictor
        self._memory = self._memory or Adapted.of(predictor)
        learner = self._memory.learner(predictor, self._build)
        images = predictor.image_tower.prepare(pictures)
        logits, _ = _adapt_to_one(learner, images[1:], images[:1], steps=self.steps)
        return answers([query], logits)[0]

    def _build(self, predictor: Predictor) -> Learner:
        from marc.peers._image_learning import Classifier

        classifier = Classifier.of(predictor)
        chosen = self.optimiser, self.rate, self.decay
        return _memo_learner(classifier, *chosen, prior_strength=self.prior_strength)

    def _restored(self, state: dict[str, Any]) -> Adapted:
        return Adapted.from_state(state["arrays"])


def _memo_learner(
    classifier: Classifier,
    optimiser: str,
    rate: float,
    decay: float,
    prior_strength: float = 16,
) -> Learner:
    """A classifier whose every parameter learns, and what they learn with."""
    import torch

    from marc.peers._image_learning import Learner, mix_statistics

    makers: dict[str, Callable[..., torch.optim.Optimizer]] = {
        "adamw": torch.optim.AdamW,
        "sgd": torch.optim.SGD,
    }
    mix_statistics(classifier.module, prior_strength)
    return Learner(
        classifier,
        dict(classifier.module.named_parameters()),
        lambda parameters: makers[optimiser](parameters, lr=rate, weight_decay=decay),
        keeps=("moments",),
    )


def _adapt_to_one(
    learner: Learner, views: Tensor, plain: Tensor, *, steps: int = 1
) -> tuple[NDArray[np.float32], float]:
    """Logits (1, C) of a plain picture after its views moved the network, and the last loss."""
    import torch

    from marc.peers._image_learning import marginal_entropy, numbers

    try:
        with torch.enable_grad():
            for _ in range(steps):
                loss = marginal_entropy(learner.classifier.logits(views))
                learner.descend(loss)
        with torch.no_grad():
            logits = learner.classifier.logits(plain)
    finally:
        learner.restore_weights()
    return numbers(logits), float(loss.detach())
