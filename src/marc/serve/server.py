"""A server: a folder of memories behind an address, until it is asked to stop.

`serve` blocks until a signal comes; `running` is the same in a thread, for notebooks and tests.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import uvicorn
from threadpoolctl import threadpool_limits

from marc.errors import MarcError, integer, one_of
from marc.files import user_path
from marc.serve.service import Hosts, Service
from marc.serve.web.access import Access
from marc.serve.web.app import check_exporter, create_app
from marc.serve.web.context import Context
from marc.serve.web.quotas import DEFAULTS

_PORT = 8123
_DRAIN = 30  # seconds in which what waits is answered
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
_BACKLOG = 2048  # connections that wait to be taken
_FORMATS = ("auto", "json", "text")


@dataclass(frozen=True)
class _Options:
    """How a folder is served; the arguments of `serve` that it shares with `running`."""

    host: str = "127.0.0.1"
    port: int = _PORT
    durability: str = "process"
    key_file: str | os.PathLike[str] | None = None
    pictures: Any = None
    quotas: Mapping[str, int] | None = None
    hosts: Hosts | None = None
    trace: bool = False


def serve(
    data: str | os.PathLike[str],
    *,
    host: str = "127.0.0.1",
    port: int = _PORT,
    durability: str = "process",
    key_file: str | os.PathLike[str] | None = None,
    pictures: Any = None,
    quotas: Mapping[str, int] | None = None,
    hosts: Hosts | None = None,
    trace: bool = False,
    log: str = "auto",
    verbose: bool = False,
    on_ready: Callable[[str], Any] = lambda url: None,
    on_stop: Callable[[], Any] = lambda: None,
) -> None:
    """Serve the memories of a folder until SIGTERM or Ctrl-C; what waits then is still answered.

    Args:
        data: the folder; it is made if there is none.
        host: the address; another than this machine's own needs keys.
        port: 0 takes one that is free.
        durability: `process` (nothing acknowledged is lost by a kill) or `power` (nor by a loss
            of power).
        key_file: the keys that are asked for, see `marc.serve.web.access`.
        pictures: the encoders that turn pictures into features, a `marc.serve.pictures.Pictures`.
        quotas: what differs from `marc.serve.web.quotas.DEFAULTS`.
        hosts: where the memories are open, if not here: `marc.serve.cluster.shards.Shards`.
        trace: report spans by OpenTelemetry, as its own variables in the environment say.
        log: `json` or `text` on stderr; text in a terminal.
        verbose: log every step too.
        on_ready: called with the address once requests are taken.
        on_stop: called when it is to stop, before what waits is answered.
    """
    options = _Options(host, port, durability, key_file, pictures, quotas, hosts, trace)
    with _log_to_stderr(one_of("log", log, _FORMATS), verbose=verbose), _one_thread_a_product():
        server, bound = _prepare(data, options)
        server.on_ready, server.on_stop = lambda: on_ready(_address(host, bound)), on_stop
        with bound:
            server.run(sockets=[bound])
    server.raise_failure()


@contextmanager
def _one_thread_a_product() -> Iterator[None]:
    """Let memories and requests share the cores, and not each product, unless it is said how many.

    With several threads a product waits for its threads, and each step for those of the others.
    """
    if any(name in os.environ for name in _THREADS):
        yield
        return
    os.environ[_THREADS[0]] = "1"  # of libraries that are loaded later
    try:
        with threadpool_limits(1, "blas"):
            yield
    finally:
        del os.environ[_THREADS[0]]


@contextmanager
def running(data: str | os.PathLike[str], **options: Any) -> Iterator[str]:
    """A server in a thread, with most options of `serve` and a port that is free; its address."""
    chosen = _Options(**{"port": 0, **options})
    server, bound = _prepare(data, chosen)
    ready = threading.Event()
    server.on_ready = ready.set
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    try:
        while not ready.wait(0.05):
            if not thread.is_alive():
                server.raise_failure()
                raise MarcError("the server could not start")
        yield _address(chosen.host, bound)
    finally:
        server.drain()
        server.should_exit = True
        thread.join(2 * _DRAIN)
        bound.close()


class _Server(uvicorn.Server):
    """uvicorn's, which also tells the memories as soon as it is to stop."""

    def __init__(self, config: uvicorn.Config, context: Context) -> None:
        super().__init__(config)
        self._context = context
        context.abort = self._abort
        self.on_ready: Callable[[], Any] = lambda: None
        self.on_stop: Callable[[], Any] = lambda: None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        if self._context.failure is None:
            self.on_ready()
        else:
            self.should_exit = True

    def raise_failure(self) -> None:
        """Say why the memories could not be started, once everything is given back."""
        if self._context.failure is not None:
            raise self._context.failure

    def handle_exit(self, sig: int, frame: Any) -> None:
        # and not uvicorn's, which ends the process by the same signal once it has stopped
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True
        self.drain()
        self.on_stop()

    def drain(self) -> None:
        """Take no more steps from now on."""
        if self.started:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._context.drain)

    def _abort(self, client: Any) -> None:
        for connection in [*self.server_state.connections]:
            transport = connection.transport
            if getattr(connection, "client", None) == client and transport is not None:
                transport.abort()


