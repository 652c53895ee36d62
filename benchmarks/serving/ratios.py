"""What the server costs beside the method it serves, as ratios measured in one run.

    OMP_NUM_THREADS=1 python -m benchmarks.serving.ratios       all of it, some minutes
    OMP_NUM_THREADS=1 python -m benchmarks.serving.ratios latency clients page recovery growth

A memory that is full (C 1,000, K 16, d 512 and 768) is served by a process of its own at level
`process`; clients speak HTTP to it over the loopback. Prints one table in Markdown.
"""

from __future__ import annotations

import asyncio
import base64
import json
import platform
import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import cast

import numpy as np
import uvloop

import marc
from benchmarks.ratios import CLIP_DIM, DIM, make_stream, ratio
from benchmarks.serving.blocks import CAPACITY, N_CLASSES, filled
from marc.serve.memory import snapshots
from marc.serve.memory.config import Limits, MemoryConfig, StepRequest
from marc.serve.memory.served import Served

Row = tuple[str, str, str]
CASE = f"C {N_CLASSES:,}, K {CAPACITY}, d {CLIP_DIM} + {DIM}"
METHOD = {"name": "marc", "space": "space", "capacity": CAPACITY}
_STREAM = make_stream(2000, N_CLASSES)
_TURN = 25  # steps of one kind, one after the other
_LENGTH = re.compile(rb"content-length: (\d+)", re.I)
_HEAD = "POST /v1/memories/full/step HTTP/1.1\r\nhost: localhost\r\n"


def config(snapshot_every: int = 1_000_000) -> MemoryConfig:
    """The memory that is measured."""
    limits = Limits(snapshot_every=snapshot_every)
    predictor, names = _STREAM.features.predictor, tuple(map(str, range(N_CLASSES)))
    return MemoryConfig(METHOD, names, {"space": DIM}, predictor, limits)


@contextmanager
def full_memory() -> Iterator[Path]:
    """A data folder with one memory in it, which is full."""
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        folder = data / "memories" / "full"
        folder.parent.mkdir(parents=True)
        Served.create(folder, config(), "shadow", None)
        served = Served(folder)
        served.learner.method = filled(_STREAM.query(0))
        served.head = {**served.head, "n_seen": N_CLASSES * CAPACITY, "seq": N_CLASSES * CAPACITY}
        made = served.snapshot()
        made.write(folder)
        served.close()
        snapshots.restore(folder, snapshots.restorable(folder, made.file, None))
        yield data


