"""A memory that is open in another process, with what waits for it here."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from marc.errors import MarcError
from marc.serve.cluster.shard import Failure, Status
from marc.serve.listeners import Listener
from marc.serve.memory.config import Limits, MemoryConfig, StepRequest
from marc.serve.refused import Refused
from marc.serve.turns import BLOCK, crowded


class _Link(Protocol):
    """What leads to the other process."""

    index: int

    def add(self, remote: Remote) -> None:
        """Have a memory open from now on."""

    def drop(self, remote: Remote) -> None:
        """Have it open no more."""

    def hear(self, remote: Remote) -> None:
        """Let events come."""

    def wake(self) -> None:
        """Send what waits."""

    async def ask(self, method: str, arguments: Any) -> Any:
        """Call a method of the other process."""

    async def call(self, remote: Remote, operation: str, arguments: dict[str, Any]) -> Any:
        """The result of an operation."""


@dataclass(eq=False)
class Turn:
    """A step that waits."""

    request: StepRequest
    answer: asyncio.Future[bytes]
    since: float = field(default_factory=time.monotonic)


class Remote:
    """A memory as the front of a service has it, see `marc.serve.service.Host`."""

    def __init__(self, folder: Path, link: _Link) -> None:
        self.folder = folder
        self.reported: Status = {"state": "opening", "problem": None}
        """What the other process said of it last."""
        self._link = link
        self._waiting: deque[Turn] = deque()
        self._sent: list[Turn] = []
        self._listeners: set[Listener] = set()
        self._config: MemoryConfig | None = None
        self._limit = Limits().queue
        self._is_closing = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._sent)

    @property
    def waits(self) -> bool:
        """Whether steps may be sent: there are some, and none are on their way."""
        return bool(self._waiting) and not self._sent

    @property
    def is_heard(self) -> bool:
        """Whether somebody listens."""
        return bool(self._listeners)

    async def open(self) -> None:
        """Let the other process open it; where that does not answer, it will as soon as it can."""
        self._link.add(self)
        with suppress(MarcError):  # a damaged one: the other process says so
            self._config = await asyncio.to_thread(MemoryConfig.load, self.folder)
            self._limit = self._config.limits.queue
        with suppress(MarcError):
            self.reported = await self._link.ask("open", lambda: (str(self.folder),))

    async def step(self, request: StepRequest) -> bytes:
        """The answer, once it is on disk."""
        self._refuse_if_closing()
        if len(self._waiting) >= self._limit:
            raise crowded(len(self._waiting), self._limit)
        turn = Turn(request, asyncio.get_running_loop().create_future())
        self._waiting.append(turn)
        self._link.wake()
        return await turn.answer

    def take(self) -> list[Turn]:
        """The steps that go next; whose asker is gone, stays."""
        while self._waiting and len(self._sent) < BLOCK:
            turn = self._waiting.popleft()
            if turn.answer.done():
                continue
            if turn.request.chain is not None and turn.request.chain.refused is not None:
                turn.answer.set_exception(turn.request.chain.refused)
                continue
            self._sent.append(turn)
        return [*self._sent]

    def settle(self, results: list[Any]) -> None:
        """Give the answers to the steps that were taken."""
        sent, self._sent = self._sent, []
        for turn, told in zip(sent, results, strict=True):
            result = told.error() if isinstance(told, Failure) else told
            if turn.request.chain is not None:
                turn.request.chain.follow(result)
            if turn.answer.done():
                continue
            if isinstance(result, BaseException):
                turn.answer.set_exception(result)
            else:
                turn.answer.set_result(result)

    async def call(self, operation: str, **arguments: Any) -> Any:
        """Something between two steps, of `OPERATIONS`, or "restore"."""
        self._refuse_if_closing()
        return await self._link.call(self, operation, arguments)

    async def same(self, config: MemoryConfig) -> None:
        """Refuse a configuration that is not this memory's."""
        await self._link.call(self, "same", {"config": config})

    def check_pictures(self, pictures: Any) -> None:
        """Refuse a picture where the memory was not made for the server's encoders."""
        self.made_of().check_pictures(pictures)

    def made_of(self) -> MemoryConfig:
        """Its configuration, without waiting; refused where that cannot be read."""
        if self._config is None:
            self._config = MemoryConfig.load(self.folder)
        return self._config

    def listen(self) -> Listener:
        """What happens from now on."""
        listener = Listener(self._listeners)
        self._link.hear(self)
        return listener

    def forward(self, event: str, data: dict[str, Any]) -> None:
        """Give an event of the other process to those who listen here."""
        for listener in self._listeners:
            listener.tell(event, self.status() if event == "status" else data)

    def lose(self, problem: str) -> None:
        """Know that the other process ended."""
        self.reported = {**self.reported, "state": "opening", "problem": problem}
        self.forward("problem", {"problem": f"{problem} Until then, events are missing."})

    def status(self) -> dict[str, Any]:
        """How it is, as far as is known here; about a second old where no steps come."""
        oldest = (self._sent or [*self._waiting][:1])[:1]
        return {
            **self.reported,
            "name": self.folder.name,
            "state": "draining" if self._is_closing else self.reported["state"],
            "queue_length": len(self),
            "oldest_age": time.monotonic() - oldest[0].since if oldest else 0.0,
            "listeners": len(self._listeners),
            "shard": self._link.index,
        }

    def tick(self) -> None:
        """Nothing: the other process ticks."""

    async def close(self, *, keep: bool = True) -> None:
        """Answer what waits, write a snapshot if it is to be kept, and give the folder back."""
        self._is_closing = True
        if answers := [turn.answer for turn in (*self._sent, *self._waiting)]:
            await asyncio.wait(answers)
        self._link.drop(self)
        try:
            await self._link.ask("close", lambda: (str(self.folder), keep))
        except MarcError:
            if not keep:  # it is there still
                self._is_closing = False
                self._link.add(self)
                raise
        for listener in [*self._listeners]:
            listener.close()

    def _refuse_if_closing(self) -> None:
        if self._is_closing:
            raise Refused(503, "this memory is draining", retry_after=1)
