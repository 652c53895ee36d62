"""The compiled inner loops. Imported on first use: numba takes longer to load than a small run.

Inner loops run over a block of queries (Q), contiguous in memory, so that the compiler turns them
into vector instructions; conditions are written as selections for the same reason.
"""

from __future__ import annotations

import numpy as np

from marc.replay.compiling import compiled

_compile = compiled(nogil=True, error_model="numpy")


@_compile
def trace_lifetimes(labels, priorities, capacities, n_classes, last):  # type: ignore[no-untyped-def]
    """Fill last[k, t]: the last query that can read arrival t at capacity k.

    One ranked list per class, best first, as long as the largest capacity. An arrival that pushes
    an item from rank K - 1 to rank K ends the item's life at capacity K.
    """
    n_arrivals, n_capacities = len(labels), len(capacities)
    largest = min(capacities[n_capacities - 1], n_arrivals)  # no class has more items
    ranked = np.empty((n_classes, largest), dtype=np.int64)
    size = np.zeros(n_classes, dtype=np.int64)
    for t in range(n_arrivals):
        c = labels[t]
        rank = size[c]
        while rank > 0 and priorities[ranked[c, rank - 1]] < priorities[t]:
            rank -= 1
        for k in range(n_capacities):
            last[k, t] = n_arrivals if rank < capacities[k] else t
        if rank >= largest:
            continue
        for position in range(size[c], rank, -1):  # the item at position - 1 moves down to position
            moved = ranked[c, position - 1]
            for k in range(n_capacities):
                if capacities[k] == position:
                    last[k, moved] = t
            if position < largest:
                ranked[c, position] = moved
        ranked[c, rank] = t
        size[c] = min(size[c] + 1, largest)


@_compile
def add_readable(values, times, rows, labels, arrivals, last, buckets):  # type: ignore[no-untyped-def]
    """Add to buckets[k, c, q] items of class c that query q reads at capacity k and no smaller one.

    Query q at time t reads item i iff arrivals[i] < t <= last[k, i]. Capacities are nested, so a
    running sum over k is then what each capacity reads, and an item whose life is the same at
    several costs one addition. rows[i] is an item's row of `values`, labels[i] its class.
    """
    n_capacities, _, n_queries = buckets.shape
    zero = np.float32(0)
    first, latest = times.min(), times.max()
    for i in range(len(rows)):
        start = arrivals[i]  # what smaller capacities do not read begins after this time
        if start >= latest or last[n_capacities - 1, i] < first:
            continue
        value, c = values[rows[i]], labels[i]
        for k in range(n_capacities):
            end = last[k, i]
            if end <= start:
                continue
            if end >= first and start < latest:
                total = buckets[k, c]
                if start < first and latest <= end:
                    for q in range(n_queries):
                        total[q] += value[q]
                else:
                    for q in range(n_queries):
                        alive = (times[q] > start) & (times[q] <= end)
                        total[q] += value[q] if alive else zero
            start = end


@_compile
def sum_over_capacities(buckets):  # type: ignore[no-untyped-def]
    """From the buckets (K, C, Q) of `add_readable` to what each capacity reads, in place."""
    n_capacities, n_classes, n_queries = buckets.shape
    for k in range(1, n_capacities):
        for c in range(n_classes):
            for q in range(n_queries):
                buckets[k, c, q] += buckets[k - 1, c, q]


@_compile
def correct_weights(base, evidence, labels, lower, upper):  # type: ignore[no-untyped-def]
    """Fill [lower, upper][k, q]: the weights w >= 0 at which base + w evidence is right.

    `base` is (C, Q), `evidence` (K, C, Q). Class c beats the label y at w where
    w (L_y - L_c) < b_c - b_y, or at equality if c < y; equality is left out of the interval by
    moving its end by one rounding unit, so that the interval is closed. No weight: upper is -inf.
    """
    n_capacities, n_classes, n_queries = evidence.shape
    label_base = np.empty(n_queries)
    label_evidence = np.empty(n_queries)
    for q in range(n_queries):
        label_base[q] = base[labels[q], q]
    for k in range(n_capacities):
        low, high = lower[k], upper[k]
        for q in range(n_queries):
            label_evidence[q] = evidence[k, labels[q], q]
            low[q], high[q] = 0.0, np.inf
        for c in range(n_classes):
            class_base, class_evidence = base[c], evidence[k, c]
            for q in range(n_queries):
                slope = label_evidence[q] - class_evidence[q]
                need = class_base[q] - label_base[q]
                bound = need / slope
                loses_ties = c < labels[q]
                unit = abs(bound) * 2.3e-16 + 1e-300 if loses_ties else 0.0
                from_below, from_above = bound + unit, bound - unit
                low[q] = from_below if (slope > 0) & (from_below > low[q]) else low[q]
                high[q] = from_above if (slope < 0) & (from_above < high[q]) else high[q]
                beaten = (slope == 0) & ((need > 0) | ((need == 0) & loses_ties))
                high[q] = -np.inf if beaten else high[q]
