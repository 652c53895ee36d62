"""The losses of the recipes, each a pure function of embeddings.

All are computed in float32 even where the networks run in bfloat16: a similarity divided by a
small temperature, or a covariance, needs more than eight bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def _in_float32(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(loss)
    def computed(*tensors: Tensor, **settings: Any) -> Tensor:
        with torch.autocast(tensors[0].device.type, enabled=False):
            precise = (t.float() if t.is_floating_point() else t for t in tensors)
            return loss(*precise, **settings)

    return computed


@_in_float32
def info_nce(first: Tensor, second: Tensor, *, temperature: float) -> Tensor:
    """Each view must find its partner among all other views of the batch; both (n, d)."""
    views = functional.normalize(torch.cat([first, second]), dim=1)
    logits = views @ views.T / temperature  # (2n, 2n)
    logits.fill_diagonal_(-torch.inf)
    partners = torch.arange(len(views), device=views.device).roll(len(first))
    return functional.cross_entropy(logits, partners)


@_in_float32
def caption_matching(images: Tensor, captions: Tensor, log_scale: Tensor) -> Tensor:
    """CLIP's loss: each image finds its caption, each caption its image; both (n, d)."""
    images, captions = (functional.normalize(side, dim=1) for side in (images, captions))
    logits = log_scale.exp() * images @ captions.T
    own = torch.arange(len(images), device=images.device)
    both = functional.cross_entropy(logits, own) + functional.cross_entropy(logits.T, own)
    return both / 2


@_in_float32
def supervised_contrastive(
    first: Tensor, second: Tensor, labels: Tensor, *, temperature: float
) -> Tensor:
    """Each view must find all views with its label (Khosla et al. 2020, the form L_out)."""
    views = functional.normalize(torch.cat([first, second]), dim=1)
    labels = labels.repeat(2)
    logits = views @ views.T / temperature
    logits.fill_diagonal_(-1e4)  # finite, since it is multiplied by 0 below
    positives = (labels[:, None] == labels).float().fill_diagonal_(0)
    found = (logits.log_softmax(1) * positives).sum(1) / positives.sum(1)
    return -found.mean()


@_in_float32
def vicreg(first: Tensor, second: Tensor) -> Tensor:
    """Partners agree, no coordinate is constant, no two repeat each other (Bardes et al. 2022)."""
    invariance = functional.mse_loss(first, second)
    variance = (_constancy(first) + _constancy(second)) / 2
    covariance = _redundancy(first) + _redundancy(second)
    return 25 * invariance + 25 * variance + covariance


def _constancy(views: Tensor) -> Tensor:
    """How far the coordinates of (n, d) fall short of a standard deviation of 1."""
    return torch.relu(1 - (views.var(0) + 1e-4).sqrt()).mean()


def _redundancy(views: Tensor) -> Tensor:
    """Squared covariances between different coordinates of (n, d), over d."""
    n, d = views.shape
    centred = views - views.mean(0)
    covariance = centred.T @ centred / (n - 1)  # (d, d)
    return (covariance.square().sum() - covariance.diagonal().square().sum()) / d
