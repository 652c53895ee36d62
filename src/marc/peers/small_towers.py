"""Networks small enough to check methods with that learn in them, with random weights.

They have the parts that methods ask for: texts that begin and end with a token, of which the last
sees those before it; and pictures cut into patches, with norms to adapt and room for more tokens.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

WIDTH, _LENGTH, SIDE, PATCH = 16, 20, 8, 4
_START, _END, _FIRST, _WORDS = 1, 2, 3, 60


class SmallTextTower:
    """Words (n, 20) by number, a causal layer, and the feature at the end of a text."""

    first_word = 1

    def __init__(self, class_names: Sequence[str], dim: int, seed: int = 0) -> None:
        self.class_names = tuple(class_names)
        self.digest = f"small-text-{dim}-{seed}"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._words = nn.Embedding(_FIRST + _WORDS, WIDTH)
            self._positions = torch.randn(_LENGTH, WIDTH) * 0.1
            self._layer = _layer()
            self._projection = nn.Linear(WIDTH, dim)
        for part in (self._words, self._layer, self._projection):
            part.eval().requires_grad_(False)

    def tokenize(self, texts: Sequence[str]) -> Tensor:
        """Tokens (n, 20) of texts, one for each word."""
        tokens = torch.zeros(len(texts), _LENGTH, dtype=torch.int64)
        for row, text in enumerate(texts):
            words = [_FIRST + zlib.crc32(word.encode()) % _WORDS for word in text.split()]
            numbers = [_START, *words[: _LENGTH - 2], _END]
            tokens[row, : len(numbers)] = torch.tensor(numbers)
        return tokens

    def embed(self, tokens: Tensor) -> Tensor:
        """Embeddings (n, L, 16) of tokens (n, L), without their positions."""
        return self._words(tokens)

    def encode(self, embeddings: Tensor, tokens: Tensor) -> Tensor:
        """Features (n, D), not of unit length."""
        ends = (tokens == _END).int().argmax(1)
        length = int(ends.max()) + 1
        states = embeddings[:, :length] + self._positions[:length].to(embeddings)
        later = torch.ones(length, length, dtype=torch.bool, device=states.device).triu(1)
        states = self._layer(states, src_mask=later)
        return self._projection(states[torch.arange(len(ends)), ends])


class SmallImageTower:
    """Pictures (n, 8, 8, 3) in four patches and a token of the whole, and one layer over them."""

    def __init__(self, dim: int, seed: int = 0) -> None:
        self.digest = f"small-image-{dim}-{seed}"
        self.prefix_width: int | None = WIDTH
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self._network = _Pictures(dim)
        self._network.eval().requires_grad_(False)

    def copy(self) -> nn.Module:
        """A network of its own."""
        return copy.deepcopy(self._network)

    def prepare(self, pixels: NDArray[np.uint8]) -> Tensor:
        """Pictures as the network takes them, (n, 3, 8, 8) between -1 and 1."""
        planes = torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2)
        return planes.float() / 127.5 - 1


class _Pictures(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.whole = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.randn(1, (SIDE // PATCH) ** 2 + 1, WIDTH) * 0.1)
        self.layer = _layer()
        self.norm = nn.LayerNorm(WIDTH)
        self.projection = nn.Linear(WIDTH, dim, bias=False)

    def forward(self, images: Tensor, prefix: Tensor | None = None) -> Tensor:
        """(n, 3, 8, 8) to (n, D); more tokens (n, k, 16) go behind that of the whole."""
        tokens = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.whole.expand(len(tokens), -1, -1), tokens], 1) + self.positions
        if prefix is not None:
            tokens = torch.cat([tokens[:, :1], prefix, tokens[:, 1:]], 1)
        return self.projection(self.norm(self.layer(tokens)[:, 0]))


def _layer() -> Any:
    return nn.TransformerEncoderLayer(
        WIDTH, 2, 2 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
    )
