"""The feature store: a folder with features of one list of pictures, filled chunk by chunk.

It is a Zarr (version 3) group, readable by any Zarr library:

    images/ids (N) strings     images/labels (N), if known
    images/status (N)          0, or why a picture could not be read (`marc.pictures.decoding`)
    images/content (N, 16)     digests of the encoded pictures
    predictor/views (N, M, D) float16        predictor/prototypes (C, D), with their prompts
    spaces/NAME (N, D_s) float32             one for each retrieval encoder

A chunk of rows is written in one piece, so it is there or not: that is the unit of going on after a
kill, and of several writers. What made an array is in its attributes; an array that was made
differently is never added to. A finished array carries the digest of its features.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marc.encoders.cards import safe_name
from marc.errors import MarcError
from marc.files import differences, versions
from marc.predictor import Predictor, PromptEmbeddings
from marc.scores import unit
from marc.stream import Features, LazySpaces, LazyViews, Stream, digest, digest_of, end_digest

_STORES = Path("stores")  # where `marc embed` puts a store unless another folder is given
_MARK = "marc_store"


class FeatureStore:
    """A store on disk. Reading needs no lock; writers hold `marc.embed.changes.writing`."""

    FORMAT = 1
    CHUNK = 256
    """Pictures in a chunk, unless another number is asked for."""
    QUARANTINE = "quarantine.csv"
    """Names the pictures that could not be read."""
    IDS, LABELS = "images/ids", "images/labels"
    STATUS, CONTENT = "images/status", "images/content"
    VIEWS, PROTOTYPES = "predictor/views", "predictor/prototypes"
    PROMPTS, PROMPT_CLASS = "predictor/prompts", "predictor/prompt_class"
    TEXTS = "predictor/texts"
    SPACES = "spaces"
    """The group of the retrieval spaces; all others are names of arrays."""

    def __init__(
        self, path: Path, *, write: bool = False, begin: Mapping[str, Any] | None = None
    ) -> None:
        """Open a store; `begin` one with these facts, which nobody takes for one until `mark`."""
        import zarr

        self.path = path
        if begin is not None:
            self._group = zarr.create_group(path, zarr_format=3)
            self.about = dict(begin)
            return
        if not self.exists(path):
            raise MarcError(
                "there is no feature store here",
                got=path,
                hint=f"marc embed folder/DIR --encoder dinov2-b -o {path}",
            )
        self._group = zarr.open_group(path, mode="r+" if write else "r")
        self.about = dict(self._group.attrs[_MARK])  # type: ignore[arg-type]
        if self.about["format"] != self.FORMAT:
            raise MarcError(
                "this store was written by another version of marc",
                got=f"format {self.about['format']}",
                allowed=f"format {self.FORMAT}",
            )

    @staticmethod
    def exists(path: Path) -> bool:
        """Whether a folder is a store of ours, with its list of pictures."""
        try:
            return _MARK in json.loads((path / "zarr.json").read_text())["attributes"]
        except (OSError, ValueError, KeyError, TypeError):
            return False

    @staticmethod
    def default_path(source: str) -> Path:
        """Where `marc embed` puts the features of a source; each source has a name of its own.

        >>> FeatureStore.default_path("folder/photos").as_posix()
        'stores/folder-photos'
        >>> FeatureStore.default_path("folder/holiday/photos").as_posix()
        'stores/folder-holiday-photos-60b883'
        """
        name = safe_name(source)
        if name != source.replace("/", "-", 1):  # more was replaced than the type's own slash
            name += "-" + hashlib.sha256(source.encode()).hexdigest()[:6]
        return _STORES / name

    def mark(self) -> None:
        """Mark a store that was begun as one: its list of pictures is there."""
        self._group.attrs[_MARK] = self.about

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
        """The arrays of a group."""
        return sorted(self._group[group].array_keys()) if group in self._group else []  # type: ignore[union-attr]

    def feature_arrays(self) -> set[str]:
        """Names of the arrays that encoders filled."""
        spaces = {f"{self.SPACES}/{name}" for name in self.names(self.SPACES)}
        return spaces | ({self.VIEWS} if self.attributes(self.VIEWS) else set())

    def attributes(self, name: str) -> dict[str, Any]:
        """What made an array; empty if there is none."""
        with self._mending(name):
            return dict(self._group[name].attrs) if name in self._group else {}

    def shape(self, name: str) -> tuple[int, ...]:
        """Of an array, without reading it."""
        return tuple(self._array(name).shape)

    def is_complete(self, name: str) -> bool:
        """Whether all of an array is there."""
        return "features" in self.attributes(name)

    def pending(self, name: str) -> list[int]:
        """Chunks that an array does not have yet."""
        return [chunk for chunk in range(self.n_chunks) if not self.has(name, chunk)]

    def has(self, name: str, chunk: int) -> bool:
        """Whether a chunk is there."""
        rest = "/0" * (len(self.shape(name)) - 1)
        return (self.path / name / "c" / f"{chunk}{rest}").exists()

    def prepare(self, name: str, shape: tuple[int, ...], dtype: str, **about: Any) -> None:
        """Make room for the features of an encoder, in place of an older array.

        `about` are its attributes; `made` among them is all that the features depend on.
        """
        self._group.create_array(
            name,
            shape=(self.n_images, *shape),
            chunks=(self.chunk, *shape),
            dtype=dtype,
            compressors=None,  # features do not compress; the files are the plain numbers
            fill_value=0,
            overwrite=True,
            attributes={**about, "versions": versions(encoding=True)},
        )

    def holds(self, name: str, made: Mapping[str, Any], *, force: bool = False) -> bool:
        """Whether an array is there, made so; made differently, it is an error or replaced."""
        stored = self.attributes(name).get("made")
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
        import zarr

        rows = self.rows(chunk)
        with zarr.config.set({"array.write_empty_chunks": True}):  # a chunk of zeros is there too
            self._array(name)[rows.start : rows.stop] = values

    def read_chunk(self, name: str, chunk: int) -> NDArray[Any]:
        """One chunk, unreadable pictures and all."""
        rows = self.rows(chunk)
        with self._mending(name):
            return np.asarray(self._array(name)[rows.start : rows.stop])

    def finish(self, name: str) -> None:
        """Mark an array as complete, with the digest of what readers will see."""
        if not self.is_complete(name) and not self.pending(name):
            self._array(name).attrs["features"] = self._digest(name)

    def is_sound(self, name: str) -> bool:
        """Whether a complete array is what was written."""
        return self._digest(name) == self.attributes(name)["features"]

    def _digest(self, name: str) -> str:
        """`marc.stream.digest` of what `read` gives, of which one chunk at a time is held."""
        array = self._array(name)
        readable = self.readable if not name.startswith("images/") else np.ones(self.n_images, bool)
        known = digest_of(array.dtype, (int(readable.sum()), *array.shape[1:]))
        for chunk in range(self.n_chunks):
            rows = self.read_chunk(name, chunk)[readable[self.rows(chunk)]]
            known.update(np.ascontiguousarray(rows).tobytes())
        return end_digest(known)

    def put(self, name: str, values: NDArray[Any], made: Mapping[str, Any]) -> None:
        """Write a small array in one go, in place of an older one; what made it comes last."""
        array = self._group.create_array(
            name,
            shape=values.shape,
            chunks=tuple(max(1, length) for length in values.shape),
            dtype="string" if values.dtype.kind in "OUT" else values.dtype,
            compressors=None,
            overwrite=True,
        )
        array[...] = values
        facts: dict[str, Any] = {"made": dict(made), "features": _digest_small(values)}
        # in one write: attrs.update would write each key, and a kill between two keep only `made`
        array.update_attributes({**facts, "versions": versions(encoding=True)})

    def get(self, name: str) -> NDArray[Any]:
        """A small array, whole, if it is what was written."""
        with self._mending(name):
            values = np.asarray(self._array(name)[...])
        known = self.attributes(name).get("features")
        if known not in (None, _digest_small(values)):
            raise self._damaged(name)
        return values

    def read(self, name: str, n_views: int | None = None) -> NDArray[Any]:
        """The rows of all readable pictures; of views only the first, if so many are asked for.

        An array that is read whole must be what was written.
        """
        array, readable = self._array(name), self.readable
        first = np.s_[:, :n_views] if n_views is not None else np.s_[:]
        shape = array.shape[1:] if n_views is None else (n_views, *array.shape[2:])
        rows = np.empty((int(readable.sum()), *shape), dtype=array.dtype)
        end = 0
        for chunk in range(self.n_chunks):
            part = self.read_chunk(name, chunk)[first][readable[self.rows(chunk)]]
            rows[end : end + len(part)] = part
            end += len(part)
        known = self.attributes(name).get("features")
        if rows.shape[1:] == array.shape[1:] and known not in (None, digest(rows)):
            raise self._damaged(name)
        return rows

    @property
    def readable(self) -> NDArray[np.bool_]:
        """Which pictures could be read, (N,)."""
        return self.get(self.STATUS) == 0

    def stream(self) -> Stream:
        """Its readable pictures with every space that is whole; features are read when used."""
        again = "call the same marc embed again: it goes on where it stopped"
        if not self.attributes(self.VIEWS):
            hint = (
                f"marc embed {self.about['source']} --encoder NAME --predictor NAME -o {self.path}"
            )
            raise MarcError("this store has no predictor", got=self.path, hint=hint)
        if not self.is_complete(self.VIEWS) or "made" not in self.attributes(self.PROTOTYPES):
            raise MarcError("the predictor's features are not all there", got=self.path, hint=again)
        views, words = (self.attributes(name)["made"] for name in (self.VIEWS, self.PROTOTYPES))
        if views["encoder"] != words["encoder"]:
            raise MarcError("views and prototypes are of two predictors", got=self.path, hint=again)
        names = self.names(self.SPACES)
        whole = [name for name in names if self.is_complete(f"{self.SPACES}/{name}")]
        if left := [name for name in names if name not in whole]:
            warnings.warn(f"not all there, left out: {', '.join(left)}; {again}", stacklevel=2)
        readable = self.readable
        n_images = int(readable.sum())
        if not n_images:
            raise MarcError("no picture of this store could be read", got=self.path)
        features = Features(
            views=LazyViews(
                partial(self.read, self.VIEWS),
                (n_images, *self.shape(self.VIEWS)[1:]),  # type: ignore[arg-type]
            ),
            predictor=Predictor(
                unit(self.get(self.PROTOTYPES)),
                float(words["logit_scale"]),
                PromptEmbeddings(self.get(self.PROMPT_CLASS), partial(self.get, self.PROMPTS)),
            ),
            spaces=LazySpaces(
                {name: partial(self._space, name) for name in whole},
                {name: self.shape(f"{self.SPACES}/{name}")[1] for name in whole},
            ),
            class_names=tuple(words["class_names"]),
            ids=tuple(self.get(self.IDS)[readable].tolist()),
            known=self._known([f"{self.SPACES}/{name}" for name in whole]),
        )
        labels = self.get(self.LABELS)[readable] if self.attributes(self.LABELS) else None
        return Stream(features, np.arange(n_images), labels, name=self.path.name)

    def _space(self, name: str) -> NDArray[np.float32]:
        return unit(self.read(f"{self.SPACES}/{name}"))

    def _known(self, spaces: list[str]) -> dict[str, str]:
        """Digests by the names that a stream has for its features."""
        arrays = {"views": self.VIEWS, **{name: name for name in spaces}}
        return {name: self.attributes(array)["features"] for name, array in arrays.items()}

    def drop(self, name: str) -> None:
        """Take an array away."""
        del self._group[name]

    def _array(self, name: str) -> Any:
        with self._mending(name):
            return self._group[name]

    @contextmanager
    def _mending(self, name: str) -> Iterator[None]:
        """Turn errors of a store whose files were changed or lost into advice."""
        try:
            yield
        except (KeyError, OSError, TypeError, ValueError) as error:
            raise self._damaged(name) from error

    def other_picture(self, row: int) -> MarcError:
        """The error for a picture that is not the one of the same name that was embedded."""
        return MarcError(
            "pictures are not those that the store was made of",
            got=f"{self.get(self.IDS)[row]} is another picture",
            hint="bring the old ones back, or embed into another -o STORE",
        )

    def _damaged(self, name: str) -> MarcError:
        return MarcError(
            f"{name} is not what was written: files were changed or lost",
            got=self.path / name,
            hint="the marc embed that made it, with --force",
        )


def _digest_small(values: NDArray[Any]) -> str:
    if values.dtype.kind not in "OUT":
        return digest(values)
    text = "\0".join(map(str, values.reshape(-1).tolist()))
    return end_digest(hashlib.sha256(text.encode()))
