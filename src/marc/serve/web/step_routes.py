"""The routes that step: one image, or many as lines, answered in the order in which they came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from fastapi.routing import APIRoute
from starlette.routing import request_response
from starlette.types import Receive, Scope, Send

from marc.errors import MarcError
from marc.serve.memory.config import MOST_VIEWS, Chain, MemoryConfig, StepRequest
from marc.serve.refused import Refused
from marc.serve.web import problems
from marc.serve.web.bodies import JSON, MEDIA_TYPES, parse_json, step_of, step_request
from marc.serve.web.context import Context, allow, body_of, media_type_of, stopping
from marc.serve.web.routes import Name
from marc.serve.web.schemas import ANSWER, PROBLEMS, STEP, json_answer, json_body

_DIGITS = 32  # bytes of a number as JSON, with what stands around it
_LINES = 64  # of one request that are worked on at a time; fewer if they are long
_AGAIN = 0.02  # seconds until a line is tried again that came too soon
_NDJSON = "application/x-ndjson"


class _Direct(APIRoute):
    """A route whose request goes to its function as it is: FastAPI has nothing to check in it.

    So a step waits for nothing that it does not need. Its spans are those of the request alone.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.app = request_response(self._answer)

    async def _answer(self, request: Request) -> Response:
        answer: Response = await self.endpoint(request, request.path_params["m"])
        return answer


router = APIRouter(prefix="/v1/memories", responses=PROBLEMS, tags=["steps"], route_class=_Direct)


@router.post(
    "/{m}/step",
    response_class=Response,
    responses={200: json_answer(ANSWER)},
    openapi_extra=json_body(STEP, raw=MEDIA_TYPES[1:]),
)
async def step(request: Request, m: Name) -> Response:
    """Answer an image, then learn from it; a repeated id gets the answer that it got before."""
    started = time.perf_counter()
    server, key = allow(request, m, "write")
    config = server.service.made_of(m)
    media_type = media_type_of(request, *MEDIA_TYPES)
    raw = await body_of(request, *_most(server, config))
    layout = config.dim, config.spaces
    image_bytes = server.quotas["image_bytes"]
    body = step_request(media_type, raw, request.query_params, layout, image_bytes)
    server.access.count_step(key, m, config.limits.steps_per_second)
    answer = await server.service.step(m, body)
    server.metrics.seconds.observe(time.perf_counter() - started)
    return Response(answer, media_type=JSON)


@router.post(
    "/{m}/steps",
    response_class=Response,
    responses={200: {"content": {_NDJSON: {"schema": {"type": "string"}}}}},
    openapi_extra={"requestBody": {"content": {_NDJSON: {"schema": {"type": "string"}}}}},
)
async def steps(request: Request, m: Name) -> Response:
    """A step a line, answered a line each in their order; a line that fails is its problem.

    Nothing is refused because too much waits: lines are read as fast as they are answered.
    """
    server, _ = allow(request, m, "write")
    lines = _Lines(request, server, m, server.service.made_of(m))
    media_type_of(request, _NDJSON, JSON, "application/jsonl")
    return _Answers(server, lines)


class _Answers(StreamingResponse):
    """A response that leaves the body of its request to who makes it.

    Starlette's waits for the client to go by reading what comes, and so would eat the lines.
    """

    def __init__(self, server: Context, lines: _Lines) -> None:
        super().__init__(lines.answers(), media_type=_NDJSON)
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._server.stream(scope, self.stream_response(send))


