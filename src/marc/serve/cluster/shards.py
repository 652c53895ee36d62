"""`marc serve --ray`: the memories of a service spread by name over the processes of a Ray cluster.

Each shard is a Ray actor, which Ray starts again, here or on another machine, when it dies. A shard
keeps nothing of its own: what was acknowledged lies in the folder of its memory, on storage that
all machines see by the same path and that has locks. So the number of shards decides only where a
memory is open, and may be another at each start; nothing has to be moved. A process that dies loses
nothing; where whole machines may die, and with them what they had not yet sent to the storage, the
durability has to be "power".

What a dying shard had not answered is asked again. That is safe: a step that was written has its
answer under its id, a label or a snapshot is the same twice. Only a change of the mode and a
restore are not asked again, as nobody could say which of the two was answered.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from marc.errors import MarcError, integer
from marc.serve.cluster.remote import Remote
from marc.serve.cluster.shard import Failure, Shard, Status, Step
from marc.serve.refused import Refused

_THREADS = 4  # of a shard, as of a service in one process
_FEW = 2  # shards, where there is one machine
_PATIENCE = 30.0  # seconds without a word of a shard, until requests for it are refused
_AGAIN = 0.2  # seconds until a shard that died is asked again
_ONCE = ("mode", "restore")  # operations that are not asked again
_log = logging.getLogger("marc.serve")


def placed(name: str, n_shards: int) -> int:
    """The shard of a memory: the one that draws the highest number for this name.

    One shard more takes its part from the others, and every other memory stays where it is.

    >>> [placed(name, 4) for name in ("cam-1", "cam-2", "cam-3")]
    [1, 1, 2]
    """

    def drawn(shard: int) -> bytes:
        return hashlib.sha256(f"{shard}/{name}".encode()).digest()

    return max(range(n_shards), key=drawn)


class Shards:
    """Where the memories of a `Service` are open, see `marc.serve.service.Hosts`.

    `n_shards`: 0 is one for each machine of the cluster, two where there is one machine.
    `address`: of a cluster, or "auto" for the one that this machine belongs to; without one that of
    `RAY_ADDRESS`, or Ray is started on this machine.
    """

    def __init__(self, n_shards: int = 0, address: str | None = None) -> None:
        self.n_shards, self.address = integer("shards", n_shards, 0, 10_000), address
        self._ray: Any = None
        self._is_ours = False
        self._links: list[_Link] = []

    async def start(self, durability: str) -> None:
        """Join the cluster, and start an actor for each shard."""
        self._ray = _imported()
        self._is_ours = not self._ray.is_initialized()
        if self._is_ours:
            _join(self._ray, self.address, self.n_shards or _FEW)
        try:
            count = self._count()
        except BaseException:
            await self.stop()
            raise
        self._links = [
            _Link(self._ray, index, self._actor(index, durability)) for index in range(count)
        ]

    def _actor(self, index: int, durability: str) -> Any:
        shard = self._ray.remote(
            num_cpus=1,
            max_restarts=-1,
            max_task_retries=0,  # a link asks again, where that is safe, and not for ever
            max_concurrency=10_000,
        )(Shard)
        # a name of its own: actors of a front that was killed may have a moment to live
        name = f"marc-{uuid.uuid4().hex[:8]}-{index}"
        return shard.options(name=name, scheduling_strategy="SPREAD").remote(durability, _THREADS)

    def host(self, folder: Path) -> Remote:
        """A memory by its folder, open in the shard of its name."""
        return self._links[placed(folder.name, len(self._links))].host(folder)

    async def stop(self) -> None:
        """End the actors, and leave the cluster."""
        for link in self._links:
            link.stop()
        self._links = []
        if self._is_ours:
            self._ray.shutdown()

    def _count(self) -> int:
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        machines = sum(bool(each["Alive"]) for each in self._ray.nodes())
        count = self.n_shards or min(cores, max(_FEW, machines))
        if count > cores:
            raise MarcError(
                "each shard needs a core, and the cluster has fewer",
                got=f"{count} shards",
                allowed=f"{cores} cores",
                hint=f"--shards {max(1, cores)}",
            )
        return max(1, count)


class _Link:
    """One shard, as the front sees it.

    What waits for a shard goes as one call. A memory has one call of steps on its way at a time,
    so its steps keep their order when they are asked again.
    """

    def __init__(self, ray: Any, index: int, actor: Any) -> None:
        self._ray, self.index, self.actor = ray, index, actor
        self._remotes: dict[str, Remote] = {}
        self._is_up = False
        self._last = time.monotonic()  # when a word came from it
        self._is_due = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching = asyncio.create_task(self._watch())

    def host(self, folder: Path) -> Remote:
        return Remote(folder.absolute(), self)

    def add(self, remote: Remote) -> None:
        """Have a memory open from now on."""
        self._remotes[str(remote.folder)] = remote

    def drop(self, remote: Remote) -> None:
        """Have it open no more."""
        self._remotes.pop(str(remote.folder), None)

    def hear(self, remote: Remote) -> None:
        """Let events come; those of the next step too."""
        self.actor.hear.remote(str(remote.folder))

    def wake(self) -> None:
        """Send what waits, with all that comes until this event loop is free."""
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_soon(self._send)

    def _send(self) -> None:
        self._is_due = False
        taken = [(remote, remote.take()) for remote in self._remotes.values() if remote.waits]
        taken = [(remote, turns) for remote, turns in taken if turns]
        if taken:
            task = asyncio.create_task(self._deliver(taken))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _deliver(self, taken: list[tuple[Remote, list[Any]]]) -> None:
        """Ask for steps, and give each its answer."""

        def steps() -> tuple[list[Step]]:
            return ([Step.of(r.folder, turn.request) for r, turns in taken for turn in turns],)

        results: Iterator[Any]
        try:
            answers, statuses = await self.ask("steps", steps)
            results = iter(answers)
            self._learn(statuses)
        except Exception as error:
            results = iter([error] * sum(len(turns) for _, turns in taken))
        for remote, turns in taken:
            remote.settle([next(results) for _ in turns])
            if remote.waits:
                self.wake()

    async def call(self, remote: Remote, operation: str, arguments: dict[str, Any]) -> Any:
        """The result of an operation."""
        given = (str(remote.folder), operation, arguments)
        again = operation not in _ONCE
        result, status = await self.ask("call", lambda: given, again=again)
        self._learn([status])
        if isinstance(result, Failure):
            raise result.error()
        return result

    async def ask(
        self, method: str, arguments: Callable[[], tuple[Any, ...]], *, again: bool = True
    ) -> Any:
        """Call a method of the actor; `again` where it died, until Ray has started another."""
        while True:
            if time.monotonic() - self._last > _PATIENCE:
                raise self._away()
            try:
                return await self._answer(getattr(self.actor, method).remote(*arguments()))
            except self._ray.exceptions.RayActorError as error:
                if not again:
                    raise Refused(  # not 503, which says that nothing was done
                        502,
                        "the process of this memory ended meanwhile: what was asked for may have "
                        "been done, or not",
                        hint="GET /v1/memories/NAME tells",
                    ) from error
            except self._ray.exceptions.RayError as error:
                got = " ".join(str(error).split())[-200:]
                raise Refused(500, "a shard failed at this request", got=got) from error
            await asyncio.sleep(_AGAIN)

    async def _answer(self, asked: Any) -> Any:
        """What comes back, as long as the shard is heard of."""
        future = asked.as_future()
        while not (await asyncio.wait([future], timeout=1))[0]:
            if time.monotonic() - self._last > _PATIENCE:
                future.add_done_callback(lambda late: late.cancelled() or late.exception())
                raise self._away()
        return future.result()

    def _away(self) -> Refused:
        return Refused(
            503,
            "the process of this memory is away; Ray starts it again",
            got=f"shard {self.index}",
            hint="ray status",
            retry_after=1,
        )

    async def _watch(self) -> None:
        """Learn what happens in the shard, and let one that was started again open its memories."""
        while True:
            heard = [folder for folder, remote in self._remotes.items() if remote.is_heard]
            try:
                asked = self.actor.watch.remote([*self._remotes], heard)
                events, statuses = await asked.as_future()
            except self._ray.exceptions.RayError:
                if self._is_up:
                    self._is_up = False
                    _log.warning("shard %d is away; Ray starts it again", self.index)
                    for remote in self._remotes.values():
                        remote.lose(f"{self._away()}")
                await asyncio.sleep(_AGAIN)
                continue
            self._is_up, self._last = True, time.monotonic()
            self._learn(statuses)
            for folder, event in events:
                if folder in self._remotes:
                    self._remotes[folder].forward(*event)

    def _learn(self, statuses: list[Status]) -> None:
        by_name = {status["name"]: status for status in statuses}
        for remote in self._remotes.values():
            if remote.folder.name in by_name:
                remote.reported = by_name[remote.folder.name]

    def stop(self) -> None:
        """End the actor."""
        self._watching.cancel()
        with suppress(self._ray.exceptions.RayError):
            self._ray.kill(self.actor)


def _imported() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it reports home to nobody
    try:
        import ray
    except ImportError as error:
        raise MarcError(
            "--ray needs Ray, which is not installed",
            got=error,
            hint="pip install 'marc-clip[ray,serve]'",
        ) from error
    return ray


def _join(ray: Any, address: str | None, n_shards: int) -> None:
    """A cluster that is there, or one of this machine."""
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    address = address or os.environ.get("RAY_ADDRESS")
    with _own_signals():
        if not address:
            cores = max(os.cpu_count() or 1, n_shards)
            # "local": or it would join whatever was started here before, or is no longer there
            ray.init(address="local", num_cpus=cores, include_dashboard=False, **quiet)
            return
        hint = "ray start --address HEAD:6379, here too, then --ray-address HEAD:6379"
        if "://" in address:
            raise MarcError(
                "the front of a service is on a machine of the cluster, not a client of it",
                got=address, hint=hint,
            )  # fmt: skip
        try:
            if ":" in address:  # Ray would try for minutes
                host, _, port = address.rpartition(":")
                socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
            ray.init(address=address, **quiet)
        except (OSError, RuntimeError, ValueError) as error:
            got = f"{address}: {' '.join(str(error).split())[:200]}"
            raise MarcError("this Ray cluster cannot be joined", got=got, hint=hint) from error


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handlers of the server: Ray's would end it before it answered what waits."""
    names = (signal.SIGTERM, signal.SIGINT)
    before = {name: signal.getsignal(name) for name in names}
    try:
        yield
    finally:
        with suppress(ValueError):  # not the main thread, where Ray sets none either
            for name, handler in before.items():
                if handler is not None:
                    signal.signal(name, handler)
