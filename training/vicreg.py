"""VICReg: two frames of one clip must look alike, while no coordinate may be constant or repeated.

The signal of `pairs.py` without comparisons between clips.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from training.augment import Augmentation
from training.heads import projection_head
from training.losses import vicreg
from training.recipe import Encoder, Recipe, every_clip
from training.training_set import Batch

EXPANDED = 1024
"""Covariances are only informative among many more coordinates than the embedding has."""


class VICReg(Recipe):
    """Invariance, variance and covariance, on an expanded embedding of frame pairs."""

    views_per_row: ClassVar[int] = 2

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.expander = projection_head(encoder.dimension, EXPANDED, EXPANDED, layers=3)
        self.augmentation = Augmentation(0.35, colour=1.0, grey=0.2, blur=0.5)

    def loss(self, batch: Batch) -> Tensor:
        """The frames of each clip against each other."""
        views = self.augmentation(torch.cat([batch.pictures, batch.partners]))
        first, second = self.expander(self.encoder(views)).chunk(2)
        return vicreg(first, second)

    def rows(self, labels: Tensor) -> Tensor:
        """All clips."""
        return every_clip(labels)
