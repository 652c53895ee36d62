"""One array of a feature store: plain files as Zarr lays them out, with digests and a seal.

Beside an array NAME lies `digests/NAME`, with a row for each chunk: a digest of each view, or one
of the whole chunk. A chunk is there if both files are and agree. A digest also depends on what the
array is and on the place of the chunk, so no chunk passes for another. The seal is over the
document of an array, which in a finished one names the digest of the table of digests: nothing can
be changed, exchanged or lost without being found when it is read.
"""

from __future__ import annotations

import hashlib
import math
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NotRequired, TypedDict

import msgspec
import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError
from marc.files import json_digest, read_bytes, read_json, whole_file, write_json

DOCUMENT = "zarr.json"
"""The file that tells of an array or a group."""
DIGESTS = "digests"
"""The group of the tables of digests."""
_SIZE = 16  # bytes of a digest
_READERS = 2  # threads
_PIECE = 2**21  # numbers of a chunk that are checked at a time
_MOST_TEXT = 2**32
"""Bytes of a list of names or prompts."""

_Length = Annotated[int, msgspec.Meta(ge=0, le=2**31)]


class _Attributes(TypedDict):
    made: dict[str, Any]
    versions: dict[str, str]
    seal: str
    card: NotRequired[dict[str, Any]]
    features: NotRequired[str]
    table: NotRequired[str]
    after: NotRequired[str]


class _Chunks(TypedDict):
    chunk_shape: Annotated[list[_Length], msgspec.Meta(min_length=1, max_length=3)]


class _Grid(TypedDict):
    configuration: _Chunks


class _Document(TypedDict):
    shape: Annotated[list[_Length], msgspec.Meta(min_length=1, max_length=3)]
    data_type: Literal["uint8", "int64", "float16", "float32", "string"]
    chunk_grid: _Grid
    attributes: _Attributes


