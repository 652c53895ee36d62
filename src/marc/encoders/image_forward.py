"""Cropped images through the network of an encoder and back, with no step that waits for another.

Batches are started one behind the other and their vectors fetched once a call, so that a card has
work while the next batch is copied to it. On the CPU everything happens at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marc.encoders.cards import EncoderCard
from marc.encoders.device_links import CudaLink, DirectLink, captured
from marc.encoders.torch_runtime import Running
from marc.scores import unit

if TYPE_CHECKING:
    from torch import Tensor

    _Pass = Callable[[Tensor], Tensor]

_UNCAPTURED = 2  # passes of one shape before it is captured: loading has one, an array its last


class ImageForward:
    """The forward pass of one image tower where it runs: `encode` takes normalised images."""

    def __init__(self, running: Running, card: EncoderCard, encode: _Pass) -> None:
        import torch

        self._running, self._card, self._encode = running, card, encode
        self._mean, self._std = (
            torch.tensor(numbers, device=running.device).view(1, 3, 1, 1)
            for numbers in (card.mean, card.std)
        )
        on_cuda = running.device.startswith("cuda")
        self._link = CudaLink(running.device) if on_cuda else DirectLink(running.device)
        # what is staged or captured has one user at a time
        self._turn: Any = threading.Lock() if on_cuda else nullcontext()
        self._pass: _Pass = self._eager
        if running.compiled:
            whole = torch.compile(self._network, dynamic=False)
            self._pass = _Filled(self._eager, self._within(whole), running.batch)
        self._one = _Captured(self._eager, captured) if on_cuda else self._pass

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._running, self._card, self._encode)

    def begin(
        self, images: NDArray[np.uint8] | NDArray[np.float32]
    ) -> Callable[[], NDArray[np.float32]]:
        """Start on cropped images; what it returns waits for their unit vectors (n, dim)."""
        import torch

        self._card.check_images(images)
        batch, outputs = self._running.batch, []
        if not len(images):
            return lambda: np.empty((0, self._card.dim), dtype=np.float32)
        with self._turn, self._running.telling_of_memory():
            for start in range(0, len(images), batch):
                with self._link.sent(images[start : start + batch]) as pixels:
                    outputs.append((self._one if len(pixels) == 1 else self._pass)(pixels))
            rows = self._link.fetched(torch.cat(outputs))
        return lambda: unit(Running.finite(self._card, rows().numpy()))

    def _network(self, pixels: Tensor) -> Tensor:
        """Vectors of pixels (n, size, size, 3), with the arithmetic of `EncoderCard.normalise`."""
        planes = pixels.permute(0, 3, 1, 2).float().contiguous()
        normal = (planes / 255 - self._mean) / self._std
        output = self._encode(normal.to(self._running.dtype))
        return Running.as_vectors(self._card, output)

    def _within(self, network: _Pass) -> _Pass:
        def run(pixels: Tensor) -> Tensor:
            with self._running.inference():
                return network(pixels)

        return run

    def _eager(self, pixels: Tensor) -> Tensor:
        return self._within(self._network)(pixels)


class _Filled:
    """Compiled code for batches of one size, so that nothing is compiled for another.

    A batch that is at least half full is filled up with black images; a smaller one runs as it is.
    """

    def __init__(self, eager: _Pass, compiled: _Pass, batch: int) -> None:
        self._eager, self._compiled, self._batch = eager, compiled, batch

    def __call__(self, pixels: Tensor) -> Tensor:
        import torch

        count, missing = len(pixels), self._batch - len(pixels)
        if 2 * count < self._batch:
            return self._eager(pixels)
        if missing:
            pixels = torch.cat([pixels, pixels.new_zeros((missing, *pixels.shape[1:]))])
        return self._compiled(pixels)[:count]


class _Captured:
    """A pass that is captured, once for each shape and type, when it has come again and again.

    What cannot be captured runs as it did.
    """

    def __init__(self, run: _Pass, capture: Callable[[_Pass, Tensor], _Pass]) -> None:
        self._run, self._capture = run, capture
        self._seen: dict[tuple[Any, ...], int] = {}
        self._replays: dict[tuple[Any, ...], _Pass] = {}

    def __call__(self, pixels: Tensor) -> Tensor:
        kind = (pixels.shape, pixels.dtype)
        if kind not in self._replays:
            self._seen[kind] = self._seen.get(kind, 0) + 1
            if self._seen[kind] <= _UNCAPTURED:
                return self._run(pixels)
            try:
                self._replays[kind] = self._capture(self._run, pixels)
            except RuntimeError:  # of CUDA: the network does what no graph can hold
                self._replays[kind] = self._run
        return self._replays[kind](pixels)
