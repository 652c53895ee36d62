"""What an ONNX graph keeps in other files, and the digest of all of them.

A large graph keeps its weights beside it (`tower.onnx.data`), and names the files in its tensors.
Only as much of the format is read as leads to those names: field numbers of onnx.proto.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from marc.errors import MarcError

_INSIDE = {
    "model": {7: "graph", 25: "function"},
    "function": {7: "node"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
"""Which fields of a message hold messages that lead on."""
_WIDTHS = {1: 8, 5: 4}  # bytes of a number that has a fixed length
_BYTES = 2  # the kind of a field that holds bytes, a text or a message


def external_files(graph: bytes) -> list[str]:
    """Names of the files that a graph keeps tensors in, relative to it."""
    try:
        return sorted(set(_locations(memoryview(graph), "model")))
    except (IndexError, KeyError, ValueError):
        return []  # no graph: onnxruntime says so better


def graph_digest(path: Path, graph: bytes) -> str:
    """SHA-256 of a graph, and of the names and contents of the files that belong to it."""
    digest = hashlib.sha256(graph)
    for name in external_files(graph):
        try:
            with (path.parent / name).open("rb") as file:
                content = hashlib.file_digest(file, "sha256")
        except OSError as error:
            raise MarcError(
                f"{path.name} keeps its weights in another file, which cannot be read",
                got=f"{path.parent / name}: {error.strerror}",
                allowed=f"{name} in the folder of {path.name}",
            ) from None
        digest.update(f"\n{name} {content.hexdigest()}".encode())
    return digest.hexdigest()


def _locations(message: memoryview, kind: str) -> Iterator[str]:
    for field, value in _fields(message):
        inside = _INSIDE[kind].get(field)
        if inside == "entry":
            entry = {number: bytes(each).decode() for number, each in _fields(value)}
            if entry.get(1) == "location":
                yield entry[2]
        elif inside:
            yield from _locations(value, inside)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Number and content of the fields that hold bytes; the others are passed over."""
    place = 0
    while place < len(message):
        key, place = _number(message, place)
        field, kind = key >> 3, key & 7
        if kind == 0:
            _, place = _number(message, place)
        elif kind == _BYTES:
            length, place = _number(message, place)
            if place + length > len(message):
                raise ValueError("a field is longer than its message")
            yield field, message[place : place + length]
            place += length
        else:
            place += _WIDTHS[kind]


def _number(message: memoryview, place: int) -> tuple[int, int]:
    """A number of seven bits a byte, and the place after it."""
    value = shift = 0
    while message[place] & 0x80:
        value |= (message[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
    return value | message[place] << shift, place + 1
