"""What is known of an encoder, as frozen data, what it can do, and how it is loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, integer, one_of
from marc.pictures.crops import Crop

_PROCESSOR = ("auto", "cpu")
_PRECISIONS = ("auto", "bfloat16", "float32", "pure-bfloat16")
_LONGEST_REASON = 200  # characters
LARGEST_BATCH = 2**16
"""Images at a time."""


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
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
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

    def normalise(self, images: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
        """(x / 255 - mean) / std of images (n, size, size, 3), as (n, 3, size, size)."""
        pixels = images.astype(np.float32) / np.float32(255)
        pixels -= np.array(self.mean, dtype=np.float32)
        pixels /= np.array(self.std, dtype=np.float32)
        return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))


@runtime_checkable
class Encoder(Protocol):
    """Images in, unit vectors out."""

    @property
    def card(self) -> EncoderCard:
        """What is known of it, with the digest of the weights that were loaded."""
        ...

    @property
    def precision(self) -> str:
        """What it computes in: `float32`, `bfloat16`, `pure-bfloat16`."""
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
class Loading:
    """Where the weights are and what they run on."""

    weights: Path | None = None
    """A file, or a folder with one. None: the library's cache, or a download."""
    offline: bool = False
    """Whether the network may not even be tried."""
    device: str = "auto"
    precision: str = "auto"
    batch: int = 0
    """Images at a time. 0: chosen by device."""
    compiled: bool = False
    """Whether torch compiles the network; on CUDA alone."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?|mps", self.device):  # it may be elsewhere
            allowed = "auto, cpu, cuda, cuda:N, mps"
            raise MarcError("unknown device", got=repr(self.device), allowed=allowed)
        one_of("precision", self.precision, _PRECISIONS)
        integer("batch", self.batch, 0, LARGEST_BATCH)

    def refuse_weights(self, card: EncoderCard) -> None:
        """For an encoder that brings its weights, and runs on the CPU in float32.

        Device and precision are meant for the torch encoders of the same call and pass; what it
        computes in, an encoder says itself. Weights are meant for this one and are refused.
        """
        if self.weights is not None:
            raise MarcError(
                f"{card.name} has its weights already",
                got=f"weights {self.weights}",
                hint="no weights, or onnx:FILE for a graph of your own",
            )

    def refuse_device(self, card: EncoderCard) -> None:
        """For networks to learn in that run on the CPU alone: nothing else is loaded with them."""
        if self.device not in _PROCESSOR:
            raise MarcError(
                f"the networks of {card.name} run on the CPU alone",
                got=repr(self.device),
                allowed=", ".join(_PROCESSOR),
                hint="--device auto",
            )


@dataclass(frozen=True)
class Library:
    """What loads the encoders whose names begin with one prefix."""

    spelling: str
    """How its encoders are named."""
    load: Callable[[EncoderCard, Loading], Encoder]
    card: Callable[[str], EncoderCard] | None = None
    """The card of what follows the prefix; None if only `cards` can be named."""
    cards: Callable[[], Mapping[str, EncoderCard]] = dict
    """Encoders that have a card of their own, by their whole name."""
    own: Callable[[str], EncoderCard] | None = None
    """The card of an architecture with weights of a user's own, under a user's name."""


class NotHere(MarcError):  # noqa: N818
    """The library or the weights of an encoder are not on this machine."""


def safe_name(name: str) -> str:
    """A name that can be that of a file and of a space.

    >>> safe_name("ViT-B-16/laion2b s34b")
    'ViT-B-16-laion2b-s34b'
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "encoder"


def reason(error: BaseException) -> str:
    r"""The first line of what went wrong at first.

    >>> reason(OSError("no route\nand much more"))
    'no route'
    >>> reason(KeyError())
    'KeyError'
    """
    while error.__cause__ is not None:  # the first cause is the one that can be mended
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0][:_LONGEST_REASON] if lines else type(error).__name__
