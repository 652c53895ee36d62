"""Crops: two crops of one frame must find each other. The classical recipe, without clips.

Both crops show the same scenery, which identifies a picture better than its object does: the
space that comes out is about pictures, not about objects. It is kept to show just that.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from training.augment import Augmentation
from training.heads import projection_head
from training.losses import info_nce
from training.recipe import Encoder, Recipe, every_row
from training.training_set import Batch

TEMPERATURE = 0.2


class Crops(Recipe):
    """InfoNCE between two crops of one picture."""

    views_per_row: ClassVar[int] = 2

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = projection_head(encoder.dimension, 512, 128, layers=3)
        self.augmentation = Augmentation(0.2, colour=1.0, grey=0.2, blur=0.5)

    def loss(self, batch: Batch) -> Tensor:
        """Each crop against all other crops of the batch."""
        views = self.augmentation(batch.pictures.repeat(2, 1, 1, 1))
        first, second = self.head(self.encoder(views)).chunk(2)
        return info_nce(first, second, temperature=TEMPERATURE)

    def rows(self, labels: Tensor) -> Tensor:
        """All pictures."""
        return every_row(labels)
