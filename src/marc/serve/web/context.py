"""What every route needs: the service, who may do what, and what is counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from marc.serve.listeners import Listener
from marc.serve.refused import Refused
from marc.serve.web.access import Access, Key
from marc.serve.web.metrics import Metrics

if TYPE_CHECKING:
    from marc.serve.service import Service

_PATIENCE = 2.0  # seconds in which a stream ends once the server drains


@dataclass
class Context:
    """One server."""

    service: Service
    access: Access
    metrics: Metrics
    listeners: set[Listener] = field(default_factory=set)
    """Who listens to events now."""
    failure: Exception | None = None
    """Why the memories could not be started."""
    uploads: set[asyncio.Task[Any]] = field(default_factory=set)
    """What reads bodies, which may never end."""
    abort: Callable[[Any], None] = lambda client: None
    """Ends the connection of a client at once, whatever it was not sent yet."""
    _streams: set[asyncio.Task[None]] = field(default_factory=set)

    def drain(self) -> None:
        """Take no more steps, and let those who listen go; what waits is still answered."""
        self.service.state = "draining"
        for listener in [*self.listeners]:
            listener.close()
        while self.uploads:
            self.uploads.pop().cancel()
        loop = asyncio.get_running_loop()
        for stream in [*self._streams]:
            loop.call_later(_PATIENCE, stream.cancel)

    async def stream(self, scope: Scope, work: Coroutine[Any, Any, None]) -> None:
        """Send an answer that takes long; who does not read it loses the connection.

        It would stay for as long as the client likes, with what is not sent, and no server stops
        before its connections.
        """
        task = asyncio.create_task(work)
        self._streams.add(task)
        try:
            await asyncio.wait([task])
        finally:
            self._streams.discard(task)
            task.cancel()  # if who waits for it was cancelled
        if task.cancelled() or isinstance(task.exception(), (TimeoutError, ClientDisconnect)):
            self.abort(scope.get("client"))
            await asyncio.sleep(0.01)  # so that the server knows that nobody waits for the rest
        else:
            task.result()

    @property
    def quotas(self) -> Any:
        """What the server takes at most, by name."""
        return self.service.quotas


def context(request: Request) -> Context:
    """The server that a request came to."""
    return request.app.state.context


def key_of(request: Request) -> Key:
    """The key that a request came with, refused where there is none that is known."""
    return context(request).access.identify(request.headers.get("authorization"))


def allow(request: Request, memory: str, scope: str) -> tuple[Context, Key]:
    """The server and the key, if this one has the scope for the memory."""
    key = key_of(request)
    server = context(request)
    server.access.allow(key, memory, scope)
    return server, key


async def body_of(request: Request, most: int, of: str = "") -> bytes:
    """The whole body; one that is too long is refused before it is all read.

    Args:
        request: whose body it is.
        most: so many bytes are taken.
        of: what it is that has so many.
    """
    uploads, reading = context(request).uploads, asyncio.current_task()
    assert reading is not None
    uploads.add(reading)
    try:
        return await _whole(request, most, of)
    except asyncio.CancelledError:
        if reading in uploads:
            raise
        reading.uncancel()  # it was `drain`
        raise stopping() from None
    finally:
        uploads.discard(reading)


def stopping() -> Refused:
    """Why nothing is begun any more."""
    return Refused(503, "this server is stopping", retry_after=5)


async def _whole(request: Request, most: int, of: str) -> bytes:
    length = request.headers.get("content-length", "0")
    content = bytearray()
    if not length.isdecimal() or int(length) <= most:
        async for part in request.stream():
            content += part
            if len(content) > most:
                break
        else:
            return bytes(content)
    got = length if length.isdecimal() and int(length) > most else f"more than {most}"
    allowed = f"{most} bytes{of and ', '}{of}"
    raise Refused(413, "this body is too long", got=f"{got} bytes", allowed=allowed)


def media_type_of(request: Request, *allowed: str) -> str:
    """What a body is, of those that a route takes; the first unless it says otherwise."""
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise Refused(415, "a compressed body is not read", got=ascii(encoding)[:80],
                      allowed="Content-Encoding: identity")  # fmt: skip
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given in allowed:
        return given
    if given in ("", "application/x-www-form-urlencoded") and not request.headers.get("origin"):
        return allowed[0]  # what curl says of any body
    raise Refused(415, "a body of this type is not read here", got=ascii(given)[:80],
                  allowed=", ".join(allowed))  # fmt: skip
