"""A server is killed at random moments while clients send: is all of it there that it promised?

    python -m benchmarks.serving_kills --kills 200 --clients 8 --seed 0

Prints one table in Markdown, and exits with 1 where a promise was broken. Each kill is SIGKILL of
`marc serve`: at a random moment after it is ready, while it starts and recovers, or while it
drains after SIGTERM. In the end every acknowledged step is asked for, the server is killed once
more, and each memory is compared with a twin that got the same inputs without an interruption. A
seed decides what is sent and when a kill is due; how far the server is by then is left to chance.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import marc
from benchmarks.serving.clients import MEMORIES, Book, Client, Place, body_of
from benchmarks.serving.twin import Compared, compare

SNAPSHOT_EVERY = 50
_START = 60.0  # seconds that a server may take to start
_MOMENT = (0.05, 1.5)  # seconds after it is ready
_DRAIN = 0.3  # seconds after SIGTERM
_LAST = 20.0  # seconds, at most, until every memory has a label
_KINDS = (
    *("draining", "running", "starting", "running", "running"),
    *("running", "starting", "running", "running", "running"),
)
"""How the server is when it is killed, one kill after the other."""


@dataclass
class Outcome:
    """What was done to one server, and what was found."""

    durability: str
    kinds: Counter[str]
    seconds: float
    book: Book
    compared: list[Compared] = field(default_factory=list)
    partial: int = 0
    """Files of snapshots that a kill left half written."""

    @property
    def problems(self) -> list[str]:
        """Every promise that was broken."""
        return [*self.book.problems, *(p for each in self.compared for p in each.problems)]

    def cells(self) -> list[str]:
        """A column of the table, by `_ROWS`."""
        kinds = " + ".join(str(self.kinds[kind]) for kind in ("running", "starting", "draining"))
        counts, labels = self.book.counts, sum(map(len, self.book.labels.values()))
        numbers = [
            counts["cut off"],
            self.partial,
            sum(map(len, self.book.steps.values())),
            sum(each.unheard for each in self.compared),
            labels,
            counts["made and deleted"],
            sum(each.rounded for each in self.compared),
            sum(each.near_ties for each in self.compared),
            len(self.problems),
        ]
        times = f"{self.seconds:.0f} s"
        return [self.durability, kinds, times, *(f"{number:,}" for number in numbers)]


_ROWS = (
    "durability",
    "kills (running + starting + draining)",
    "took",
    "requests cut off",
    "snapshots half written",
    "acknowledged steps",
    "in the log, never heard of",
    "labels",
    "memories made, restored and deleted meanwhile",
    "answers rounded otherwise than the twin's",
    "predictions turned around by that",
    "lost, duplicated, changed, or different from the twin's",
)


class _Server:
    """`marc serve` in a process of its own."""

    def __init__(self, scratch: Path, durability: str) -> None:
        self.data, self._scratch = scratch / "data", scratch
        self._words = ["--data", str(self.data), "--port", "0", "--durability", durability]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it is not ready yet."""
        command = [sys.executable, "-m", "marc", "serve", *self._words, "--json"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with (self._scratch / "out").open("wb") as out, (self._scratch / "err").open("ab") as err:
            self._process = subprocess.Popen(command, stdout=out, stderr=err, env=environment)

    def start_and_wait(self, place: Place) -> float:
        """Start it, and say where it is as soon as it is ready; seconds that it took."""
        began = time.monotonic()
        self.start()
        place.port = self._port()
        return time.monotonic() - began

    def _port(self) -> int:
        assert self._process is not None
        until = time.monotonic() + _START
        while time.monotonic() < until and self._process.poll() is None:
            with contextlib.suppress(ValueError, KeyError):  # not all of it is there, or an error
                url = json.loads((self._scratch / "out").read_bytes())["url"]
                return int(url.rpartition(":")[2])
            time.sleep(0.005)
        output = [(self._scratch / name).read_text("utf-8", "replace") for name in ("out", "err")]
        raise RuntimeError(f"the server did not start: {output[0]} {output[1][-1000:]}")

    def end(self) -> None:
        """Ask it to stop."""
        assert self._process is not None
        self._process.terminate()

    def kill(self) -> None:
        """Kill it now, however it is."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def errors(self) -> list[str]:
        """What all of them logged that is worse than a warning."""
        lines = (self._scratch / "err").read_text("utf-8", "replace").splitlines()
        worse = ('"level":"error"', '"level":"critical"', "Traceback")
        return [line for line in lines if any(sign in line for sign in worse)]

    def partial(self) -> int:
        """Half-written snapshots that lie in the folder now."""
        files = self.data.glob("memories/*/snapshots/*")
        return sum(not each.name.endswith(".safetensors") for each in files)


def kill_often(scratch: Path, kills: int, n_clients: int, seed: int, durability: str) -> Outcome:
    """Kill a server so often while clients send to it, and compare what is left."""
    started, draw = time.monotonic(), random.Random(seed)
    place, book, kinds = Place(), Book(), Counter[str]()
    server = _Server(scratch, durability)
    clients = [Client(number, seed, place, book) for number in range(n_clients)]
    partial = 0
    try:
        took = server.start_and_wait(place)
        _create(place)
        server.kill()
        for client in clients:
            client.start()
        for _, kind in zip(range(kills), itertools.cycle(_KINDS), strict=False):
            took = _kill(server, place, kind, draw, took)
            kinds[kind] += 1
            partial += server.partial()
        server.start_and_wait(place)
        until = time.monotonic() + _LAST
        while time.monotonic() < until and not all(book.labels.values()):  # on a slow machine
            time.sleep(0.05)
        for client in clients:
            client.stop()
        for client in clients:
            client.join()
    finally:
        server.kill()
    compared = [
        compare(server.data / "memories" / name, scratch / "twins" / name, seed, book,
                SNAPSHOT_EVERY)
        for name in MEMORIES
    ]  # fmt: skip
    if left := server.partial():
        book.problem(f"{left} half-written snapshots are left")
    for line in server.errors():
        book.problem(line)
    return Outcome(durability, kinds, time.monotonic() - started, book, compared, partial)


def _create(place: Place) -> None:
    """Make the memories, in different modes from then on."""
    maker = marc.Client(f"http://127.0.0.1:{place.port}")
    for memory in MEMORIES:
        body = body_of(memory, SNAPSHOT_EVERY)
        given = body.pop("predictor")
        maker.create(memory, predictor=(given["prototypes"], given["logit_scale"]), **body)


def _kill(server: _Server, place: Place, kind: str, draw: random.Random, took: float) -> float:
    """Start the server and kill it at a moment of some kind; seconds that it takes to start."""
    if kind == "starting":
        server.start()
        time.sleep(draw.uniform(0, 1.2 * took))
    else:
        took = server.start_and_wait(place)
        time.sleep(draw.uniform(*_MOMENT))
        if kind == "draining":
            server.end()
            time.sleep(draw.uniform(0, _DRAIN))
    server.kill()
    return took


def main() -> int:
    """Kill as often as asked for with the usual durability, and a fifth so often with the other."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    outcomes = []
    for durability, kills in (("process", given.kills), ("power", -(-given.kills // 5))):
        with tempfile.TemporaryDirectory() as folder:
            outcomes.append(kill_often(Path(folder), kills, given.clients, given.seed, durability))
    for cells in zip(_ROWS, *(each.cells() for each in outcomes), strict=True):
        print(f"| {' | '.join(cells)} |" + ("\n|---|---|---|" if cells[0] == _ROWS[0] else ""))
    problems = [problem for each in outcomes for problem in each.problems]
    for problem in problems[:20]:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
