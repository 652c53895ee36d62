"""SHOT: the image encoder is trained on the whole stream, without labels, and then answers it.

Each batch makes its answers sure one by one and different on the whole (information maximisation),
and agrees with pseudo-labels, which are nearest centroids over all images, drawn up again as the
encoder changes. The classifier, which is the prototypes here, stays as it is. All images are seen
before the first one is answered, so this is transductive.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.errors import integer, number
from marc.memory import Resumable
from marc.peers._pictures import answers, check_pictures, crops, plain_crops, tower_of
from marc.peers.shot import centroid_cosines
from marc.scores import Int
from marc.types import Query, Step

if TYPE_CHECKING:
    from torch import Tensor, nn

    from marc.peers._image_learning import Classifier

_MOST_EPOCHS = 10_000
_EPSILON = 1e-5  # inside logarithms, as released
_DECAY, _MOMENTUM = 1e-3, 0.9
_ROUNDS = 2  # of each assignment to centroids

_Read = Callable[[Int, bool], Any]
"""Gives the pictures of some rows as the network takes them; whether to train on them."""


@dataclass(eq=False)
class SHOT(Resumable):
    """Source hypothesis transfer; every stream is begun with the published weights.

    >>> SHOT().batch_size is None, SHOT().config()["epochs"]
    (True, 15)
    """

    name: ClassVar[str] = "shot"

    epochs: int = 15
    """How often every picture is trained on."""
    refreshes: int = 15
    """How often pseudo-labels are drawn up, at equal distances."""
    pictures: int = 64
    """Of a batch of the training; a last batch of one picture is left out."""
    rate: float = 1e-3
    """The learning rate of the encoder, which falls as (1 + 10 i / n)^-0.75."""
    label_weight: float = 0.3
    """Of the cross-entropy to the pseudo-labels."""
    entropy_weight: float = 1.0
    """Of the information maximisation."""
    threshold: int = 0
    """A class takes part in pseudo-labels if it has more members than this."""
    seed: int = 0
    """Draws the batches, and which view of each picture is trained on."""

    def __post_init__(self) -> None:
        self.epochs = integer("epochs", self.epochs, 1, _MOST_EPOCHS)
        self.refreshes = integer("refreshes", self.refreshes, 1, _MOST_EPOCHS)
        self.pictures = integer("pictures", self.pictures, 2)
        self.rate = number("rate", self.rate)
        self.label_weight = number("label_weight", self.label_weight)
        self.entropy_weight = number("entropy_weight", self.entropy_weight)
        self.threshold = integer("threshold", self.threshold, 0)
        self.seed = integer("seed", self.seed, 0)

    @property
    def batch_size(self) -> int | None:
        """The whole stream."""
        return None

    def check(self, stream: Any) -> None:
        """Refuse a stream without an image encoder, or without pictures."""
        check_pictures(self.name, stream)

    def step_batch(self, queries: Sequence[Query]) -> list[Step]:
        """Train on all queries, then answer them together."""
        if not len(queries):
            return []
        predictor = queries[0].predictor
        tower = tower_of(predictor)
        from marc.peers._image_learning import Classifier

        classifier = Classifier.of(predictor)
        draw = np.random.default_rng(self.seed)

        def read(rows: Int, learning: bool) -> Any:
            chosen = [queries[int(row)] for row in rows]
            if learning:
                return tower.prepare(np.stack([_any_view(query, draw) for query in chosen]))
            return tower.prepare(plain_crops(chosen, self.name))

        training = _Training(classifier, [(classifier.module, self.rate)], read, len(queries), self)
        training.run(lambda epoch: np.random.default_rng([self.seed, epoch]).permutation)
        return answers(queries, training.look()[1])


def _any_view(query: Query, draw: np.random.Generator) -> NDArray[np.uint8]:
    """One of the views behind the plain picture, which is taken where there is no other."""
    pictures = crops(query, SHOT.name)
    return pictures[draw.integers(1, len(pictures)) if len(pictures) > 1 else 0]


class _Training:
    """The training of some modules, of which the classifier is made, each with its rate."""

    def __init__(
        self,
        classifier: Classifier,
        modules: Sequence[tuple[nn.Module, float]],
        read: _Read,
        n_images: int,
        settings: SHOT,
    ) -> None:
        import torch

        self.classifier, self.n_images, self.settings = classifier, n_images, settings
        self.pseudo_labels: list[Int] = []
        """Those of every refresh, (N,) each."""
        self._read, self._modules = read, [module for module, _ in modules]
        for module in self._modules:
            module.requires_grad_(True)
        groups = [{"params": module.parameters(), "lr": rate} for module, rate in modules]
        self._rates = [rate for _, rate in modules]
        self._optimiser: Any = torch.optim.SGD(
            groups, momentum=_MOMENTUM, weight_decay=_DECAY, nesterov=True
        )

    def run(self, permutation: Callable[[int], Callable[[int], Int]]) -> None:
        """All steps; `permutation(epoch)(n)` is the order of an epoch."""
        from marc.peers._image_learning import norms_learning

        settings = self.settings
        n_steps = settings.epochs * -(-self.n_images // settings.pictures)
        between = max(1, n_steps // settings.refreshes)
        batches = self._batches(permutation) if self.n_images > 1 else iter(())
        for step, rows in enumerate(itertools.islice(batches, n_steps)):
            if step % between == 0 and settings.label_weight > 0:
                self._refresh()
            decay = (1 + 10 * (step + 1) / n_steps) ** -0.75
            for group, rate in zip(self._optimiser.param_groups, self._rates, strict=True):
                group["lr"] = rate * decay
            with norms_learning(self._modules):
                self._descend(rows)

    def look(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Features (N, D) and logits (N, C) of all images as they are now."""
        import torch

        from marc.peers._image_learning import numbers

        size, features, logits = 3 * self.settings.pictures, [], []
        with torch.no_grad():
            for start in range(0, self.n_images, size):
                rows = np.arange(start, min(start + size, self.n_images))
                found = self.classifier.features(self._read(rows, False))
                features.append(numbers(found))
                logits.append(numbers(self.classifier.head(found)))
        return np.concatenate(features), np.concatenate(logits)

    def _batches(self, permutation: Callable[[int], Callable[[int], Int]]) -> Iterator[Int]:
        """Rows of one batch after the other, epoch after epoch, without an end."""
        for epoch in itertools.count():
            order = permutation(epoch)(self.n_images)
            for start in range(0, self.n_images, self.settings.pictures):
                rows = order[start : start + self.settings.pictures]
                if len(rows) > 1:
                    yield rows

    def _refresh(self) -> None:
        features, logits = self.look()
        cosines = centroid_cosines(features, logits, self.settings.threshold, _ROUNDS)
        self.pseudo_labels.append(cosines.argmax(axis=1))

    def _descend(self, rows: Int) -> None:
        import torch

        settings, labels = self.settings, None
        if settings.label_weight > 0:
            labels = torch.from_numpy(self.pseudo_labels[-1][rows])
        with torch.enable_grad():
            logits = self.classifier.logits(self._read(rows, True))
            loss = _shot_loss(logits, labels, settings.label_weight, settings.entropy_weight)
            self._optimiser.zero_grad()
            loss.backward()
            self._optimiser.step()


def _shot_loss(
    logits: Tensor, labels: Tensor | None, label_weight: float, entropy_weight: float
) -> Tensor:
    """The loss of a batch: logits (n, C), and pseudo-labels (n,) where they count.

    Mean entropy of the answers, minus the entropy of their mean, plus the cross-entropy.
    """
    p = logits.softmax(1)
    mean = p.mean(0)
    alone = -(p * (p + _EPSILON).log()).sum(1).mean()
    together = -(mean * (mean + _EPSILON).log()).sum()
    loss = entropy_weight * (alone - together)
    if labels is not None:
        chosen = logits.log_softmax(1).gather(1, labels.to(logits.device)[:, None])
        loss = loss - label_weight * chosen.mean()
    return loss
