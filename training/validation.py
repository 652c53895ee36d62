"""How good a finished encoder is on clean pictures that no recipe has seen."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from training.augment import as_images
from training.recipe import Recipe
from training.training_set import TrainingSet

NEIGHBOURS = 10


@torch.no_grad()
def validate(recipe: Recipe, pictures: TrainingSet) -> dict[str, float]:
    """Purity of neighbourhoods and, where the recipe can name classes, how often it is right."""
    recipe.eval()
    images = as_images(pictures.pictures)
    found = {"purity_at_10": round(purity(embed(recipe.encoder, images), pictures.labels), 4)}
    predicted = recipe.predict(images)
    if predicted is not None:
        found["accuracy"] = round(float((predicted == pictures.labels).float().mean()), 4)
    return found


@torch.no_grad()
def embed(encoder: nn.Module, images: Tensor) -> Tensor:
    """Embeddings of unit length, (n, dimension)."""
    parts = [encoder(part).float() for part in images.split(500)]
    return functional.normalize(torch.cat(parts), dim=1)


def purity(embeddings: Tensor, labels: Tensor) -> float:
    """The share of the ten nearest neighbours that have the picture's own label."""
    similarity = embeddings @ embeddings.T
    similarity.fill_diagonal_(-torch.inf)
    nearest = similarity.topk(NEIGHBOURS, dim=1).indices  # (n, 10)
    return float((labels[nearest] == labels[:, None]).float().mean())
