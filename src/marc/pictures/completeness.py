"""Whether a decoded picture has all its rows: PIL takes some files that end before their picture.

What is missing has a colour of its own: black in a PNG, grey in a JPEG. Only a picture that ends in
that colour is looked at closely, so that all others cost nothing. Of a JPEG in several scans, and
of one within a TIFF, it cannot be told.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator

from PIL import Image

_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of a PNG, by the kind of its colours
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
           (0, 1, 1, 2))  # fmt: skip
"""Of an interlaced PNG: first column and row, and the steps between them."""
_PIECE = 2**20
_END, _SCAN = b"\xff\xd9", b"\xff\xda"


def check_whole(data: bytes, picture: Image.Image) -> None:
    """Refuse, by a ValueError, a decoded picture that its file holds a part of."""
    if picture.format == "PNG":
        _check_png(data, picture)
    elif picture.format in ("JPEG", "MPO") and not picture.info.get("progressive"):
        _check_jpeg(data, picture)


def _check_png(data: bytes, picture: Image.Image) -> None:
    parts = list(_png_data(data))
    last = picture.crop((0, picture.height - 1, picture.width, picture.height))
    if not picture.info.get("interlace") and last.getbbox() is not None:
        return
    inflate, there = zlib.decompressobj(), 0
    for part in parts:
        rest: bytes | memoryview = part
        while rest and not inflate.eof:
            there += len(inflate.decompress(rest, _PIECE))
            rest = inflate.unconsumed_tail
    if there < (asked := _png_size(data)):
        raise ValueError(f"{there} of {asked} bytes of pixels")


def _png_data(data: bytes) -> Iterator[memoryview]:
    """The compressed pixels, piece by piece."""
    view, start = memoryview(data), 8
    while start + 12 <= len(view):
        (length,) = struct.unpack_from(">I", view, start)
        body, end = start + 8, start + 8 + length
        if view[start + 4 : body] == b"IEND":
            return
        if view[start + 4 : body] == b"IDAT":
            if view[end : end + 4] != struct.pack(">I", zlib.crc32(view[start + 4 : end])):
                raise ValueError(f"wrong checksum at byte {end}")
            yield view[body:end]
        start = end + 4


def _png_size(data: bytes) -> int:
    """How many bytes the header asks for: rows of pixels with a byte before each."""
    width, height, depth, kind, _, _, interlaced = struct.unpack_from(">IIBBBBB", data, 16)
    total = 0
    for left, top, across, down in _PASSES if interlaced else ((0, 0, 1, 1),):
        columns, rows = -(-(width - left) // across), -(-(height - top) // down)
        total += rows * (1 + -(-columns * depth * _CHANNELS[kind] // 8)) if columns > 0 else 0
    return total


def _check_jpeg(data: bytes, picture: Image.Image) -> None:
    """Without its end mark a file that is cut makes the decoder wait for more."""
    corner = picture.crop((picture.width - 1, picture.height - 1, *picture.size)).getextrema()
    flat = [value for each in corner for value in (each if isinstance(each, tuple) else (each,))]
    end, scan = data.rfind(_END), data.rfind(_SCAN)
    several = scan + 4 >= len(data) or data[scan + 4] != len(picture.getbands())
    if several or end < scan or not {*flat} <= {127, 128}:
        return
    # zeros: the decoder reads on for a few bits
    with Image.open(io.BytesIO(data[:end] + bytes(16)), formats=("JPEG",)) as again:
        again.load()
