"""Bodies of requests and answers, as the description of the API has them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from marc.serve.memory.operations import MOST_LABELS
from marc.serve.web import problems

_Mode = Literal["off", "shadow", "canary", "live"]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Label(_Request):
    """What is on one image."""

    id: str = Field(examples=["17"])
    label: str | int = Field(description='A class by name or number, or "neither".')


class Labels(_Request):
    """Late labels; read by the judge, never by the method."""

    labels: list[Label] = Field(max_length=MOST_LABELS)


class ModeChange(_Request):
    """Who answers from now on."""

    to: _Mode
    expect: _Mode | None = Field(None, description="Refused with 409 where the mode is another.")
    fraction: float | None = Field(None, ge=0, le=1, description="What a canary answers.")
    anyway: bool = Field(False, description="Let a memory answer that the judge says harms.")


class Restore(_Request):
    """Back to a snapshot."""

    file: str = Field(examples=["000000010000.safetensors"])


_VECTOR = {
    "oneOf": [
        {"type": "array", "items": {"type": "number"}, "minItems": 1},
        {
            "type": "array",
            "items": {"type": "array", "items": {"type": "number"}, "minItems": 1},
            "minItems": 1,
        },
        {
            "type": "object",
            "required": ["b64"],
            "properties": {
                "b64": {"type": "string", "description": "32-bit floats, little-endian."},
                "shape": {"type": "array", "items": {"type": "integer"}},
            },
            "additionalProperties": False,
        },
    ]
}
_SHARED = {
    "id": {"type": "string", "minLength": 1, "maxLength": 512},
    "neighbours": {"type": "integer", "minimum": 0, "maximum": 32, "default": 0},
    "dry_run": {"type": "boolean", "default": False},
    "deadline": {
        "type": "number",
        "minimum": 0,
        "maximum": 3600,
        "description": "Seconds from now; when they are over before the step's turn, it is 504.",
    },
}
STEP: dict[str, Any] = {
    "type": "object",
    "required": ["id"],
    "properties": {
        **_SHARED,
        "features": {
            "type": "object",
            "required": ["predictor"],
            "properties": {
                "predictor": _VECTOR,
                "spaces": {"type": "object", "additionalProperties": _VECTOR},
            },
            "additionalProperties": False,
        },
        "image": {"type": "string", "description": "The base64 of a JPEG, PNG or WebP file."},
    },
    "oneOf": [{"required": ["features"]}, {"required": ["image"]}],
    "additionalProperties": False,
}
MEMORY: dict[str, Any] = {
    "type": "object",
    "properties": {
        "method": {
            "oneOf": [
                {"type": "string"},
                {"type": "object", "required": ["name"],
                 "properties": {"name": {"type": "string"}}},
            ],
            "default": "class-means",
            "description": "A name of `marc list methods`, or the name and its settings.",
        },
        "predictor": {
            "type": "object",
            "required": ["prototypes", "logit_scale"],
            "properties": {
                "prototypes": {"type": "array", "items": {"type": "array",
                                                          "items": {"type": "number"}}},
                "logit_scale": {"type": "number", "exclusiveMinimum": 0},
            },
            "additionalProperties": False,
        },
        "classes": {"type": "array", "items": {"type": "string"}},
        "spaces": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}},
        "limits": {
            "type": "object",
            "properties": {
                name: {"type": "integer", "minimum": 1}
                for name in ("window", "queue", "snapshot_every", "steps_per_second")
            },
            "additionalProperties": False,
        },
        "mode": {"enum": ["off", "shadow", "canary", "live"], "default": "shadow"},
        "fraction": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "additionalProperties": False,
}  # fmt: skip
_NUMBER_OR_NULL = {"type": ["number", "null"]}
ANSWER: dict[str, Any] = {
    "type": "object",
    "required": ["id", "seq", "prediction", "class", "base_prediction", "disagree", "answered_by"],
    "properties": {
        "id": {"type": "string"},
        "seq": {"type": ["integer", "null"], "description": "From 1, without gaps."},
        "prediction": {"type": "integer", "description": "Of the memory, whoever answers."},
        "class": {"type": "string", "description": "The answer to act on."},
        "base_prediction": {"type": "integer", "description": "Of the predictor alone."},
        "base_class": {"type": "string"},
        "disagree": {"type": "boolean"},
        "answered_by": {"enum": ["base", "memory"]},
        "weight": _NUMBER_OR_NULL,
        "top": {"type": "array", "items": {"type": "object"}},
        "neighbours": {"type": "array", "items": {"type": "object"}},
        "stored": {"type": "object"},
    },
}
LABELS: dict[str, Any] = {
    **Labels.model_json_schema(),
    "properties": {"labels": {"type": "array", "maxItems": MOST_LABELS,
                              "items": Label.model_json_schema()}},
}  # fmt: skip
LABELS.pop("$defs")  # which would be looked for at the top of the description


def problem_answers(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The description of answers that are problems."""
    words = "What was wrong, what came, what is allowed, what to try next."
    content = {problems.MEDIA_TYPE: {"schema": problems.SCHEMA}}
    return {status: {"description": words, "content": content} for status in statuses}


_STATUSES = (400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 502, 503, 504, 507)
PROBLEMS = problem_answers(*_STATUSES)


def json_body(schema: dict[str, Any], **others: Any) -> dict[str, Any]:
    """The description of a body that is parsed by hand."""
    content = {"application/json": {"schema": schema}}
    content |= {media: {"schema": {"type": "string", "format": "binary"}} for media in
                others.get("raw", ())}  # fmt: skip
    return {"requestBody": {"required": True, "content": content}}


def json_answer(schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """The description of an answer."""
    content = {"application/json": {"schema": schema or {"type": "object"}}}
    return {"description": "The answer.", "content": content}
