"""The heads: small networks on top of an encoder that training needs and nobody keeps."""

from __future__ import annotations

from torch import nn


def projection_head(incoming: int, hidden: int, outgoing: int, *, layers: int) -> nn.Sequential:
    """Linear layers with batch norm and ReLU between; the loss may bend it, not the encoder."""
    parts: list[nn.Module] = []
    for layer in range(layers - 1):
        width = incoming if layer == 0 else hidden
        parts += [nn.Linear(width, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU()]
    return nn.Sequential(*parts, nn.Linear(hidden, outgoing))
