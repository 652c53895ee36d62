"""Some of the last steps, looked at more closely than the others: for people who watch."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any

import orjson

from marc.serve.memory.answers import sample, sample_of_stored
from marc.serve.memory.log import Log

NEIGHBOURS = 5
"""Of each sample, whatever its client asked for."""
MOST = 60
_PAUSE = 0.5  # seconds between two of them, at least


class Samples:
    """The latest samples of one memory, newest first."""

    def __init__(self, log: Log) -> None:
        self._log, self._taken = log, -_PAUSE
        self._latest: deque[dict[str, Any]] = deque(maxlen=MOST)
        self._unsent: deque[dict[str, Any]] = deque(maxlen=MOST)

    @property
    def is_due(self) -> bool:
        """Whether the next step is to be one."""
        return time.monotonic() - self._taken >= _PAUSE

    def take(
        self, body: Mapping[str, Any], now: float, more: Mapping[str, Any], *, with_picture: bool
    ) -> None:
        """Keep a step, and which of its neighbours have a picture."""
        self._taken = time.monotonic()
        near = [each for nearest in more["neighbours"].values() for each in nearest]
        pictures = self._log.thumbnails([each["seq"] for each in near])
        for each in near:
            each["picture"] = each["seq"] in pictures
        taken = sample(body, now, more, picture=with_picture)
        self._latest.appendleft(taken)
        self._unsent.append(taken)

    def unsent(self) -> list[dict[str, Any]]:
        """Those that were not asked for before, oldest first."""
        return [self._unsent.popleft() for _ in range(len(self._unsent))]

    def last(self, count: int, seq: int) -> list[dict[str, Any]]:
        """The latest, or where there is none the last steps of the log, up to `seq`."""
        if self._latest:
            return [*self._latest][:count]
        rows = [self._log.step(each) for each in range(seq, max(0, seq - count), -1)]
        kept = [row for row in rows if row is not None]
        pictures = self._log.thumbnails([row.seq for row in kept])
        return [
            sample_of_stored(orjson.loads(row.answer), row.time, picture=row.seq in pictures)
            for row in kept
        ]
