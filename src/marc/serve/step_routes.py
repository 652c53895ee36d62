"""The routes that step: one image, or many as lines, answered in the order in which they came."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from marc.errors import MarcError
from marc.serve import problems
from marc.serve.access import Key
from marc.serve.bodies import JSON, MEDIA_TYPES, Layout, parse_json, step_of, step_request
from marc.serve.config import StepRequest
from marc.serve.context import Context, allow, body_of, media_type_of
from marc.serve.refused import Refused
from marc.serve.routes import Name
from marc.serve.schemas import ANSWER, PROBLEMS, STEP, json_answer, json_body

_MOST_FEATURES = 64 * 2**20  # bytes of a body with features
_LINES = 64  # of one request that are worked on at a time
NDJSON = "application/x-ndjson"

router = APIRouter(prefix="/v1/memories", responses=PROBLEMS, tags=["steps"])


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
    media_type = media_type_of(request, *MEDIA_TYPES)
    raw = await body_of(request, _most(server))
    layout = _layout(server, m) if media_type != JSON else (0, {})
    query, most = request.query_params, server.quotas["image_bytes"]
    body = step_request(media_type, raw, query, layout, most)
    _count(server, key, m)
    answer = await server.service.step(m, body)
    server.metrics.seconds.observe(time.perf_counter() - started)
    return Response(answer, media_type=JSON)


@router.post(
    "/{m}/steps",
    response_class=Response,
    responses={200: {"content": {NDJSON: {"schema": {"type": "string"}}}}},
    openapi_extra={"requestBody": {"content": {NDJSON: {"schema": {"type": "string"}}}}},
)
async def steps(request: Request, m: Name) -> Response:
    """A step a line, answered a line each in their order; a line that fails is its problem.

    Nothing is refused because too much waits: lines are read as fast as they are answered.
    """
    server, key = allow(request, m, "write")
    server.service.status(m)  # no such memory: refused before the first line
    media_type_of(request, NDJSON, JSON, "application/jsonl")
    return _Answers(_answers(request, server, key, m), media_type=NDJSON)


class _Answers(StreamingResponse):
    """A response that leaves the body of its request to who makes it.

    Starlette's waits for the client to go by reading what comes, and so would eat the lines.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.stream_response(send)


async def _answers(
    request: Request, server: Context, key: Key, memory: str
) -> AsyncIterator[bytes]:
    """Work on some lines at a time, and give their answers in order."""
    waiting: asyncio.Queue[asyncio.Task[bytes] | None] = asyncio.Queue(_LINES)

    async def send() -> None:
        before: asyncio.Task[bytes] | None = None
        try:
            async for line in _lines(request, _most(server)):
                before = asyncio.create_task(_answer(line, server, key, memory, before))
                await waiting.put(before)
        finally:
            await waiting.put(None)

    sending = asyncio.create_task(send())
    try:
        while (task := await waiting.get()) is not None:
            yield await task
        await sending
    except MarcError as error:  # of the body as a whole: no line comes after it
        yield orjson.dumps(problems.problem(error)) + b"\n"
    finally:
        sending.cancel()


async def _answer(
    line: bytes, server: Context, key: Key, memory: str, before: asyncio.Task[bytes] | None
) -> bytes:
    """The answer to a line, which goes in once the one before it went in."""
    name = None
    try:
        raw = parse_json(line, "a line of steps")
        name = raw.get("id") if isinstance(raw, dict) else None
        body = step_of(raw, server.quotas["image_bytes"])
        if body.image is not None:  # its features may be made while others are
            body = await server.service.seen(memory, body)
            if before is not None:
                await asyncio.wait([before])
        return await _patiently(server, key, memory, body) + b"\n"
    except MarcError as error:
        return orjson.dumps({"id": name, **problems.problem(error)}, default=str) + b"\n"


async def _patiently(server: Context, key: Key, memory: str, body: StepRequest) -> bytes:
    """Step as soon as there is room."""
    while True:
        try:
            _count(server, key, memory)
            return await server.service.step(memory, body)
        except Refused as error:
            if error.status != 429:
                raise
            await asyncio.sleep(0.1)


async def _lines(request: Request, most: int) -> AsyncIterator[bytes]:
    """The lines of a body as they come."""
    rest = bytearray()
    async for part in request.stream():
        rest += part
        *lines, last = rest.split(b"\n")
        for line in lines:
            if line.strip():
                yield bytes(line)
        rest = last
        if len(rest) > most:
            raise Refused(413, "a line is too long", got=f"more than {most} bytes")
    if rest.strip():
        yield bytes(rest)


def _most(server: Context) -> int:
    """Bytes that a step may have: features, or a picture as base64."""
    return max(_MOST_FEATURES, int(server.quotas["image_bytes"]) * 4 // 3 + 4096)


def _layout(server: Context, memory: str) -> Layout:
    status: dict[str, Any] = server.service.status(memory)
    if "layout" not in status:
        raise Refused(503, f"this memory is {status['state']}", retry_after=1)
    dim, spaces = status["layout"]
    return int(dim), spaces


def _count(server: Context, key: Key, memory: str) -> None:
    server.access.count_step(key, memory)
