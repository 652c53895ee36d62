"""The routes of a memory beside its steps: made, looked at, labelled, switched, kept, deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel, ValidationError
from sse_starlette import EventSourceResponse
from sse_starlette.sse import AppStatus
from starlette.types import Receive, Scope, Send

from marc.serve.listeners import Listener
from marc.serve.refused import Refused
from marc.serve.web import problems
from marc.serve.web.bodies import parse_json
from marc.serve.web.context import (
    Context,
    allow,
    body_of,
    context,
    key_of,
    media_type_of,
    stopping,
)
from marc.serve.web.schemas import (
    LABELS,
    MEMORY,
    PROBLEMS,
    Labels,
    ModeChange,
    Restore,
    json_answer,
    json_body,
)

_MOST_CONFIG = 256 * 2**20  # bytes: 20,000 classes of 600 numbers
_MOST_LABELS = 16 * 2**20
_SMALL = 2**20
_BINARY = "application/octet-stream"
_SEND_TIMEOUT = 30  # seconds after which a listener that reads nothing is dropped
_Body = TypeVar("_Body", bound=BaseModel)
AppStatus.disable_automatic_graceful_drain()  # it would cut events; `Context.drain` ends them

router = APIRouter(prefix="/v1/memories", responses=PROBLEMS, tags=["memories"])
Name = Annotated[str, Path(description="The name of a memory.", examples=["cam-1"])]


class Json(Response):
    """An answer by orjson; numbers that JSON has not are null."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The bytes of an answer."""
        return orjson.dumps(content, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY)


@router.get("", response_class=Json, responses={200: json_answer()})
async def list_memories(request: Request) -> Response:
    """Every memory that the key may read: state, mode, counts."""
    key, service = key_of(request), context(request).service
    names = [name for name in service.names() if key.may(name, "read")]
    return Json({"memories": [service.status(name) for name in names]})


@router.put(
    "/{m}",
    response_class=Json,
    status_code=201,
    responses={200: json_answer(), 201: json_answer()},
    openapi_extra=json_body(MEMORY),
)
async def create_memory(request: Request, m: Name) -> Response:
    """Make a memory: 201, or 200 where it is there alike, or 409 where it is another."""
    server, _ = allow(request, m, "admin")
    media_type_of(request, "application/json")
    raw = await body_of(request, _MOST_CONFIG)
    body = await asyncio.to_thread(parse_json, raw, "the configuration of a memory")
    info, is_new = await server.service.create(m, body)
    return Json(info, 201 if is_new else 200)


@router.get("/{m}", response_class=Json, responses={200: json_answer()})
async def describe_memory(request: Request, m: Name) -> Response:
    """Configuration, sizes, weight, mode and what the shadow shows."""
    server, _ = allow(request, m, "read")
    status = server.service.status(m)
    if status["state"] == "quarantined":
        return Json(status)
    return Json(await server.service.call(m, "info"))


@router.delete("/{m}", status_code=204, response_class=Response)
async def delete_memory(request: Request, m: Name) -> Response:
    """Forget a memory, and everything about it."""
    server, _ = allow(request, m, "admin")
    await server.service.delete(m)
    return Response(status_code=204)


@router.post(
    "/{m}/labels",
    response_class=Json,
    responses={200: json_answer()},
    openapi_extra=json_body(LABELS),
)
async def label_steps(request: Request, m: Name) -> Response:
    """Late labels by id; each counts once, and one that is given again may correct it."""
    server, _ = allow(request, m, "write")
    body = await _read(request, Labels, _MOST_LABELS)
    labels = [{"id": each.id, "label": each.label} for each in body.labels]
    return Json(await server.service.call(m, "labels", labels=labels))


@router.get("/{m}/audit", response_class=Json, responses={200: json_answer()})
async def draw_audit(
    request: Request, m: Name, n: Annotated[int, Query(ge=1, le=1000)] = 20
) -> Response:
    """Disagreements without a label, drawn at random: what is worth labelling."""
    server, _ = allow(request, m, "read")
    return Json(await server.service.call(m, "audit", n=n))


@router.get("/{m}/judgement", response_class=Json, responses={200: json_answer()})
async def judge_memory(request: Request, m: Name) -> Response:
    """Counts, e-values, an interval of the gain that holds at every look, and the verdict."""
    server, _ = allow(request, m, "read")
    return Json(await server.service.call(m, "judgement"))


@router.post(
    "/{m}/mode",
    response_class=Json,
    responses={200: json_answer()},
    openapi_extra=json_body(ModeChange.model_json_schema()),
)
async def change_mode(request: Request, m: Name) -> Response:
    """Say who answers: the base (off, shadow), the memory a fraction (canary), or always (live)."""
    server, _ = allow(request, m, "admin")
    body = await _read(request, ModeChange)
    return Json(await server.service.call(m, "mode", **body.model_dump()))


@router.post("/{m}/snapshot", response_class=Json, responses={200: json_answer()})
async def make_snapshot(request: Request, m: Name) -> Response:
    """Write all that is remembered into one file."""
    server, _ = allow(request, m, "admin")
    return Json(await server.service.call(m, "snapshot"))


