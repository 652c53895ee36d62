"""Files that end before their picture does, though they look whole."""

import struct
import zlib

import numpy as np
import pytest
from helpers import image_trees as trees
from PIL import Image

from marc.pictures.decoding import Unreadable, decode

SIDE = 64
PIXELS = np.maximum(trees.pixels(7, (SIDE, SIDE)), 1)


def chunk(name, body):
    check = struct.pack(">I", zlib.crc32(name + body))
    return struct.pack(">I", len(body)) + name + body + check


def png(rows, n_rows=SIDE, *, interlaced=0):
    """A PNG that is whole but for its pixels."""
    header = struct.pack(">IIBBBBB", SIDE, n_rows, 8, 2, 0, 0, interlaced)
    body = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    parts = chunk(b"IHDR", header), chunk(b"IDAT", body), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def code(data):
    with pytest.raises(Unreadable) as caught:
        decode(data, upright=False)
    return caught.value.code


@pytest.mark.parametrize("n_rows", [1, 10, 63])
def test_a_png_with_some_of_its_rows_is_refused(n_rows):
    assert code(png(PIXELS[:n_rows])) == 4


def test_an_interlaced_png_without_its_last_pass_is_refused():
    # the first six passes hold what half of the rows of a plain picture hold, and their own bytes
    passes = [PIXELS[y::dy, x::dx] for x, y, dx, dy in (
        (0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
        (0, 1, 1, 2))]  # fmt: skip
    whole = png([row for some in passes for row in some], interlaced=1)
    np.testing.assert_array_equal(np.asarray(decode(whole, upright=False)), PIXELS)
    assert code(png([row for some in passes[:-1] for row in some], interlaced=1)) == 4


def test_pngs_that_end_in_black_are_read():
    black = PIXELS.copy()
    black[40:] = 0
    np.testing.assert_array_equal(np.asarray(decode(png(black), upright=False)), black)
    for mode in ("1", "L", "P", "LA", "RGBA", "I;16"):
        for size in ((5, 3), (1, 1), (9, 8)):
            plain = trees.encoded(Image.new(mode, size))
            assert decode(plain, upright=False).size == size


def test_a_png_with_a_wrong_checksum_is_refused():
    data = bytearray(png(PIXELS))
    data[-13] ^= 1  # that of the pixels, which PIL does not look at
    assert code(bytes(data)) == 4


@pytest.mark.parametrize("options", [{}, {"subsampling": 2}, {"restart_marker_rows": 1}])
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_a_jpeg_that_is_cut_and_closed_is_refused(mode, options):
    data = trees.encoded(Image.fromarray(PIXELS).convert(mode), "JPEG", quality=90, **options)
    assert decode(data, upright=False).size == (SIDE, SIDE)
    for fraction in (0.5, 0.75, 0.95):
        start = data.rfind(b"\xff\xda")
        cut = start + 20 + int((len(data) - start) * fraction * 0.9)
        assert code(data[:cut] + b"\xff\xd9") == 4


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_blocks": 1}])
def test_jpegs_that_end_in_grey_are_read(options):
    grey = PIXELS.copy()
    grey[30:] = 128
    for mode in ("RGB", "L"):
        data = trees.encoded(Image.fromarray(grey).convert(mode), "JPEG", quality=95, **options)
        for more in (b"", b"something behind the end"):
            shown = np.asarray(decode(data + more, upright=False))
            assert np.abs(shown[-1].astype(int) - 128).max() <= 1