@dataclass(frozen=True)
class SealedArray:
    """An array by its document; what it has read of its digests it keeps to.

    So a reader gets the array that it opened, or an error, whatever a writer does meanwhile.
    """

    store: Path
    name: str
    key: str
    """The seal of the store that it belongs to."""
    shape: tuple[int, ...]
    rows: int
    """Of a chunk."""
    dtype: str
    attributes: dict[str, Any]

    @classmethod
    def open(cls, store: Path, name: str, key: str) -> SealedArray:
        """An array, refused unless its document is as it was written."""
        document = read_json(store / name / DOCUMENT, _Document)
        attributes = dict(document["attributes"])
        chunks = document["chunk_grid"]["configuration"]["chunk_shape"]
        known = attributes.pop("seal")
        shape, dtype = tuple(document["shape"]), document["data_type"]
        array = cls(store, name, key, shape, chunks[0], dtype, attributes)
        if array.rows < 1 or document != array._document(known) or known != array._seal():
            raise MarcError("the document is not what was sealed", got=store / name / DOCUMENT)
        return array

    def begin(self) -> None:
        """Write the document in place of an older array, whose chunks go."""
        for folder in (self.name, f"{DIGESTS}/{self.name}"):
            for parent in reversed(Path(folder).parents[:-1]):
                if not (self.store / parent / DOCUMENT).exists():
                    write_json(self.store / parent / DOCUMENT, group({}))
        self._save()  # chunks of an older one have other digests, so a kill mixes nothing
        digests = (self.n_chunks, self._n_parts, _SIZE)
        table = _layout(digests, (1, *digests[1:]), "uint8", {})
        write_json(self.store / DIGESTS / self.name / DOCUMENT, table)
        for folder in (f"{DIGESTS}/{self.name}", self.name):
            _remove(self.store / folder / "c")

    def finish(self, features: str, after: str) -> None:
        """Seal the table of digests too; `after` is a seal of the arrays that it goes with."""
        table = _hash(self.table.tobytes()).hex()
        facts = {"features": features, "table": table, "after": after}
        replace(self, attributes={**self.attributes, **facts})._save()

    @staticmethod
    def is_there(store: Path, name: str) -> bool:
        """Whether anything of an array is there: its document, or only some chunk or digest."""
        places = (f"{name}/{DOCUMENT}", f"{name}/c", f"{DIGESTS}/{name}/c")
        return any((store / place).exists() for place in places)

    @staticmethod
    def remove(store: Path, name: str) -> None:
        """Take an array away; a kill leaves one without chunks."""
        for folder in (f"{DIGESTS}/{name}", f"{name}/c", name):
            _remove(store / folder)

    @property
    def is_finished(self) -> bool:
        """Whether all of it was there once, and sealed."""
        return "features" in self.attributes

    @property
    def n_chunks(self) -> int:
        """How many chunks it has."""
        return -(-self.shape[0] // self.rows)

    def has(self, chunk: int) -> bool:
        """Whether a chunk is there, as it was written."""
        try:
            self.chunk(chunk)
            return True
        except (MarcError, OSError):
            return False

    def write(self, chunk: int, values: NDArray[Any]) -> None:
        """Write one chunk in one piece, then its digests."""
        content = self._encoded(values)
        digests = self._digests(chunk, content, self._n_parts)
        for path, part in (
            (self.path(chunk), content),
            (self.path(chunk, digests=True), digests),
        ):
            with whole_file(path, clear=False) as file:  # who holds the lock clears what was left
                file.write(part)

    def chunk(self, number: int) -> NDArray[Any]:
        """The rows of a chunk, refused unless they agree with the digests beside them."""
        return self._checked(number, self._row(number))

    def read(
        self, keep: NDArray[np.bool_] | None = None, n_views: int | None = None
    ) -> NDArray[Any]:
        """All rows, or those to `keep`, or their first views; refused unless they were sealed."""
        table = self.table[:, :n_views]  # before anything is allocated: so many chunks there are
        keep = np.ones(self.shape[0], dtype=bool) if keep is None else keep
        starts = np.append(0, np.cumsum(keep))[:: self.rows]  # where each chunk goes
        shape = (int(keep.sum()), *self.shape[1:])
        shape = shape if n_views is None else (shape[0], n_views, *shape[2:])
        rows = np.empty(shape, dtype=object if self.dtype == "string" else self.dtype)

        def put(number: int) -> None:
            part = self._checked(number, table[number])
            of_chunk = keep[number * self.rows :][: len(part)]
            part = part if n_views is None else part[:, :n_views]
            rows[starts[number] :][: of_chunk.sum()] = part[of_chunk]

        with ThreadPoolExecutor(_READERS) as readers:  # hashing lets other threads compute
            for _ in readers.map(put, range(self.n_chunks)):
                pass
        return rows

    def check(
        self,
        number: int,
        file: BinaryIO,
        take: Callable[[int, NDArray[Any]], None],
        n_views: int | None = None,
    ) -> None:
        """Read a chunk of numbers from its open file, refused unless it is what was sealed.

        `take` gets it in pieces of some rows, with the row that each begins at: nothing of it
        counts before the end.
        """
        known = self.table[number, :n_views]
        hashes = [_begin(self._place(number, part)) for part in range(len(known))]
        for start in range(0, self.rows, piece := self.rows_of(_PIECE)):
            values = self.numbers(file, start, min(piece, self.rows - start))
            views = values if self._n_parts > 1 else values[:, np.newaxis]
            for part, begun in enumerate(hashes):
                begun.update(_bytes(np.ascontiguousarray(views[:, part])))
            take(start, values)
        digests = b"".join(each.digest()[:_SIZE] for each in hashes)
        if digests != known.tobytes() or file.read(1):
            raise MarcError("a chunk is not what was written", got=self.path(number))

    def numbers(self, file: BinaryIO, start: int, count: int) -> NDArray[Any]:
        """Some rows that lie together in the open file of a chunk; unchecked."""
        shape = count, *self.shape[1:]
        n_bytes = self._type.itemsize * math.prod(self.shape[1:])
        file.seek(start * n_bytes)
        content = file.read(count * n_bytes)
        if len(content) != count * n_bytes:
            raise MarcError("a file is too short", got=file.name)
        values = np.frombuffer(content, self._type).reshape(shape)
        return values.astype(self.dtype, copy=False)

    def rows_of(self, n_numbers: int) -> int:
        """How many rows have about so many numbers, one at least."""
        return max(1, n_numbers // math.prod(self.shape[1:]))

    @cached_property
    def table(self) -> NDArray[np.uint8]:
        """All digests (chunks, views or 1, bytes); of a finished array they must be the sealed."""
        table = np.stack([self._row(chunk) for chunk in range(self.n_chunks)])
        if self.is_finished and _hash(table.tobytes()).hex() != self.attributes["table"]:
            raise MarcError("the digests are not those that were sealed", got=self.name)
        return table

    @property
    def _n_parts(self) -> int:
        return self.shape[1] if len(self.shape) == 3 else 1

    @cached_property
    def _identity(self) -> str:
        return json_digest(self.key, self.name, self.attributes["made"])

    def _seal(self) -> str:
        return json_digest(self.key, self.name, self._document(""))

    def _document(self, known: str) -> dict[str, Any]:
        attributes = {**self.attributes, "seal": known}
        return _layout(self.shape, (self.rows, *self.shape[1:]), self.dtype, attributes)

    def _save(self) -> None:
        write_json(self.store / self.name / DOCUMENT, self._document(self._seal()))

    def path(self, chunk: int, *, digests: bool = False) -> Path:
        """Where a chunk lies, or its digests."""
        folder = self.store / (f"{DIGESTS}/{self.name}" if digests else self.name) / "c"
        n_dims = 3 if digests else len(self.shape)
        return folder.joinpath(str(chunk), *"0" * (n_dims - 1))

    def _row(self, chunk: int) -> NDArray[np.uint8]:
        path, n_bytes = self.path(chunk, digests=True), self._n_parts * _SIZE
        return np.frombuffer(_read(path, n_bytes), np.uint8).reshape(-1, _SIZE)

    def _checked(self, chunk: int, known: NDArray[np.uint8]) -> NDArray[Any]:
        """The rows of a chunk, whose first views must have these digests."""
        path = self.path(chunk)
        if self.dtype == "string":
            content = read_bytes(path, at_most=_MOST_TEXT)
        else:
            content = _read(path, self.rows * math.prod(self.shape[1:]) * self._type.itemsize)
        if self._digests(chunk, content, len(known)) != known.tobytes():
            raise MarcError("a chunk is not what was written", got=path)
        return self._decoded(content)[: self.shape[0] - chunk * self.rows]

    def _digests(self, chunk: int, content: bytes, n_parts: int) -> bytes:
        if self._n_parts == 1:
            return _hash(content, self._place(chunk, 0))
        views = self._decoded(content)
        return b"".join(
            _hash(np.ascontiguousarray(views[:, view]), self._place(chunk, view))
            for view in range(n_parts)
        )

    def _place(self, chunk: int, part: int) -> str:
        return f"{self._identity}/{chunk}/{part}"

    @property
    def _type(self) -> np.dtype[Any]:
        return np.dtype(self.dtype).newbyteorder("<")

    def _encoded(self, values: NDArray[Any]) -> bytes:
        if self.dtype == "string":
            texts = [str(text).encode() for text in values.tolist()]
            parts = [len(part).to_bytes(4, "little") + part for part in texts]
            return len(texts).to_bytes(4, "little") + b"".join(parts)
        full = np.zeros((self.rows, *self.shape[1:]), dtype=self._type)
        full[: len(values)] = values  # a chunk is whole, also the last one
        return full.tobytes()

    def _decoded(self, content: bytes) -> NDArray[Any]:
        if self.dtype != "string":
            values = np.frombuffer(content, self._type).reshape(self.rows, *self.shape[1:])
            return values.astype(self.dtype, copy=False)
        texts, end = [], 4
        while end < len(content):
            start = end + 4
            end = start + int.from_bytes(content[end:start], "little")
            texts.append(content[start:end].decode())
        if len(texts) != self.shape[0]:
            raise MarcError("there are not as many texts as the document tells", got=len(texts))
        return np.array(texts, dtype=object)


def group(attributes: dict[str, Any]) -> dict[str, Any]:
    """The document of a group."""
    return {"attributes": attributes, "zarr_format": 3, "node_type": "group"}


def _layout(
    shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str, attributes: dict[str, Any]
) -> dict[str, Any]:
    """The document of an array, as Zarr version 3 has it; the files are the plain numbers."""
    plain = {"name": "bytes", "configuration": {"endian": "little"}}
    is_text = dtype == "string"
    return {
        "shape": [*shape],
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [*chunks]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "" if is_text else 0,
        "codecs": [{"name": "vlen-utf8", "configuration": {}} if is_text else plain],
        "attributes": attributes,
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def _begin(place: str) -> hashlib._Hash:
    return hashlib.sha256(place.encode())


def _hash(content: Any, place: str = "") -> bytes:
    known = _begin(place)
    known.update(content if isinstance(content, bytes) else _bytes(content))
    return known.digest()[:_SIZE]


def _bytes(numbers: Any) -> memoryview:
    return memoryview(numbers).cast("B")


def _read(path: Path, n_bytes: int) -> bytes:
    """A file that must have so many bytes; a longer one is not read."""
    content = read_bytes(path, at_most=n_bytes)
    if len(content) != n_bytes:
        raise MarcError("a file is too short", got=f"{path}: {len(content):,} bytes")
    return content


def _remove(folder: Path) -> None:
    """Take a folder of ours away; of a link only the link."""
    if folder.is_symlink():
        folder.unlink()
    else:
        shutil.rmtree(folder, ignore_errors=True)
