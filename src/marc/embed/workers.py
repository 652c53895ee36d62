"""From encoded pictures to squares of pixels: read, decode, crop, augment. Worker processes do it.

Whatever a worker does depends on the picture alone, never on the worker or on the order of work.
Where the system has memory without a name, squares come back through it: it is gone with the last
process that holds it, however that ends. Elsewhere they come through a pipe.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from marc.errors import MarcError, integer
from marc.pictures.crops import Crop
from marc.pictures.decoding import Unreadable, decode, read_bytes
from marc.pictures.image_set import FileBytes, Location, WithGenerated
from marc.pictures.views import MOST_VIEWS, make_views, read_recipe


@dataclass(frozen=True)
class ViewPlan:
    """How a predictor sees each picture: the plain one first, then augmented ones."""

    RECIPE: ClassVar[str] = "VC"
    """Of several views, unless another is named."""

    recipe: str = "V0"
    n_views: int = 1
    """M, all of them."""
    seed: int = 0
    n_generated: int = 0
    """How many of them, the last ones, are pictures that were generated elsewhere."""
    generated: str = ""
    """A digest of these pictures."""

    def __post_init__(self) -> None:
        read_recipe(self.recipe)
        integer("the seed of views", self.seed, 0)
        integer("views", self.n_views, 1, MOST_VIEWS)
        if self.n_drawn > 1 and self.recipe.upper() == "V0":
            raise MarcError("V0 is one view", got=f"{self.n_drawn} views", hint="--recipe VC")

    @property
    def n_drawn(self) -> int:
        """How many views are crops of the picture itself."""
        return self.n_views - self.n_generated


@dataclass(frozen=True)
class PixelSpec:
    """Which pixels are made of each picture."""

    squares: tuple[Crop, ...]
    """Plain crops, one for each kind of encoder."""
    views: tuple[Crop, ViewPlan] | None
    """The predictor's views, if there are more than the plain one."""
    upright: bool

    def of_picture(self, picture: Image) -> Prepared:
        """One picture that is open already, seen as it is."""
        cut = Crop.cut_all(picture, self.squares)
        squares = {crop: square[np.newaxis] for crop, square in cut.items()}
        return Prepared(np.zeros(1, dtype=np.uint8), _NO_CONTENT[np.newaxis], squares, None)

    def prepare(self, piece: _Piece) -> Prepared:
        """Read and crop some pictures."""
        pictures = [_one(name, location, self) for name, location in zip(*piece, strict=True)]
        status, content, squares, views = zip(*pictures, strict=True)
        return Prepared(
            np.array(status, dtype=np.uint8),
            np.stack(content),
            {crop: np.stack([each[n] for each in squares]) for n, crop in enumerate(self.squares)},
            None if self.views is None else np.stack(views),
        )


@dataclass(frozen=True)
class Prepared:
    """Squares of n pictures; what could not be read is black and has a status."""

    status: NDArray[np.uint8]
    """(n,) 0, or the reason."""
    content: NDArray[np.uint8]
    """(n, 16) digest of the encoded picture."""
    squares: dict[Crop, NDArray[np.uint8]]
    """(n, size, size, 3) by crop."""
    views: NDArray[Any] | None
    """(n, M, size, size, 3), bytes, or floats where pictures were mixed."""

    @staticmethod
    def joined(parts: list[Prepared]) -> Prepared:
        """Consecutive pieces as one."""
        first = parts[0]
        if len(parts) == 1:
            return first
        crops = first.squares
        return Prepared(
            np.concatenate([part.status for part in parts]),
            np.concatenate([part.content for part in parts]),
            {crop: np.concatenate([part.squares[crop] for part in parts]) for crop in crops},
            None if first.views is None else np.concatenate([part.views for part in parts]),
        )

    @staticmethod
    def content_of(location: Location) -> NDArray[np.uint8]:
        """Digest of an encoded picture, (16,); zeros if it is not there."""
        try:
            return _digest(read_bytes(location))
        except Unreadable:
            return _NO_CONTENT


_NO_CONTENT = np.zeros(16, dtype=np.uint8)

_Piece = tuple[tuple[str, ...], tuple[Location, ...]]
"""Some pictures: their ids and where they lie."""


def _one(name: str, location: Location, spec: PixelSpec) -> tuple[int, Any, list[Any], Any]:
    """Status, content, squares and views of one picture; black where it cannot be read."""
    content = _NO_CONTENT
    try:
        data = read_bytes(location)
        content = _digest(data)
        picture = decode(data, upright=spec.upright)
    except Unreadable as reason:
        black = [np.zeros((crop.size, crop.size, 3), dtype=np.uint8) for crop in spec.squares]
        views = None
        if spec.views is not None:
            crop, plan = spec.views
            views = np.zeros((plan.n_views, crop.size, crop.size, 3), dtype=np.uint8)
        return reason.code, content, black, views
    if spec.views is None:
        return 0, content, [*Crop.cut_all(picture, spec.squares).values()], None
    crop, plan = spec.views
    cut = Crop.cut_all(picture, {*spec.squares, crop})
    squares = [cut[each] for each in spec.squares]
    views = make_views(
        picture, crop, plan.recipe, plan.n_drawn, key=name, seed=plan.seed, plain=cut[crop]
    )
    if plan.n_generated:
        assert isinstance(location, WithGenerated)  # which is where their number comes from
        more = [_generated(each, crop, upright=spec.upright) for each in location.generated]
        views = np.concatenate([views, np.stack(more)])
    return 0, content, squares, views


