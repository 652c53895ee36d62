"""How images get to a device and vectors back, and what a card can do again without being told."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

    _Pass = Callable[[Tensor], Tensor]

_TURNS = 2  # batches on a card: the one that is computed, and the next
_WARM = 3  # passes before a capture, in which libraries choose and allocate


class DirectLink:
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


class CudaLink:
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


def captured(run: _Pass, pixels: Tensor) -> _Pass:
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
