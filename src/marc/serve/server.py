"""A server: a folder of memories behind an address, until it is asked to stop.

`serve` blocks until a signal comes; `running` is the same in a thread, for notebooks and tests.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson
import uvicorn

from marc.errors import MarcError, integer, one_of
from marc.files import user_path
from marc.serve.access import Access
from marc.serve.app import create_app
from marc.serve.context import Context
from marc.serve.quotas import DEFAULTS
from marc.serve.service import Service

PORT = 8123
_DRAIN = 30  # seconds in which what waits is answered
_FORMATS = ("auto", "json", "text")


def serve(
    data: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    durability: str = "process",
    key_file: str | os.PathLike[str] | None = None,
    pictures: Any = None,
    quotas: Mapping[str, int] | None = None,
    service: Service | None = None,
    log: str = "auto",
    verbose: bool = False,
    trace: bool = False,
    on_ready: Callable[[str], Any] = lambda url: None,
) -> None:
    """Serve the memories of a folder until SIGTERM or Ctrl-C; what waits then is still answered.

    Args:
        data: the folder; it is made if there is none.
        host: the address; another than this machine's own needs keys.
        port: 0 takes one that is free.
        durability: `process` (nothing acknowledged is lost by a kill) or `power` (nor by a loss
            of power).
        key_file: the keys that are asked for, see `marc.serve.access`.
        pictures: the encoders that turn pictures into features, a `marc.serve.pictures.Pictures`.
        quotas: what differs from `marc.serve.quotas.DEFAULTS`.
        service: another way to hold the memories than in this process.
        log: `json` or `text` on stderr; text in a terminal.
        verbose: log every step too.
        trace: report spans by OpenTelemetry, as its own variables in the environment say.
        on_ready: called with the address once requests are taken.
    """
    _log_to_stderr(one_of("log", log, _FORMATS), verbose=verbose)
    server, bound = _prepare(
        data, host, port, durability, key_file, pictures, quotas, service, trace=trace
    )
    server.on_ready = lambda: on_ready(_address(host, bound))
    with bound:
        server.run(sockets=[bound])
    if not server.started:
        raise MarcError("the server could not start", hint="the lines above say why")


@contextmanager
def running(data: str | os.PathLike[str], **options: Any) -> Iterator[str]:
    """A server in a thread, with the options of `serve`; its address."""
    options = {"host": "127.0.0.1", "port": 0, "durability": "process", **options}
    prepared = {"key_file": None, "pictures": None, "quotas": None, "service": None, **options}
    server, bound = _prepare(data, **prepared)
    ready = threading.Event()
    server.on_ready = ready.set
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        while not ready.wait(0.05):
            if not thread.is_alive():
                raise MarcError("the server could not start")
        yield _address(options["host"], bound)
    finally:
        server.drain()
        server.should_exit = True
        thread.join(_DRAIN + 30)
        bound.close()


class _Server(uvicorn.Server):
    """uvicorn's, which also tells the memories as soon as it is to stop."""

    def __init__(self, config: uvicorn.Config, context: Context) -> None:
        super().__init__(config)
        self._context = context
        self.on_ready: Callable[[], Any] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        self.on_ready()

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.drain()
        super().handle_exit(sig, frame)

    def drain(self) -> None:
        """Take no more steps from now on."""
        if self.started:
            self._loop.call_soon_threadsafe(self._context.drain)


def _prepare(
    data: str | os.PathLike[str],
    host: str,
    port: int,
    durability: str,
    key_file: str | os.PathLike[str] | None,
    pictures: Any,
    quotas: Mapping[str, int] | None,
    service: Service | None,
    trace: bool = False,
) -> tuple[_Server, socket.socket]:
    """Everything that can be refused is refused here, before anything listens."""
    access = Access(None if key_file is None else user_path(key_file))
    if not access and not _is_local(host):
        raise MarcError(
            "without keys a server listens on this machine's own address alone",
            got=f"--host {host}",
            hint="marc serve --key-file keys.json --new-key admin --scope admin, "
            "then --key-file keys.json",
        )
    bound = _bind(host, integer("port", port, 0, 65535))
    try:
        if service is None:
            service = Service(
                user_path(data),
                durability=durability,
                pictures=pictures,
                quotas={**DEFAULTS, **(quotas or {})},
            )
        app = create_app(service, access, hosts=(host,))
        if trace:
            _trace(app)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_DRAIN,
            timeout_keep_alive=75,
            backlog=2048,
        )
        return _Server(config, app.state.context), bound
    except BaseException:
        bound.close()
        raise


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.set_inheritable(False)
    except (OSError, OverflowError, UnicodeError) as error:
        bound.close()
        raise MarcError(
            "this address cannot be listened on",
            got=f"{host}:{port}: {error}",
            hint="--port 0 takes a port that is free",
        ) from None
    return bound


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _address(host: str, bound: socket.socket) -> str:
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{bound.getsockname()[1]}"


def _trace(app: Any) -> None:
    try:
        from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
    except ImportError:
        raise MarcError(
            "spans need OpenTelemetry, which is not installed",
            hint="pip install 'marc-clip[trace]'",
        ) from None
    FastAPIInstrumentor.instrument_app(app, excluded_urls="health,ready,metrics,events")


class _JsonLines(logging.Formatter):
    """One JSON object a line."""

    _PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName", "color_message"}

    def format(self, record: logging.LogRecord) -> str:
        """A record with what was given beside its message."""
        extra = {name: value for name, value in vars(record).items() if name not in self._PLAIN}
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **extra,
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def _log_to_stderr(how: str, *, verbose: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    text = how == "text" or (how == "auto" and sys.stderr.isatty())
    plain = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
    handler.setFormatter(plain if text else _JsonLines())
    for name in ("marc.serve", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.DEBUG if verbose and name == "marc.serve" else logging.INFO)
