"""A small process that decodes what strangers send, under limits, and may die of it.

Decoders are where a stranger's bytes meet old C code. They run in a process that has no encoder, no
memory and no key in it: what dies or hangs with it is the one picture it was given. It imports no
torch, whose reserved address space alone is beyond any useful limit. What it sends back is read as
bytes whose number is known, never unpickled: a decoder that was taken over can lie about pixels
and do nothing else to the server.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from marc.embed.workers import PixelSpec, Prepared, start_worker
from marc.files import read_text
from marc.pictures.crops import Crop
from marc.pictures.decoding import Unreadable, decode
from marc.serve.refused import Refused

_FORMATS = ("JPEG", "PNG", "WEBP", "BMP")
_ALLOWED = "a picture as JPEG, PNG, WebP or BMP"
_FINE = 0
_LONGEST_DETAIL = 300
_THUMBNAIL = 112  # pixels on the long side
_LARGEST_THUMBNAIL = 6000  # bytes
_QUALITIES = (70, 40, 10)  # of WebP; noise, the worst there is, needs 4,300 bytes at the last
_START_SECONDS = 60.0


@dataclass(frozen=True)
class DecodingLimits:
    """What one picture may take."""

    bytes: int = 20 * 2**20
    pixels: int = 25_000_000
    seconds: float = 10.0
    memory: int = 2**30
    """Bytes beside what the process needs without a picture; kept where the system can: not on
    macOS and Windows. 25 megapixels of any kind need 700 million."""


class Decoder:
    """The process and its one picture. Owned by one thread; `kill` may come from any.

    A process that died is replaced before the next picture.
    """

    def __init__(self, pixels: PixelSpec, limits: DecodingLimits) -> None:
        self._pixels, self._limits = pixels, limits
        self._process: Any = None
        self._connection: Connection | None = None
        self.n_started = 0

    def start(self) -> None:
        """Start a process, unless one is there; afresh, as forks of many threads may hang."""
        if self._process is not None and self._process.is_alive():
            return
        self.stop()
        spawn = multiprocessing.get_context("spawn")
        self._connection, theirs = spawn.Pipe()
        arguments = (theirs, self._pixels, self._limits)
        self._process = spawn.Process(target=_serve, args=arguments, name="decoder", daemon=True)
        try:
            self._process.start()
            theirs.close()  # so that its end is the end of what can be read
            if not self._connection.poll(_START_SECONDS):
                raise TimeoutError(f"no answer in {_START_SECONDS:g} s")
            self._connection.recv_bytes(1)
        except (EOFError, OSError) as error:
            self.stop()
            raise Refused(
                503,
                "no process that decodes pictures could be started",
                got=f"{type(error).__name__}: {error}"[:200],
                retry_after=5,
            ) from error
        self.n_started += 1

    def decode(self, image: bytes) -> tuple[Prepared, bytes]:
        """The squares of a picture, and its thumbnail (WebP)."""
        self.start()
        late = threading.Event()

        def end() -> None:
            late.set()
            self.kill()

        watch = threading.Timer(self._limits.seconds, end)
        watch.daemon = True
        watch.start()
        try:
            answer = self._exchange(image)
        except (EOFError, OSError):
            answer = b""
        finally:
            watch.cancel()
            watch.join()
        if late.is_set() or not answer:  # late, too, where the answer came at the last moment
            self.stop()
            raise _too_slow(self._limits) if late.is_set() else _deadly()
        if answer[0] != _FINE:
            raise _refusal(answer[0], answer[1:].decode(errors="replace"), self._limits)
        return _prepared(answer, self._pixels.squares)

    def _exchange(self, image: bytes) -> bytes:
        assert self._connection is not None
        self._connection.send_bytes(image)
        of_squares = 1 + sum(map(_n_bytes, self._pixels.squares))
        answer = self._connection.recv_bytes(of_squares + _LARGEST_THUMBNAIL)
        if answer[:1] == bytes([_FINE]) and len(answer) <= of_squares:
            raise EOFError("pixels are missing")
        return answer

    def kill(self) -> None:
        """End the process at once, whatever it does."""
        process = self._process
        with contextlib.suppress(AttributeError, ValueError):  # there is none, or no longer
            process.kill()

    def stop(self) -> None:
        """End the process, and leave nothing of it."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None and self._process.pid is not None:
            self._process.kill()
            self._process.join()
            self._process.close()
        self._process = self._connection = None


