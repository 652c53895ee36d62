"""Bytes into pixels: every kind of file becomes plain RGB, or is refused for a named reason."""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile, UnidentifiedImageError

from marc.pictures.completeness import check_whole
from marc.pictures.image_set import FileBytes, Location, WithGenerated

_MOST_PIXELS = 2**27
"""A larger picture is refused by its header, before any pixel is read: 134 million pixels."""
_LONGEST_SIDE = 2**16
"""A longer picture is refused too: decoders need time in the square of the length of a row."""
_MOST_BYTES = 2**30
"""A larger file is refused unread."""

_MISSING, _EMPTY, _NO_PICTURE, _DAMAGED, _TOO_LARGE = 1, 2, 3, 4, 5

_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000", "AVIF", "MPO")
_FIRST_BYTES = {"JPEG": (b"\xff\xd8\xff",), "PNG": (b"\x89PNG",), "WEBP": (b"RIFF",),
                "GIF": (b"GIF8",), "BMP": (b"BM",), "TIFF": (b"II*\0", b"MM\0*"),
                "JPEG2000": (b"\0\0\0\x0cjP",)}  # fmt: skip
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_ORIENTATION = 0x0112


class Unreadable(Exception):  # noqa: N818  (it is a finding about a file, not a failure of ours)
    """A picture that cannot be read: `code` is a key of `REASONS`."""

    REASONS: ClassVar[dict[int, str]] = {
        _MISSING: "missing, or cannot be opened",
        _EMPTY: "empty file",
        _NO_PICTURE: "not a picture of a known format",
        _DAMAGED: "truncated or damaged",
        _TOO_LARGE: "too large: over 134 million pixels, 65536 on a side, or 1 GiB",
    }
    """By code. Feature stores keep the codes: they never change. 0 is `fine`."""
    EMPTY: ClassVar[int] = _EMPTY
    NO_PICTURE: ClassVar[int] = _NO_PICTURE
    TOO_LARGE: ClassVar[int] = _TOO_LARGE

    def __init__(self, code: int, detail: str = "") -> None:
        super().__init__(code, detail)  # both, so that it can be pickled
        self.code, self.detail = code, detail

    @property
    def reason(self) -> str:
        """The words of the code."""
        return self.REASONS[self.code]

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


def read_picture(location: Location, upright: bool) -> Image.Image:
    """The picture at a location as RGB; see `decode`."""
    return decode(read_bytes(location), upright=upright)


def read_bytes(location: Location) -> bytes:
    """The encoded picture at a location."""
    if isinstance(location, WithGenerated):
        location = location.plain
    try:
        if isinstance(location, FileBytes) and location.n_bytes() > _MOST_BYTES:
            raise Unreadable(_TOO_LARGE, f"{location.n_bytes()} bytes")
        return location.read()
    except (OSError, ValueError) as problem:  # ValueError: a null byte in a path
        raise Unreadable(_MISSING, _first_line(problem)) from None


def decode(
    data: bytes,
    *,
    upright: bool,
    formats: tuple[str, ...] = _FORMATS,
    most_pixels: int = _MOST_PIXELS,
) -> Image.Image:
    """An encoded picture as RGB, its first frame if it moves.

    Args:
        data: the bytes of the file.
        upright: turn it as its camera says (the EXIF orientation).
        formats: those that are read, by PIL's names; no parser of another sees the bytes.
        most_pixels: a larger picture is refused by its header; at most 134 million.

    Raises:
        Unreadable: with one of the codes of `REASONS`.
    """
    if not data:
        raise Unreadable(_EMPTY)
    with (
        _own_limits(),
        _findings(data, formats),
        Image.open(io.BytesIO(data), formats=_known(formats)) as picture,
    ):
        _check_size(picture, most_pixels)
        picture.load()
        check_whole(data, picture)
        return _plain(picture, upright=upright)


def plain(picture: Image.Image, *, upright: bool) -> Image.Image:
    """A picture that is open already, read as `decode` reads its bytes."""
    with _own_limits(), _findings():
        _check_size(picture)
        picture.load()
        return _plain(picture, upright=upright)


def _plain(picture: Image.Image, *, upright: bool) -> Image.Image:
    # the turning is read first: converting may lose it
    turn = _TURNS.get(_orientation(picture)) if upright else None
    rgb = _as_rgb(picture)
    return rgb if turn is None else rgb.transpose(turn)


