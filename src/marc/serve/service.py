"""Every memory of a folder: opened, asked in turn, opened again after a failure, and closed."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from marc.errors import one_of
from marc.files import locked
from marc.serve.hosted import Hosted
from marc.serve.listeners import Listener
from marc.serve.memory import snapshots
from marc.serve.memory.config import MemoryConfig, StepRequest, check_name
from marc.serve.refused import Refused

if TYPE_CHECKING:
    from marc.serve.creation import Settings

_T = TypeVar("_T")
_FOLDER = "memories"
_MOST_WAITING = 8192  # requests of all memories together
_log = logging.getLogger("marc.serve")


class Host(Protocol):
    """One memory, wherever it is open: in this process as `Hosted`, or in another."""

    folder: Path

    def __len__(self) -> int:
        """Requests that wait."""

    async def open(self) -> None:
        """Open the folder; what is damaged is quarantined, and the others serve."""

    async def step(self, request: StepRequest) -> bytes:
        """The answer, once it is on disk."""

    async def call(self, operation: str, **arguments: Any) -> Any:
        """Something between two steps, of `OPERATIONS`, or "restore"."""

    async def same(self, config: MemoryConfig) -> None:
        """Refuse a configuration that is not this memory's."""

    def check_pictures(self, pictures: Any) -> None:
        """Refuse a picture where the memory was not made for the server's encoders."""

    def listen(self) -> Listener:
        """What happens from now on."""

    def made_of(self) -> MemoryConfig:
        """Its configuration, without waiting; refused where that is not known yet."""

    def status(self) -> dict[str, Any]:
        """How it is, without waiting."""

    def tick(self) -> None:
        """What is to be done about once a second."""

    async def close(self, *, keep: bool = True) -> None:
        """Answer what waits, write a snapshot if it is to be kept, and give the folder back."""


class Hosts(Protocol):
    """Where memories are open that are not in this process."""

    async def start(self, durability: str) -> None:
        """Begin, before the first `host`."""

    def host(self, folder: Path) -> Host:
        """A memory by its folder."""

    async def stop(self) -> None:
        """End, after every memory was closed."""


