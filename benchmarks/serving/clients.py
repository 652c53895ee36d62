"""Clients of a server that is killed again and again: they send, send again, and write down.

What a client sends follows from its seed and a number, so that a twin can be sent the same. When
the server answers, and what it answers first, is left to the system.
"""

from __future__ import annotations

import http.client
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from marc.scores import unit
from marc.serve.memory.config import StepRequest

N_CLASSES, DIM, SPACE_DIM = 5, 8, 6
MEMORIES: dict[str, dict[str, Any]] = {
    "fixed": {"name": "marc", "space": "s", "capacity": 3, "weight": 10.0},
    "auto": {"name": "marc", "space": "s", "capacity": 3, "weight": "auto"},
    "means": {"name": "class-means"},
    "tda": {"name": "tda", "fraction": 1.0},
}
MODES = ("off", "shadow", "canary", "live")
_PATIENCE = 120.0  # seconds until a request without an answer is a problem
_PAUSE = 0.02
_GIVE_UP = 0.2  # of the single steps that were cut off: their clients never ask again
_PROTOTYPES = unit(np.random.default_rng(1).standard_normal((N_CLASSES, DIM)).astype(np.float32))


def body_of(memory: str, snapshot_every: int) -> dict[str, Any]:
    """What a PUT says of a memory, which forgets no answer."""
    return {
        "method": MEMORIES[memory],
        "predictor": {"prototypes": _PROTOTYPES.tolist(), "logit_scale": 5.0},
        "spaces": {"s": SPACE_DIM},
        "limits": {"snapshot_every": snapshot_every, "window": 10**7},
        "mode": "shadow",
        "fraction": 0.5,
    }


def request_of(seed: int, name: str) -> StepRequest:
    """The step of an id, which is the number of a client and of its step: "3-17"."""
    client, number = map(int, name.split("-"))
    draw = np.random.default_rng([seed, client, number])
    label = int(draw.integers(N_CLASSES))
    views = _PROTOTYPES[label] + 0.4 * draw.standard_normal((1 + number % 2, DIM))
    key = np.eye(SPACE_DIM)[label] + 0.4 * draw.standard_normal(SPACE_DIM)
    keys = {"s": key.astype(np.float32)}
    return StepRequest(name, views.astype(np.float32), keys, neighbours=number % 4)


def _json_of(request: StepRequest) -> bytes:
    assert request.views is not None
    spaces = {space: key.tolist() for space, key in request.keys.items()}
    features = {"predictor": request.views.tolist(), "spaces": spaces}
    step = {"id": request.id, "features": features, "neighbours": request.neighbours}
    return orjson.dumps(step)


@dataclass
class Book:
    """What was acknowledged, by memory; and what must not have happened."""

    steps: dict[str, dict[str, bytes]] = field(default_factory=lambda: {m: {} for m in MEMORIES})
    labels: dict[str, dict[str, int]] = field(default_factory=lambda: {m: {} for m in MEMORIES})
    modes: dict[str, str] = field(default_factory=lambda: dict.fromkeys(MEMORIES, "shadow"))
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def acknowledge(self, memory: str, name: str, answer: bytes) -> None:
        """Write an answer down; a second one of the same id is the first."""
        with self._lock:
            first = self.steps[memory].setdefault(name, answer)
        if first != answer:
            self.problem(f"{memory} {name}: first {first!r}, then {answer!r}")
        if orjson.loads(answer)["id"] != name:
            self.problem(f"{memory} {name}: the answer of another: {answer!r}")

    def count(self, what: str, n: int = 1) -> None:
        """Count something that happened."""
        with self._lock:
            self.counts[what] += n

    def problem(self, what: str) -> None:
        """Write down what must not have happened."""
        with self._lock:
            self.problems.append(what[:1000])


@dataclass
class Place:
    """Where the server is now; it has another port each time."""

    port: int = 0


