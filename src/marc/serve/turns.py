"""The turns of one memory: bounded, in order, and in the hands of one thread at a time."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from marc.serve.memory.config import StepRequest
from marc.serve.refused import Refused

BLOCK = 64
"""Steps that are answered together, at most."""
_PASSES = 4  # of the event loop, from the bytes of a request to its place in the queue


def crowded(waiting: int, limit: int) -> Refused:
    """Why a memory takes no more requests for now."""
    return Refused(
        429,
        "too many requests wait for this memory",
        got=waiting,
        allowed=f"{limit}, its quota 'queue'",
        retry_after=1,
    )


@dataclass(eq=False)
class _Turn:
    """One request that waits: a step, or something else to be done between two."""

    request: StepRequest | None
    work: Callable[[], Any] | None
    answer: asyncio.Future[Any]
    since: float = field(default_factory=time.monotonic)

    def settle(self, result: Any) -> None:
        """Give the answer, or the error, to whoever still waits."""
        if self.request is not None and self.request.chain is not None:
            self.request.chain.follow(result)
        if self.answer.done():
            return
        if isinstance(result, StopIteration):  # which no future can raise
            result = RuntimeError(f"{result!r}")
        if isinstance(result, BaseException):
            self.answer.set_exception(result)
        else:
            self.answer.set_result(result)


class Turns:
    """A queue in front of a memory. All its methods belong to one event loop.

    Whatever steps wait when the memory is free go in together; nobody waits for a block to fill.
    """

    def __init__(
        self, pool: Executor, answer: Callable[[list[StepRequest]], list[Any]], limit: int
    ) -> None:
        self._pool, self._answer, self.limit = pool, answer, limit
        self._waiting: deque[_Turn] = deque()
        self._busy: asyncio.Task[None] | None = None
        self._now: list[_Turn] = []

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def oldest_age(self) -> float:
        """Seconds that the one in front has waited, or has been worked on."""
        oldest = self._now[0] if self._now else self._waiting[0] if self._waiting else None
        return time.monotonic() - oldest.since if oldest else 0.0

    def step(self, request: StepRequest) -> asyncio.Future[Any]:
        """Take a step in its turn; refused at once where too many wait."""
        return self._put(_Turn(request, None, asyncio.get_running_loop().create_future()))

    def do(self, work: Callable[[], Any], *, always: bool = False) -> asyncio.Future[Any]:
        """Do something between two steps; `always`: however many wait."""
        turn = _Turn(None, work, asyncio.get_running_loop().create_future())
        return self._put(turn, always=always)

    def _put(self, turn: _Turn, *, always: bool = False) -> asyncio.Future[Any]:
        if len(self._waiting) >= self.limit and not always:
            raise crowded(len(self._waiting), self.limit)
        self._waiting.append(turn)
        if self._busy is None:
            self._busy = asyncio.get_running_loop().create_task(self._work())
        return turn.answer

    async def drained(self) -> None:
        """Wait until nobody waits."""
        while self._busy is not None:
            await asyncio.wait([self._busy])

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                await self._arrived()
                self._now = self._next()
                if not self._now:
                    continue
                try:
                    results = await loop.run_in_executor(self._pool, self._done, self._now)
                except RuntimeError as error:  # the threads are gone: nobody is to wait for ever
                    results = [error] * len(self._now)
                for turn, result in zip(self._now, results, strict=True):
                    turn.settle(result)
                self._now = []
        finally:
            self._now, self._busy = [], None

    async def _arrived(self) -> None:
        """Let what has come over the wire by now stand in the queue; nobody is waited for."""
        before = 0
        while before < len(self._waiting) < BLOCK:
            before = len(self._waiting)
            for _ in range(_PASSES):
                await asyncio.sleep(0)

    def _next(self) -> list[_Turn]:
        """What goes in together: one piece of work, or the steps before the next."""
        block: list[_Turn] = []
        while self._waiting and len(block) < BLOCK:
            if self._waiting[0].work is not None:
                return block or [self._waiting.popleft()]
            turn = self._waiting.popleft()
            if turn.answer.done():  # who asked is gone, and nothing was done yet
                continue
            assert turn.request is not None
            chain, deadline = turn.request.chain, turn.request.deadline
            if chain is not None and chain.refused is not None:
                turn.settle(chain.refused)
            elif deadline is not None and time.monotonic() > deadline:
                turn.settle(Refused(504, "the time for this step was over before its turn came"))
            else:
                block.append(turn)
        return block

    def _done(self, turns: list[_Turn]) -> list[Any]:
        """Do it, in a thread: a result or an error for each."""
        try:
            if turns[0].work is not None:
                return [turns[0].work()]
            results = self._answer([turn.request for turn in turns if turn.request is not None])
            assert len(results) == len(turns)
            return results
        except BaseException as error:
            return [error] * len(turns)
