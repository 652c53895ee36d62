"""What is known of an encoder, as frozen data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class EncoderCard:
    """One encoder: how it came about, what it takes and what it gives."""

    name: str
    summary: str
    objective: str
    body: str
    data: str
    epochs: float
    parameters: int
    dim: int
    input_size: int  # pixels; images come at this size, red, green and blue from 0 to 255
    licence: str
    digest: str  # of the weights file, sha256; empty for an encoder without weights


class Encoder(Protocol):
    """Images in, unit vectors out."""

    @property
    def card(self) -> EncoderCard:
        """What is known of it."""
        ...

    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Unit vectors (n, dim) of images (n, size, size, 3)."""
        ...
