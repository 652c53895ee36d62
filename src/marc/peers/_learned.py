"""What is learned from files before a stream: remembered, so that other orders start at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
KEPT = 8
"""How many are remembered: the latest."""


class Learned(Generic[_T]):
    """The latest that were learned, by everything that decides them. They are only read."""

    def __init__(self) -> None:
        self._known: dict[str, _T] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        """Forget all of it."""
        self._known.clear()

    def get(self, key: Mapping[str, Any], learn: Callable[[], _T]) -> _T:
        """What is remembered under a key of plain data, or else learned now."""
        text = json.dumps(key, sort_keys=True)
        with self._lock:
            known = self._known.get(text)
        if known is None:
            known = learn()
            with self._lock:
                self._known[text] = known
                for oldest in list(self._known)[:-KEPT]:
                    del self._known[oldest]
        return known
