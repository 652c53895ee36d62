"""The compiled inner loops of nearest neighbours. Imported on first use."""

from __future__ import annotations

import numpy as np

from marc.replay.compiling import compiled

_compile = compiled(nogil=True, error_model="numpy")
# sums may be split over the lanes of the machine: in float64, far below what float32 resolves
_compile_dot = compiled(nogil=True, fastmath={"reassoc", "contract"})

_LANES = 32  # cosines that are compared at once: almost all of them are too low


@_compile_dot
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(len(a)):
        total += np.float64(a[i]) * np.float64(b[i])
    return np.float32(total)


@_compile
def _sink(heap):  # type: ignore[no-untyped-def]
    """Restore a heap, smallest first, after its first value was replaced by a larger one."""
    size, index = len(heap), 0
    value = heap[0]
    while True:
        child = 2 * index + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= value:
            break
        heap[index] = heap[child]
        index = child
    heap[index] = value


@_compile
def _n_above(values, floor):  # type: ignore[no-untyped-def]
    count = 0
    for value in values:
        count += value >= floor
    return count


@_compile
def _rank(query, keys, candidates, result):  # type: ignore[no-untyped-def]
    """Fill result (k,): the nearest of the keys `candidates`, by their exact cosines."""
    distances = np.empty(len(candidates), dtype=np.float32)
    for index in range(len(candidates)):
        distances[index] = -_dot(query, keys[candidates[index]])
    ranked = np.argsort(distances, kind="mergesort")  # stable: ties stay in order of index
    for index in range(len(result)):
        result[index] = candidates[ranked[index]]


@_compile
def _make_room(query, keys, candidates, cosines, floor, n_neighbors):  # type: ignore[no-untyped-def]
    """Drop candidates that cannot be among the k nearest; how many stay, in order of index."""
    kept = 0
    for index in range(len(candidates)):
        if cosines[index] >= floor:
            candidates[kept], cosines[kept] = candidates[index], cosines[index]
            kept += 1
    if kept <= len(candidates) // 2:
        return kept
    # many are within rounding of each other, as copies are: only exact cosines decide
    best = np.empty(n_neighbors, dtype=np.int32)
    _rank(query, keys, candidates[:kept], best)
    best.sort()
    index = 0
    for number in range(n_neighbors):
        while candidates[index] != best[number]:
            index += 1
        candidates[number], cosines[number] = candidates[index], cosines[index]
    return n_neighbors


@_compile
def scan(tile, queries, keys, own, start, margin, heaps, candidates, cosines, counts):  # type: ignore[no-untyped-def]
    """Note which keys of a tile can be among the k nearest of each query.

    `tile` (R, m) are float32 cosines of the queries with keys start..start+m, each at most
    margin / 2 from the truth, which depends on how the matrix product was split. Tiles come in
    order of the keys. Key own[r] is the query itself and left out; -1 leaves out none.

    Kept for each query: a heap of the k highest cosines so far, and the candidates, that is the
    first counts[r] of `candidates` and their `cosines`, in order of index.
    """
    n_queries, n_keys = tile.shape
    room, n_neighbors = candidates.shape[1], heaps.shape[1]
    for r in range(n_queries):
        heap, count = heaps[r], counts[r]
        if 0 <= own[r] - start < n_keys:
            tile[r, own[r] - start] = -np.inf
        floor = heap[0] - margin  # rises with the k-th highest so far: no key below it matters
        for left in range(0, n_keys, _LANES):
            lanes = tile[r, left : left + _LANES]
            if _n_above(lanes, floor) == 0:
                continue
            for lane, cosine in enumerate(lanes):
                if cosine < floor:
                    continue
                if count == room:
                    count = _make_room(
                        queries[r], keys, candidates[r], cosines[r], floor, n_neighbors
                    )
                candidates[r, count], cosines[r, count] = start + left + lane, cosine
                count += 1
                if cosine > heap[0]:
                    heap[0] = cosine
                    _sink(heap)
                    floor = heap[0] - margin
        counts[r] = count


@_compile
def finish(table, queries, keys, margin, heaps, candidates, cosines, counts):  # type: ignore[no-untyped-def]
    """Fill table (R, k) from the candidates: the highest cosines, ties to the lower index.

    Each candidate is measured again, one dot product in float64 rounded to float32.
    """
    for r in range(len(table)):
        ids = candidates[r, : counts[r]]
        possible = ids[cosines[r, : counts[r]] >= heaps[r, 0] - margin]
        _rank(queries[r], keys, possible, table[r])


@_compile
def thin(table, position, chosen, thinned):  # type: ignore[no-untyped-def]
    """Fill thinned (n, k): the first k neighbours of each chosen point that are chosen too.

    position[j] is the position of j among the chosen, -1 if it is not one of them. A row whose list
    ends too early starts with -1.
    """
    n_neighbors = thinned.shape[1]
    for r in range(len(chosen)):
        row = table[chosen[r]]
        count = 0
        for j in row:
            if position[j] >= 0:
                thinned[r, count] = position[j]
                count += 1
                if count == n_neighbors:
                    break
        if count < n_neighbors:
            thinned[r, 0] = -1
