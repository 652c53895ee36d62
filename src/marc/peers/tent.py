"""Tent: scales and shifts of the normalisations follow the entropy of each batch downwards.

A batch is answered by the network as the batches before have left it; then its mean entropy moves
the network by one step, for the next batch. CLIP's transformers have layer norms alone. Where
there are batch norms they use the statistics of the batch and forget those of their training.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, integer, number, one_of, switch
from marc.memory import Resumable
from marc.peers._pictures import Adapted, answers, check_pictures, plain_crops
from marc.stream.predictor import Predictor
from marc.types import Query, Step

if TYPE_CHECKING:
    from torch import Tensor

    from marc.peers._image_learning import Classifier, Learner

_MOST_STEPS = 1000
_OPTIMISERS = ("adam", "sgd")


@dataclass(eq=False)
class Tent(Resumable):
    """Entropy minimisation over the affine parameters of normalisations, batch by batch.

    >>> Tent().config()["batch_size"]
    64
    """

    name: ClassVar[str] = "tent"

    batch_size: int = 64
    """Pictures that are answered together, and then move the network."""
    optimiser: str = "adam"
    """`adam`, or `sgd` with Nesterov momentum."""
    rate: float = 1e-3
    """The learning rate; published with sgd for ImageNet: 2.5e-4."""
    momentum: float = 0.9
    """Of sgd, or the first beta of adam."""
    steps: int = 1
    """How often each batch moves the network; the answer is from before the last one."""
    episodic: bool = False
    """Whether network and optimiser are as published again before every batch."""

    _memory: Adapted | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.batch_size = integer("batch_size", self.batch_size, 1)
        one_of("optimiser", self.optimiser, _OPTIMISERS)
        self.rate = number("rate", self.rate)
        self.momentum = _below_one("momentum", self.momentum)
        self.steps = integer("steps", self.steps, 1, _MOST_STEPS)
        self.episodic = switch("episodic", self.episodic)

    def check(self, stream: Any) -> None:
        """Refuse a stream without pictures, or whose encoder has no normalisation to adapt."""
        tower = check_pictures(self.name, stream)
        from marc.peers._image_learning import norm_parameters

        if not norm_parameters(tower.copy()):
            raise _no_norms(tower.digest)

    def step_batch(self, queries: Sequence[Query]) -> list[Step]:
        """Answer a batch, then learn from it."""
        if not len(queries):
            return []
        predictor = queries[0].predictor
        self._memory = self._memory or Adapted.of(predictor)
        learner = self._memory.learner(predictor, self._build)
        images = predictor.image_tower.prepare(plain_crops(queries, self.name))
        return answers(queries, _adapt(learner, images, steps=self.steps, episodic=self.episodic))

    def _build(self, predictor: Predictor) -> Learner:
        from marc.peers._image_learning import Classifier

        classifier = Classifier.of(predictor)
        return _tent_learner(classifier, self.optimiser, self.rate, self.momentum, self.episodic)

    def _restored(self, state: dict[str, Any]) -> Adapted:
        return Adapted.from_state(state["arrays"])


def _tent_learner(
    classifier: Classifier,
    optimiser: str,
    rate: float,
    momentum: float = 0.9,
    episodic: bool = False,
) -> Learner:
    """A classifier whose normalisations learn, and what they learn with."""
    import torch

    from marc.peers._image_learning import Learner, norm_parameters, use_batch_statistics

    def made(parameters: list[Any]) -> torch.optim.Optimizer:
        if optimiser == "adam":
            return torch.optim.Adam(parameters, rate, betas=(momentum, 0.999))
        return torch.optim.SGD(parameters, rate, momentum=momentum, nesterov=momentum > 0)

    parameters = norm_parameters(classifier.module)
    if not parameters:
        raise _no_norms(type(classifier.module).__name__)
    use_batch_statistics(classifier.module)
    return Learner(classifier, parameters, made, keeps=() if episodic else ("weights", "moments"))


def _adapt(
    learner: Learner, images: Tensor, *, steps: int = 1, episodic: bool = False
) -> NDArray[np.float32]:
    """Logits (n, C) of a batch from before its last step, which moves the network."""
    import torch

    from marc.peers._image_learning import entropies, numbers

    if episodic:
        learner.restore()
    with torch.enable_grad():
        for _ in range(steps):
            logits = learner.classifier.logits(images)
            learner.descend(entropies(logits).mean())
    return numbers(logits)


def _below_one(name: str, value: float) -> float:
    if number(name, value) >= 1:
        raise MarcError(f"{name} must be below 1", got=value, allowed="0 to 1, without 1")
    return float(value)


def _no_norms(network: str) -> MarcError:
    return MarcError(
        "tent adapts scales and shifts of normalisations, and this image encoder has none",
        got=network,
        allowed="layer norms, group norms or batch norms with scales and shifts",
        hint="lab/NAME@captions-vit, or the predictor clip-b16-text",
    )
