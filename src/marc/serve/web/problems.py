"""Errors as `application/problem+json`: the four parts of a `MarcError`, and a status."""

from __future__ import annotations

import logging
import math
import reprlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from marc.errors import MarcError
from marc.serve.refused import Refused

if TYPE_CHECKING:
    from fastapi import FastAPI, Request

MEDIA_TYPE = "application/problem+json"
_log = logging.getLogger("marc.serve")

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "problem"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "problem": {"type": "string", "description": "What was wrong."},
        "got": {"type": ["string", "null"], "description": "What came."},
        "allowed": {"type": ["string", "null"], "description": "What is allowed."},
        "hint": {"type": ["string", "null"], "description": "What to try next."},
    },
}
"""For the description of the API."""


def problem(error: MarcError) -> dict[str, Any]:
    """An error as plain data; one without a status of its own is of the request's content.

    >>> problem(MarcError("n must be an integer >= 1", got=0))["status"]
    422
    """
    status = error.status if isinstance(error, Refused) else 422
    parts = {"got": error.got, "allowed": error.allowed, "hint": error.hint}
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "problem": error.problem,
        **{name: None if part is None else str(part) for name, part in parts.items()},
    }


def misfit(first: Mapping[str, Any]) -> Refused:
    """What pydantic says of a value."""
    where = ".".join(ascii(part)[:80].strip("'") for part in first["loc"]) or "the body"
    got = None if first["type"] == "missing" else reprlib.repr(first.get("input"))
    return Refused(422, f"{where}: {first['msg']}", got=got)


def unforeseen(error: Exception, path: str) -> Refused:
    """What a client learns of an error that nobody thought of; the log has the rest."""
    _log.error("unforeseen", exc_info=error, extra={"path": path})
    return Refused(500, "the server was not prepared for this", got=type(error).__name__)


def response(error: MarcError) -> Response:
    """An error as a client receives it."""
    body = problem(error)
    headers = {}
    if isinstance(error, Refused):
        if error.retry_after is not None:
            headers["retry-after"] = str(max(1, math.ceil(error.retry_after)))
        if error.status == 401:
            headers["www-authenticate"] = "Bearer"
    content = orjson.dumps(body, default=str)
    return Response(content, body["status"], headers=headers, media_type=MEDIA_TYPE)


def handle(app: FastAPI) -> None:
    """Answer every error of an application in this form."""

    async def of_ours(_: Request, error: Exception) -> Response:
        assert isinstance(error, MarcError)
        return response(error)

    async def of_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        status, headers = error.status_code, dict(error.headers or {})
        words = {404: "there is nothing at this address", 405: "this is not done at this address"}
        got = f"{request.method} {ascii(request.url.path)[1:-1]}"[:200]
        problem = words.get(status, str(error.detail))
        if status == 405:  # the router knows only the first of the routes of an address
            path = getattr(request.scope.get("route"), "path", None)
            methods = map(str.upper, app.openapi()["paths"].get(path, {}))
            headers["Allow"] = ", ".join(sorted(methods)) or headers.get("Allow", "GET")
        allowed = headers.get("Allow")
        answer = response(Refused(status, problem, got=got, allowed=allowed, hint="GET /docs"))
        answer.headers.update(headers)
        return answer

    async def of_parameters(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return response(misfit(error.errors()[0]))

    app.add_exception_handler(MarcError, of_ours)
    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(RequestValidationError, of_parameters)
