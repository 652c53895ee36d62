"""What every route needs: the service, who may do what, and what is counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.requests import Request

from marc.serve.access import Access, Key
from marc.serve.listeners import Listener
from marc.serve.metrics import Metrics
from marc.serve.refused import Refused

if TYPE_CHECKING:
    from marc.serve.service import Service

_SMALL = 2**20


@dataclass(frozen=True)
class Context:
    """One server."""

    service: Service
    access: Access
    metrics: Metrics
    listeners: set[Listener] = field(default_factory=set)
    """Who listens to events now."""

    def drain(self) -> None:
        """Take no more steps, and let those who listen go; what waits is still answered."""
        self.service.state = "draining"
        for listener in [*self.listeners]:
            listener.close()

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


async def body_of(request: Request, most: int = _SMALL) -> bytes:
    """The whole body; one that is too long is refused before it is all read."""
    if request.headers.get("content-encoding", "identity") != "identity":
        raise Refused(415, "a compressed body is not read", allowed="Content-Encoding: identity")
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
    raise Refused(413, "this body is too long", got=f"{got} bytes", allowed=f"{most} bytes")


def media_type_of(request: Request, *allowed: str) -> str:
    """What a body is, of those that a route takes; JSON unless it says otherwise."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given in allowed:
        return given
    if given in ("", "application/x-www-form-urlencoded") and not request.headers.get("origin"):
        return allowed[0]  # what curl says of any body
    raise Refused(415, "a body of this type is not read here", got=ascii(given)[:80],
                  allowed=", ".join(allowed))  # fmt: skip
