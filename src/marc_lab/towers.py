"""The predictors of the lab in torch, for methods that learn in them.

Their numbers are those of the graphs that run without torch. Weights of pictures are in eight bits,
each outgoing channel with its scale, as in the graphs; those of texts in half precision.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor, nn

from marc.files import file_digest
from marc_lab.caption_texts import CAPTION_LENGTH, VOCABULARY, tokens
from marc_lab.networks.convolutional import LARGE, Convolutional, Projected, fold
from marc_lab.networks.transformer import WIDTH, PictureTransformer, TextTransformer

DIMENSION = 128
"""Of the space that pictures share with captions."""
SCALE = ".scale"
"""What the name of a weight in eight bits has behind it where its scales are stored."""
_WEIGHTS = Path(__file__).with_name("weights")


class LabTextTower:
    """The text encoder of a predictor of the lab."""

    first_word = 0

    def __init__(self, name: str, class_names: tuple[str, ...]) -> None:
        self.class_names = class_names
        path = _WEIGHTS / f"{name}-text.safetensors"
        self.digest = file_digest(path)
        self._network = text_network()
        stored = load_file(path)
        self._network.load_state_dict({name: each.float() for name, each in stored.items()})

    def tokenize(self, texts: Sequence[str]) -> Tensor:
        """Tokens (n, 28) of texts; words that the lab does not know are refused.

        Its captions have no full stops, so one at the end of a text is passed over.
        """
        return torch.from_numpy(np.stack([tokens(text.removesuffix(".")) for text in texts]))

    def embed(self, tokens: Tensor) -> Tensor:
        """Embeddings (n, L, 128) of tokens (n, L), without their positions."""
        return self._network.words(tokens)

    def encode(self, embeddings: Tensor, tokens: Tensor) -> Tensor:
        """Features (n, 128), not of unit length."""
        longest = int((tokens > 0).sum(1).max())  # what lies behind is padding, which nobody reads
        return self._network.encode(embeddings[:, :longest], tokens[:, :longest])


class LabImageTower:
    """The picture encoder of a predictor of the lab."""

    def __init__(self, name: str) -> None:
        path = _WEIGHTS / f"{name}-pictures.safetensors"
        self.digest = file_digest(path)
        self._network = picture_network(name)
        self.prefix_width: int | None = (
            WIDTH if isinstance(self._network.body, PictureTransformer) else None
        )
        stored = load_file(path)
        self._network.load_state_dict(
            {
                key: _weight(each, stored.get(key + SCALE))
                for key, each in stored.items()
                if not key.endswith(SCALE)
            }
        )

    def copy(self) -> nn.Module:
        """A network of its own: pictures (n, 3, 64, 64) in [0, 1] to (n, 128)."""
        return copy.deepcopy(self._network)

    def prepare(self, pixels: NDArray[np.uint8]) -> Tensor:
        """Pictures (n, 64, 64, 3) as the network takes them."""
        return torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2).float() / 255


def text_network() -> TextTransformer:
    """A text encoder before it has its weights, ready to be asked."""
    network = TextTransformer(len(VOCABULARY), CAPTION_LENGTH, DIMENSION)
    return network.eval().requires_grad_(False)


def picture_network(name: str) -> nn.Module:
    """A picture encoder before it has its weights; convolutions have swallowed their norms."""
    bodies = {
        "captions": lambda: Convolutional(LARGE, neck=False),
        "captions-vit": PictureTransformer,
    }
    network: Any = Projected(bodies[name](), DIMENSION)
    return fold(network).requires_grad_(False)


def _weight(stored: Tensor, scale: Tensor | None) -> Tensor:
    if scale is None:
        return stored
    return stored.float() * scale.view(-1, *[1] * (stored.ndim - 1))
