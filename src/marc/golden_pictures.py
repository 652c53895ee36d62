"""Pictures to check encoders with, drawn in whole numbers alone: equal to the bit everywhere.

Each has something at its borders, so that a wrong crop shows; fine patterns, so that a wrong
interpolation does; and other colours in each channel, so that a wrong order or mean does.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

VERSION = 1
"""To be raised with any change of a pixel: vectors of different versions are never compared."""

Whole = NDArray[np.int64]


def golden_pictures() -> list[Image.Image]:
    """Five pictures: wide, tall, small, square, and very wide.

    >>> [picture.size for picture in golden_pictures()]
    [(360, 200), (170, 300), (44, 36), (256, 256), (500, 130)]
    """
    drawn = (_gradients(), _rings(), _blocks(), _frames(), _waves())
    return [Image.fromarray(np.stack(each, axis=2).astype(np.uint8)) for each in drawn]


def _gradients() -> tuple[Whole, ...]:
    """Red grows to the right, green downwards; blue is a board of checks with bright ends."""
    y, x = _pixels(200, 360)
    ends = (x < 30) | (x >= 345)
    return 255 * x // 359, 255 * y // 199, np.where(ends, 250, (x // 9 + y // 9) % 2 * 140 + 20)


def _rings() -> tuple[Whole, ...]:
    """Rings around a point off the centre, on a ground that changes from top to bottom."""
    y, x = _pixels(300, 170)
    squared = (x - 50) ** 2 + (y - 170) ** 2
    ring = squared // 1500 % 2
    return ring * 190 + 30, 255 - 200 * y // 299, np.where(squared < 4900, 220, 60 + x)


def _blocks() -> tuple[Whole, ...]:
    """Few pixels, hard edges: it must be made larger, and how that is done shows."""
    y, x = _pixels(36, 44)
    row, column = y // 4, x // 4
    return tuple((row * a + column * b + row * column * c) % 256
                 for a, b, c in ((67, 131, 29), (151, 43, 17), (89, 211, 53)))  # fmt: skip


def _frames() -> tuple[Whole, ...]:
    """Frames one in another, each with its own colour; fine stripes in the outermost."""
    y, x = _pixels(256, 256)
    depth = np.minimum(np.minimum(x, 255 - x), np.minimum(y, 255 - y))
    frame = depth // 18
    stripes = np.where(depth < 18, (x + 2 * y) // 3 % 2 * 90, 0)
    return frame * 97 % 160 + stripes, frame * 53 % 200, (frame * 151 + 60) % 256


def _waves() -> tuple[Whole, ...]:
    """Waves that become finer from left to right and from top to bottom."""
    y, x = _pixels(130, 500)
    across, along = x * x // 12 % 256, y * y // 3 % 256
    return across, along, (across + along) // 2


def _pixels(height: int, width: int) -> tuple[Whole, Whole]:
    """Row and column of each pixel."""
    rows, columns = np.indices((height, width), dtype=np.int64)
    return rows, columns
