"""Two fused kernels for a GPU: sums of readable kernel values, and the ends of right weights.

They do what the functions of `_torch.py` do with the same arguments, without ever writing the
cosines to memory: a program takes one class and a block of queries. In Triton's interpreter, which
needs no GPU, they are held against the CPU.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction

_MOST_SUMS = 32  # orders x capacities of one launch, each a row of registers
_SHAPES = ((32, 64, 64, 4), (32, 128, 32, 4), (64, 64, 64, 4), (64, 128, 32, 8))
"""Items, queries, numbers of a key, and warps of a program; the fastest is found once per size."""


def add_sums(
    items: torch.Tensor,
    queries: torch.Tensor,
    starts: torch.Tensor,
    times: torch.Tensor,
    arrivals: torch.Tensor,
    last: torch.Tensor,
    alpha: float,
    beta: float,
    sums: torch.Tensor,
) -> None:
    """Fill sums (O, K, C, Q); see `marc.replay._torch.add_sums`."""
    n_orders, n_capacities, n_classes, n_queries = sums.shape
    step = max(1, _MOST_SUMS // n_capacities)
    for order in range(0, n_orders, step):
        part = slice(order, order + step)
        n = len(times[part])

        def grid(meta: dict[str, Any]) -> tuple[int, int]:
            return triton.cdiv(n_queries, meta["BLOCK_Q"]), n_classes

        _add_sums[grid](
            *(items, queries, starts, times[part], arrivals[part], last[part], sums[part]),
            *(float(alpha), float(beta), len(items), n_queries, n_classes),
            *(n, n_capacities, triton.next_power_of_2(n * n_capacities), items.shape[1]),
        )


def right_weights(
    base: torch.Tensor,
    sums: torch.Tensor,
    labels: torch.Tensor,
    lower: torch.Tensor,
    upper: torch.Tensor,
) -> None:
    """Fill lower and upper (O, K, Q); see `marc.replay._torch.right_weights`."""
    n_orders, n_capacities, n_classes, n_queries = sums.shape
    grid = triton.cdiv(n_queries, 128), n_orders * n_capacities
    _right_weights[grid](base, sums, labels, lower, upper, n_queries, n_classes, 128)


@triton.jit
def _kernel(  # type: ignore[no-untyped-def]
    X, Y, starts, times, arrivals, last, sums, alpha, beta, n_items, n_queries, n_classes,
    ORDERS: tl.constexpr, CAPACITIES: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr,
    BLOCK_I: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(1)
    q = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    is_query = q < n_queries
    row = tl.arange(0, ROWS)
    total = tl.zeros((ROWS, BLOCK_Q), tl.float32)
    stop = tl.load(starts + c + 1)
    for first in range(tl.load(starts + c), stop, BLOCK_I):
        i = first + tl.arange(0, BLOCK_I)
        is_item = i < stop
        cosine = tl.zeros((BLOCK_I, BLOCK_Q), tl.float32)
        for d0 in range(0, D, BLOCK_D):
            d = d0 + tl.arange(0, BLOCK_D)
            x = tl.load(
                X + i[:, None].to(tl.int64) * D + d[None, :],
                mask=is_item[:, None] & (d < D)[None, :],
                other=0.0,
            )
            y = tl.load(
                Y + q[None, :].to(tl.int64) * D + d[:, None],
                mask=is_query[None, :] & (d < D)[:, None],
                other=0.0,
            )
            # three products of 19-bit numbers: as exact as float32, and several times as fast
            cosine = tl.dot(x, y, cosine, input_precision="tf32x3")
        value = alpha * tl.exp(-beta * (1.0 - cosine))
        for o in tl.static_range(ORDERS):
            time = tl.load(times + o * n_queries + q, mask=is_query, other=0)
            start = tl.load(arrivals + o * n_items + i, mask=is_item, other=2147483647)
            after = time[None, :] > start[:, None]
            for k in tl.static_range(CAPACITIES):
                end = tl.load(last + (o * CAPACITIES + k) * n_items + i, mask=is_item, other=-1)
                alive = after & (time[None, :] <= end[:, None])
                read = tl.sum(tl.where(alive, value, 0.0), 0)
                total += tl.where((row == o * CAPACITIES + k)[:, None], read[None, :], 0.0)
    tl.store(
        sums + (row[:, None].to(tl.int64) * n_classes + c) * n_queries + q[None, :],
        total,
        mask=(row < ORDERS * CAPACITIES)[:, None] & is_query[None, :],
    )


_add_sums: Any = triton.autotune(
    configs=[
        triton.Config({"BLOCK_I": i, "BLOCK_Q": q, "BLOCK_D": d}, num_warps=warps)
        # the interpreter has no clock to choose by
        for i, q, d, warps in _SHAPES[: 1 if isinstance(_kernel, InterpretedFunction) else None]
    ],
    key=["D", "ROWS"],
)(_kernel)


@triton.jit
def _right_weights(  # type: ignore[no-untyped-def]
    base, sums, labels, lower, upper, n_queries, n_classes, BLOCK_Q: tl.constexpr
):
    row = tl.program_id(1).to(tl.int64)
    q = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    is_query = q < n_queries
    sums += row * n_classes * n_queries
    label = tl.load(labels + q, mask=is_query, other=0).to(tl.int64)
    own_base = tl.load(base + label * n_queries + q, mask=is_query, other=0.0).to(tl.float64)
    own = tl.load(sums + label * n_queries + q, mask=is_query, other=0.0).to(tl.float64)
    low = tl.zeros((BLOCK_Q,), tl.float64)
    high = low + float("inf")
    for c in range(n_classes):
        place = tl.cast(c, tl.int64) * n_queries + q
        need = tl.load(base + place, mask=is_query, other=0.0).to(tl.float64) - own_base
        slope = own - tl.load(sums + place, mask=is_query, other=0.0).to(tl.float64)
        bound = need / tl.where(slope == 0, 1.0, slope)
        loses_ties = c < label
        unit = tl.where(loses_ties, tl.abs(bound) * 2.3e-16 + 1e-300, 0.0)
        low = tl.where((slope > 0) & (bound + unit > low), bound + unit, low)
        high = tl.where((slope < 0) & (bound - unit < high), bound - unit, high)
        beaten = (slope == 0) & ((need > 0) | ((need == 0) & loses_ties))
        high = tl.where(beaten, float("-inf"), high)
    tl.store(lower + row * n_queries + q, low, mask=is_query)
    tl.store(upper + row * n_queries + q, high, mask=is_query)