class _Lines:
    """The lines of one request: they step in their order, and are answered in it."""

    def __init__(
        self, request: Request, server: Context, memory: str, config: MemoryConfig
    ) -> None:
        self._request, self._server, self._chain = request, server, Chain()
        self._memory, self._rate = memory, config.limits.steps_per_second
        self._most = _most(server, config)
        self._room = asyncio.Semaphore(_LINES)
        self._waiting: asyncio.Queue[tuple[asyncio.Task[bytes], int] | None] = asyncio.Queue()

    async def answers(self) -> AsyncIterator[bytes]:
        """An answer for each line; at the end the problem of the body as a whole, if it has one."""
        reading = asyncio.create_task(self._read())
        self._server.uploads.add(reading)
        try:
            while (line := await self._waiting.get()) is not None:
                task, size = line
                yield await task
                for _ in range(size):
                    self._room.release()
            await asyncio.wait([reading])
            if reading.cancelled():
                yield _line(problems.problem(stopping()))
            elif isinstance(error := reading.exception(), MarcError):
                yield _line(problems.problem(error))
            else:
                reading.result()
        finally:  # who went away gets no answers, and what did not begin yet does not
            reading.cancel()
            self._server.uploads.discard(reading)
            while not self._waiting.empty():
                if line := self._waiting.get_nowait():
                    line[0].cancel()

    async def _read(self) -> None:
        """Begin with lines as they come, while there is room for them."""
        before = None
        try:
            async for line in _split(self._request, *self._most):
                size = 1 + len(line) * (_LINES // 2) // self._most[0]
                for _ in range(size):
                    await self._room.acquire()
                is_in = asyncio.Event()
                self._waiting.put_nowait(
                    (asyncio.create_task(self._answer(line, before, is_in)), size)
                )
                before = is_in
        finally:
            self._waiting.put_nowait(None)

    async def _answer(
        self, line: bytes, before: asyncio.Event | None, is_in: asyncio.Event
    ) -> bytes:
        """The answer to a line, which goes in once the one before it is in, or failed.

        After one that was refused for now, busy or away, the others are refused as well: a client
        that sends them again keeps their order.
        """
        name, started = None, time.perf_counter()
        try:
            raw = parse_json(line, "a line of steps")
            name = raw.get("id") if isinstance(raw, dict) else None
            body = step_of(raw, self._server.quotas["image_bytes"])
            if body.image is not None:  # its features may be made while others are
                body = await self._seen(body)
            if before is not None:
                await before.wait()
            step = await self._begin(body)
            is_in.set()
            answer = await step
            self._server.metrics.seconds.observe(time.perf_counter() - started)
            return answer + b"\n"
        except MarcError as error:
            if before is not None:
                await before.wait()
            self._chain.follow(error)
            after = {"retry_after": error.retry_after} if isinstance(error, Refused) else {}
            return _line({"id": name, **problems.problem(error), **after})
        except Exception as error:
            refused = problems.unforeseen(error, self._request.url.path)
            return _line({"id": name, **problems.problem(refused)})
        finally:
            if before is not None:
                await before.wait()
            is_in.set()

    async def _seen(self, body: StepRequest) -> StepRequest:
        """A picture as features, once there is room for it."""
        while True:
            try:
                return await self._server.service.seen(self._memory, body)
            except Refused as error:
                if error.status != 429:
                    raise
                await asyncio.sleep(_AGAIN)

    async def _begin(self, body: StepRequest) -> asyncio.Task[bytes]:
        """A step that waits for its turn, once there is room."""
        body = replace(body, chain=self._chain)
        while True:
            if self._chain.refused is not None:
                raise self._chain.refused.with_traceback(None)  # which would hold every line
            _, key = allow(
                self._request, self._memory, "write"
            )  # which may be taken back meanwhile
            try:
                self._server.access.count_step(key, self._memory, self._rate)
                step = asyncio.create_task(self._server.service.step(self._memory, body))
                await asyncio.sleep(0)  # by then it waits, or was refused
                if step.done():
                    step.result()
                return step
            except Refused as error:
                if error.status != 429:
                    raise
                await asyncio.sleep(_AGAIN)


async def _split(request: Request, most: int, of: str) -> AsyncIterator[bytes]:
    """The lines of a body as they come."""
    rest: list[bytes] = []
    size = 0
    async for part in request.stream():
        *ends, last = part.split(b"\n")
        for end in ends:
            line = b"".join([*rest, end])
            rest, size = [], 0
            if line.strip():
                yield line
        rest.append(last)
        size += len(last)
        if size > most:
            raise Refused(413, "a line is too long", got=f"more than {most} bytes",
                          allowed=f"{most} bytes, {of}")  # fmt: skip
    if b"".join(rest).strip():
        yield b"".join(rest)


def _line(value: Any) -> bytes:
    return orjson.dumps(value, default=str) + b"\n"


def _most(server: Context, config: MemoryConfig) -> tuple[int, str]:
    """Bytes that a step may have, and what they are: features, or a picture as base64."""
    features = _DIGITS * (MOST_VIEWS * config.dim + sum(config.spaces.values()))
    image = server.quotas["image_bytes"] * 4 // 3
    most = 2**16 + max(features, image)
    return most, "the quota 'image_bytes'" if image > features else "the features of the memory"