def _prepared(answer: bytes, crops: Sequence[Crop]) -> tuple[Prepared, bytes]:
    squares, start = {}, 1
    for crop in crops:
        pixels = np.frombuffer(answer, dtype=np.uint8, count=_n_bytes(crop), offset=start)
        squares[crop] = pixels.reshape(1, crop.size, crop.size, 3)
        start += _n_bytes(crop)
    fine, content = np.zeros(1, dtype=np.uint8), np.zeros((1, 16), dtype=np.uint8)
    return Prepared(fine, content, squares, None), answer[start:]


def _n_bytes(crop: Crop) -> int:
    return crop.size * crop.size * 3


def _refusal(code: int, detail: str, limits: DecodingLimits) -> Refused:
    if code == Unreadable.TOO_LARGE:
        return Refused(
            413,
            "this picture is too large",
            got=detail or "it needs more memory than a decoder has",
            allowed=f"{limits.pixels / 1e6:g} megapixels, 65536 pixels on a side",
            hint="a smaller copy: encoders see a few hundred pixels a side",
        )
    if code in (Unreadable.EMPTY, Unreadable.NO_PICTURE):
        what = "nothing" if code == Unreadable.EMPTY else detail or "bytes of another kind"
        return Refused(422, "this is no picture that is read here", got=what, allowed=_ALLOWED)
    return Refused(
        422, "this picture is truncated or damaged", got=detail or None, allowed=_ALLOWED
    )


def _too_slow(limits: DecodingLimits) -> Refused:
    return Refused(
        422,
        "this picture takes too long to decode",
        allowed=f"{limits.seconds:g} s",
        hint="save it again, smaller or in another format",
    )


def _deadly() -> Refused:
    return Refused(
        422,
        "the process that decoded this picture ended: it is damaged, or needs too much memory",
        allowed=_ALLOWED,
        hint="save it again, smaller or in another format",
    )


def _serve(connection: Connection, pixels: PixelSpec, limits: DecodingLimits) -> None:
    """In the process: pictures in, squares out, until nobody is there to ask."""
    start_worker()
    _warm(pixels)
    _keep_memory(limits.memory)
    connection.send_bytes(b"+")
    with contextlib.suppress(EOFError, OSError):
        while True:
            connection.send_bytes(_answer(connection.recv_bytes(), pixels, limits))


def _answer(image: bytes, pixels: PixelSpec, limits: DecodingLimits) -> bytes:
    try:
        picture = decode(image, upright=True, formats=_FORMATS, most_pixels=limits.pixels)
        squares = pixels.of_picture(picture).squares
        parts = [squares[crop].tobytes() for crop in pixels.squares]
        return b"".join([bytes([_FINE]), *parts, _thumbnail(picture)])
    except Unreadable as reason:
        detail = reason.detail.encode(errors="replace")
        return bytes([reason.code]) + detail[:_LONGEST_DETAIL]
    except MemoryError:
        return bytes([Unreadable.TOO_LARGE])


def _thumbnail(picture: Image.Image) -> bytes:
    """A small WebP of the pixels alone: no place, no camera, no profile goes with it."""
    picture.thumbnail((_THUMBNAIL, _THUMBNAIL))
    picture.info.clear()  # PIL before 12 writes a profile that it finds here
    for quality in _QUALITIES:
        file = io.BytesIO()
        picture.save(file, "WEBP", quality=quality)
        if file.tell() <= _LARGEST_THUMBNAIL:
            break
    return file.getvalue()


def _warm(pixels: PixelSpec) -> None:
    """Import and allocate what the first picture would."""
    file = io.BytesIO()
    Image.new("RGB", (64, 64)).save(file, "PNG")
    _answer(file.getvalue(), pixels, DecodingLimits())


def _keep_memory(more: int) -> None:
    """Refuse this process more memory than it has now and `more`; and it leaves no core."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # systems without such limits
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        pages = int(read_text(Path("/proc/self/statm")).split()[0])
        most = pages * resource.getpagesize() + more
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
