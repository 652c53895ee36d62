"""Who listens to what happens; a slow one misses some of it, and learns how much."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

_MOST = 256  # events that wait for one listener

Event = tuple[str, dict[str, Any]]


class Listener:
    """Events of one memory, in order."""

    def __init__(self, listeners: set[Listener]) -> None:
        self._listeners = listeners
        self._events: deque[Event] = deque()
        self._missed = 0
        self._more = asyncio.Event()
        listeners.add(self)

    def tell(self, event: str, data: dict[str, Any]) -> None:
        """Put an event in front of the listener, if there is room."""
        if len(self._events) >= _MOST:
            self._missed += 1
        else:
            self._events.append((event, data))
        self._more.set()

    async def get(self) -> Event | None:
        """The next event; None where there will be no more."""
        while not self._events:
            if self._missed:
                missed, self._missed = self._missed, 0
                return "missed", {"count": missed}
            if self not in self._listeners:
                return None
            self._more.clear()
            await self._more.wait()
        return self._events.popleft()

    def close(self) -> None:
        """Listen no more."""
        self._listeners.discard(self)
        self._more.set()
