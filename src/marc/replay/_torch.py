"""The two kernels of a GPU in plain torch: for one without Triton, and for tests on the CPU.

Shapes: O orders, K capacities, C classes, Q queries, n items class by class, D numbers of a key.
"""

from __future__ import annotations

import torch

_CELLS = 2**27  # float64 numbers of ends that may be computed at a time: 1 GiB


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
    """Fill sums (O, K, C, Q): what each query reads of each class, in every order and capacity.

    Args:
        items: keys (n, D); those of class c are starts[c] to starts[c + 1] - 1.
        queries: keys (Q, D).
        starts: (C + 1,), int32 as all times.
        times: of the queries, (O, Q).
        arrivals: of the items, (O, n).
        last: the last reader of each item, (O, K, n).
        alpha: of the kernel of equation 3.
        beta: likewise.
        sums: what is filled.
    """
    value = alpha * torch.exp(-beta * (1 - items @ queries.T))
    counts = (starts[1:] - starts[:-1]).long()
    labels = torch.repeat_interleave(torch.arange(len(counts), device=value.device), counts)
    sums.zero_()
    for order, total in enumerate(sums):
        after = times[order][None, :] > arrivals[order][:, None]
        for capacity, each in enumerate(total):
            alive = after & (times[order][None, :] <= last[order, capacity][:, None])
            each.index_add_(0, labels, torch.where(alive, value, 0.0))


def right_weights(
    base: torch.Tensor,
    sums: torch.Tensor,
    labels: torch.Tensor,
    lower: torch.Tensor,
    upper: torch.Tensor,
) -> None:
    """Fill lower and upper (O, K, Q): where base (C, Q) + w sums (O, K, C, Q) is right.

    The arithmetic is that of `correct_weights` in `_kernels.py`.
    """
    own = labels.long()[None, :]
    loses_ties = torch.arange(len(base), device=base.device)[:, None] < own
    need = base.double() - base.double().gather(0, own)
    size = max(1, _CELLS // len(base))
    for total, low, high in zip(
        sums.flatten(0, 1), lower.flatten(0, 1), upper.flatten(0, 1), strict=True
    ):
        for start in range(0, own.shape[1], size):
            part = slice(start, start + size)
            evidence, lack, loses = total[:, part].double(), need[:, part], loses_ties[:, part]
            slope = evidence.gather(0, own[:, part]) - evidence
            bound = lack / slope
            unit = torch.where(loses, bound.abs() * 2.3e-16 + 1e-300, 0.0)
            low[part] = torch.where(slope > 0, bound + unit, 0.0).amax(0).clamp_min(0.0)
            beaten = (slope == 0) & ((lack > 0) | ((lack == 0) & loses))
            ends = torch.where(slope < 0, bound - unit, torch.inf)
            high[part] = torch.where(beaten, -torch.inf, ends).amin(0)
