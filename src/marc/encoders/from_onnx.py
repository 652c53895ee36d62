"""An encoder from an ONNX file, run by onnxruntime on the CPU."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.encoders.cards import EncoderCard
from marc.errors import MarcError
from marc.scores import unit

BATCH = 64


class OnnxEncoder:
    """Pixels from 0 to 1, colours first, through an ONNX graph; the result has unit length."""

    def __init__(self, card: EncoderCard, path: Path) -> None:
        self.card = card
        self._session = _open(card, path)
        self._input = self._session.get_inputs()[0].name

    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Unit vectors (n, dim) of images (n, size, size, 3)."""
        check_images(self.card, images)
        vectors = np.empty((len(images), self.card.dim), dtype=np.float32)
        for start in range(0, len(images), BATCH):
            batch = images[start : start + BATCH].astype(np.float32) / np.float32(255)
            pixels = np.ascontiguousarray(batch.transpose(0, 3, 1, 2))
            vectors[start : start + BATCH] = self._session.run(None, {self._input: pixels})[0]
        return unit(vectors)


def check_images(card: EncoderCard, images: NDArray[np.uint8]) -> None:
    """Refuse anything but images of the encoder's size."""
    size = card.input_size
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != (size, size, 3):
        raise MarcError(
            f"{card.name} takes images of another kind",
            got=f"{images.dtype} {images.shape}",
            allowed=f"uint8 (n, {size}, {size}, 3)",
        )


def _open(card: EncoderCard, path: Path) -> Any:
    import onnxruntime

    if not path.is_file():
        raise MarcError(f"the weights of {card.name} are not there", got=path)
    weights = path.read_bytes()
    digest = hashlib.sha256(weights).hexdigest()
    if digest != card.digest:
        raise MarcError(
            f"the weights of {card.name} are not the ones on its card",
            got=f"{path}: sha256 {digest[:12]}",
            allowed=f"sha256 {card.digest[:12]}",
            hint="install marc-clip again",
        )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    return onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
