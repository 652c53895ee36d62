"""An encoder from an ONNX file, run by onnxruntime on the CPU.

`onnx:FILE` takes any graph with a card beside it, FILE.json (`tower.onnx.json`) or the file of the
same stem (`tower.json`):

    {"name": "tower", "dim": 512, "size": 224,
     "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}

These are needed. May be left out: `resized` (the size: pixels of the short side before the centre
is cut out), `resize` ("short", or "squash"), `interpolation` ("bicubic", or "bilinear"), `pooling`
and `licence` (words for people), `paper` and `summary`.

The graph takes normalised float32 pixels (n, 3, size, size) with n free, and gives (n, dim). Files
that it keeps its weights in (`tower.onnx.data`) lie beside it and count for its digest; of the
format only as much is read as leads to their names: field numbers of onnx.proto.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.encoders.cards import EncoderCard, Library, Loading, reason, safe_name
from marc.errors import MarcError, integer, number
from marc.files import read_bytes, read_json, refuse_odd_file, user_path
from marc.pictures.crops import Crop
from marc.scores import unit

_BATCH = 64
_NEEDED = ("name", "dim", "size", "mean", "std")
_FREE = ("resized", "resize", "interpolation", "pooling", "licence", "paper", "summary")

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
_MOST_BITS = 63  # of a number
_LARGEST_DIM = 2**20
_WIDTHS = {1: 8, 5: 4}  # bytes of a number that has a fixed length
_BYTES = 2  # the kind of a field that holds bytes, a text or a message


class OnnxEncoder:
    """Normalised pixels, colours first, through an ONNX graph; the result has unit length."""

    precision = "float32"

    def __init__(self, card: EncoderCard, path: Path, batch: int = 0) -> None:
        self._session, digest = _open(card, path)
        self._input = self._session.get_inputs()[0].name
        self.card = dataclasses.replace(card, digest=digest)
        self.batch = Loading(batch=batch).batch or _BATCH

    def encode(self, images: NDArray[np.uint8] | NDArray[np.float32]) -> NDArray[np.float32]:
        """Unit vectors (n, dim) of cropped images (n, size, size, 3)."""
        self.card.check_images(images)
        vectors = np.empty((len(images), self.card.dim), dtype=np.float32)
        for start in range(0, len(images), self.batch):
            part = images[start : start + self.batch]
            pixels = self.card.normalise(part)
            vectors[start : start + self.batch] = self._run(pixels)
        return unit(vectors)

    def _run(self, pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        try:
            output = self._session.run(None, {self._input: pixels})[0]
        except Exception as error:  # onnxruntime has its own family of errors
            raise _not_as_on_card(self.card, reason(error)) from error
        if output.shape != (len(pixels), self.card.dim):
            raise _not_as_on_card(self.card, f"output {output.shape}")
        rows: NDArray[np.float32] = output
        return rows


def _load_onnx(card: EncoderCard, loading: Loading) -> OnnxEncoder:
    loading.refuse_weights(card)
    encoder = OnnxEncoder(card, Path(card.tag), loading.batch)
    size = card.crop.size
    encoder.encode(np.zeros((1, size, size, 3), dtype=np.uint8))  # refused here, not hours later
    return encoder


def _onnx_card(file: str) -> EncoderCard:
    path = user_path(file)
    refuse_odd_file(path, "ONNX file")
    beside = (path.with_name(path.name + ".json"), path.with_suffix(".json"))
    card = next((each for each in beside if each.exists()), None)
    if card is None:
        raise MarcError(
            "an ONNX file needs a card beside it",
            got=str(path),
            allowed=" or ".join(each.name for each in beside),
            hint='{"name": "NAME", "dim": 512, "size": 224, "mean": [...], "std": [...]}',
        )
    return _parse(_entries(card), card, path)


def _entries(path: Path) -> dict[str, Any]:
    stored = read_json(path)
    unknown = [name for name in stored if name not in (*_NEEDED, *_FREE)]
    missing = [name for name in _NEEDED if name not in stored]
    if unknown or missing:
        raise MarcError(
            f"the card {path.name} has other entries than it should",
            got="; ".join(
                f"{what}: {', '.join(names)}"
                for what, names in (("unknown", unknown), ("missing", missing))
                if names
            ),
            allowed=f"{', '.join(_NEEDED)} and, if you like, {', '.join(_FREE)}",
        )
    return stored


def _parse(stored: dict[str, Any], card: Path, path: Path) -> EncoderCard:
    words = {name: stored.get(name, "") for name in ("name", "pooling", "licence", "paper")}
    words["summary"] = stored.get("summary", f"{path.name}, run by onnxruntime")
    for name, value in words.items():
        if not isinstance(value, str):
            raise MarcError(f"{name} on {card.name} must be a text", got=repr(value))
    size = integer(f"size on {card.name}", stored["size"], at_least=1)
    crop = Crop(
        size,
        stored.get("resized", size),
        str(stored.get("resize", "short")),
        str(stored.get("interpolation", "bicubic")),
    )
    std = _triple("std", stored["std"], card)
    if min(std) <= 0:
        raise MarcError(f"std on {card.name} must be above 0", got=std)
    return EncoderCard(
        name=safe_name(words["name"]),
        summary=words["summary"],
        library="onnx",
        tag=str(path),
        dim=integer(f"dim on {card.name}", stored["dim"], 1, _LARGEST_DIM),
        crop=crop.checked(),
        mean=_triple("mean", stored["mean"], card),
        std=std,
        pooling=words["pooling"] or "unknown",
        licence=words["licence"] or "unknown",
        paper=words["paper"],
        digest=_graph_digest(path, _read_graph(path)),
    )


def _triple(name: str, value: object, card: Path) -> tuple[float, float, float]:
    if not isinstance(value, list) or len(value) != 3:
        raise MarcError(f"{name} on {card.name} must be three numbers", got=repr(value))
    red, green, blue = (number(f"{name} on {card.name}", each) for each in value)
    return red, green, blue


def _not_as_on_card(card: EncoderCard, got: str) -> MarcError:
    return MarcError(
        f"the graph of {card.name} is not as its card says",
        got=got,
        allowed=f"float32 (n, 3, {card.crop.size}, {card.crop.size}) in, (n, {card.dim}) out",
    )


def _open(card: EncoderCard, path: Path) -> tuple[Any, str]:
    """A session, and the digest of the graph."""
    import onnxruntime

    graph = _read_graph(path)
    digest = _graph_digest(path, graph)
    if card.digest and digest != card.digest:
        raise MarcError(
            f"the weights of {card.name} are not the ones on its card",
            got=f"{path}: sha256 {digest[:12]}",
            allowed=f"sha256 {card.digest[:12]}",
            hint="install marc-clip again",
        )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    # Other files are found from the graph's path alone. A graph without them is opened from what
    # was hashed: if it has one after all, that is an error and not a part outside the digest.
    source = str(path.absolute()) if _external_files(graph) else graph
    try:
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has its own family of errors
        problem = f"{path} is no ONNX graph that can be run"
        raise MarcError(problem, got=reason(error)) from error
    return session, digest


def _read_graph(path: Path) -> bytes:
    return read_bytes(path, "ONNX file", at_most=2**31)  # the most that its format can hold


def _external_files(graph: bytes) -> list[str]:
    """Names of the files that a graph keeps tensors in, relative to it."""
    try:
        return sorted(set(_locations(memoryview(graph), "model")))
    except (IndexError, KeyError, ValueError, RecursionError):
        return []  # no graph: onnxruntime says so better


def _graph_digest(path: Path, graph: bytes) -> str:
    """SHA-256 of a graph, and of the names and contents of the files that belong to it."""
    digest = hashlib.sha256(graph)
    for name in _external_files(graph):
        try:
            refuse_odd_file(path.parent / name)
            with (path.parent / name).open("rb") as file:
                content = hashlib.file_digest(file, "sha256")
        except (OSError, MarcError) as error:
            raise MarcError(
                f"{path.name} keeps its weights in another file, which cannot be read",
                got=f"{path.parent / name}: {getattr(error, 'problem', error)}",
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
    start = 0
    while start < len(message):
        key, start = _number(message, start)
        field, kind = key >> 3, key & 7
        if kind == 0:
            _, start = _number(message, start)
        elif kind == _BYTES:
            length, start = _number(message, start)
            if start + length > len(message):
                raise ValueError("a field is longer than its message")
            yield field, message[start : start + length]
            start += length
        else:
            start += _WIDTHS[kind]


def _number(message: memoryview, start: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where the next begins."""
    value = shift = 0
    while message[start] & 0x80:
        if shift > _MOST_BITS:
            raise ValueError("a number is too long")
        value |= (message[start] & 0x7F) << shift
        start, shift = start + 1, shift + 7
    return value | message[start] << shift, start + 1


LIBRARY = Library("onnx:FILE", _load_onnx, _onnx_card)
