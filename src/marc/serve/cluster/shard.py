"""Some memories of a service in a process of their own: what a Ray actor of `shards` runs.

It opens what it is asked for, so one that Ray started again needs to know nothing of the one before
it: a memory is its folder, on storage that both of them see. Where the process before still lives,
on a machine that the cluster lost sight of, it holds the lock of the folder, and that of the log:
the memory is opening, and tried again, until the system gives the lock back. There are never two
writers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from marc.errors import MarcError
from marc.serve.hosted import Hosted
from marc.serve.listeners import Event, Listener
from marc.serve.memory.config import StepRequest
from marc.serve.refused import Refused

Status = dict[str, Any]
_MOST_EVENTS = 256  # that wait for the front; more are counted as missed
_BEAT = 1.0  # seconds until a front that watches hears from a shard where nothing happens
_PATIENCE = 10.0  # seconds that a request waits for a memory that is opened


class Failure(NamedTuple):
    """An error on its way between processes: of parts that every process knows."""

    status: int | None
    problem: str
    got: str | None = None
    allowed: str | None = None
    hint: str | None = None
    retry_after: float | None = None

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """The same error in plain parts."""
        if not isinstance(error, MarcError):
            what = f"{type(error).__name__}: {error}"[:200]
            return cls(500, "a shard failed at this request", what)
        got, allowed = (None if p is None else str(p) for p in (error.got, error.allowed))
        if not isinstance(error, Refused):
            return cls(None, error.problem, got, allowed, error.hint)
        return cls(error.status, error.problem, got, allowed, error.hint, error.retry_after)

    def error(self) -> MarcError:
        """The error again."""
        parts: dict[str, Any] = {"got": self.got, "allowed": self.allowed, "hint": self.hint}
        if self.status is None:
            return MarcError(self.problem, **parts)
        return Refused(self.status, self.problem, **parts, retry_after=self.retry_after)


class Step(NamedTuple):
    """A step on its way; its deadline is in seconds from now, as each machine has its own clock."""

    folder: str
    request: StepRequest

    @classmethod
    def of(cls, folder: Path, request: StepRequest) -> Step:
        """A request, as it leaves."""
        left = None if request.deadline is None else request.deadline - time.monotonic()
        return cls(str(folder), replace(request, deadline=left, chain=None))

    def arrived(self) -> StepRequest:
        """The request, by the clock of this machine."""
        left = self.request.deadline
        deadline = None if left is None else time.monotonic() + left
        return replace(self.request, deadline=deadline)


class Shard:
    """Memories by their folders. All methods belong to one event loop, that of the actor."""

    def __init__(self, durability: str, threads: int) -> None:
        self._durability = durability
        self._pool = ThreadPoolExecutor(threads, "memory")
        self._hosted: dict[str, Hosted] = {}
        self._opening: dict[str, asyncio.Task[None]] = {}
        self._heard: dict[str, tuple[Listener, asyncio.Task[None]]] = {}
        self._events: asyncio.Queue[tuple[str, Event]] = asyncio.Queue(_MOST_EVENTS)
        self._ticked = 0.0

    async def process(self) -> int:
        """Its number on its machine."""
        return os.getpid()

    async def open(self, folder: str) -> Status:
        """Open a memory, or find that it is open."""
        if folder in self._hosted and self._hosted[folder].state == "quarantined":
            self._opening.pop(folder)  # what was wrong with it may have passed
        return (await self._open(folder)).status()

    async def steps(self, steps: Sequence[Step]) -> tuple[list[bytes | Failure], list[Status]]:
        """An answer or an error for each; those of one memory are taken in their order."""
        folders = [*dict.fromkeys(step.folder for step in steps)]
        found = dict(zip(folders, await asyncio.gather(*map(self._open, folders)), strict=True))
        results = await asyncio.gather(
            *(found[step.folder].step(step.arrived()) for step in steps), return_exceptions=True
        )
        told = [Failure.of(each) if isinstance(each, BaseException) else each for each in results]
        return told, [each.status() for each in found.values()]

    async def call(
        self, folder: str, operation: str, arguments: dict[str, Any]
    ) -> tuple[Any, Status]:
        """The result of an operation, of "restore" or of "same", or an error."""
        hosted = await self._open(folder)
        asked = hosted.same if operation == "same" else partial(hosted.call, operation)
        try:
            result = await asked(**arguments)
        except Exception as error:
            result = Failure.of(error)
        return result, hosted.status()

    async def close(self, folder: str, keep: bool) -> None:
        """Give a memory's folder back; nothing, where it is not open."""
        self._hear_no_more(folder)
        self._opening.pop(folder, None)
        hosted = self._hosted.pop(folder, None)
        if hosted is not None:
            await hosted.close(keep=keep)

    async def hear(self, folder: str) -> None:
        """Collect the events of a memory from now on."""
        if folder not in self._heard:
            hosted = self._host(folder)
            listener = hosted.listen()
            self._heard[folder] = listener, asyncio.create_task(self._collect(folder, listener))

    async def watch(
        self, folders: Sequence[str], heard: Sequence[str]
    ) -> tuple[list[tuple[str, Event]], list[Status]]:
        """Open these memories, hear some of them, and wait for events; about once a second, all.

        A shard that was started again learns by this what it is for.
        """
        for folder in folders:
            self._host(folder)
        for folder in {*self._heard} - {*heard}:
            self._hear_no_more(folder)
        for folder in heard:
            await self.hear(folder)
        events = []
        if self._events.empty():
            wait = max(0.0, self._ticked + _BEAT - time.monotonic())
            with contextlib.suppress(TimeoutError):
                events.append(await asyncio.wait_for(self._events.get(), wait))
        while not self._events.empty():
            events.append(self._events.get_nowait())
        if time.monotonic() - self._ticked < _BEAT:
            return events, []
        self._ticked = time.monotonic()
        for hosted in self._hosted.values():
            hosted.tick()
        return events, [hosted.status() for hosted in self._hosted.values()]

    async def _collect(self, folder: str, listener: Listener) -> None:
        """Put events where the front fetches them; while it does not, the listener is slow."""
        while (event := await listener.get()) is not None:
            await self._events.put((folder, event))

    def _hear_no_more(self, folder: str) -> None:
        if folder in self._heard:
            listener, collecting = self._heard.pop(folder)
            listener.close()
            collecting.cancel()

    def _host(self, folder: str) -> Hosted:
        """A memory that is open, or begins to open."""
        if folder not in self._hosted:
            self._hosted[folder] = Hosted(Path(folder), self._durability, self._pool)
        if folder not in self._opening:
            self._opening[folder] = asyncio.create_task(self._opened(self._hosted[folder]))
        return self._hosted[folder]

    async def _open(self, folder: str) -> Hosted:
        """A memory once it is open, or has had some time to."""
        hosted = self._host(folder)
        await asyncio.wait([self._opening[folder]], timeout=_PATIENCE)
        return hosted

    async def _opened(self, hosted: Hosted) -> None:
        """Open it, and wait some time for a process that has it and may be ending."""
        until = time.monotonic() + _PATIENCE
        await hosted.open()
        while hosted.state == "opening" and time.monotonic() < until:
            await asyncio.sleep(0.2)
            await hosted.open()
