"""The compiled inner loops of nearest neighbours. Imported on first use, as `marc._kernels`."""

from __future__ import annotations

import numba
import numpy as np

_compile = numba.njit(cache=True, nogil=True, error_model="numpy")
# sums may be split over the lanes of the machine: in float64, far below what float32 can tell
_compile_dot = numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})


@_compile_dot
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(a)):
        total += np.float64(a[i]) * np.float64(b[i])
    return np.float32(total)


@_compile
def _sink(heap):  # type: ignore[no-untyped-def]
    """Restore a heap, smallest first, after its first value was replaced by a larger one."""
    size, place = len(heap), 0
    value = heap[0]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[place] = heap[child]
        place = child
    heap[place] = value


@_compile
def nearest_rows(products, queries, keys, own, tolerance, table):  # type: ignore[no-untyped-def]
    """Fill table (R, k): for each query the k keys of highest cosine, ties to the lower index.

    `products` (R, n) are float32 cosines, each at most `tolerance` from the truth, which depends
    on how the matrix product was split. They only say which keys can be among the k; those are
    measured again, one dot product in float64 rounded to float32, and ordered by that. Key own[r]
    is the query itself and left out; -1 leaves out none.
    """
    n_rows, n_keys = products.shape
    n_neighbors = table.shape[1]
    margin = np.float32(2 * tolerance)
    heap = np.empty(n_neighbors, dtype=np.float32)
    seen = np.empty(n_keys, dtype=np.int32)
    for r in range(n_rows):
        row = products[r]
        if own[r] >= 0:
            row[own[r]] = -np.inf
        heap[:] = -np.inf
        n_seen = 0
        floor = np.float32(-np.inf)  # rises with the k-th highest so far: no key below it matters
        for j in range(n_keys):
            if row[j] >= floor:
                seen[n_seen] = j
                n_seen += 1
                if row[j] > heap[0]:
                    heap[0] = row[j]
                    _sink(heap)
                    floor = heap[0] - margin
        candidates = seen[:n_seen]
        candidates = candidates[row[candidates] >= floor]
        distances = np.empty(len(candidates), dtype=np.float32)
        for place in range(len(candidates)):
            distances[place] = -_dot(queries[r], keys[candidates[place]])
        ranked = np.argsort(distances, kind="mergesort")  # stable: ties stay in order of index
        for place in range(n_neighbors):
            table[r, place] = candidates[ranked[place]]


@_compile
def thin(table, place, chosen, thinned):  # type: ignore[no-untyped-def]
    """Fill thinned (n, k): the first k neighbours of each chosen point that are chosen too.

    place[j] is the position of j among the chosen, -1 if it is not one of them. A row whose list
    ends too early starts with -1.
    """
    n_neighbors = thinned.shape[1]
    for r in range(len(chosen)):
        row = table[chosen[r]]
        found = 0
        for j in row:
            if place[j] >= 0:
                thinned[r, found] = place[j]
                found += 1
                if found == n_neighbors:
                    break
        if found < n_neighbors:
            thinned[r, 0] = -1
