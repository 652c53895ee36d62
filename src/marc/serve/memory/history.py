"""The whole past of a memory in at most a few hundred numbers, however long it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_MOST = 512  # buckets; when they are full, two become one
_NAMES = ("seq", "steps", "disagreements", "admitted", "weight")


class History:
    """Counts by bucket of equally many steps; the buckets grow as the stream does.

    >>> history = History()
    >>> for seq in range(1, 1025):
    ...     history.add(seq, disagrees=seq % 2 == 0, admitted=True, weight=10.0)
    >>> history.width, len(history.points()), history.points(4)[0]["disagreements"]
    (2, 512, 128)
    """

    def __init__(self, width: int = 1, rows: Sequence[Sequence[float]] = ()) -> None:
        self.width = width
        self._rows = [list(row) for row in rows]

    def add(self, seq: int, *, disagrees: bool, admitted: bool, weight: float) -> None:
        """Count one step."""
        if not self._rows or self._rows[-1][1] >= self.width:
            if len(self._rows) == _MOST:
                self._rows = _merged(self._rows, 2)
                self.width *= 2
            self._rows.append([0, 0, 0, 0, 0.0])
        row = self._rows[-1]
        row[0] = seq
        row[1] += 1
        row[2] += disagrees
        row[3] += admitted
        row[4] += weight

    def points(self, count: int = _MOST) -> list[dict[str, Any]]:
        """At most so many points, the oldest first; the weight is a mean."""
        size = -(-len(self._rows) // max(1, count))
        rows = _merged(self._rows, size) if size > 1 else self._rows
        return [{**dict(zip(_NAMES, row, strict=True)), "weight": row[4] / row[1]} for row in rows]

    def state(self) -> dict[str, Any]:
        """As plain data."""
        return {"width": self.width, "rows": [list(row) for row in self._rows]}


def _merged(rows: Sequence[Sequence[float]], size: int) -> list[list[float]]:
    """Every `size` neighbouring buckets as one."""
    groups = (rows[start : start + size] for start in range(0, len(rows), size))
    return [[g[-1][0], *(sum(row[i] for row in g) for i in range(1, 5))] for g in groups]
