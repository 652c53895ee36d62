"""The image towers of open_clip and timm as modules, for methods that learn inside them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from marc.encoders.cards import EncoderCard


class LoadedImageTower:
    """A loaded image encoder; what learns gets a copy of it."""

    def __init__(
        self, card: EncoderCard, network: nn.Module, device: str, prefix_width: int | None = None
    ) -> None:
        self.digest, self.prefix_width = card.digest, prefix_width
        self._network = network
        self._mean, self._std = (
            torch.tensor(numbers, device=device).view(1, 3, 1, 1)
            for numbers in (card.mean, card.std)
        )

    @classmethod
    def of_open_clip(cls, card: EncoderCard, model: Any, device: str) -> LoadedImageTower:
        """The image tower of a model of open_clip; it takes a prefix if it reads one token."""
        visual = model.visual
        return cls(card, _Visual(visual), device, _width_of_tokens(visual))

    def copy(self) -> nn.Module:
        """A network of its own in float32, without dropout: crops as `prepare` gives to (n, D)."""
        return copy.deepcopy(self._network).float().eval().requires_grad_(False)

    def prepare(self, pixels: NDArray[np.uint8]) -> Tensor:
        """Crops (n, H, W, 3) as the network takes them, on its device."""
        planes = torch.from_numpy(np.require(pixels, requirements=["C", "W"]))
        planes = planes.to(self._mean.device).permute(0, 3, 1, 2)
        return (planes.float().contiguous() / 255 - self._mean) / self._std


class _Visual(nn.Module):
    """An image tower of open_clip, which may also give the tokens that it pooled."""

    def __init__(self, visual: nn.Module) -> None:
        super().__init__()
        self.visual = visual

    def forward(self, images: Tensor, prefix: Tensor | None = None) -> Tensor:
        """(n, 3, H, W) to (n, D); more tokens (n, k, W) go behind that of the whole."""
        visual: Any = self.visual
        if prefix is None:
            found = visual(images)
            return found[0] if isinstance(found, tuple) else found
        tokens = visual._embeds(images)
        prefix = visual.ln_pre(prefix.to(tokens.dtype))  # it takes every token by itself
        tokens = torch.cat([tokens[:, :1], prefix, tokens[:, 1:]], 1)
        pooled = visual._pool(visual.transformer(tokens))[0]
        return pooled if visual.proj is None else pooled @ visual.proj


def _width_of_tokens(visual: Any) -> int | None:
    """W of a transformer of open_clip that answers with its first token; None for any other."""
    from open_clip.transformer import VisionTransformer

    whole = isinstance(visual, VisionTransformer) and visual.attn_pool is None
    if not whole or visual.pool_type != "tok":
        return None
    return int(visual.class_embedding.shape[-1])
