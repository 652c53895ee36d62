"""Pairs: two frames of one clip must find each other. No labels, no captions.

The frames share the object and nothing else, so what identifies a clip is the object. This is
more than two crops of one picture tell: compare `crops.py`.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from training.augment import Augmentation
from training.heads import projection_head
from training.losses import info_nce
from training.recipe import Encoder, Recipe, every_clip
from training.training_set import Batch

TEMPERATURE = 0.2


class Pairs(Recipe):
    """InfoNCE between the two frames of a clip."""

    views_per_row: ClassVar[int] = 2

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = projection_head(encoder.dimension, 512, 128, layers=3)
        self.augmentation = Augmentation(0.35, colour=1.0, grey=0.2, blur=0.5)

    def loss(self, batch: Batch) -> Tensor:
        """Each frame against all other frames of the batch."""
        views = self.augmentation(torch.cat([batch.pictures, batch.partners]))
        first, second = self.head(self.encoder(views)).chunk(2)
        return info_nce(first, second, temperature=TEMPERATURE)

    def rows(self, labels: Tensor) -> Tensor:
        """All clips."""
        return every_clip(labels)
