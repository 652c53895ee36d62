"""Labels, contrastively: views with the same label attract each other (supervised contrastive)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from training.augment import Augmentation
from training.heads import projection_head
from training.losses import supervised_contrastive
from training.recipe import Encoder, Recipe, rows_of
from training.training_set import Batch

TEMPERATURE = 0.1


class LabelsContrastive(Recipe):
    """Two crops of each picture; all crops of a class are positives of each other."""

    views_per_row: ClassVar[int] = 2

    def __init__(self, encoder: Encoder, classes: tuple[int, ...]) -> None:
        super().__init__()
        self.encoder, self.classes = encoder, classes
        self.head = projection_head(encoder.dimension, 512, 128, layers=2)
        self.augmentation = Augmentation(0.35, colour=0.5, grey=0.2, blur=0.5)

    def loss(self, batch: Batch) -> Tensor:
        """Each crop against all other crops of the batch."""
        views = self.augmentation(batch.pictures.repeat(2, 1, 1, 1))
        first, second = self.head(self.encoder(views)).chunk(2)
        return supervised_contrastive(first, second, batch.labels, temperature=TEMPERATURE)

    def rows(self, labels: Tensor) -> Tensor:
        """The pictures of the given classes."""
        return rows_of(self.classes, labels)
