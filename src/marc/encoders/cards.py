"""What is known of an encoder, as frozen data, and what an encoder can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.pictures.crops import Crop, Triple


@dataclass(frozen=True)
class Training:
    """How an encoder that ships with us came about."""

    objective: str
    body: str
    data: str
    epochs: float
    parameters: int


@dataclass(frozen=True)
class EncoderCard:
    """One encoder: where it comes from, what it takes and which vector it gives."""

    name: str
    summary: str
    library: str
    """What runs it: `timm`, `open_clip`, `onnx` or `numpy`."""
    tag: str
    """Its name in that library: a timm tag, ARCH/TAG of open_clip, a file."""
    dim: int
    crop: Crop
    mean: Triple
    std: Triple
    pooling: str
    licence: str
    paper: str = ""
    digest: str = ""
    """Of the weights. Empty: not known before they are loaded. A loaded encoder's card has it."""
    prompts: tuple[str, ...] = ()
    """Prompt sets of a predictor that knows no others; empty for all other encoders."""
    has_text: bool = False
    """Whether it can be a predictor: it has a text tower for class names."""
    training: Training | None = None

    def check_images(self, images: NDArray[np.uint8] | NDArray[np.float32]) -> None:
        """Refuse anything but images of the encoder's size with values from 0 to 255."""
        size = self.crop.size
        known = images.dtype in (np.uint8, np.float32)
        if not known or images.ndim != 4 or images.shape[1:] != (size, size, 3):
            raise MarcError(
                f"{self.name} takes images of another kind",
                got=f"{images.dtype} {images.shape}",
                allowed=f"uint8 (n, {size}, {size}, 3), or float32 with values from 0 to 255",
            )
        # a comparison with NaN is false, so NaN is refused too
        if images.dtype == np.float32 and images.size:
            lowest, highest = images.min(), images.max()
            if not (lowest >= 0 and highest <= 255):
                raise MarcError(
                    f"{self.name} takes values from 0 to 255: it normalises them itself",
                    got=f"values from {lowest} to {highest}",
                )


@runtime_checkable
class Encoder(Protocol):
    """Images in, unit vectors out."""

    @property
    def card(self) -> EncoderCard:
        """What is known of it, with the digest of the weights that were loaded."""
        ...

    @property
    def precision(self) -> str:
        """What it computes in: `float32`, `bfloat16`."""
        ...

    @property
    def batch(self) -> int:
        """How many images it likes at a time."""
        ...

    def encode(self, images: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
        """Unit vectors (n, dim) of cropped images (n, size, size, 3) with values from 0 to 255.

        Images are bytes, or floats where pictures were mixed. They are normalised here.
        """
        ...


class TextEncoder(Encoder, Protocol):
    """An encoder of pictures and of texts: a zero-shot predictor."""

    @property
    def logit_scale(self) -> float:
        """tau, which multiplies the cosines."""
        ...

    def encode_text(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit vectors (n, dim) of texts."""
        ...


@dataclass(frozen=True)
class Library:
    """What loads the encoders whose names begin with one prefix."""

    spelling: str
    """How its encoders are named."""
    load: Callable[[EncoderCard, Any], Encoder]
    """Loads the encoder of a card, as a `Loading` says."""
    card: Callable[[str], EncoderCard] | None = None
    """The card of what follows the prefix; None if only `cards` can be named."""
    cards: Callable[[], Mapping[str, EncoderCard]] = dict
    """Encoders that have a card of their own, by their whole name."""
