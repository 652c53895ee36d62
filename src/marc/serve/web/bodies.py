"""What a step says, in each of the forms that are accepted: parsed by hand, because it is often.

JSON has features as lists of numbers, or as base64 of 32-bit floats, little-endian. A raw body has
arrays: `application/x-npy` one, the predictor's vector and those of the spaces one after the other
in the order of the configuration; `application/x-safetensors` several by name. What else a step
says is then in the query: `?id=17&neighbours=3`.
"""

from __future__ import annotations

import base64
import binascii
import io
import reprlib
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from marc.errors import MarcError, number
from marc.serve.memory.config import StepRequest
from marc.serve.refused import Refused

JSON, NPY, SAFETENSORS = "application/json", "application/x-npy", "application/x-safetensors"
MEDIA_TYPES = (JSON, NPY, SAFETENSORS)
_OPTIONS = {"id", "neighbours", "dry_run", "deadline"}
_FIELDS = {"features", "image", *_OPTIONS}
_MOST_DEADLINE = 3600.0
_LONGEST_HEADER = 1024  # of an array; those of vectors have about 60 characters
_HEADERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}

_Layout = tuple[int, Mapping[str, int]]
"""Dimensions of a memory: the predictor's, and those of the spaces by name."""


def parse_json(raw: bytes, what: str) -> Any:
    """A value of JSON."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise Refused(400, f"{what} is no JSON", got=str(error)[:120]) from None


def step_request(
    media_type: str, raw: bytes, query: Mapping[str, str], layout: _Layout, most_image: int
) -> StepRequest:
    """A step from the body of a request, and its query where the body is raw."""
    if media_type == JSON:
        return step_of(parse_json(raw, "the body of a step"), most_image)
    if unknown := query.keys() - _OPTIONS:
        raise MarcError(
            "a step has no such parameter",
            got=ascii(sorted(unknown))[:80],
            allowed=", ".join(sorted(_OPTIONS)),
        )
    options: dict[str, Any] = {"id": query.get("id")}
    for name, convert in (("neighbours", int), ("deadline", float)):
        if name in query:
            options[name] = _converted(name, query[name], convert)
    if "dry_run" in query:
        options["dry_run"] = {"true": True, "false": False}.get(query["dry_run"], query["dry_run"])
    vectors = _npy(raw, layout) if media_type == NPY else _safetensors(raw)
    return _request(options, vectors)


def step_of(body: Any, most_image: int) -> StepRequest:
    """A step from JSON."""
    if not isinstance(body, dict):
        raise MarcError("a step is a JSON object", got=type(body).__name__)
    if unknown := body.keys() - _FIELDS:
        raise MarcError(
            "a step has no such field",
            got=ascii(sorted(unknown))[:80],
            allowed=", ".join(sorted(_FIELDS)),
        )
    if ("image" in body) == ("features" in body):
        raise MarcError(
            "a step has the features of an image, or the image: one of them",
            got="both" if "image" in body else "neither",
            hint='"features": {"predictor": [...], "spaces": {...}}',
        )
    if "image" in body:
        return _request(body, {}, _image(body["image"], most_image))
    features = body["features"]
    if not isinstance(features, dict) or features.keys() - {"predictor", "spaces"}:
        raise MarcError(
            "features are those of the predictor and of the spaces",
            hint='"features": {"predictor": [...], "spaces": {"s": [...]}}',
        )
    spaces = features.get("spaces") or {}
    if not isinstance(spaces, dict) or "predictor" in spaces:
        raise MarcError("the features of spaces have the names of the spaces", hint='{"s": [...]}')
    if "predictor" not in features:
        raise MarcError("a step needs the features of the predictor", hint='"predictor": [...]')
    vectors = {"predictor": _vector("predictor", features["predictor"])}
    return _request(body, vectors | {name: _vector(name, v) for name, v in spaces.items()})


def _request(
    options: Mapping[str, Any], vectors: dict[str, NDArray[np.float32]], image: bytes | None = None
) -> StepRequest:
    dry_run, deadline = options.get("dry_run", False), options.get("deadline")
    if not isinstance(dry_run, bool):
        raise MarcError("dry_run must be true or false", got=repr(dry_run)[:80])
    if deadline is not None:
        seconds = number("deadline (in seconds from now)", deadline, 0, _MOST_DEADLINE)
        deadline = time.monotonic() + seconds
    request = StepRequest(
        options.get("id"),  # type: ignore[arg-type]  # checked below
        vectors.pop("predictor", None),
        vectors,
        image=image,
        neighbours=options.get("neighbours", 0),
        dry_run=dry_run,
        deadline=deadline,
    )
    request.check()
    return request


def _vector(name: str, value: Any) -> NDArray[np.float32]:
    """Features in either form; whether they fit is checked by the memory."""
    if isinstance(value, dict):
        return _from_base64(name, value)
    is_nested = isinstance(value, list) and bool(value) and isinstance(value[0], list)
    if all(map(_has_numbers, value)) if is_nested else _has_numbers(value):
        try:
            with np.errstate(over="ignore"):  # an infinite feature is refused by the memory
                return np.array(value, dtype=np.float32)
        except (ValueError, OverflowError):  # rows of different lengths
            pass
    raise MarcError(
        f"the features of {ascii(name)[:40]} must be numbers",
        got=reprlib.repr(value),
        allowed='a list of them, lists of one length, or {"b64": "...", "shape": [512]}',
    )


def _has_numbers(value: Any) -> bool:
    """Whether something is a list of numbers; NumPy would take texts, and null, as such too."""
    return isinstance(value, list) and bool(value) and not {*map(type, value)} - {int, float}


def _from_base64(name: str, value: Mapping[str, Any]) -> NDArray[np.float32]:
    try:
        raw = base64.b64decode(value["b64"], validate=True)
        array = np.frombuffer(raw, "<f4")
        shape = value.get("shape", [array.size])
        fits = isinstance(shape, list) and {*map(type, shape)} == {int} and min(shape) > 0
        if fits and len(shape) <= 2 and not value.keys() - {"b64", "shape"}:
            return array.reshape(shape)
    except (binascii.Error, ValueError, TypeError, KeyError, OverflowError):
        pass
    raise MarcError(
        f"the features of {ascii(name)[:40]} must be numbers",
        got=reprlib.repr(value),
        allowed='{"b64": base64 of 32-bit floats, little-endian, "shape": [512] or [views, 512]}',
    )


def _image(value: Any, most: int) -> bytes:
    if not isinstance(value, str):
        raise MarcError("an image is the base64 of a file", got=type(value).__name__)
    if len(value) * 3 // 4 > most + 2:
        raise Refused(
            413, "this picture is larger than the quota 'image_bytes'",
            got=f"{len(value) * 3 // 4} bytes", allowed=most,
        )  # fmt: skip
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise MarcError("an image is the base64 of a file", got=value[:40]) from None


def _npy(raw: bytes, layout: _Layout) -> dict[str, NDArray[np.float32]]:
    sizes = {"predictor": layout[0], **layout[1]}
    file = io.BytesIO(raw)
    try:
        read = _HEADERS.get(np.lib.format.read_magic(file))
        if read is None:
            raise ValueError("another version than 1.0 and 2.0")
        shape, _, dtype = read(file, max_header_size=_LONGEST_HEADER)
        if dtype.kind != "f":
            raise ValueError(f"an array of {dtype}")
        array = np.frombuffer(raw, dtype, offset=file.tell())
    except Exception as error:  # a header is Python, and whatever reading that leads to
        raise Refused(400, "this is no array of NumPy", got=ascii(str(error))[:120]) from None
    with np.errstate(over="ignore"):
        flat = array.astype(np.float32)
    if flat.shape != shape or shape != (sum(sizes.values()),):
        raise MarcError(
            "the array has another length than the features of this memory",
            got=f"{len(flat)} numbers of shape {shape}",
            allowed=" + ".join(f"{name} {size}" for name, size in sizes.items()),
        )
    ends = np.cumsum([*sizes.values()])
    return dict(zip(sizes, np.split(flat, ends[:-1]), strict=True))


def _safetensors(raw: bytes) -> dict[str, NDArray[np.float32]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(raw)
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise Refused(400, "this is no safetensors file", got=ascii(str(error))[:120]) from None
    if odd := [name for name, array in arrays.items() if array.dtype.kind != "f"]:
        raise MarcError("features must be floating-point numbers", got=ascii(odd)[:80])
    with np.errstate(over="ignore"):
        tensors = {name: array.astype(np.float32) for name, array in arrays.items()}
    if "predictor" not in tensors:
        raise MarcError(
            "the tensors have no features of the predictor",
            got=ascii(sorted(tensors))[:80],
            allowed="predictor, and the name of each space",
        )
    return tensors


def _converted(name: str, text: str, convert: Any) -> Any:
    try:
        return convert(text)
    except ValueError:
        raise MarcError(f"{name} must be a number", got=ascii(text)[:40]) from None