class Client(threading.Thread):
    """One client: any of its requests is sent until it is answered, but for some that are not."""

    def __init__(self, number: int, seed: int, place: Place, book: Book) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self._number, self._seed, self._place, self._book = number, seed, place, book
        self._draw = random.Random(f"{seed} {number}")
        self._sent = 0
        self._own: dict[str, list[str]] = {memory: [] for memory in MEMORIES}
        self._connection: http.client.HTTPConnection | None = None
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Finish the request that is under way, and then look every answer up."""
        self._stopping.set()

    def run(self) -> None:
        """Send until it is to stop, then ask for each answer again."""
        try:
            while not self._stopping.is_set():
                self._act()
            for memory, names in self._own.items():
                for name in names:
                    self._look_up(memory, name)
        except Exception as error:
            self._book.problem(f"{self.name}: {error!r}")
        finally:
            self._close()

    def _act(self) -> None:
        memory, chance = self._draw.choice([*MEMORIES]), self._draw.random()
        names = self._own[memory]
        if chance < 0.70 or not names:
            self._step(memory)
        elif chance < 0.80:
            self._steps(memory, self._draw.randint(2, 8))
        elif chance < 0.90:
            self._label(memory, self._draw.choice(names))
        elif chance < 0.94:
            self._look_up(memory, names[-1])
        elif chance < 0.98:
            self._again(memory, self._draw.choice(names[-50:]))
        elif chance < 0.986:
            self._ask("POST", f"/{memory}/snapshot", b"{}")
            self._book.count("snapshots")
        elif chance < 0.992:
            self._live_and_die()
        elif self._number < len(MEMORIES):  # one client switches a memory: the last mode is known
            self._switch([*MEMORIES][self._number])

    def _new_id(self) -> str:
        self._sent += 1
        return f"{self._number}-{self._sent}"

    def _acknowledged(self, memory: str, name: str, answer: bytes) -> None:
        self._book.acknowledge(memory, name, answer)
        self._own[memory].append(name)

    def _step(self, memory: str) -> None:
        name = self._new_id()
        body = _json_of(request_of(self._seed, name))
        answer = self._ask("POST", f"/{memory}/step", body, may_give_up=True)
        if answer is not None:
            self._acknowledged(memory, name, answer)

    def _again(self, memory: str, name: str) -> None:
        body = _json_of(request_of(self._seed, name))
        answer = self._ask("POST", f"/{memory}/step", body)
        assert answer is not None
        self._book.acknowledge(memory, name, answer)

    def _look_up(self, memory: str, name: str) -> None:
        answer = self._ask("GET", f"/{memory}/steps/{name}")
        assert answer is not None
        self._book.acknowledge(memory, name, answer)
        self._book.count("looked up")

    def _label(self, memory: str, name: str) -> None:
        label = self._draw.randrange(N_CLASSES)
        answer = self._ask(
            "POST", f"/{memory}/labels", orjson.dumps({"labels": [{"id": name, "label": label}]})
        )
        assert answer is not None
        if orjson.loads(answer)["unknown"]:
            self._book.problem(f"{memory} {name}: acknowledged, and unknown to its labels")
        self._book.labels[memory][name] = label

    def _switch(self, memory: str) -> None:
        mode = self._draw.choice(MODES)
        self._ask("POST", f"/{memory}/mode", orjson.dumps({"to": mode, "anyway": True}))
        self._book.modes[memory] = mode
        self._book.count("modes")

    def _live_and_die(self) -> None:
        """Make a memory, go back to a snapshot of it, delete it: nothing of it comes back."""
        path = f"/passing-{self._number}"
        first, second = (_json_of(request_of(self._seed, self._new_id())) for _ in range(2))
        self._ask("PUT", path, orjson.dumps(body_of("fixed", 2)), allowed=(200, 201))
        self._expect_seq(1, "POST", f"{path}/step", first)
        made = orjson.loads(self._ask("POST", f"{path}/snapshot", b"{}") or b"")
        self._expect_seq(2, "POST", f"{path}/step", second)
        self._expect_seq(1, "POST", f"{path}/restore", orjson.dumps({"file": made["file"]}))
        self._expect_seq(2, "POST", f"{path}/step", second)
        self._ask("DELETE", path, allowed=(204, 404))  # 404: deleted, and cut off before saying so
        self._ask("GET", path, allowed=(404,))
        self._book.count("made and deleted")

    def _expect_seq(self, seq: int, method: str, path: str, body: bytes) -> None:
        answer = orjson.loads(self._ask(method, path, body) or b"")
        if answer["seq"] != seq:
            self._book.problem(f"{path}: step {seq} was due, this came: {answer}")

    def _steps(self, memory: str, count: int) -> None:
        """Several lines: each that came back whole is acknowledged, the others are sent again."""
        waiting = {name: _json_of(request_of(self._seed, name)) for name in
                   (self._new_id() for _ in range(count))}  # fmt: skip
        until = time.monotonic() + _PATIENCE
        while waiting and time.monotonic() < until:
            body, names = b"\n".join(waiting.values()), [*waiting]
            try:
                response = self._send("POST", f"/{memory}/steps", body, "application/x-ndjson")
                if response is None:
                    continue
                for name in names:
                    line = response.readline()
                    if not line.endswith(b"\n"):
                        break
                    if self._take_line(memory, name, line[:-1]):
                        del waiting[name]
                response.read()
            except (OSError, http.client.HTTPException):
                self._cut_off()
        if waiting:
            raise TimeoutError(f"no answer to {[*waiting]}")

    def _take_line(self, memory: str, name: str, line: bytes) -> bool:
        answer = orjson.loads(line)
        if "problem" not in answer:
            self._acknowledged(memory, name, line)
            return True
        if answer["status"] not in (429, 503):
            self._book.problem(f"{memory} {name}: {line!r}")
        return False

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        may_give_up: bool = False,
        allowed: tuple[int, ...] = (200,),
    ) -> bytes | None:
        """The answer, however often it has to be asked for; None where the client gave up."""
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            try:
                response = self._send(method, path, body)
                if response is None:
                    continue
                content = response.read()
            except (OSError, http.client.HTTPException):
                self._cut_off()
                if may_give_up and self._draw.random() < _GIVE_UP:
                    self._book.count("given up")
                    return None
                continue
            if response.status in allowed:
                return content
            if response.status not in (429, 503):
                raise ValueError(f"{method} {path}: {response.status} {content!r}")
            time.sleep(_PAUSE)
        raise TimeoutError(f"no answer to {method} {path}")

    def _send(
        self, method: str, path: str, body: bytes | None, media_type: str = "application/json"
    ) -> http.client.HTTPResponse | None:
        """The beginning of an answer; None where no server listens, after a pause."""
        if self._connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self._place.port, timeout=20)
            try:
                connection.connect()
            except OSError:
                time.sleep(_PAUSE)
                return None
            self._connection = connection
        self._connection.request(method, f"/v1/memories{path}", body, {"content-type": media_type})
        return self._connection.getresponse()

    def _cut_off(self) -> None:
        self._book.count("cut off")
        self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
