"""The application: every route, and what stands around all of them."""

from __future__ import annotations

import importlib.util
import logging
import platform
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles
from fastapi_offline import FastAPIOffline
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from marc.errors import MarcError
from marc.serve.refused import Refused
from marc.serve.web import problems, routes, step_routes
from marc.serve.web.context import Context, context, key_of
from marc.serve.web.metrics import Metrics
from marc.serve.web.routes import Json
from marc.serve.web.schemas import json_answer, problem_answers

if TYPE_CHECKING:
    from marc.serve.service import Service
    from marc.serve.web.access import Access

_PAGE = Path(__file__).parent / "page"
_LOCAL = {"localhost", "127.0.0.1", "[::1]"}
_OWN_SOURCES = "default-src 'self'; img-src 'self' blob: data:; frame-ancestors 'none'"
_QUIET = {"/health", "/ready", "/metrics"}
_ROUTINE = ("/step", "/steps", "/labels")
_DOCS = ("/docs", "/static-offline-docs")
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
_log = logging.getLogger("marc.serve.requests")


def create_app(
    service: Service, access: Access, *, hosts: tuple[str, ...] = (), trace: bool = False
) -> FastAPI:
    """The application of a service; where no key is asked for, only for this machine's own names.

    Args:
        service: the memories; it is started and stopped with the application.
        access: who may do what.
        hosts: other names under which requests without a key are taken.
        trace: report spans by OpenTelemetry, to where its variables in the environment say.
    """

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        try:
            await service.start()
        except Exception as error:  # who runs the server says it; uvicorn would print a traceback
            server.failure = error
        yield
        await service.stop()

    app: FastAPI = FastAPIOffline(
        redoc_url=None,
        redirect_slashes=False,
        title="MARC",
        version=version("marc-clip"),
        description="Memories for zero-shot CLIP: each answers, learns, and is judged.",
        lifespan=life,
        telemetry={
            **dict.fromkeys(("tracing", "metrics", "logs", "operation_spans"), trace),
            "auto_configure": trace,
            "exclude": lambda scope: scope["path"] in _QUIET,
        },
    )
    _describe_keys(app, access)
    server = Context(service, access, Metrics(service))
    app.state.context = server
    problems.handle(app)
    # the routes themselves, steps first: an included router looks at each of its routes three times
    app.router.routes[:0] = [*step_routes.router.routes, *routes.router.routes]
    _add_facts(app)
    app.mount("/page", StaticFiles(directory=_PAGE), name="page")
    app.add_middleware(_Around, server=server, hosts=_LOCAL | {*hosts})
    return app


def check_exporter() -> None:
    """Refuse to report spans where nothing could send them."""
    try:
        is_there = importlib.util.find_spec("opentelemetry.exporter.otlp") is not None
    except ModuleNotFoundError:  # of a package above it
        is_there = False
    if not is_there:
        raise MarcError(
            "spans need an exporter of OpenTelemetry, which is not installed",
            hint="pip install 'marc-clip[trace]'",
        )


def _describe_keys(app: FastAPI, access: Access) -> None:
    """Say in the description which key is asked for; FastAPI would ask for it a second time."""
    plain = app.openapi

    def with_keys() -> dict[str, Any]:
        described = plain()
        if access:
            schemes = described.setdefault("components", {}).setdefault("securitySchemes", {})
            schemes["key"] = {"type": "http", "scheme": "bearer"}
            described["security"] = [{"key": []}]
            described["paths"]["/health"]["get"]["security"] = []
        return described

    app.openapi = with_keys  # type: ignore[method-assign]  # as FastAPI advises


def _add_facts(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return FileResponse(_PAGE / "page.html", headers={"cache-control": "no-cache"})

    @app.get("/health", tags=["server"], response_class=Json, responses={200: json_answer()})
    async def health() -> Response:
        """The process answers; no key is needed."""
        return Json({"status": "ok"})

    @app.get(
        "/ready",
        tags=["server"],
        response_class=Json,
        responses={200: json_answer(), 503: json_answer(), **problem_answers(401, 403)},
    )
    async def ready(request: Request) -> Response:
        """Every memory was opened, or is quarantined; 503 before that, and while it stops."""
        key_of(request)
        state = context(request).service.state
        return Json({"state": state}, 200 if state == "ready" else 503)

    @app.get(
        "/version",
        tags=["server"],
        response_class=Json,
        responses={200: json_answer(), **problem_answers(401, 403)},
    )
    async def versions(request: Request) -> Response:
        """What runs here."""
        key_of(request)
        own = {"marc": version("marc-clip"), "api": "v1"}
        others = {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
        return Json({**own, **others})

    @app.get(
        "/metrics",
        tags=["server"],
        response_class=Response,
        responses={
            200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
            **problem_answers(401, 403),
        },
    )
    async def metrics(request: Request) -> Response:
        """Counts and times, for Prometheus."""
        key = key_of(request)
        text = context(request).metrics.text(lambda name: key.may(name, "read"))
        return Response(text, media_type=CONTENT_TYPE_LATEST)


class _Around:
    """What every request passes: whose page it comes from, headers, counts and the log."""

    def __init__(self, app: ASGIApp, server: Context, hosts: set[str]) -> None:
        self._app, self._server, self._hosts = app, server, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        policy = _OWN_SOURCES if not scope["path"].startswith(_DOCS) else ""

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], *_HEADERS]
                if policy:
                    message["headers"].append((b"content-security-policy", policy.encode()))
            await send(message)

        refused = None if self._server.access else self._refuse(scope)
        try:
            if refused is not None:
                raise refused
            await self._app(scope, receive, send_with_headers)
        except ClientDisconnect:
            pass
        except Exception as error:
            unseen = refused or problems.unforeseen(error, scope["path"])
            if status:
                raise  # an answer that cannot be finished
            await problems.response(unseen)(scope, receive, send_with_headers)
        self._count(scope, status, time.perf_counter() - started)

    def _refuse(self, scope: Scope) -> Refused | None:
        """Without keys, a page of somebody else's must not reach the server through a browser."""
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if host.rpartition(":")[0] not in self._hosts and host not in self._hosts:
            return Refused(
                403, "a server without keys answers under this machine's own names only",
                got=ascii(host)[:80], allowed=", ".join(sorted(self._hosts)),
                hint="marc serve --key-file FILE",
            )  # fmt: skip
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        site = headers.get(b"sec-fetch-site", b"none")
        is_link = headers.get(b"sec-fetch-mode") == b"navigate" and scope["method"] == "GET"
        is_foreign = site not in (b"none", b"same-origin") and not is_link
        if is_foreign or (origin and origin.partition("://")[2] != host):
            got = ascii(origin or site.decode("latin-1"))[:80]
            return Refused(403, "a page from elsewhere may not use this server", got=got)
        return None

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route: Any = scope.get("route")
        path = getattr(route, "path", "other")
        self._server.metrics.requests.labels(path, str(status or "gone")).inc()
        is_routine = path.endswith(_ROUTINE) or (status < 400 and scope["method"] == "GET")
        level = logging.DEBUG if is_routine and status < 500 else logging.INFO
        if _log.isEnabledFor(level):
            facts = {
                "method": scope["method"],
                "path": ascii(scope["path"])[1:-1][:500],  # one line, which moves nothing
                "status": status,
                "ms": round(1000 * seconds, 2),
            }
            _log.log(level, "%(method)s %(path)s %(status)s %(ms)s ms", facts, extra=facts)
