"""Untrained: a control. Random weights, with batch statistics measured on training pictures."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from training.recipe import Recipe, every_row
from training.training_set import Batch


class Untrained(Recipe):
    """An encoder as it was made."""

    views_per_row: ClassVar[int] = 1

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def loss(self, batch: Batch) -> Tensor:
        """There is none."""
        raise NotImplementedError("an untrained encoder has no loss; its catalogue entry says so")

    def rows(self, labels: Tensor) -> Tensor:
        """All pictures."""
        return every_row(labels)
