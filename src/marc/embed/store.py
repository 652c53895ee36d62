"""The feature store: a folder with features of one list of pictures, filled chunk by chunk.

It is a Zarr (version 3) group, readable by any Zarr library:

    images/ids (N) strings     images/labels (N), if known
    images/status (N)          0, or why a picture could not be read (`marc.pictures.decoding`)
    images/content (N, 16)     digests of the encoded pictures
    predictor/views (N, M, D) float16        predictor/prototypes (C, D), with their prompts
    spaces/NAME (N, D_s) float32             one for each retrieval encoder
    digests/...                digests of the chunks of all these (`marc.embed.sealed`)

A chunk of rows is written in one piece, so it is there or not: that is the unit of going on after a
kill, and of several writers. What made an array is in its attributes; an array that was made
differently is never added to. All that is read is checked: it is what was written, or an error.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from marc.embed.sealed import DIGESTS, DOCUMENT, SealedArray, group
from marc.embed.shapes import About, Views, Words
from marc.encoders.cards import safe_name
from marc.errors import MarcError
from marc.files import (
    LOCK,
    PARTIAL,
    conform,
    differences,
    json_digest,
    read_json,
    versions,
    write_json,
)
from marc.pictures import canonical
from marc.pictures.views import MOST_VIEWS
from marc.stream import Stream, digest_of, end_digest

_STORES = Path("stores")  # where `marc embed` puts a store unless another folder is given
_MARK = "marc_store"
_MOST_DIM = 2**16
"""Numbers of one vector."""
_AGAIN = "the marc embed that made it makes what was lost again; with --force all of it"


class FeatureStore:
    """A store on disk. Reading needs no lock; writers hold `marc.embed.changes.writing`."""

    FORMAT = 2
    CHUNK = 256
    """Pictures in a chunk, unless another number is asked for."""
    LARGEST_CHUNK = 2**20
    QUARANTINE = "quarantine.csv"
    """Names the pictures that could not be read."""
    IDS, LABELS = "images/ids", "images/labels"
    STATUS, CONTENT = "images/status", "images/content"
    VIEWS, PROTOTYPES = "predictor/views", "predictor/prototypes"
    PROMPTS, PROMPT_CLASS = "predictor/prompts", "predictor/prompt_class"
    TEXTS = "predictor/texts"
    SPACES = "spaces"
    """The group of the retrieval spaces; all others are names of arrays."""

    PARTS: ClassVar[set[str]] = {
        *(LOCK, DOCUMENT, DIGESTS, QUARANTINE, SPACES),
        *(Path(array).parts[0] for array in (IDS, VIEWS)),
    }
    """What lies in the folder of a store."""

    _SHAPES: ClassVar[dict[str, Any]] = {VIEWS: Views, PROTOTYPES: Words}
    _TABLES = (PROTOTYPES, PROMPTS, CONTENT)
    _TYPES: ClassVar[dict[str, tuple[str, ...]]] = {
        **{IDS: ("string",), TEXTS: ("string",), LABELS: ("int64",), PROMPT_CLASS: ("int64",)},
        **{STATUS: ("uint8",), CONTENT: ("uint8",)},
    }
    """Of all that are not features."""

    def __init__(self, path: Path, *, begin: Mapping[str, Any] | None = None) -> None:
        """Open a store; `begin` one with these facts, which nobody takes for one until `mark`."""
        self.path = path
        if begin is not None:
            write_json(path / DOCUMENT, group({_MARK: None}))
            self.about = dict(begin)
            self._seal = json_digest(self.about)
            return
        if not self.exists(path):
            raise MarcError(
                "there is no feature store here",
                got=path,
                hint=f"marc embed folder/DIR --encoder dinov2-b -o {path}",
            )
        with self.mending(DOCUMENT):
            attributes = read_json(path / DOCUMENT)["attributes"]
            self.about = attributes[_MARK]
            found = self.about["format"]
        if found != self.FORMAT:
            raise MarcError(
                "this store was written by another version of marc",
                got=f"{path}: format {found}",
                allowed=f"format {self.FORMAT}",
                hint="the marc embed that made it, with --force: all of it is computed again",
            )
        with self.mending(DOCUMENT):
            conform(self.about, About, path / DOCUMENT)
            self._seal = json_digest(self.about)
            if attributes["seal"] != self._seal:
                raise MarcError("it is not what was sealed")

    @classmethod
    def exists(cls, path: Path) -> bool:
        """Whether a folder is a store of ours with its list of pictures, sound or damaged."""
        try:
            attributes = read_json(path / DOCUMENT).get("attributes")
        except (MarcError, OSError):
            attributes = None
        if isinstance(attributes, dict) and _MARK in attributes:
            return attributes[_MARK] is not None
        return cls.is_ours(path) and (path / cls.IDS).is_dir()  # it lost its document

    @classmethod
    def is_ours(cls, path: Path) -> bool:
        """Whether only a `marc embed` wrote into a folder: other commands lock theirs too."""
        try:
            names = {each.name for each in path.iterdir() if not each.name.endswith(PARTIAL)}
        except OSError:
            return False
        return LOCK in names and names <= cls.PARTS

    @staticmethod
    def default_path(source: str) -> Path:
        """Where `marc embed` puts the features of a source; each source has a name of its own.

        >>> FeatureStore.default_path("folder/photos").as_posix()
        'stores/folder-photos'
        >>> FeatureStore.default_path("folder/holiday/photos").as_posix()
        'stores/folder-holiday-photos-60b883'
        """
        source = canonical(source)
        name = safe_name(source)
        if name != source.replace("/", "-", 1):  # more was replaced than the type's own slash
            name += "-" + hashlib.sha256(os.fsencode(source)).hexdigest()[:6]
        return _STORES / name

    def mark(self) -> None:
        """Mark a store that was begun as one: its list of pictures is there."""
        write_json(self.path / DOCUMENT, group({_MARK: self.about, "seal": self._seal}))

    @property
    def n_images(self) -> int:
        """How many pictures were listed."""
        return int(self.about["n_images"])

    @property
    def chunk(self) -> int:
        """How many pictures a chunk has."""
        return int(self.about["chunk"])

    @property
    def n_chunks(self) -> int:
        """How many chunks each array has."""
        return -(-self.n_images // self.chunk)

    def rows(self, chunk: int) -> range:
        """The pictures of a chunk."""
        return range(chunk * self.chunk, min((chunk + 1) * self.chunk, self.n_images))

    def names(self, group: str) -> list[str]:
        """The arrays of a group that encoders filled."""
        found = [name.partition("/") for name in self.feature_arrays()]
        return sorted(name for of, _, name in found if of == group)

    def feature_arrays(self) -> set[str]:
        """Names of the arrays that encoders filled."""
        return self.arrays_in(self.path)

    @classmethod
    def arrays_in(cls, path: Path) -> set[str]:
        """Names of the arrays that encoders filled, also of those of which a part is left."""
        places = (path / cls.SPACES, path / DIGESTS / cls.SPACES)
        found = {each.name for place in places if place.is_dir() for each in place.iterdir()}
        names = {cls.VIEWS, *(f"{cls.SPACES}/{name}" for name in found)}
        return {name for name in names if SealedArray.is_there(path, name)}

    def attributes(self, name: str) -> dict[str, Any]:
        """What made an array; empty if there is none."""
        return self._array(name).attributes if SealedArray.is_there(self.path, name) else {}

    def shape(self, name: str) -> tuple[int, ...]:
        """Of an array, without reading it."""
        return self._array(name).shape

    def is_complete(self, name: str) -> bool:
        """Whether all of an array is there."""
        return "features" in self.attributes(name)

    def pending(self, name: str) -> list[int]:
        """Chunks that an array does not have yet, or not as they were written."""
        array = self._array(name)
        return [chunk for chunk in range(array.n_chunks) if not array.has(chunk)]

    def has(self, name: str, chunk: int) -> bool:
        """Whether a chunk is there, as it was written."""
        return self._array(name).has(chunk)

    def prepare(self, name: str, shape: tuple[int, ...], dtype: str, **about: Any) -> None:
        """Make room for the features of an encoder, in place of an older array.

        `about` are its attributes; `made` among them is all that the features depend on.
        """
        self._begin(name, (self.n_images, *shape), self.chunk, dtype, about)

    def _begin(
        self, name: str, shape: tuple[int, ...], rows: int, dtype: str, about: Mapping[str, Any]
    ) -> SealedArray:
        attributes = {**about, "versions": versions(encoding=True)}
        array = SealedArray(self.path, name, self._seal, shape, rows, dtype, attributes)
        array.begin()
        return array

    def holds(self, name: str, made: Mapping[str, Any], *, force: bool = False) -> bool:
        """Whether an array is there, made so; made differently, it is an error or replaced."""
        try:
            stored = self.attributes(name).get("made")
        except MarcError:
            if not force:
                raise
            return False
        differing = differences(stored or {}, json.loads(json.dumps(made)))
        if stored is not None and differing and not force:
            raise MarcError(
                f"the store has {name} already, made differently",
                got="; ".join(differing),
                hint="another -o STORE, or --force to replace it",
            )
        return stored is not None and not differing

    def write(self, name: str, chunk: int, values: NDArray[Any]) -> None:
        """Write one chunk, in one piece."""
        self._array(name).write(chunk, values)

    def read_chunk(self, name: str, chunk: int) -> NDArray[Any]:
        """One chunk, unreadable pictures and all."""
        with self.mending(name):
            return self._array(name).chunk(chunk)

    def finish(self, name: str) -> None:
        """Mark an array as complete, with the digest of what readers will see.

        Of one that is marked, chunks that were lost and made again must be as they were.
        """
        array = self._array(name)
        if not array.is_finished and not self.pending(name):
            with self.mending(name):
                array.finish(self._digest(array), self._after(name))
        elif array.is_finished:
            self.pin(name)

    def is_sound(self, name: str) -> bool:
        """Whether an array is complete and what was written."""
        try:
            return self.pin(name).is_finished and not self.pending(name)
        except MarcError:
            return False

    def _digest(self, array: SealedArray) -> str:
        """`marc.stream.digest` of what `read` gives, of which one chunk at a time is held."""
        if array.dtype == "string":
            text = "\0".join(array.read().tolist())
            return end_digest(hashlib.sha256(text.encode()))
        keep = np.ones(array.shape[0], bool)
        if self._is_of_encoder(array.name):
            keep = self.readable
        known = digest_of(np.dtype(array.dtype), (int(keep.sum()), *array.shape[1:]))
        for chunk in range(array.n_chunks):
            start = chunk * array.rows
            known.update(array.chunk(chunk)[keep[start : start + array.rows]].tobytes())
        return end_digest(known)

    def put(self, name: str, values: NDArray[Any], made: Mapping[str, Any]) -> None:
        """Write a small array in one go, in place of an older one; its mark comes last."""
        dtype = "string" if values.dtype.kind in "OUT" else values.dtype.name
        rows = max(1, len(values))
        self._begin(name, values.shape, rows, dtype, {"made": dict(made)}).write(0, values)
        self.finish(name)

    def get(self, name: str) -> NDArray[Any]:
        """An array, whole, if it is what was written."""
        return self.read_pinned(self.pin(name))

    def read(self, name: str, n_views: int | None = None) -> NDArray[Any]:
        """The rows of all readable pictures; of views only the first, if so many are asked for."""
        return self.read_pinned(self._array(name), self.readable, n_views)

    def read_pinned(
        self,
        array: SealedArray,
        keep: NDArray[np.bool_] | None = None,
        n_views: int | None = None,
    ) -> NDArray[Any]:
        """What `pin` gave, read: all rows, or those to `keep`."""
        with self.mending(array.name):
            return array.read(keep, n_views)

    @property
    def readable(self) -> NDArray[np.bool_]:
        """Which pictures could be read, (N,)."""
        return self.get(self.STATUS) == 0

    def stream(self) -> Stream:
        """Its readable pictures with every space that is whole; features are read when used.

        They are those of this moment: what is replaced later is an error when it is read.
        """
        from marc.embed.opening import open_store

        return open_store(self)

    def drop(self, name: str) -> None:
        """Take an array away."""
        SealedArray.remove(self.path, name)

    def _array(self, name: str) -> SealedArray:
        """An array by its document, refused unless it fits the store and what it goes with."""
        with self.mending(name):
            array = SealedArray.open(self.path, name, self._seal)
            conform(array.attributes, self._SHAPES.get(name, dict[str, Any]), name)
            self._check_shape(array)
            if array.is_finished and array.attributes["after"] != self._after(name):
                raise MarcError("it was made with others than are there")
        return array

    def _check_shape(self, array: SealedArray) -> None:
        name, shape = array.name, array.shape
        in_chunks = self._is_of_encoder(name) or name in (self.STATUS, self.CONTENT)
        n_rows = self.n_images if in_chunks or name.startswith("images/") else shape[0]
        is_table = name.startswith(f"{self.SPACES}/") or name in self._TABLES
        n_dims = 3 if name == self.VIEWS else 2 if is_table else 1
        rows = self.chunk if in_chunks else max(1, n_rows)
        fits = (shape[0], array.rows, len(shape)) == (n_rows, rows, n_dims)
        if not fits or math.prod(shape[1:-1]) > MOST_VIEWS or max(shape[1:], default=1) > _MOST_DIM:
            raise MarcError("it is not of the shape that it must have", got=shape)
        if array.dtype not in self._TYPES.get(name, ("float16", "float32")):
            raise MarcError("it is not of the type that it must have", got=array.dtype)

    def pin(self, name: str) -> SealedArray:
        """An array with its digests: it gives what is there now, or an error."""
        array = self._array(name)
        with self.mending(name):
            _ = array.table
        return array

    def _after(self, name: str) -> str:
        """A seal of what an array goes with: of features, what was seen of the pictures."""
        others: tuple[str, ...] = ()
        if self._is_of_encoder(name):
            others = (self.STATUS, self.CONTENT)
        elif name == self.PROTOTYPES:
            others = (self.PROMPTS, self.PROMPT_CLASS, self.TEXTS)
        return json_digest(*(self._array(other).attributes.get("table") for other in others))

    def _is_of_encoder(self, name: str) -> bool:
        return name == self.VIEWS or name.startswith(f"{self.SPACES}/")

    @contextmanager
    def mending(self, name: str) -> Iterator[None]:
        """Turn whatever comes of files that were changed or lost into advice."""
        try:
            yield
        except (_Damaged, MemoryError):
            raise
        except Exception as error:  # edited documents fail in every way there is
            what = "the store" if name == DOCUMENT else name
            problem = " ".join(str(error).split())
            raise _Damaged(
                f"{what} is not what was written: files were changed or lost",
                got=f"{self.path / name}: {problem or type(error).__name__}"[:400],
                hint=_AGAIN,
            ) from error

    def other_picture(self, row: int) -> MarcError:
        """The error for a picture that is not the one of the same name that was embedded."""
        return MarcError(
            "pictures are not those that the store was made of",
            got=f"{self.get(self.IDS)[row]} is another picture",
            hint="bring the old ones back, or embed into another -o STORE",
        )


class _Damaged(MarcError):  # noqa: N818
    """A store that is not what was written."""