def _generated(location: FileBytes, crop: Crop, *, upright: bool) -> NDArray[np.uint8]:
    """The plain crop of a picture that was generated; it was read once when it was listed."""
    try:
        return crop.cut(decode(read_bytes(location), upright=upright))
    except Unreadable as error:
        raise MarcError(
            "a generated picture cannot be read",
            got=f"{location.path}: {error.reason}",
            hint="generate it again, or leave it out for every picture",
        ) from None


def _digest(data: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(hashlib.blake2b(data, digest_size=16).digest(), dtype=np.uint8)


class _Shared:
    """Memory of this process and its workers, a place for each piece that is under way."""

    _PLACE = 2**36  # bytes between places; what is not written takes no memory

    def __init__(self, file: int) -> None:
        self._file = file

    def __reduce__(self) -> tuple[Any, ...]:
        from multiprocessing.reduction import DupFd  # not on Windows

        return _shared_with_parent, (DupFd(self._file),)

    def close(self) -> None:
        os.close(self._file)

    def prepare(self, spec: PixelSpec, piece: _Piece, place: int) -> Prepared:
        """In a worker: pixels go to a place, and where they are comes back instead of them."""
        start, prepared = place * self._PLACE, spec.prepare(piece)

        def put(pixels: NDArray[Any]) -> Any:
            nonlocal start
            at, rest = start, pixels.data.cast("B")
            while rest:
                written = os.pwrite(self._file, rest, start)
                start, rest = start + written, rest[written:]
            return at, pixels.shape, pixels.dtype

        return _with_pixels(prepared, put)

    def fetched(self, prepared: Prepared) -> Prepared:
        """What a worker prepared, pixels and all."""

        def get(placed: tuple[int, tuple[int, ...], np.dtype[Any]]) -> NDArray[Any]:
            start, shape, dtype = placed
            pixels = np.empty(shape, dtype)
            rest = pixels.data.cast("B")
            while rest:
                n_read = os.preadv(self._file, [rest], start)
                start, rest = start + n_read, rest[n_read:]
            return pixels

        return _with_pixels(prepared, get)


def _with_pixels(prepared: Prepared, change: Callable[[Any], Any]) -> Prepared:
    squares = {crop: change(pixels) for crop, pixels in prepared.squares.items()}
    views = None if prepared.views is None else change(prepared.views)
    return replace(prepared, squares=squares, views=views)


def _shared_with_parent(file: Any) -> _Shared:
    return _Shared(file.detach())


_shared: _Shared | None = None  # in a worker: what it was given when it was started


def _start_sharing(shared: _Shared | None) -> None:
    global _shared
    _shared = shared
    start_worker()


def _prepare(spec: PixelSpec, piece: _Piece, place: int) -> Prepared:
    return spec.prepare(piece) if _shared is None else _shared.prepare(spec, piece, place)


def start_worker() -> None:
    """Leave Ctrl-C to the parent, and end when it ends: a killed one must leave nobody waiting."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


class Workers:
    """Prepares pieces in the order given, some ahead of the reader; `count` 0: in this process.

    Processes are started afresh, not forked: a fork of a process with threads may hang.
    """

    def __init__(self, count: int) -> None:
        self.count, self._ahead = count, 2 * count + 2
        self._shared = None
        if count and sys.platform == "linux":
            self._shared = _Shared(os.memfd_create("marc-pixels"))
        spawn, given = multiprocessing.get_context("spawn"), (self._shared,)
        self._pool = ProcessPoolExecutor(count, spawn, _start_sharing, given) if count else None

    def prepare(self, work: Iterable[tuple[_Piece, PixelSpec]]) -> Iterator[Prepared]:
        """One result a piece."""
        if self._pool is None:
            yield from (spec.prepare(piece) for piece, spec in work)
            return
        waiting: deque[Future[Prepared]] = deque()
        try:
            for number, (piece, spec) in enumerate(work):
                place = number % self._ahead  # of a piece that was fetched
                waiting.append(self._pool.submit(_prepare, spec, piece, place))
                if len(waiting) >= self._ahead:
                    yield self._fetched(waiting.popleft())
            while waiting:
                yield self._fetched(waiting.popleft())
        except BrokenProcessPool as error:
            raise MarcError(
                "a process that reads pictures was ended from outside, perhaps for its memory",
                hint="the same command goes on where it stopped; --workers 1 needs less memory",
            ) from error
        finally:  # where it is left early: the places are needed again
            wait([each for each in waiting if not each.cancel()])

    def _fetched(self, piece: Future[Prepared]) -> Prepared:
        prepared = piece.result()
        return prepared if self._shared is None else self._shared.fetched(prepared)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *problem: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=problem[0] is None, cancel_futures=True)
        if self._shared is not None:
            self._shared.close()
