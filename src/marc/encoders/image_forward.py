"""Cropped images through the network of an encoder and back, with no step that waits for another.

Batches are started one behind the other and their vectors fetched once a call, so that a card has
work while the next batch is copied to it. On the CPU everything happens at once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from marc.encoders.cards import EncoderCard
from marc.encoders.torch_runtime import Running
from marc.scores import unit

if TYPE_CHECKING:
    from torch import Tensor

    _Pass = Callable[[Tensor], Tensor]

_UNCAPTURED = 2  # passes of one shape before it is captured: loading has one, an array its last
_TURNS = 2  # batches on a card: the one that is computed, and the next
_WARM = 3  # passes before a capture, in which libraries choose and allocate


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
        self._link = _CudaLink(running.device) if on_cuda else _DirectLink(running.device)
        # what is staged or captured has one user at a time
        self._turn: Any = threading.Lock() if on_cuda else nullcontext()
        self._pass: _Pass = self._eager
        if running.compiled:
            whole = torch.compile(self._network, dynamic=False)
            self._pass = _Filled(self._eager, self._within(whole), running.batch)
        self._one = _Captured(self._eager, _captured) if on_cuda else self._pass

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


class _DirectLink:
    """To the CPU, where memory is used as it lies, and to cards that copy when they are asked."""

    def __init__(self, device: str) -> None:
        self._device = device

    @contextmanager
    def sent(self, part: NDArray[Any]) -> Iterator[Tensor]:
        """A batch on the device."""
        import torch

        yield torch.from_numpy(np.require(part, requirements=["C", "W"])).to(self._device)

    def fetched(self, rows: Tensor) -> Callable[[], Tensor]:
        """Rows on the CPU."""
        there = rows.cpu()
        return lambda: there


@dataclass
class _Turn:
    """Memory that a batch is copied from, and when the card is done with that batch."""

    memory: Any = None
    done: Any = None


class _CudaLink:
    """To a card of CUDA, by way of pinned memory in turns and a stream of its own for copies."""

    def __init__(self, device: str) -> None:
        import torch

        self._device, self._cuda, self._copies = device, torch.cuda, torch.cuda.Stream(device)
        self._turns = deque(_Turn() for _ in range(_TURNS))

    @contextmanager
    def sent(self, part: NDArray[Any]) -> Iterator[Tensor]:
        """A batch on its way: the network that is started on it within waits for it on the card.

        This waits until the batch before the last is computed, so that no more than two are held.
        """
        turn = self._turns[0]
        self._turns.rotate(-1)
        if turn.done is not None:
            turn.done.synchronize()
        if turn.memory is None or turn.memory.numel() < part.nbytes:
            turn.memory = _pinned(part.nbytes)
        staged = _as_part(turn.memory, part)
        np.copyto(staged.numpy(), part)
        here = self._cuda.current_stream(self._device)
        with self._cuda.stream(self._copies):
            pixels = staged.to(self._device, non_blocking=True)
        here.wait_stream(self._copies)
        pixels.record_stream(here)
        yield pixels
        turn.done = here.record_event()

    def fetched(self, rows: Tensor) -> Callable[[], Tensor]:
        """Rows on the CPU, copied behind what gives them; the call waits for these alone."""
        there = rows.to("cpu", non_blocking=True)
        done = self._cuda.current_stream(self._device).record_event()

        def wait() -> Tensor:
            done.synchronize()
            return there

        return wait


def _pinned(n_bytes: int) -> Tensor:
    import torch

    return torch.empty(n_bytes, dtype=torch.uint8, pin_memory=True)


def _as_part(memory: Tensor, part: NDArray[Any]) -> Tensor:
    import torch

    kind = {np.dtype(np.uint8): torch.uint8, np.dtype(np.float32): torch.float32}[part.dtype]
    return memory[: part.nbytes].view(kind).view(part.shape)


def _captured(run: _Pass, pixels: Tensor) -> _Pass:
    """A pass over pixels like these as a CUDA graph: started by one call, with the same numbers."""
    import torch

    given = pixels.clone()
    here, aside = torch.cuda.current_stream(pixels.device), torch.cuda.Stream(pixels.device)
    aside.wait_stream(here)
    with torch.cuda.stream(aside):
        for _ in range(_WARM):
            run(given)
    here.wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    # other threads of this process may use the card meanwhile
    with torch.cuda.graph(graph, stream=aside, capture_error_mode="thread_local"):
        rows = run(given)

    def replay(pixels: Tensor) -> Tensor:
        given.copy_(pixels)
        graph.replay()
        return rows.clone()

    return replay
