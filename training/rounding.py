"""Weights in eight bits: each output channel of a layer has its own scale, zero stays zero.

Only the weights are rounded; the arithmetic stays float32. A file becomes a quarter as large, and
the embedding hardly moves (`export.py` prints by how much).
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

LEVELS = 127
FEWEST = 4096
"""Smaller layers keep float32: they cost little, and the first ones matter most."""


@torch.no_grad()
def round_weights(encoder: nn.Module) -> nn.Module:
    """A copy whose large weights have the values that eight bits can hold."""
    rounded = copy.deepcopy(encoder)
    for part in rounded.modules():
        if isinstance(part, nn.Conv2d | nn.Linear) and is_rounded(part.weight):
            levels, scales = in_levels(part.weight)
            part.weight.copy_(levels * scales.view(-1, *[1] * (levels.ndim - 1)))
    return rounded


def is_rounded(weight: Tensor) -> bool:
    """Whether a weight is large enough to be rounded."""
    return weight.numel() >= FEWEST


def in_levels(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Whole numbers from -127 to 127 in the weight's shape, and the scale of each channel.

    Weights that were rounded before give the same numbers again.
    """
    flat = weight.detach().float().flatten(1)  # (outgoing, rest)
    largest = flat.abs().amax(1)
    scales = torch.where(largest > 0, largest, 1.0) / LEVELS
    levels = (flat / scales[:, None]).round().clamp(-LEVELS, LEVELS)
    return levels.view(weight.shape), scales