@contextmanager
def _findings(data: bytes = b"", formats: tuple[str, ...] = ()) -> Iterator[None]:
    """Whatever goes wrong while these bytes are read, as a finding about them."""
    try:
        yield
    except Unreadable:
        raise
    except UnidentifiedImageError:
        raise Unreadable(_DAMAGED if _starts_well(data, formats) else _NO_PICTURE) from None
    except (Image.DecompressionBombError, MemoryError) as problem:
        raise Unreadable(_TOO_LARGE, str(problem).partition(" exceeds")[0]) from None
    except Exception as problem:  # decoders fail on bad bytes in every way there is
        raise Unreadable(_DAMAGED, _first_line(problem)) from None


def _starts_well(data: bytes, formats: tuple[str, ...]) -> bool:
    if data[4:12] in (b"ftypavif", b"ftypavis"):
        return "AVIF" in formats
    return any(data.startswith(_FIRST_BYTES.get(name, ())) for name in formats)


def _check_size(picture: Image.Image, most_pixels: int = _MOST_PIXELS) -> None:
    width, height = picture.size
    if width * height > most_pixels or max(width, height) > _LONGEST_SIDE:
        raise Unreadable(_TOO_LARGE, f"{width} x {height}")
    if width * height == 0:
        raise Unreadable(_DAMAGED, f"{width} x {height}")


def _orientation(picture: Image.Image) -> int:
    """As the camera wrote it; 1 if it cannot be read: broken notes do not make a broken picture."""
    try:
        return int(picture.getexif().get(_ORIENTATION, 1))
    except Exception:  # notes are parsed by hand-written code that fails in every way there is
        return 1


def _as_rgb(picture: Image.Image) -> Image.Image:
    if picture.mode.startswith("I;16"):
        return _from_grey(_sixteen_bits(np.asarray(picture)))
    if picture.mode == "I" and picture.format in ("PNG", "PPM"):
        return _from_grey(_sixteen_bits(np.asarray(picture)))  # both are opened as 0 to 65535
    if picture.mode in ("I", "F"):
        return _from_grey(_guess_range(np.asarray(picture, dtype=np.float64)))
    if picture.mode == "LAB":
        raise Unreadable(_NO_PICTURE, "colours given as Lab")
    return picture.convert("RGB")  # alpha is dropped; CMYK is turned as PIL does


def _sixteen_bits(grey: NDArray[np.generic]) -> NDArray[np.float64]:
    """0 to 65535 onto 0 to 255; PIL's own conversion would cut everything above 255."""
    return grey.astype(np.float64) / 257.0


def _guess_range(grey: NDArray[np.float64]) -> NDArray[np.float64]:
    """Numbers of an unknown range: 0..1, 0..255 and 0..65535 are known again, others stretched."""
    finite = grey[np.isfinite(grey)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    grey = np.nan_to_num(grey, nan=low, posinf=high, neginf=low)
    whole = bool((finite == np.round(finite)).all())
    if low >= 0 and high <= 1 and not whole:
        return grey * 255.0
    if low >= 0 and high <= 65535:
        return grey if high <= 255 else grey / 257.0
    return (grey - low) / (high - low) * 255.0 if high > low else np.zeros_like(grey)


def _from_grey(grey: NDArray[np.float64]) -> Image.Image:
    rounded = np.clip(np.round(grey), 0, 255).astype(np.uint8)
    return Image.fromarray(rounded).convert("RGB")


def _first_line(problem: BaseException) -> str:
    text = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {text[0][:200]}" if text else type(problem).__name__


@cache
def _known(formats: tuple[str, ...]) -> tuple[str, ...]:
    """Those that this PIL was built with. Nothing that starts other programs is among them."""
    Image.init()
    return tuple(name for name in formats if name in Image.OPEN)


_lock = threading.Lock()
_inside: list[None] = []  # one for each thread that is decoding


@contextmanager
def _own_limits() -> Iterator[None]:
    """PIL with our limit of pixels, refusing truncated files, silent: whatever was set before.

    These are settings of the whole process: the first thread in changes them and the last one out
    puts them back, so that threads that decode side by side do not undo each other.
    """
    with _lock:
        if not _inside:
            _enter()
        _inside.append(None)
    try:
        yield
    finally:
        with _lock:
            _inside.pop()
            if not _inside:
                _leave()


_before: list[tuple[warnings.catch_warnings[None], int | None, bool]] = []


def _enter() -> None:
    quiet = warnings.catch_warnings()
    _before.append((quiet, Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES))
    quiet.__enter__()
    warnings.filterwarnings("ignore", module=r"PIL\b")
    Image.MAX_IMAGE_PIXELS = _MOST_PIXELS // 2  # PIL warns from here and refuses at the double
    ImageFile.LOAD_TRUNCATED_IMAGES = False


def _leave() -> None:
    quiet, Image.MAX_IMAGE_PIXELS, ImageFile.LOAD_TRUNCATED_IMAGES = _before.pop()
    quiet.__exit__(None, None, None)
