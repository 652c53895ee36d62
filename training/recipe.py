"""What a recipe is: an encoder, a loss that trains it, and the pictures that it may see."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from marc_lab.networks.convolutional import Convolutional
from marc_lab.networks.transformer import PictureTransformer
from training.training_set import Batch

Encoder = Convolutional | PictureTransformer


class Recipe(nn.Module, ABC):
    """Everything that is trained together, heads and all.

    Budgets are counted in views, pictures passed through the encoder: a recipe that compares two
    views of each row draws half as many rows.
    """

    encoder: nn.Module
    """What is kept: images (n, 3, 64, 64) in [0, 1] to embeddings (n, dimension)."""
    views_per_row: ClassVar[int]
    """How often the encoder sees something of each row of a batch."""
    kept: ClassVar[tuple[str, ...]] = ("encoder.",)
    """Prefixes of the parameters that are saved."""

    @abstractmethod
    def loss(self, batch: Batch) -> Tensor:
        """A scalar to make small."""

    @abstractmethod
    def rows(self, labels: Tensor) -> Tensor:
        """The rows of the training set that may be drawn, given the labels of all (N,)."""

    def predict(self, images: Tensor) -> Tensor | None:
        """Class indices (n,), where the recipe itself can name classes."""
        return None


def every_row(labels: Tensor) -> Tensor:
    """All pictures."""
    return torch.arange(len(labels), device=labels.device)


def every_clip(labels: Tensor) -> Tensor:
    """The first frame of each clip: drawing both would make partners each other's negatives."""
    return torch.arange(0, len(labels) - 1, 2, device=labels.device)


def rows_of(classes: tuple[int, ...], labels: Tensor) -> Tensor:
    """The pictures of these classes alone."""
    wanted = torch.tensor(classes, device=labels.device)
    return torch.isin(labels, wanted).nonzero().squeeze(1)


def kept_parameters(recipe: Recipe) -> dict[str, Tensor]:
    """What is saved of a trained recipe."""
    state = recipe.state_dict()
    return {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in state.items()
        if name.startswith(recipe.kept)
    }


def restore(recipe: Recipe, parameters: dict[str, Tensor]) -> None:
    """Load saved parameters into a recipe; its heads stay as they were made."""
    missing, unexpected = recipe.load_state_dict(parameters, strict=False)
    lost = [name for name in missing if name.startswith(recipe.kept)]
    if lost or unexpected:
        raise ValueError(f"these weights are of another recipe: {lost} lack, {unexpected} too many")
