"""Rotation: tell by which quarter turn a picture was rotated. No labels, no partners."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.augment import Augmentation
from training.recipe import Encoder, Recipe, every_row
from training.training_set import Batch

TURNS = 4


class Rotation(Recipe):
    """Cross-entropy over four turns."""

    views_per_row: ClassVar[int] = 1

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.classifier = nn.Linear(encoder.dimension, TURNS)
        self.augmentation = Augmentation(0.5, colour=0.5)

    def loss(self, batch: Batch) -> Tensor:
        """A quarter of the batch, drawn in random order anyway, gets each turn."""
        quarters = self.augmentation(batch.pictures).tensor_split(TURNS)
        views = torch.cat([quarter.rot90(turn, (2, 3)) for turn, quarter in enumerate(quarters)])
        turns = [torch.full((len(q),), t, device=views.device) for t, q in enumerate(quarters)]
        logits = self.classifier(self.encoder(views))
        return functional.cross_entropy(logits.float(), torch.cat(turns))

    def rows(self, labels: Tensor) -> Tensor:
        """All pictures."""
        return every_row(labels)