class Service:
    """The memories below a folder, each with one writer and one order.

    All methods belong to one event loop; the work is done in threads, or by other `hosts`.
    """

    def __init__(
        self,
        data: Path,
        *,
        durability: str = "process",
        pictures: Any = None,
        quotas: Mapping[str, int] | None = None,
        threads: int = 4,
        hosts: Hosts | None = None,
    ) -> None:
        one_of("durability", durability, ("process", "power"))
        self.data, self.durability, self.pictures = data, durability, pictures
        self.quotas = dict(quotas or {})
        self.state = "opening"
        self._hosts = hosts
        self._hosted: dict[str, Host] = {}
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._changes: set[asyncio.Task[Any]] = set()
        self._is_stopped = False
        self._pool = ThreadPoolExecutor(threads, "memory")
        self._opening: asyncio.Task[None] | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._holding = ExitStack()
        (data / _FOLDER).mkdir(parents=True, exist_ok=True)
        self._holding.enter_context(
            locked(data, "another server works in this folder", hint="stop it, or another --data")
        )
        snapshots.remove_passing(data / _FOLDER)

    async def start(self) -> None:
        """Open what is there, in the background."""
        if self.pictures is not None:
            await asyncio.to_thread(self.pictures.start)
        if self._hosts is not None:
            await self._hosts.start(self.durability)
        folders = sorted(p for p in (self.data / _FOLDER).iterdir() if not p.name.startswith("."))
        for folder in folders:
            if folder.is_dir():
                self._hosted[folder.name] = self._host(folder)
        self.state = "recovering" if self._hosted else "ready"
        self._opening = asyncio.create_task(self._open_all())
        self._ticking = asyncio.create_task(self._tick())

    async def _open_all(self) -> None:
        opened = await asyncio.gather(
            *(each.open() for each in self._hosted.values()), return_exceptions=True
        )
        for error in filter(None, opened):
            _log.error("a memory could not be opened", exc_info=error)
        if self.state != "draining":
            self.state = "ready"

    async def stop(self) -> None:
        """Answer what waits, write snapshots, and give the folder back."""
        self.state = "draining"
        if self._is_stopped:
            return
        self._is_stopped = True
        if self._ticking is not None:
            self._ticking.cancel()
        if unfinished := [task for task in (self._opening, *self._changes) if task is not None]:
            await asyncio.wait(unfinished)
        await asyncio.gather(*(each.close() for each in self._hosted.values()))
        if self._hosts is not None:
            await self._hosts.stop()
        if self.pictures is not None:
            await asyncio.to_thread(self.pictures.close)
        self._pool.shutdown()
        self._holding.close()

    def names(self) -> list[str]:
        """Every memory, those that cannot be opened too."""
        return sorted(self._hosted)

    def status(self, name: str) -> dict[str, Any]:
        """How a memory is, without waiting for it."""
        return self._find(name).status()

    def made_of(self, name: str) -> MemoryConfig:
        """The configuration of a memory, without waiting; refused where it is not known yet."""
        return self._find(name).made_of()

    async def create(self, name: str, body: Any) -> tuple[dict[str, Any], bool]:
        """Make a memory, or find that it is there alike; its description, and whether it is new."""
        self._refuse_if_draining()
        check_name(name)
        from marc.serve.creation import checked

        settings = await asyncio.get_running_loop().run_in_executor(
            self._pool, checked, body, self.pictures, self.quotas
        )
        is_new = await self._finish(self._create(name, settings))
        return await self.call(name, "info"), is_new

    async def _create(self, name: str, settings: Settings) -> bool:
        """Make a memory, unless it is there alike; whether it is new."""
        from marc.serve.creation import made

        async with self._lock(name):
            self._refuse_if_draining()
            if name in self._hosted:
                await self._hosted[name].same(settings[0])
                return False
            self._refuse_one_more(name)
            hosted = self._hosted[name] = self._host(self.data / _FOLDER / name)
            try:
                await asyncio.get_running_loop().run_in_executor(
                    self._pool, made, hosted.folder, *settings
                )
            except BaseException as error:
                del self._hosted[name]
                if not isinstance(error, OSError):
                    raise
                raise Refused(
                    507, "this memory could not be written", got=f"{error}"[:200],
                    hint="room on the disk of the server", retry_after=5,
                ) from error  # fmt: skip
            await hosted.open()
            return True

    def _refuse_one_more(self, name: str) -> None:
        """Refuse a new memory whose name no file system tells from another, or past the quota."""
        for other in self._hosted:
            if other.lower() == name.lower():
                raise Refused(409, "there is a memory whose name differs in case alone", got=other)
        most, count = self.quotas.get("memories"), len(self._hosted)
        if most is not None and count >= most:
            raise Refused(
                507, "there are as many memories as the quota 'memories' allows",
                got=f"{count} memories", allowed=most, hint="DELETE one first",
            )  # fmt: skip

    async def delete(self, name: str) -> None:
        """Forget a memory and everything about it."""
        self._refuse_if_draining()
        await self._finish(self._delete(name))

    async def _delete(self, name: str) -> None:
        async with self._lock(name):
            hosted = self._find(name)
            await hosted.close(keep=False)
            try:
                await asyncio.get_running_loop().run_in_executor(
                    self._pool, snapshots.remove_folder, hosted.folder
                )
            finally:
                del self._hosted[name]

    def _lock(self, name: str) -> asyncio.Lock:
        """By which one memory is made or deleted at a time; names that differ in case are one."""
        lock = self._locks.get(name.lower()) or asyncio.Lock()
        return self._locks.setdefault(name.lower(), lock)

    async def _finish(self, change: Coroutine[Any, Any, _T]) -> _T:
        """Do all of it, even where the client goes away meanwhile."""
        task = asyncio.create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    async def step(self, name: str, request: StepRequest) -> bytes:
        """Answer one image, once what it changed is written."""
        self._refuse_if_draining()
        request.check()
        hosted = self._find(name)
        if sum(len(each) for each in self._hosted.values()) >= _MOST_WAITING:
            raise Refused(429, "too many requests wait for this server", retry_after=1)
        if request.image is not None:
            request = await self.seen(name, request)
        return await hosted.step(request)

    async def seen(self, name: str, request: StepRequest) -> StepRequest:
        """A picture as features, where the memory was made for those of this server."""
        self._find(name).check_pictures(self.pictures)
        assert request.image is not None
        seen = await self.pictures.features(request.image)
        return StepRequest(
            request.id,
            seen.views,
            seen.keys,
            neighbours=request.neighbours,
            dry_run=request.dry_run,
            deadline=request.deadline,
            thumbnail=seen.thumbnail,
            chain=request.chain,
        )

    async def call(self, name: str, operation: str, **arguments: Any) -> Any:
        """Ask something of a memory, in its turn."""
        hosted = self._find(name)
        if operation == "restore":
            self._refuse_if_draining()
        return await hosted.call(operation, **arguments)

    def listen(self, name: str) -> Listener:
        """What happens to a memory from now on."""
        return self._find(name).listen()

    def _host(self, folder: Path) -> Host:
        if self._hosts is not None:
            return self._hosts.host(folder)
        return Hosted(folder, self.durability, self._pool)

    def _find(self, name: str) -> Host:
        if name not in self._hosted:
            raise Refused(  # without the names of others: not every key may read them
                404,
                "there is no such memory",
                got=ascii(name)[:80],
                hint="GET /v1/memories lists them; PUT /v1/memories/NAME makes one",
            )
        return self._hosted[name]

    def _refuse_if_draining(self) -> None:
        if self.state == "draining":
            raise Refused(503, "this server is stopping", retry_after=5)

    async def _tick(self) -> None:
        """Tell listeners how their memory is, about once a second."""
        while True:
            await asyncio.sleep(1)
            for each in self._hosted.values():
                each.tick()
