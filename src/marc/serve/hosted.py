"""One memory as a server has it: opening, ready, opened again after a failure, or quarantined."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from marc.errors import MarcError
from marc.serve.listeners import Listener
from marc.serve.memory import snapshots
from marc.serve.memory.config import Limits, MemoryConfig, StepRequest
from marc.serve.memory.operations import OF_FOLDER, OPERATIONS, info
from marc.serve.memory.served import Served, Unwritten, as_refusal
from marc.serve.refused import Refused
from marc.serve.turns import Turns

_log = logging.getLogger("marc.serve")
_AGAIN = 5.0  # seconds until what could not be opened for want of disk or lock is tried again


class Hosted:
    """A memory and its turns. Methods belong to the event loop; `_in_turn` ones to a thread."""

    def __init__(self, folder: Path, durability: str, pool: Executor) -> None:
        self.folder, self._durability, self._pool = folder, durability, pool
        self._state, self.problem = "opening", ""
        self._is_closing, self._is_closed = False, False
        self._served: Served | None = None
        self._config: MemoryConfig | None = None
        self._turns = Turns(pool, self._steps_in_turn, Limits().queue)
        self._listeners: set[Listener] = set()
        self._last_known: dict[str, Any] = {}
        self._writing: asyncio.Task[None] | None = None
        self._no_snapshot_before, self._snapshot_problem = 0.0, ""
        self._tried, self._may_pass = 0.0, False

    def __len__(self) -> int:
        return len(self._turns)

    @property
    def state(self) -> str:
        """Opening, recovering, ready, quarantined, or draining."""
        return "draining" if self._is_closing else self._state

    async def open(self) -> None:
        """Open the folder; what is damaged is quarantined, and the others serve."""
        self._state = "recovering"
        await self._turns.do(self._open_in_turn, always=True)
        self._after()

    def _open_in_turn(self) -> None:
        """Read everything from the folder again."""
        if self._is_closed:  # and the folder is another's by now, or gone
            return
        self._tried = time.monotonic()
        self._state = "recovering"
        if self._served is not None:
            self._served.close()
            self._served = None
        try:
            served = Served(self.folder, self._durability)
        except Exception as error:  # whatever a damaged file leads to
            before, known = self.problem, isinstance(error, MarcError)
            self.problem = " ".join(str(error).split()) if known else f"{error!r}"[:300]
            if self.problem != before:
                _log.error("memory %s cannot be opened: %s", self.folder.name, self.problem)
            is_held = "another server" in self.problem  # by a process that may be ending
            self._may_pass = is_held or _is_of_the_system(error)
            self._state = "opening" if is_held else "quarantined"
        else:
            self._served, self._config = served, served.config
            self._turns.limit = served.config.limits.queue
            self._state, self.problem = "ready", ""

    async def step(self, request: StepRequest) -> bytes:
        """The answer, once it is on disk."""
        self._refuse_unless_ready()
        answer: bytes = await self._turns.step(request)
        self._after()
        return answer

    async def call(self, operation: str, **arguments: Any) -> Any:
        """Something between two steps, of `OPERATIONS`, or "restore"."""
        if operation == "restore":
            return await self.restore(**arguments)
        if operation in OF_FOLDER and self.state == "quarantined":
            work = functools.partial(OPERATIONS[operation], self, **arguments)
            return await self._turns.do(work)
        return await self.do(functools.partial(OPERATIONS[operation], **arguments), operation)

    async def do(self, work: Callable[[Served], Any], operation: str) -> Any:
        """Something between two steps."""
        self._refuse_unless_ready()
        result = await self._turns.do(lambda: self._do_in_turn(work))
        self._after()
        self._publish_result(operation, result)
        return result

    def _do_in_turn(self, work: Callable[[Served], Any]) -> Any:
        served = self._ready_in_turn()
        try:
            return work(served)
        except Unwritten as error:
            self._open_in_turn()
            raise _unwritten(error) from error
        except OSError as error:
            raise _unwritten(error) from error

    def _steps_in_turn(self, requests: list[StepRequest]) -> list[Any]:
        try:
            return list(self._ready_in_turn().steps(requests))
        except OSError as error:  # nothing was learned since the last answer
            return [_unwritten(error)] * len(requests)
        except Unwritten as error:
            self._open_in_turn()
            of_method = error.__cause__ is not None and not str(error)
            if (
                len(requests) > 1 and of_method and self._served is not None
            ):  # which of them was it?
                return [each for one in requests for each in self._steps_in_turn([one])]
            return [_unwritten(error)] * len(requests)

    def _ready_in_turn(self) -> Served:
        if self._served is None:
            raise Refused(503, "this memory could not be opened", got=self.problem, retry_after=5)
        return self._served

    async def restore(self, file: str | None = None, content: bytes | None = None) -> Any:
        """Go back to a snapshot: of the memory's own, or one that was kept elsewhere."""
        if (file is None) == (content is None):
            raise MarcError(
                "a restore needs one snapshot", hint='{"file": "000000010000.safetensors"}'
            )

        result = await self._turns.do(lambda: self._restore_in_turn(file, content), always=True)
        self._after()
        self._publish_result("restore", result)
        return result

    def _restore_in_turn(self, file: str | None, content: bytes | None) -> dict[str, Any]:
        """Go back, if the snapshot is one to go back to; until that is known, nothing is closed."""
        if self._is_closed:
            raise Refused(503, "this memory is closed", retry_after=1)
        try:
            snapshot, kept = snapshots.restorable(self.folder, file, content), {}
            if self._served is not None:
                head = self._served.head  # who is off stays off, and who answers has to ask again
                mode = "off" if head["mode"] == "off" else "shadow"
                kept = {"mode": mode, "fraction": head["fraction"]}
                self._served.close()
                self._served = None
            try:
                snapshots.restore(self.folder, snapshot, **kept)
            finally:
                self._open_in_turn()
        except OSError as error:
            raise _unwritten(error) from error
        if self._served is None:
            raise Refused(500, "it went back, and cannot be opened", got=self.problem)
        return info(self._served)

    async def same(self, config: MemoryConfig) -> None:
        """Refuse a configuration that is not this memory's."""

        def is_same(served: Served) -> bool:
            own = served.config
            return own.limits == config.limits and own.identity() == config.identity()

        if not await self.do(is_same, "same"):
            raise Refused(
                409,
                "there is a memory of this name with another configuration",
                got=self.folder.name,
                hint="DELETE it first, or take another name",
            )

    def check_pictures(self, pictures: Any) -> None:
        """Refuse a picture where the memory was not made for the server's encoders."""
        self._refuse_unless_ready()
        if (served := self._served) is not None:  # or its turn will say that it is not open
            served.config.check_pictures(pictures)

    def made_of(self) -> MemoryConfig:
        """Its configuration, without waiting; refused where that is not known yet."""
        if self._config is None:
            self._refuse_unless_ready()
        assert self._config is not None  # or it was never ready
        return self._config

    def listen(self) -> Listener:
        """What happens from now on."""
        return Listener(self._listeners)

    def status(self) -> dict[str, Any]:
        """How it is, without waiting for a turn."""
        served = self._served  # a thread may open it again meanwhile
        if served is not None:
            head = served.head
            self._last_known = {
                "mode": head["mode"],
                "method": served.config.method["name"],
                "n_classes": len(served.config.classes),
                "layout": (served.config.dim, dict(served.config.spaces)),
                "n_seen": head["n_seen"],
                "seq": head["seq"],
                "durable_seq": head["seq"],
                "steps_total": head["steps"],
                "disagreements_total": head["disagreements"],
                "admitted_total": head["admitted"],
                "disagreement_rate": head["disagreements"] / head["steps"]
                if head["steps"]
                else None,
                "verdict": served.verdict,
                "fell_back": head["fell_back"],
                "commit_seconds": served.commit_seconds,
            }
        return {
            "name": self.folder.name,
            "state": self.state,
            "problem": self.problem or self._snapshot_problem or None,
            "queue_length": len(self),
            "oldest_age": self._turns.oldest_age,
            "listeners": len(self._listeners),
            **self._last_known,
        }

    def tick(self) -> None:
        """About once a second: tell listeners, and try again what could not be opened."""
        if self._listeners:
            self._publish("status", self.status())
        waits = self.state in ("opening", "quarantined") and self._may_pass
        if waits and time.monotonic() - self._tried > (1 if self.state == "opening" else _AGAIN):
            self._turns.do(self._open_in_turn, always=True)

    async def close(self, *, keep: bool = True) -> None:
        """Answer what waits, write a snapshot if it is to be kept, and give the folder back."""
        self._is_closing = True
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self._turns.do(lambda: self._close_in_turn(keep), always=True)
        for listener in [*self._listeners]:
            listener.close()

    def _close_in_turn(self, keep: bool) -> None:
        self._is_closed = True
        if self._served is None:
            return
        served, self._served = self._served, None
        try:
            last = served.head["snapshot"]
            if keep and served.seq > (last["seq"] if last else 0):
                made = served.snapshot()
                made.write(self.folder)
                served.start_from(made)
        except Exception:  # the log has everything: the next start takes longer
            pass
        finally:
            served.close()

    def _after(self) -> None:
        """What follows from steps: events, and a snapshot when one is due."""
        served = self._served
        if served is None:
            return
        for sample in served.samples.unsent():
            self._publish("step", sample)
        may_write = self.state == "ready" and time.monotonic() >= self._no_snapshot_before
        if served.snapshot_due and self._writing is None and may_write:
            self._writing = asyncio.get_running_loop().create_task(self._snapshot())

    async def _snapshot(self) -> None:
        """Copy in a turn, write while the steps go on, and let it count in a turn."""
        loop = asyncio.get_running_loop()
        try:
            made = await self._turns.do(
                lambda: self._do_in_turn(lambda served: served.snapshot()), always=True
            )
            await loop.run_in_executor(self._pool, made.write, self.folder)
            await self._turns.do(
                lambda: self._do_in_turn(lambda served: served.start_from(made)), always=True
            )
        except Exception as error:  # the log has everything; a later step tries again
            self._no_snapshot_before = time.monotonic() + _AGAIN
            self._snapshot_problem = f"no snapshot: {error}"
            self._publish("problem", {"problem": self._snapshot_problem})
        else:
            self._snapshot_problem = ""
            self._publish("snapshot", {"seq": made.seq})
        finally:
            self._writing = None

    def _publish_result(self, operation: str, result: Any) -> None:
        if operation == "snapshot":
            self._publish("snapshot", {"seq": result["seq"]})
        if operation == "mode":
            self._publish("mode", {**result, "why": "it was asked for"})
        if operation == "labels":
            self._publish("judgement", result["judgement"])
            if (fell_back := result["fell_back"]) is not None:
                self._publish("mode", {"mode": "shadow", "before": fell_back["from"], **fell_back})
        if operation == "restore":
            self._publish("status", self.status())

    def _publish(self, event: str, data: dict[str, Any]) -> None:
        for listener in self._listeners:
            listener.tell(event, data)

    def _refuse_unless_ready(self) -> None:
        if self.state == "ready":
            return
        if self.state == "quarantined":
            raise Refused(
                503,
                "this memory is quarantined: its files are damaged, or cannot be opened",
                got=self.problem,
                hint="POST /v1/memories/NAME/restore one of GET /v1/memories/NAME/snapshots; or "
                "stop the server, and marc serve --check DIR",
                retry_after=60,
            )
        got = self.problem or None
        raise Refused(503, f"this memory is {self.state}", got=got, retry_after=1)


def _is_of_the_system(error: BaseException | None) -> bool:
    """Whether an error is of the disk or of memory, which may pass, and not of what was read."""
    while error is not None:
        if isinstance(error, (OSError, MemoryError)):
            return True
        error = error.__cause__
    return False


def _unwritten(error: BaseException) -> MarcError:
    cause = error.__cause__
    if isinstance(error, Unwritten) and not str(error) and cause is not None:
        return as_refusal(cause)
    return Refused(
        507,
        "this could not be written, so nothing was changed",
        got=f"{error}"[:200],
        hint="room on the disk of the server",
        retry_after=5,
    )