def _prepare(data: str | os.PathLike[str], options: _Options) -> tuple[_Server, socket.socket]:
    """Everything that can be refused is refused here, before anything listens."""
    if options.trace:
        check_exporter()
    keys = options.key_file
    access = Access(None if keys is None else user_path(keys))
    if not access and not _is_local(options.host):
        raise MarcError(
            "without keys a server listens on this machine's own address alone",
            got=f"--host {options.host}",
            hint="marc serve --key-file keys.json --new-key me --scope admin, "
            "then --key-file keys.json",
        )
    bound = _bind(options.host, integer("port", options.port, 0, 65535))
    try:
        service = _service(user_path(data), options)
        app = create_app(service, access, hosts=(options.host,), trace=options.trace)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # a client is who holds the connection
            timeout_graceful_shutdown=_DRAIN,
            timeout_keep_alive=75,
            backlog=_BACKLOG,
        )
        return _Server(config, app.state.context), bound
    except BaseException:
        bound.close()
        raise


def _service(data: Path, options: _Options) -> Service:
    """The memories of a folder, where it can be one."""
    try:
        return Service(
            data,
            durability=options.durability,
            pictures=options.pictures,
            quotas={**DEFAULTS, **(options.quotas or {})},
            hosts=options.hosts,
        )
    except MarcError:
        raise
    except (OSError, ValueError) as error:
        raise MarcError(
            "this cannot be the folder of a server",
            got=f"{ascii(str(data))[:200]}: {getattr(error, 'strerror', error)}",
            hint="--data served",
        ) from error


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(_BACKLOG)  # so that of two servers that start at once, one is refused here
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
        try:
            return orjson.dumps(line, default=str).decode()
        except TypeError:  # odd text, such as a file name that is no UTF-8
            return json.dumps(line, default=str)


@contextmanager
def _log_to_stderr(how: str, *, verbose: bool) -> Iterator[None]:
    """Log there for as long as the server runs; a program that has one may log elsewhere again."""
    handler = logging.StreamHandler(sys.stderr)
    text = how == "text" or (how == "auto" and sys.stderr.isatty())
    plain = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
    handler.setFormatter(plain if text else _JsonLines())
    loggers = {name: logging.getLogger(name) for name in ("marc.serve", "uvicorn.error")}
    before = [(each, each.handlers, each.propagate, each.level) for each in loggers.values()]
    for name, logger in loggers.items():
        logger.handlers, logger.propagate = [handler], False
        quiet = logging.WARNING if name == "uvicorn.error" else logging.INFO
        logger.setLevel(logging.DEBUG if verbose else quiet)
    try:
        yield
    finally:
        for logger, handlers, propagate, level in before:
            logger.handlers, logger.propagate = handlers, propagate
            logger.setLevel(level)
