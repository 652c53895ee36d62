"""A client of `marc serve`: one call for each thing that a server can be asked.

A request is sent again when the server is busy, away for a while, or cut off: a step is taken
exactly once by its id, so a repeated one gets the stored answer and changes nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
from numpy.typing import ArrayLike

from marc.errors import MarcError, check_predictor, instance, integer
from marc.files import read_bytes, user_path, whole_file
from marc.serve.client.connection import Call, Connection, NoAnswerError, passes
from marc.serve.client.replies import Picture, Reply, step_body
from marc.serve.refused import Refused
from marc.stream.predictor import Predictor

if TYPE_CHECKING:
    from marc.serve.client.sending import Sent

_ROOT = "/v1/memories"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_SNAPSHOT = re.compile(r"\d{12}(-[0-9a-f]{8})?\.safetensors")
_MOST_LABELS = 5000  # of one request
_TOGETHER = 32  # steps of one request
_MOST_BYTES = 8 * 2**20  # of one request, unless one step has more
_BINARY, _LINES = "application/octet-stream", "application/x-ndjson"
_PIECE = 2**20

Outcome = Reply | MarcError
"""Of one of many steps: its answer, or why there is none."""


class Client:
    """A server of memories; any number of threads may use it.

    Args:
        url: where it is, for example `http://127.0.0.1:8123`.
        key: the key, where the server asks for one. It is sent to this URL alone, and never shown.
        timeout: seconds without a sign of the server after which a request counts as lost.
        retries: how often a request is sent again, after growing pauses, before it is an error.

    >>> Client("http://127.0.0.1:8123", key="secret")
    Client('http://127.0.0.1:8123')
    """

    def __init__(
        self, url: str, key: str | None = None, *, timeout: float = 30.0, retries: int = 8
    ) -> None:
        self._connection = Connection(url, key, timeout, retries)

    def __repr__(self) -> str:
        return f"Client({self._connection.url!r})"

    def memories(self) -> list[dict[str, Any]]:
        """What memories there are, and how they are."""
        told = self._connection.ask("GET", _ROOT)
        return list(told["memories"] if isinstance(told, dict) else told)

    def health(self) -> None:
        """Ask once whether the server answers; an error where it does not."""
        self._connection.open(Call("GET", "/health", retries=0))

    def memory(self, name: str) -> RemoteMemory:
        """A memory by its name; nothing is asked yet."""
        return RemoteMemory(self._connection, name)

    def create(
        self,
        name: str,
        *,
        method: str | Mapping[str, Any] = "class-means",
        predictor: Predictor | tuple[ArrayLike, float] | None = None,
        classes: Sequence[str] | None = None,
        spaces: Mapping[str, int] | None = None,
        limits: Mapping[str, int] | None = None,
        mode: str = "shadow",
        fraction: float | None = None,
    ) -> RemoteMemory:
        """Make a memory; one that is there alike is taken as it is, another one is refused.

        Args:
            name: what to call it.
            method: the name of a method, or its name and settings: `{"name": "marc", ...}`.
            predictor: prototypes (C, D) and the logit scale; without, the server's own encoders
                make them of the `classes`.
            classes: their names.
            spaces: the dimension of each retrieval space.
            limits: `window`, `queue`, `snapshot_every`, `steps_per_second`.
            mode: `off`, `shadow`, `canary` or `live`, of one that is not there yet.
            fraction: of the steps that a canary answers.
        """
        if isinstance(classes, str):
            raise MarcError("classes are a list of names", got=classes[:80], hint='["cat", "dog"]')
        asked = {
            "method": method if isinstance(method, str) else dict(method),
            "predictor": None if predictor is None else _predictor(predictor),
            "classes": None if classes is None else list(classes),
            "spaces": None if spaces is None else dict(spaces),
            "limits": None if limits is None else dict(limits),
            "mode": mode,
            "fraction": fraction,
        }
        memory = self.memory(name)
        body = {field: value for field, value in asked.items() if value is not None}
        self._connection.ask("PUT", memory.path, body)
        return memory

    def send(self, source: Any, memory: str, **options: Any) -> Sent:
        """Send a source of pictures or features to a memory, as `marc send` does.

        Args:
            source: a folder, a stream, or the name of either.
            memory: its name; it is made, in shadow mode, if it is not there.
            options: `classes`, `root`, `labels`, `neighbours`, `limit`, `rate`, `prefix`, `output`
                and `on_progress`, see `marc.serve.client.sending.send`.
        """
        from marc.serve.client.sending import send

        return send(self, source, memory, **options)


class RemoteMemory:
    """One memory of a server."""

    def __init__(self, connection: Connection, name: str) -> None:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise MarcError(
                "this is no name for a memory",
                got=ascii(name)[:80],
                allowed="1 to 63 letters, digits, '.', '_' and '-', a letter or a digit first",
            )
        self.name, self.path = name, f"{_ROOT}/{quote(name, safe='')}"
        self._connection = connection

    def __repr__(self) -> str:
        return f"RemoteMemory({self.name!r}, {self._connection.url!r})"

    def step(
        self,
        features: ArrayLike | None = None,
        keys: Mapping[str, ArrayLike] | None = None,
        *,
        image: Picture | None = None,
        id: str | None = None,
        neighbours: int = 0,
        dry_run: bool = False,
        deadline: float | None = None,
    ) -> Reply:
        """Answer one image, and learn from it.

        Args:
            features: the predictor's, (D,) or (views, D), where no `image` is given.
            keys: the features of each retrieval space.
            image: a path or the bytes of a file, for a server with encoders.
            id: what to call the image. A second step of this id gets the answer of the first;
                without, it has a new one.
            neighbours: how many of the nearest remembered images of each space to give.
            dry_run: answer, and leave everything as it was.
            deadline: seconds after which it is not to be taken any more.
        """
        body = step_body(
            uuid.uuid4().hex if id is None else id,  # once: every try has the same one
            features,
            keys,
            image=image,
            neighbours=neighbours,
            dry_run=dry_run,
            deadline=deadline,
        )
        return Reply.of(self._ask("POST", "/step", body, within=deadline))

    def steps(
        self, requests: Iterable[Mapping[str, Any] | MarcError], *, together: int = _TOGETHER
    ) -> Iterator[Outcome]:
        """Answer many images in order, some in each request; where one is refused, why.

        Args:
            requests: the arguments of `step` by name, for each image; an error, of an image that
                cannot be read, comes out in its place.
            together: how many to send at once; so many are taken before the first is answered.
        """
        integer("together", together, 1, 1000)
        bodies: list[bytes | MarcError] = []
        size = 0
        for request in requests:
            bodies.append(self._line(request))
            size += len(body) if isinstance(body := bodies[-1], bytes) else 0
            if len(bodies) >= together or size >= _MOST_BYTES:
                yield from self._answered(bodies)
                bodies, size = [], 0
        yield from self._answered(bodies)

    def label(self, labels: Mapping[str, str | int]) -> dict[str, Any]:
        """Say what was on images, by id; late or again, and read by the judge alone."""
        instance("labels", labels, Mapping, hint='{"frame-17": "dog"}')
        given = [{"id": id, "label": _plain(label)} for id, label in labels.items()]
        total: dict[str, Any] = {"accepted": 0, "changed": 0, "repeated": 0, "unknown": []}
        for start in range(0, max(1, len(given)), _MOST_LABELS):
            some = {"labels": given[start : start + _MOST_LABELS]}
            told = self._ask("POST", "/labels", some)
            total = {name: total[name] + told[name] for name in total}
        return {**total, "judgement": told["judgement"]}

    def audit(self, n: int = 20) -> dict[str, Any]:
        """Disagreements without a label, drawn at random: what is worth one."""
        return dict(self._ask("GET", f"/audit?n={integer('n', n, 1)}"))

    def judgement(self) -> dict[str, Any]:
        """What the labels say of the memory."""
        return dict(self._ask("GET", "/judgement"))

    def mode(
        self,
        to: str,
        expect: str | None = None,
        fraction: float | None = None,
        *,
        anyway: bool = False,
    ) -> dict[str, Any]:
        """Let another side answer.

        Args:
            to: `off`, `shadow`, `canary` or `live`.
            expect: refused where the mode is not this one now.
            fraction: of the steps that a canary answers.
            anyway: let the memory answer although the judge says that it harms.
        """
        asked = {"to": to, "expect": expect, "fraction": fraction, "anyway": anyway or None}
        body = {name: value for name, value in asked.items() if value is not None}
        return dict(self._ask("POST", "/mode", body, repeatable=expect is None))

    def info(self) -> dict[str, Any]:
        """What it is made of, and how it is."""
        return dict(self._ask("GET", ""))

    def answer(self, id: str) -> Reply:
        """The answer that an image got."""
        return Reply.of(self._ask("GET", f"/steps/{quote(id, safe='')}"))

    def delete(self) -> None:
        """Forget it, and everything about it."""
        self._connection.open(Call("DELETE", self.path, repeatable=False))

    def snapshot(self) -> dict[str, Any]:
        """Write all that is remembered to a file of the server's."""
        return dict(self._ask("POST", "/snapshot", {}))

    def download_snapshot(self, path: str | os.PathLike[str], file: str = "") -> dict[str, Any]:
        """Fetch a snapshot: a new one, or a file of the server's; whole or not at all."""
        told = {"file": file} if file else self.snapshot()
        call = Call("GET", f"{self.path}/snapshots/{quote(told['file'], safe='')}")
        size = 0
        with whole_file(user_path(path)) as into:
            for piece in self._connection.pieces(self._connection.open(call, whole=False), _PIECE):
                size += into.write(piece)
            if size != told.get("bytes", size):
                raise NoAnswerError("the snapshot came incomplete", got=f"{size:,} bytes")
        return {**told, "bytes": size}

    def restore(self, snapshot: str | os.PathLike[str]) -> dict[str, Any]:
        """Go back to what was remembered at a snapshot; steps since then are forgotten.

        Ids, answers and labels of all steps are forgotten too: an image that is sent again is
        learned again.

        Args:
            snapshot: a name such as `000000010000.safetensors` is a file of the server's; anything
                else is the path of a file here, `./000000010000.safetensors` too.
        """
        if isinstance(snapshot, str) and _SNAPSHOT.fullmatch(snapshot):
            return dict(self._ask("POST", "/restore", {"file": snapshot}, repeatable=False))
        content = read_bytes(user_path(snapshot), "snapshot", at_most=2**33)
        call = Call("POST", f"{self.path}/restore", content, _BINARY, repeatable=False)
        return dict(self._connection.loads(self._connection.open(call).data))

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What happens to it from now on, as it happens: the name of each event, and its data.

        It listens again where it was cut off; what happened in between is missed.
        """
        call, fruitless = Call("GET", f"{self.path}/events", accept="text/event-stream"), 0
        while fruitless <= self._connection.retries:
            response = self._connection.open(call, whole=False)
            with contextlib.suppress(NoAnswerError):
                for name, data in _events(self._connection.pieces(response)):
                    yield name, self._connection.loads(data)
                    fruitless = 0
            fruitless += 1
            self._connection.wait(fruitless)
        raise NoAnswerError("the server hangs up on who listens", got=f"{fruitless} times")

    def _ask(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        return self._connection.ask(method, self.path + path, body, **how)

    def _line(self, request: Mapping[str, Any] | MarcError) -> bytes | MarcError:
        """A step as a line, or why it is none."""
        if isinstance(request, MarcError):
            return request
        try:
            given = dict(request)
            if given.get("id") is None:
                given["id"] = uuid.uuid4().hex
            return self._connection.dumps(step_body(**given))
        except MarcError as error:
            return error
        except TypeError as error:  # an argument that `step` does not have
            return MarcError("this is no step", got=f"{error}"[:200], hint="the arguments of step")

    def _answered(self, lines: Sequence[bytes | MarcError]) -> Iterator[Outcome]:
        """Answers to some steps in order, sent again as long as some are without one."""
        waiting = deque(line for line in lines if isinstance(line, bytes))
        answers: Iterator[Outcome] = self._until_answered(waiting)
        for line in lines:
            yield line if isinstance(line, MarcError) else next(answers)

    def _until_answered(self, waiting: deque[bytes]) -> Iterator[Outcome]:
        fruitless = 0
        while waiting:
            call = Call("POST", f"{self.path}/steps", b"\n".join(waiting) + b"\n", _LINES)
            problem: MarcError = NoAnswerError("the server left steps without an answer")
            for line in self._connection.open(call).data.splitlines():
                outcome = self._outcome(self._connection.loads(line))
                if isinstance(outcome, Refused) and passes(outcome):
                    problem = outcome
                    break
                waiting.popleft()
                fruitless = 0
                yield outcome
            if waiting:
                fruitless += 1
                if fruitless > self._connection.retries:
                    raise problem
                self._connection.wait(fruitless, getattr(problem, "retry_after", None))

    def _outcome(self, told: Any) -> Outcome:
        is_problem = isinstance(told, dict) and "problem" in told and "status" in told
        if not is_problem:
            return Reply.of(told)
        return self._connection.refusal(told, told.get("retry_after"))


def _events(pieces: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    r"""Server-sent events from what comes: lines of a name and of data, closed by an empty one.

    >>> list(_events([b"event: st", b"ep\r\ndata: {}\r", b"\n\r\n", b": still here\n\n"]))
    [('step', b'{}')]
    """
    rest, name, data = b"", "message", list[bytes]()
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in (each.removesuffix(b"\r") for each in lines):
            field, _, value = line.partition(b":")
            if field == b"event":
                name = value.strip().decode("utf-8", "replace")
            elif field == b"data":
                data.append(value.removeprefix(b" "))
            elif not line:
                if data:
                    yield name, b"\n".join(data)
                name, data = "message", []


def _predictor(given: Predictor | tuple[ArrayLike, float]) -> dict[str, Any]:
    """Prototypes and scale as JSON."""
    if isinstance(given, Predictor):
        return {"prototypes": given.prototypes.tolist(), "logit_scale": float(given.logit_scale)}
    try:
        prototypes, scale = given
        array = np.asarray(prototypes, dtype=np.float32)
        dim = array.shape[1]
    except (TypeError, ValueError, IndexError):
        allowed = "(prototypes (C, D), logit scale), or a marc.Predictor"
        raise MarcError("this is no predictor", got=type(given).__name__, allowed=allowed) from None
    return _predictor(Predictor(*check_predictor(array, scale, dim)))


def _plain(label: Any) -> Any:
    """A label as JSON has it: NumPy has integers of its own."""
    return int(label) if isinstance(label, np.integer) else label