@router.get("/{m}/snapshots", response_class=Json, responses={200: json_answer()})
async def list_snapshots(request: Request, m: Name) -> Response:
    """The snapshots that are kept, the newest last."""
    server, _ = allow(request, m, "read")
    return Json(await server.service.call(m, "snapshots"))


@router.get(
    "/{m}/snapshots/{file}", response_class=Response, responses={200: {"content": {_BINARY: {}}}}
)
async def download_snapshot(request: Request, m: Name, file: str) -> Response:
    """A snapshot as it lies on the disk."""
    server, _ = allow(request, m, "admin")
    path = await server.service.call(m, "snapshot_file", file=file)
    return FileResponse(path, media_type=_BINARY, filename=f"{m}-{file}")


@router.post(
    "/{m}/restore",
    response_class=Json,
    responses={200: json_answer()},
    openapi_extra=json_body(Restore.model_json_schema(), raw=(_BINARY,)),
)
async def restore_memory(request: Request, m: Name) -> Response:
    """Go back to a snapshot of the memory's own, or to one that is sent as the body."""
    server, _ = allow(request, m, "admin")
    if media_type_of(request, "application/json", _BINARY) == _BINARY:
        most = server.quotas["restore_bytes"]
        content = await body_of(request, most, "the quota 'restore_bytes'")
        return Json(await server.service.call(m, "restore", content=content))
    body = await _read(request, Restore)
    return Json(await server.service.call(m, "restore", file=body.file))


@router.get("/{m}/samples", response_class=Json, responses={200: json_answer()})
async def show_samples(
    request: Request, m: Name, n: Annotated[int, Query(ge=1, le=60)] = 20
) -> Response:
    """Some of the last steps, the newest first."""
    server, _ = allow(request, m, "read")
    return Json(await server.service.call(m, "samples", n=n))


@router.get("/{m}/history", response_class=Json, responses={200: json_answer()})
async def show_history(
    request: Request, m: Name, points: Annotated[int, Query(ge=1, le=1000)] = 300
) -> Response:
    """The whole past in so many points: steps, disagreements, admissions, weight."""
    server, _ = allow(request, m, "read")
    return Json(await server.service.call(m, "history", points=points))


@router.get("/{m}/steps/{id:path}", response_class=Json, responses={200: json_answer()})
async def stored_answer(request: Request, m: Name, id: str) -> Response:
    """The answer that a step got."""
    server, _ = allow(request, m, "read")
    return Json(await server.service.call(m, "stored", id=id))


@router.get(
    "/{m}/pictures/{seq}", response_class=Response, responses={200: {"content": {"image/*": {}}}}
)
async def small_picture(
    request: Request, m: Name, seq: Annotated[int, Path(ge=1, le=2**53)]
) -> Response:
    """The small picture of a step."""
    server, _ = allow(request, m, "read")
    content = await server.service.call(m, "picture", seq=seq)
    media_type = "image/webp" if content[:4] == b"RIFF" else "image/jpeg"
    headers = {"cache-control": "private, max-age=86400"}
    return Response(content, media_type=media_type, headers=headers)


@router.get(
    "/{m}/events",
    response_class=Response,
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def listen(request: Request, m: Name) -> Response:
    """What happens, as server-sent events: sampled steps, status, judgement, mode, snapshots."""
    server, _ = allow(request, m, "read")
    most = server.quotas["listeners"]
    if server.service.state == "draining":
        raise stopping()
    if len(server.listeners) >= most:
        raise Refused(
            429, "too many listen already", got=len(server.listeners),
            allowed=f"{most}, the quota 'listeners'", retry_after=10,
        )  # fmt: skip
    listener = server.service.listen(m)
    server.listeners.add(listener)

    async def events() -> AsyncIterator[dict[str, str]]:
        yield _event("status", server.service.status(m))
        while (event := await listener.get()) is not None:
            if event[0] == "status":  # about once a second: was the key taken back meanwhile?
                try:
                    allow(request, m, "read")
                except Refused:
                    return
            yield _event(*event)

    return _Events(server, listener, events())


class _Events(EventSourceResponse):
    """Events for a listener, who is forgotten however the response ends, or never begins."""

    def __init__(self, server: Context, listener: Listener, events: AsyncIterator[Any]) -> None:
        super().__init__(events, send_timeout=_SEND_TIMEOUT)
        self._server, self._listener = server, listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._server.stream(scope, super().__call__(scope, receive, send))
        finally:
            self._listener.close()
            self._server.listeners.discard(self._listener)


async def _read(request: Request, form: type[_Body], most: int = _SMALL) -> _Body:
    """A body of JSON in a form, of at most so many bytes."""
    media_type_of(request, "application/json")
    body = parse_json(await body_of(request, most), "the body")
    try:
        return form.model_validate(body)
    except ValidationError as error:
        raise problems.misfit(error.errors()[0]) from None


def _event(name: str, data: Any) -> dict[str, str]:
    return {"event": name, "data": orjson.dumps(data).decode()}
