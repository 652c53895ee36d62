"""The compiled inner loops of a shared covariance. Imported on first use: numba loads slowly."""

from __future__ import annotations

from marc.replay.compiling import compiled

_compile = compiled(nogil=True, error_model="numpy")


@_compile
def add_outer_products(scatter, total, rows, weights, before, after):  # type: ignore[no-untyped-def]
    """Scatter += sum of weights[v] rows[v] rows[v]^T, and total += after new - before old.

    `scatter` (float32) and `total` (float64) are lower triangles, row after row. One pass over
    both: each line stays in the fast memory until it is done.
    """
    n_rows, dim = rows.shape
    for i in range(dim):
        start = i * (i + 1) // 2
        line = scatter[start : start + i + 1]
        sums = total[start : start + i + 1]
        if n_rows == 1:
            factor, row = weights[0] * rows[0, i], rows[0]
            for j in range(i + 1):
                old = line[j]
                new = old + factor * row[j]
                line[j] = new
                sums[j] += after * new - before * old
            continue
        for j in range(i + 1):
            sums[j] -= before * line[j]
        v = 0
        while v + 4 <= n_rows:  # four rows at once: a line is loaded and stored once for them
            f0, f1 = weights[v] * rows[v, i], weights[v + 1] * rows[v + 1, i]
            f2, f3 = weights[v + 2] * rows[v + 2, i], weights[v + 3] * rows[v + 3, i]
            r0, r1, r2, r3 = rows[v], rows[v + 1], rows[v + 2], rows[v + 3]
            for j in range(i + 1):
                line[j] += f0 * r0[j] + f1 * r1[j] + f2 * r2[j] + f3 * r3[j]
            v += 4
        while v < n_rows:
            factor, row = weights[v] * rows[v, i], rows[v]
            for j in range(i + 1):
                line[j] += factor * row[j]
            v += 1
        for j in range(i + 1):
            sums[j] += after * line[j]


@_compile
def unpack_lower(packed, factor, on_diagonal, square):  # type: ignore[no-untyped-def]
    """Fill the lower triangle of a square with factor x its lines, and add to the diagonal."""
    for i in range(len(square)):
        start = i * (i + 1) // 2
        for j in range(i + 1):
            square[i, j] = factor * packed[start + j]
        square[i, i] = factor * packed[start + i] + on_diagonal
