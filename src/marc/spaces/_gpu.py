"""Neighbour tables and batches on a GPU, by torch: what `neighbors.py` gives, sooner.

Tiles of float32 products, not rounded to TF32, find the candidates of each query; float64 dot
products of their rows rank them. Of a tile only the highest `room` cosines of a query are kept, so
a query with more candidates than that, as of many copies, is told to be one: the CPU ranks those.
Keys that do not fit on the card stay where they are and come block by block.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.replay.device import free_memory, full_precision, place
from marc.scores import Int
from marc.types import OnProgress

_QUERIES = 8192  # at a time, if there is memory for all their cosines
_SPARE = 64  # candidates beyond the neighbours that a query has room for
_CELL = 32  # bytes for one cosine of a tile: itself, and what looks for the highest
_TERM = 24  # bytes for one term of a dot product in float64
_BLOCK = 2**26  # bytes of keys that are uploaded at a time
_THINNED = 2**24  # numbers of a table that are thinned at a time


def find(
    gpu: str, keys: Any, rows: Int, n_neighbors: int, margin: float, report: OnProgress
) -> tuple[NDArray[np.int32], Int]:
    """Rows of the table of unit `keys` (n, D), and which of them have too many candidates.

    Args:
        gpu: as torch names it.
        keys: an array, or anything else with a length and `[rows]`.
        rows: of which points.
        n_neighbors: columns.
        margin: of two cosines that are further apart the order is known.
        report: called with how many rows are done.
    """
    import torch

    table = np.empty((len(rows), n_neighbors), dtype=np.int32)
    unsure = np.zeros(len(rows), dtype=bool)
    with full_precision(), torch.inference_mode():
        points = _Points.at(gpu, keys)
        for start in range(0, len(rows), _QUERIES):
            part = slice(start, start + _QUERIES)
            queries = points.rows(place(rows[part], gpu))
            cosines, ids = _candidates(points, queries, rows[part], n_neighbors + _SPARE)
            possible = cosines >= cosines[:, n_neighbors - 1, None] - margin
            ids = ids[:, : int(possible.sum(1).max())]
            table[part] = _ranked(points, queries, ids)[:, :n_neighbors].cpu().numpy()
            unsure[part] = possible[:, -1].cpu().numpy()
            report("neighbours", min(start + _QUERIES, len(rows)), len(rows))
    return table, np.flatnonzero(unsure)


@dataclass(frozen=True)
class _Points:
    """Keys, on the card if there is room for them."""

    gpu: str
    keys: Any
    card: Any
    """All keys, or None."""
    memory: int
    """Bytes for everything else."""

    @classmethod
    def at(cls, gpu: str, keys: Any) -> _Points:
        import torch

        memory = free_memory(gpu)
        needed = 4 * math.prod(keys.shape)
        if needed > memory // 2:
            return cls(gpu, keys, None, memory)
        card = torch.empty(keys.shape, dtype=torch.float32, device=gpu)
        step = max(1, _BLOCK // (4 * keys.shape[1]))
        for start in range(0, len(keys), step):
            card[start : start + step] = _placed(keys[start : start + step], gpu)
        return cls(gpu, keys, card, memory - needed)

    def block(self, start: int, stop: int) -> Any:
        """Consecutive keys."""
        if self.card is not None:
            return self.card[start:stop]
        return _placed(self.keys[start:stop], self.gpu)

    def rows(self, index: Any) -> Any:
        """The keys of an index (...), (..., D)."""
        if self.card is not None:
            return self.card[index]
        distinct, place = index.unique(return_inverse=True)
        return _placed(self.keys[distinct.cpu().numpy()], self.gpu)[place]


def _placed(keys: NDArray[Any], gpu: str) -> Any:
    return place(np.asarray(keys, dtype=np.float32), gpu)


def _candidates(points: _Points, queries: Any, own: Int, room: int) -> tuple[Any, Any]:
    """The `room` highest cosines of each query with others, highest first, and with whom.

    A query itself counts as -inf.
    """
    import torch

    best = queries.new_empty((len(queries), 0))
    ids = torch.empty((len(queries), 0), dtype=torch.int64, device=points.gpu)
    n_columns = max(1, points.memory // (_CELL * len(queries)))
    for start in range(0, len(points.keys), n_columns):
        tile = queries @ points.block(start, start + n_columns).T
        itself = np.flatnonzero((own >= start) & (own < start + tile.shape[1]))
        tile[itself, own[itself] - start] = -torch.inf
        cosines, places = _highest(tile, room)
        best, ids = torch.cat([best, cosines], 1), torch.cat([ids, places + start], 1)
        best, order = best.topk(min(room, best.shape[1]))
        ids = ids.gather(1, order)
    return best, ids


def _highest(tile: Any, count: int) -> tuple[Any, Any]:
    """The `count` highest values of each row, or all if there are fewer, and their columns.

    None of them is outside of the `count` groups of columns whose highest values are the highest,
    and to look through those is less work.
    """
    import torch

    n_rows, n_columns = tile.shape
    size = math.isqrt(n_columns // count)
    if size < 4:
        values, columns = tile.topk(min(count, n_columns))
        return values, columns
    whole = n_columns - n_columns % size
    _, groups = tile[:, :whole].unflatten(1, (-1, size)).amax(2).topk(count, sorted=False)
    within = (groups[:, :, None] * size + torch.arange(size, device=tile.device)).flatten(1)
    rest = torch.arange(whole, n_columns, device=tile.device).expand(n_rows, -1)
    columns = torch.cat([within, rest], 1)
    values, order = tile.gather(1, columns).topk(count)
    return values, columns.gather(1, order)


def _ranked(points: _Points, queries: Any, ids: Any) -> Any:
    """Candidates by their exact cosines, highest first and equal ones by index."""
    import torch

    ids = ids.sort(1).values
    cosines = torch.empty(ids.shape, dtype=torch.float32, device=points.gpu)
    step = max(1, points.memory // (_TERM * ids.shape[1] * queries.shape[1]))
    for start in range(0, len(ids), step):
        part = slice(start, start + step)
        terms = points.rows(ids[part]).double()
        cosines[part] = terms.mul_(queries[part, None].double()).sum(2).float()
    # a sum with 0 makes -0 equal to 0 also for a sort that looks at bits
    order = (cosines + 0).sort(dim=1, descending=True, stable=True).indices
    return ids.gather(1, order).int()


def thin(table: Any, chosen: Any, n_neighbors: int) -> tuple[Any, Int]:
    """The first neighbours of each chosen point that are chosen too, and where they end too early.

    As `_nearest.thin`, of a table on the card; `chosen` (m,) are ascending.
    """
    import torch

    position = torch.full((len(table),), -1, dtype=torch.int32, device=table.device)
    position[chosen] = torch.arange(len(chosen), dtype=torch.int32, device=table.device)
    thinned = position.new_full((len(chosen), n_neighbors), -1)
    step = max(1, _THINNED // table.shape[1])
    for start in range(0, len(chosen), step):
        near = position[table[chosen[start : start + step]]]
        count = (near >= 0).cumsum(1, dtype=torch.int32)
        enough = count[:, -1] >= n_neighbors
        taken = (near >= 0) & (count <= n_neighbors) & enough[:, None]
        thinned[start : start + step][enough] = near[taken].view(-1, n_neighbors)
    return thinned, torch.nonzero(thinned[:, 0] < 0)[:, 0].cpu().numpy()
