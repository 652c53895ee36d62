"""Masked: from a quarter of the patches of a picture, paint the others (He et al. 2022).

Same transformer as `pairs-vit`, same pictures, another objective. The encoder sees visible patches
only; a small decoder paints, and is thrown away.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from marc_lab.networks.transformer import GRID, PATCH, PictureTransformer, Trunk, waves
from training.augment import Augmentation
from training.recipe import Recipe, every_row
from training.training_set import Batch

PATCHES = GRID * GRID
VISIBLE = PATCHES // 4
PAINTER_WIDTH = 96


class Masked(Recipe):
    """Squared error on hidden patches, each patch normalised by its own mean and spread."""

    encoder: PictureTransformer
    views_per_row: ClassVar[int] = 1

    def __init__(self, encoder: PictureTransformer) -> None:
        super().__init__()
        self.encoder = encoder
        self.hand_over = nn.Linear(encoder.dimension, PAINTER_WIDTH)
        self.blank = nn.Parameter(0.02 * torch.randn(1, 1, PAINTER_WIDTH))
        self.positions = nn.Parameter(waves(GRID, PAINTER_WIDTH))
        self.painter = Trunk(2, width=PAINTER_WIDTH, heads=3, hidden=4 * PAINTER_WIDTH)
        self.pixels = nn.Linear(PAINTER_WIDTH, 3 * PATCH * PATCH)
        self.augmentation = Augmentation(0.35)

    def loss(self, batch: Batch) -> Tensor:
        """The mean over the hidden patches of all pictures."""
        images = self.augmentation(batch.pictures)
        order = torch.rand(len(images), PATCHES, device=images.device).argsort(1)
        visible, hidden = order[:, :VISIBLE], order[:, VISIBLE:]
        tokens = _pick(self.encoder.embed(images), visible)
        seen = self.hand_over(self.encoder.trunk(tokens))  # (n, 16, painter width)
        canvas = self.blank.to(seen.dtype).expand(len(images), PATCHES, -1)
        canvas = canvas.scatter(1, visible[..., None].expand_as(seen), seen) + self.positions
        painted = _pick(self.pixels(self.painter(canvas)), hidden)  # (n, 48, 192)
        return functional.mse_loss(painted.float(), _pick(_normalised_patches(images), hidden))

    def rows(self, labels: Tensor) -> Tensor:
        """All pictures."""
        return every_row(labels)


def _pick(tokens: Tensor, places: Tensor) -> Tensor:
    """Tokens (n, length, width) at places (n, some): (n, some, width)."""
    return tokens.gather(1, places[..., None].expand(-1, -1, tokens.shape[2]))


def _normalised_patches(images: Tensor) -> Tensor:
    """(n, 3, 64, 64) to (n, 64, 192): each patch with mean 0 and spread 1."""
    patches = images.reshape(-1, 3, GRID, PATCH, GRID, PATCH)
    patches = patches.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
    centred = patches - patches.mean(2, keepdim=True)
    return centred / (centred.square().mean(2, keepdim=True) + 1e-4).sqrt()
