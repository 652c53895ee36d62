"""Evidence of whole streams on a GPU: what `evidence.py` and `sweep_job.py` compute, on a card.

Lifetimes come from the CPU as ever. On the card one product of a block of queries with all items
serves every order and every capacity, and the ends of the right weights are found where the sums
are, so that only they come back. Blocks are as large as the memory of the card allows; keys that do
not fit are read from the stream block by block. Answers are those of the CPU but for near-ties,
because sums of float32 numbers are rounded in another order.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from marc.replay.device import as_current, free_memory, full_precision, place
from marc.replay.evidence import KernelValues, Keys, Plan, by_class
from marc.replay.lifetimes import History
from marc.scores import Float, Int

if TYPE_CHECKING:
    import torch

_UPLOADED = 2**14  # keys that are uploaded at a time
_LEAST = 128  # queries of a block
_WINDOWS = 8  # of time that are read together where each order has its own items

_Consumer = Callable[[int, Int, NDArray[np.float32]], None]


def read_all(
    device: str, values: KernelValues, histories: Sequence[History], consume: _Consumer
) -> None:
    """What `marc.replay.evidence.read_all` does for all queries, computed on a device of torch."""
    for block in _Card(device, values).blocks(histories, None):
        sums = block.sums.cpu().numpy()
        for order, of_order in zip(block.orders, sums, strict=True):
            consume(order, block.queries, of_order)


def right_weights(
    device: str,
    values: KernelValues,
    histories: Sequence[History],
    base: Rows,
    labels: Int,
    piece: int | None,
) -> Iterator[tuple[int, Int, NDArray[np.float64]]]:
    """(order, queries (Q,), lower and upper ends (2, K, Q)) of all queries of a piece.

    `base` has the logits (N, C), and `labels` (N,) are the true classes.
    """
    import torch

    card = _Card(device, values)
    for block in card.blocks(histories, piece):
        n_orders, n_capacities, _, n_queries = block.sums.shape
        ends = torch.empty(
            (2, n_orders, n_capacities, n_queries), dtype=torch.float64, device=device
        )
        logits = base[block.queries].T.contiguous()
        true = place(labels[block.queries].astype(np.int32), device)
        with as_current(device):
            card.kernels.right_weights(logits, block.sums, true, *ends)
        for order, of_order in zip(block.orders, ends.cpu().numpy().swapaxes(0, 1), strict=True):
            yield order, block.queries, of_order


class Rows:
    """Rows of an array (N, D) on a card: all of them if they fit, else those that are asked for."""

    def __init__(self, device: str, array: Keys) -> None:
        self.device, self._array = device, array
        n_rows, dim = array.shape
        fits = 4 * n_rows * dim <= free_memory(device) // 6
        self._there = self._upload(n_rows, lambda part: array[part]) if fits else None

    def __getitem__(self, rows: Int) -> torch.Tensor:
        if self._there is not None:
            return self._there[place(rows, self.device)]
        return self._upload(len(rows), lambda part: self._array[rows[part]])

    def _upload(self, n_rows: int, read: Callable[[slice], Float]) -> torch.Tensor:
        import torch

        there = torch.empty((n_rows, self._array.shape[1]), device=self.device)
        for start in range(0, n_rows, _UPLOADED):
            part = slice(start, start + _UPLOADED)
            there[part] = place(read(part), self.device)
        return there


@dataclass(frozen=True)
class _Block:
    """Sums of some queries, on the card."""

    orders: Sequence[int]
    queries: Int
    sums: torch.Tensor
    """(orders, capacities, C, queries)."""


class _Card:
    """A GPU, with the keys of one space on it if they fit."""

    def __init__(self, device: str, values: KernelValues) -> None:
        self.device, self.values = device, values
        self.kernels, self.keys = _kernels(device), Rows(device, values.keys)

    def room(self) -> int:
        """Bytes that one kind of array may take."""
        return free_memory(self.device) // 3

    def blocks(self, histories: Sequence[History], piece: int | None) -> Iterator[_Block]:
        """The sums of all queries of a piece of the plan."""
        plan = Plan.of(self.values.shape[1], histories)
        for orders, queries, of_orders in _spans(plan, histories, piece):
            for group in _of_same_labels(of_orders):
                named = [orders[each] for each in group]
                yield from self._sums(named, [of_orders[each] for each in group], queries)

    def _sums(
        self, orders: Sequence[int], histories: Sequence[History], queries: Int
    ) -> Iterator[_Block]:
        import torch

        items, starts = by_class(histories), np.zeros(len(histories[0].starts), dtype=np.int32)
        starts[1:] = np.cumsum(np.bincount(_labels(histories)[items], minlength=len(starts) - 1))
        arrivals = place(np.stack([history.time[items] for history in histories]), self.device)
        last = place(np.stack([history.over(items)[1] for history in histories]), self.device)
        shape = len(histories), len(histories[0].last), len(starts) - 1
        keys, first_items = self.keys[items], place(starts, self.device)
        numbers = math.prod(shape) + 4 * shape[2]  # of a query: its sums, and what judges them
        size = max(_LEAST, self.room() // 4 // numbers // _LEAST * _LEAST)
        for start in range(0, len(queries), size):
            block = queries[start : start + size]
            times = place(np.stack([history.time[block] for history in histories]), self.device)
            sums = torch.empty((*shape, len(block)), dtype=torch.float32, device=self.device)
            kernel = self.values.alpha, self.values.beta
            with full_precision(), as_current(self.device):
                self.kernels.add_sums(
                    *(keys, self.keys[block], first_items, times, arrivals, last, *kernel, sums)
                )
            yield _Block(orders, block, sums)


def _kernels(device: str) -> ModuleType:
    """Triton's on a GPU where it is installed, else those of plain torch."""
    fused = device.startswith("cuda") and importlib.util.find_spec("triton") is not None
    return importlib.import_module("marc.replay._triton" if fused else "marc.replay._torch")


def _spans(
    plan: Plan, histories: Sequence[History], piece: int | None
) -> Iterator[tuple[Sequence[int], Int, Sequence[History]]]:
    """(orders, queries, their histories) that are worth being computed together on a card."""
    if plan.way != "apart":
        tasks, by_time = plan.tasks(piece), np.argsort(histories[0].time)
        yield (
            range(len(histories)),
            by_time[tasks.start * plan.task :][: len(tasks) * plan.task],
            histories,
        )
        return
    for order, starts in plan.windows(piece, len(histories)):
        history, by_time = histories[order], np.argsort(histories[order].time)
        for first in starts[::_WINDOWS]:
            stop = min(first + _WINDOWS * plan.task, starts.stop)
            yield [order], by_time[first:stop], [history.between(first, stop)]


def _of_same_labels(histories: Sequence[History]) -> list[list[int]]:
    """Orders whose items are of the same classes, which share their products; usually all do."""
    every = list(range(len(histories)))
    labels = _labels(histories)
    agree = all(np.array_equal(labels[each.items], each.labels) for each in histories)
    return [every] if agree else [[order] for order in every]


def _labels(histories: Sequence[History]) -> Int:
    """The class of each row that is ever held, 0 of the others, (N,)."""
    labels = np.zeros(len(histories[0].time), dtype=np.int64)
    for history in histories:
        labels[history.items] = history.labels
    return labels
