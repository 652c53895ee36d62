"""Labels: name the class of a picture, among all 48 or among a part of them.

With all 48 it is an upper reference: it learned the very labels on which it will be measured, and
its own classifier is the better answer. With a part, the other classes are new to it.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from marc_lab.classes import CLASS_NAMES
from training.augment import Augmentation
from training.recipe import Encoder, Recipe, rows_of
from training.training_set import Batch


class Labels(Recipe):
    """Cross-entropy over the given classes; pictures of other classes are never shown."""

    views_per_row: ClassVar[int] = 1
    places: Tensor

    def __init__(self, encoder: Encoder, classes: tuple[int, ...], *, smoothing: float) -> None:
        super().__init__()
        self.encoder, self.classes, self.smoothing = encoder, classes, smoothing
        self.classifier = nn.Linear(encoder.dimension, len(classes))
        self.augmentation = Augmentation(0.35, colour=0.5)
        places = torch.zeros(len(CLASS_NAMES), dtype=torch.int64)
        places[list(classes)] = torch.arange(len(classes))
        # From a label to its place among `classes`.
        self.register_buffer("places", places, persistent=False)

    def loss(self, batch: Batch) -> Tensor:
        """Cross-entropy of the classifier's answer."""
        logits = self.classifier(self.encoder(self.augmentation(batch.pictures)))
        wanted = self.places[batch.labels]
        return functional.cross_entropy(logits.float(), wanted, label_smoothing=self.smoothing)

    def rows(self, labels: Tensor) -> Tensor:
        """The pictures of the given classes."""
        return rows_of(self.classes, labels)

    def predict(self, images: Tensor) -> Tensor:
        """What the classifier itself says."""
        places = self.classifier(self.encoder(images)).argmax(1)
        return torch.tensor(self.classes, device=images.device)[places]