@contextmanager
def server(data: Path) -> Iterator[tuple[str, int, int]]:
    """A server in a process of its own: host, port, process."""
    command = [sys.executable, "-m", "marc", "serve", "--data", data, "--port", "0", "--json"]
    running = subprocess.Popen(
        [str(each) for each in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert running.stdout is not None
        text = ""
        while "}" not in text:
            text += running.stdout.readline().decode()
        host, port = json.loads(text)["url"].removeprefix("http://").split(":")
        while not is_ready(f"http://{host}:{port}/ready"):
            time.sleep(0.05)
        yield host, int(port), running.pid
    finally:
        running.terminate()
        running.wait(60)


def is_ready(url: str) -> bool:
    """Whether every memory is open."""
    try:
        with urllib.request.urlopen(url):
            return True
    except urllib.error.HTTPError:
        return False


def request(item: int, prefix: str) -> bytes:
    """A step as it goes over the wire."""
    features = _STREAM.features
    view, key = features.views[item][0], features.spaces["space"][item]

    def packed(vector: np.ndarray) -> dict[str, object]:
        raw = np.ascontiguousarray(vector, "<f4").tobytes()
        return {"b64": base64.b64encode(raw).decode(), "shape": list(vector.shape)}

    body = {
        "id": f"{prefix}{item}",
        "features": {"predictor": packed(view), "spaces": {"space": packed(key)}},
    }
    raw = json.dumps(body).encode()
    length = f"content-type: application/json\r\ncontent-length: {len(raw)}\r\n\r\n"
    return (_HEAD + length).encode() + raw


class Client(asyncio.Protocol):
    """A connection that asks again as soon as it is answered; light, as it shares the cores."""

    def __init__(self, raws: Iterator[bytes]) -> None:
        self._raws = raws
        self._came = b""
        self.seconds: list[float] = []
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask first."""
        self._transport = cast(asyncio.Transport, transport)
        self._ask()

    def _ask(self) -> None:
        raw = next(self._raws, None)
        if raw is None:
            self._transport.close()
            self.done.set_result(None)
            return
        self._begun = time.perf_counter()
        self._transport.write(raw)

    def data_received(self, data: bytes) -> None:
        """Ask again once the answer is whole."""
        self._came += data
        head, end, body = self._came.partition(b"\r\n\r\n")
        if not end or len(body) < int(_LENGTH.search(head)[1]):  # type: ignore[index]
            return
        self.seconds.append(time.perf_counter() - self._begun)
        assert head.startswith(b"HTTP/1.1 200"), self._came
        self._came = b""
        self._ask()

    def connection_lost(self, error: Exception | None) -> None:
        """Say so, if more was to be asked."""
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("the server hung up"))


async def asked(address: tuple[str, int, int], raws: Iterator[bytes]) -> list[float]:
    """One client's requests, one after the other; the seconds of each."""
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(lambda: Client(raws), *address[:2])
    await client.done
    return client.seconds


async def latency(address: tuple[str, int, int], count: int, prefix: str) -> list[Row]:
    """Steps of one client and of the method itself, in turns."""
    twin, features = filled(_STREAM.query(0)), _STREAM.features
    times: dict[str, list[float]] = {"served": [], "step": [], "from features": []}
    for start in range(0, count, _TURN):
        items = range(start, start + _TURN)
        raws = [request(item, prefix) for item in items]
        times["served"] += await asked(address, iter(raws))
        queries = {item: _STREAM.query(item) for item in items}
        for item in items:
            begun = time.perf_counter()
            twin.step(queries[item])
            times["step"].append(time.perf_counter() - begun)
        for item in items:
            begun = time.perf_counter()
            view, key = features.views[item], {"space": features.spaces["space"][item]}
            twin.step(marc.Query.from_features(view, features.predictor, key, item=item))
            times["from features"].append(time.perf_counter() - begun)
    middle = {name: float(np.median(values)) for name, values in times.items()}
    served = ratio(middle["served"], middle["step"])
    return [
        (f"p50 of `/step` over HTTP / `MARC.step` ({CASE})", served, "<= 1.3"),
        ("the same / `MARC.step` from raw features",
         ratio(middle["served"], middle["from features"]), ""),
    ]  # fmt: skip


async def throughput(
    address: tuple[str, int, int], n_clients: int, count: int, prefix: str
) -> float:
    """Steps a second of so many clients at once."""
    raws = iter([request(item, f"{prefix}{n_clients}-") for item in range(count)])
    start = time.perf_counter()
    await asyncio.gather(*(asked(address, raws) for _ in range(n_clients)))
    return count / (time.perf_counter() - start)


def of_clients(address: tuple[str, int, int]) -> list[Row]:
    """How much more many clients get than one."""
    rates: dict[int, list[float]] = {1: [], 8: [], 32: []}
    for turn in range(3):
        for n, found in rates.items():
            found.append(uvloop.run(throughput(address, n, 200 if n == 1 else 1200, f"{turn}-")))
    middle = {n: float(np.median(found)) for n, found in rates.items()}
    return [
        (
            f"steps a second of {n} clients / of one client",
            f"{middle[n] / middle[1]:.2f} ({middle[n]:,.0f} / {middle[1]:,.0f})",
            bar,
        )
        for n, bar in ((8, ""), (32, ">= 4"))
    ]


def of_the_page(address: tuple[str, int, int]) -> list[Row]:
    """What a page that is open, and metrics that are read, take of the throughput."""

    async def watched(on: bool, prefix: str) -> float:
        watching = asyncio.create_task(watch(address)) if on else None
        rate = await throughput(address, 32, 1200, prefix)
        if watching is not None:
            watching.cancel()
        return rate

    rates: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(7):
        for on in (False, True):
            rates[on].append(uvloop.run(watched(on, f"p{turn}{on}-")))
    cost = 1 - float(np.median(rates[True])) / float(np.median(rates[False]))
    return [("a page that listens and metrics every second: part of the throughput",
             f"{cost:.3f}", "<= 0.02")]  # fmt: skip


async def watch(address: tuple[str, int, int]) -> None:
    """What a page does: it listens, and asks for history and judgement now and then."""
    base = f"http://{address[0]}:{address[1]}"
    reader, writer = await asyncio.open_connection(*address[:2])
    writer.write(b"GET /v1/memories/full/events HTTP/1.1\r\nhost: localhost\r\n\r\n")
    with nullcontext(writer):
        draining = asyncio.create_task(_drained(reader))
        paths = ("/metrics", "/v1/memories/full/judgement", "/v1/memories/full/history")
        while True:
            await asyncio.sleep(1)
            for path in paths:
                await asyncio.to_thread(urllib.request.urlopen, base + path)
            if draining.done():
                raise ConnectionError("the events have ended")


async def _drained(reader: asyncio.StreamReader) -> None:
    while await reader.read(65536):
        pass


def of_recovery(n_events: int = 100_000) -> list[Row]:
    """How long a memory takes to open that was killed after so many steps."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "memory"
        Served.create(folder, config(), "shadow", None)
        served = Served(folder)
        features = _STREAM.features
        for start in range(0, n_events, 64):
            served.steps([
                StepRequest(
                    str(item),
                    features.views[item % 2000],
                    {"space": features.spaces["space"][item % 2000]},
                )
                for item in range(start, min(start + 64, n_events))
            ])  # fmt: skip
        served.close()
        begun = time.perf_counter()
        Served(folder).close()
        seconds = time.perf_counter() - begun
    return [(f"recovery, seconds for {n_events:,} events", f"{seconds:.2f}", "<= 2")]


def of_growth(n_steps: int = 1_000_000) -> list[Row]:
    """How much a process grows over many steps of a small memory."""
    draw = np.random.default_rng(0)
    views = draw.standard_normal((4096, 16), dtype=np.float32)
    stream = make_stream(100, 10, 16, 16)
    small = MemoryConfig(
        {**METHOD, "capacity": 4}, tuple("abcdefghij"), {"space": 16},
        stream.features.predictor, Limits(window=5000, snapshot_every=5000),
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "memory"
        Served.create(folder, small, "shadow", None)
        served, sizes = Served(folder), []
        for start in range(0, n_steps, 64):
            served.steps([
                StepRequest(str(n), views[n % 4096], {"space": views[(7 * n) % 4096]})
                for n in range(start, min(start + 64, n_steps))
            ])  # fmt: skip
            if served.snapshot_due:
                made = served.snapshot()
                made.write(folder)
                served.start_from(made)
            if start % 64_000 == 0:
                sizes.append(resident())
        served.close()
    early, late = sizes[len(sizes) // 5] / 1e6, sizes[-1] / 1e6
    return [(f"resident memory after {n_steps:,} steps / after a fifth of them",
             f"{late / early:.2f} ({late:.0f} / {early:.0f} MB)", "1.0")]  # fmt: skip


def resident() -> int:
    """Bytes of this process in memory."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


PARTS: dict[str, Callable[..., list[Row]]] = {
    "latency": lambda address: uvloop.run(latency(address, 300, "l")),
    "clients": of_clients,
    "page": of_the_page,
    "recovery": of_recovery,
    "growth": of_growth,
}
_SERVED = ("latency", "clients", "page")


def main(names: list[str]) -> None:
    """Print the rows of some parts."""
    print(f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}\n")
    print("| what | measured | bar |\n|---|---|---|")
    served = [name for name in names if name in _SERVED]
    if served:
        with full_memory() as data, server(data) as address:
            for name in served:
                show(PARTS[name](address))
    for name in names:
        if name not in _SERVED:
            show(PARTS[name]())


def show(rows: list[Row]) -> None:
    """Print rows as soon as they are there."""
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or [*PARTS])
