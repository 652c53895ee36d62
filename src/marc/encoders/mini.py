"""The encoders of the embedded lab, `mini:...`: small, trained on drawn pictures, shipped with us.

They are named after what they were trained to do. None of them is, or stands for, a published
model. `training/` in the repository holds their recipes.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from marc.arrays import read_arrays
from marc.core import Predictor
from marc.encoders.cards import Encoder, EncoderCard
from marc.encoders.from_onnx import OnnxEncoder, check_images
from marc.scores import unit

PREFIX = "mini:"
PREDICTOR = "captions"
_WEIGHTS = Path(__file__).with_name("weights")
_LICENCE = "Apache-2.0"
_COARSE = 16  # cells a side of `mini:pixels`

_PIXELS = EncoderCard(
    name=PREFIX + "pixels",
    summary="the picture itself, averaged to 16 x 16: a control",
    objective="none",
    body="none",
    data="none",
    epochs=0.0,
    parameters=0,
    dim=3 * _COARSE**2,
    input_size=64,
    licence=_LICENCE,
    digest="",
)


@functools.cache
def mini_cards() -> dict[str, EncoderCard]:
    """Cards of the lab's encoders by name."""
    stored = json.loads((_WEIGHTS / "cards.json").read_text())
    cards = {
        PREFIX + name: EncoderCard(name=PREFIX + name, **card) for name, card in stored.items()
    }
    return {**cards, _PIXELS.name: _PIXELS}


def load_mini(card: EncoderCard) -> Encoder:
    """The encoder of a card."""
    if card is _PIXELS:
        return _Pixels()
    return OnnxEncoder(card, _WEIGHTS / f"{card.name.removeprefix(PREFIX)}.onnx")


def mini_predictor(classes: tuple[int, ...]) -> Predictor:
    """The zero-shot predictor for some of the lab's 48 classes.

    A prototype is the normalised mean of the normalised embeddings of ten prompts.
    """
    stored = read_arrays(_WEIGHTS / "prompts.npz", "the lab's prompts")
    prompts = stored["embeddings"][list(classes)]  # (C, prompts, D), unit length
    return Predictor(unit(prompts.mean(axis=1)), float(stored["logit_scale"]))


class _Pixels:
    """The picture as its own embedding."""

    card = _PIXELS

    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Averaged, centred pixels."""
        check_images(self.card, images)
        size = self.card.input_size // _COARSE
        cells = images.reshape(len(images), _COARSE, size, _COARSE, size, 3).mean(axis=(2, 4))
        return unit((cells / 255 - 0.5).reshape(len(images), self.card.dim).astype(np.float32))
