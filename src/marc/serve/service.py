"""Every memory of a folder: opened, asked in turn, opened again after a failure, and closed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from marc.errors import one_of
from marc.files import locked
from marc.serve import snapshots
from marc.serve.config import MemoryConfig, StepRequest, check_name
from marc.serve.hosted import Hosted
from marc.serve.listeners import Listener
from marc.serve.refused import Refused

_FOLDER = "memories"
_MOST_WAITING = 8192  # requests of all memories together


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
        self._pool = ThreadPoolExecutor(threads, "memory")
        self._opening: asyncio.Task[None] | None = None
        self._ticking: asyncio.Task[None] | None = None
        self._holding = ExitStack()
        (data / _FOLDER).mkdir(parents=True, exist_ok=True)
        self._holding.enter_context(locked(data, "another server works in this folder"))
        snapshots.remove_passing(data / _FOLDER)

    async def start(self) -> None:
        """Open what is there, in the background."""
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
        await asyncio.gather(*(each.open() for each in self._hosted.values()))
        if self.state != "draining":
            self.state = "ready"

    async def stop(self) -> None:
        """Answer what waits, write snapshots, and give the folder back."""
        self.state = "draining"
        for task in (self._ticking, self._opening):
            if task is not None and task is self._ticking:
                task.cancel()
            elif task is not None:
                await asyncio.wait([task])
        await asyncio.gather(*(each.close() for each in self._hosted.values()))
        if self._hosts is not None:
            await self._hosts.stop()
        self._pool.shutdown()
        self._holding.close()

    def names(self) -> list[str]:
        """Every memory, those that cannot be opened too."""
        return sorted(self._hosted)

    def status(self, name: str) -> dict[str, Any]:
        """How a memory is, without waiting for it."""
        return self._find(name).status()

    async def create(self, name: str, body: Any) -> tuple[dict[str, Any], bool]:
        """Make a memory, or find that it is there alike; its description, and whether it is new."""
        self._refuse_if_draining()
        check_name(name)
        loop = asyncio.get_running_loop()
        from marc.serve.creation import checked, made

        wanted = await loop.run_in_executor(self._pool, checked, body, self.pictures, self.quotas)
        for other in self._hosted:
            if other != name and other.lower() == name.lower():
                raise Refused(409, "there is a memory whose name differs in case alone", got=other)
        if name in self._hosted:
            await self._hosted[name].same(wanted[0])
            return await self.call(name, "info"), False
        most = self.quotas.get("memories")
        if most is not None and len(self._hosted) >= most:
            got = f"{len(self._hosted)} memories"
            raise Refused(507, "there are as many memories as the quota 'memories' lets be",
                          got=got, allowed=most)  # fmt: skip
        hosted = self._hosted[name] = self._host(self.data / _FOLDER / name)
        try:
            await loop.run_in_executor(self._pool, made, hosted.folder, *wanted)
        except BaseException:
            del self._hosted[name]
            raise
        await hosted.open()
        return await self.call(name, "info"), True

    async def delete(self, name: str) -> None:
        """Forget a memory and everything about it."""
        hosted = self._find(name)
        await hosted.close(keep=False)
        self._hosted.pop(name, None)
        await asyncio.get_running_loop().run_in_executor(
            self._pool, snapshots.remove_folder, hosted.folder
        )

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
            known = ", ".join(self.names()[:20])
            raise Refused(
                404,
                "there is no such memory",
                got=ascii(name)[:80],
                allowed=known or "none was made",
                hint="PUT /v1/memories/NAME",
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
