"""The transformers: one that sees pictures, one that reads captions, and what they share."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH = 128
HEADS = 4
HIDDEN = 464
"""Units between the two layers of a perceptron: 3.6 widths keep the encoder at 1.15 M."""
PICTURE_DEPTH = 6
TEXT_DEPTH = 2
PATCH = 8
GRID = 64 // PATCH


class Layer(nn.Module):
    """Attention, then a perceptron, each normalised before and added to what came in."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.mix = nn.Linear(width, width)
        self.norm_perceptron = nn.LayerNorm(width)
        self.widen = nn.Linear(width, hidden)
        self.narrow = nn.Linear(hidden, width)

    def forward(self, tokens: Tensor, readable: Tensor | None) -> Tensor:
        """Tokens (n, length, width); `readable` (n, 1, 1, length) is False at padding."""
        n, length, width = tokens.shape
        parts = self.query_key_value(self.norm_attention(tokens))
        parts = parts.view(n, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)  # each (n, heads, length, width / heads)
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=readable)
        tokens = tokens + self.mix(seen.transpose(1, 2).reshape(n, length, width))
        inner = functional.gelu(self.widen(self.norm_perceptron(tokens)))
        return tokens + self.narrow(inner)


class Trunk(nn.Module):
    """A stack of layers and a last normalisation."""

    def __init__(
        self, depth: int, *, width: int = WIDTH, heads: int = HEADS, hidden: int = HIDDEN
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width, heads, hidden) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor, readable: Tensor | None = None) -> Tensor:
        """(n, length, width) to the same shape."""
        for layer in self.layers:
            tokens = layer(tokens, readable)
        return self.norm(tokens)


class PictureTransformer(nn.Module):
    """Pictures (n, 3, 64, 64) in [0, 1] to embeddings (n, 128), not of unit length."""

    def __init__(self) -> None:
        super().__init__()
        self.dimension = WIDTH
        # Two steps inside a patch, none across: a masked patch must not leak into its neighbours.
        self.patches = nn.Sequential(
            nn.Conv2d(3, 48, kernel_size=4, stride=4),
            nn.GELU(),
            nn.Conv2d(48, WIDTH, kernel_size=2, stride=2),
        )
        self.positions = nn.Parameter(waves(GRID, WIDTH))  # (1, 64, width)
        self.trunk = Trunk(PICTURE_DEPTH)
        self.neck = nn.BatchNorm1d(WIDTH, affine=False)

    def embed(self, images: Tensor) -> Tensor:
        """One token for each patch, with its position: (n, 64, width)."""
        return self.patches((images - 0.5) * 4).flatten(2).transpose(1, 2) + self.positions

    def forward(self, images: Tensor, prefix: Tensor | None = None) -> Tensor:
        """The mean over all patches, centred as the convolutional encoders are.

        More tokens (n, k, width) before the patches are read, and left out of the mean.
        """
        patches, before = self.embed(images), 0
        if prefix is not None:
            patches, before = torch.cat([prefix, patches], 1), prefix.shape[1]
        return self.neck(self.trunk(patches)[:, before:].mean(1))


class TextTransformer(nn.Module):
    """Captions as tokens (n, length), 0 for padding, to embeddings (n, dimension)."""

    def __init__(self, n_words: int, length: int, dimension: int) -> None:
        super().__init__()
        self.words = nn.Embedding(n_words + 1, WIDTH)
        self.positions = nn.Parameter(0.02 * torch.randn(1, length, WIDTH))
        self.trunk = Trunk(TEXT_DEPTH)
        self.projection = nn.Linear(WIDTH, dimension)
        nn.init.normal_(self.words.weight, std=0.05)

    def forward(self, tokens: Tensor) -> Tensor:
        """Embed captions."""
        return self.encode(self.words(tokens), tokens)

    def encode(self, embeddings: Tensor, tokens: Tensor) -> Tensor:
        """The mean over the words of a caption, projected, from embeddings (n, length, width)."""
        words = tokens > 0  # (n, length)
        positions = self.positions[:, : tokens.shape[1]]
        states = self.trunk(embeddings + positions, words[:, None, None, :])
        total = (states * words[..., None]).sum(1)
        return self.projection(total / words.sum(1, keepdim=True).clamp(min=1))


def waves(grid: int, width: int) -> Tensor:
    """Sines and cosines over rows and columns, where learned positions start: (1, grid², width).

    Neighbouring patches start alike, which a budget of a few thousand steps is too short to learn.
    """
    speeds = torch.exp(torch.linspace(0, -math.log(100), width // 4))
    angles = torch.arange(grid)[:, None] * speeds  # (grid, width / 4)
    line = torch.cat([angles.sin(), angles.cos()], 1)  # (grid, width / 2)
    rows = line[:, None].expand(grid, grid, -1)
    columns = line[None, :].expand(grid, grid, -1)
    return torch.cat([rows, columns], 2).reshape(1, grid * grid, width)
