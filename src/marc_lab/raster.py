"""Outlines of things, their pixels, and the few operations that the world is painted with.

Outlines are closed contours in a box from -1 to 1, x to the right and y downwards. No matrix
product is used: results must not depend on how a linear-algebra library rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIDE = 64  # pixels
_FINE = 3 * SIDE  # shapes are filled at three times the resolution, then averaged
_LONGEST = 0.16  # edges are cut into pieces of this length, so that a warp can bend them

Contour = NDArray[np.floating]  # (n, 2), closed by itself
Gray = NDArray[np.floating]  # (SIDE, SIDE), 0 to 1
Color = NDArray[np.floating]  # (SIDE, SIDE, 3) or (3,), 0 to 1
_Mask = NDArray[np.bool_]  # (_FINE, _FINE)
_Place = Callable[[Contour], Contour]

_rows, _columns = np.mgrid[0:SIDE, 0:SIDE]
Y: Gray = (_rows + 0.5) / SIDE
X: Gray = (_columns + 0.5) / SIDE


@dataclass(frozen=True)
class _Part:
    """Contours that are filled together, then added to the shape or cut out of it."""

    adds: bool
    contours: tuple[Contour, ...]


class Shape:
    """An outline with its holes, drawn part after part."""

    def __init__(self, *contours: Contour) -> None:
        self._parts = [_Part(True, contours)]

    def add(self, *contours: Contour) -> Shape:
        """The same shape with another part."""
        self._parts.append(_Part(True, contours))
        return self

    def cut(self, *contours: Contour) -> Shape:
        """The same shape with a hole in what was drawn before."""
        self._parts.append(_Part(False, contours))
        return self

    def fill(self, place: _Place | None = None) -> _Mask:
        """Fill a shape in the unit square, or one whose points `place` moves there."""
        mask = np.zeros((_FINE, _FINE), dtype=np.bool_)
        for part in self._parts:
            _fill(part.contours, place or (lambda points: points), mask, part.adds)
        return mask

    def cover(self, place: _Place | None = None) -> Gray:
        """The fraction of each pixel that is filled."""
        return shrink(self.fill(place))


class Pen:
    """Draws contours; what makes one star different from the next are its random choices."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def vary(self, value: float, spread: float) -> float:
        """A number near `value`, with a relative deviation of at most twice `spread`."""
        return value * (1 + spread * float(np.clip(self.generator.standard_normal(), -2, 2)))

    def integer(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both possible."""
        return int(self.generator.integers(low, high + 1))

    @staticmethod
    def polygon(*coordinates: float) -> Contour:
        """Corners given as x, y, x, y, ..."""
        return np.array(coordinates, dtype=np.float64).reshape(-1, 2)

    @staticmethod
    def box(left: float, top: float, right: float, bottom: float) -> Contour:
        """An upright rectangle."""
        return Pen.polygon(left, top, right, top, right, bottom, left, bottom)

    @staticmethod
    def ellipse(
        x: float, y: float, width: float, height: float | None = None, n: int = 28
    ) -> Contour:
        """An ellipse around (x, y) with half axes `width` and `height`."""
        angles = np.arange(n) * (2 * np.pi / n)
        height = width if height is None else height
        return np.stack([x + width * np.cos(angles), y + height * np.sin(angles)], axis=1)

    @staticmethod
    def arc(x: float, y: float, width: float, height: float, start: float, stop: float) -> Contour:
        """Points along an ellipse from angle `start` to `stop`, both included."""
        angles = np.linspace(start, stop, 18)
        return np.stack([x + width * np.cos(angles), y + height * np.sin(angles)], axis=1)

    @staticmethod
    def turned(points: Contour, angle: float, about: tuple[float, float] = (0.0, 0.0)) -> Contour:
        """The points turned by `angle` around a centre."""
        x, y = points[:, 0] - about[0], points[:, 1] - about[1]
        cosine, sine = np.cos(angle), np.sin(angle)
        return np.stack(
            [cosine * x - sine * y + about[0], sine * x + cosine * y + about[1]], axis=1
        )

    @staticmethod
    def mirrored(points: Contour) -> Contour:
        """The points with left and right exchanged."""
        return points * [-1.0, 1.0]

    @staticmethod
    def closed(*pieces: Contour | Sequence[Sequence[float]]) -> Contour:
        """One contour from pieces laid end to end."""
        return np.concatenate(
            [np.asarray(piece, dtype=np.float64).reshape(-1, 2) for piece in pieces]
        )

    @staticmethod
    def stroke(path: Contour, half_width: float) -> list[Contour]:
        """A line of some thickness with round joints, as overlapping pieces."""
        step = path[1:] - path[:-1]
        length = np.hypot(step[:, 0], step[:, 1]) + 1e-9
        side = np.stack([-step[:, 1], step[:, 0]], axis=1) * (half_width / length)[:, np.newaxis]
        start, stop = path[:-1], path[1:]
        pieces = np.stack([start + side, stop + side, stop - side, start - side], axis=1)
        joints = path[:, np.newaxis] + Pen.ellipse(0, 0, half_width, n=10)
        return [*pieces, *joints]

    @staticmethod
    def around(angles: Contour, distance: Contour) -> Contour:
        """Points at some distance from the middle, clockwise from the top."""
        return np.stack([distance * np.sin(angles), -distance * np.cos(angles)], axis=1)

    @staticmethod
    def path_outwards(
        x: float, y: float, radius: float, start: float, stop: float, n: int
    ) -> Contour:
        """A path that winds outwards; it reaches `radius` at angle `stop`."""
        angles = np.linspace(start, stop, n)
        distance = radius * angles / stop
        return np.stack([x + distance * np.cos(angles), y + distance * np.sin(angles)], axis=1)


def shrink(fine: NDArray[np.bool_] | NDArray[np.floating]) -> Gray:
    """Average blocks of the fine grid: the fraction of each pixel that is covered."""
    columns = fine.reshape(_FINE, SIDE, 3).sum(axis=2, dtype=np.float64)
    return columns.reshape(SIDE, 3, SIDE).sum(axis=1) / 9.0


def blur(image: NDArray[np.floating], sigma: float) -> NDArray[np.floating]:
    """Gaussian blur over the first two axes."""
    from scipy.ndimage import gaussian_filter

    # one axis after another in plain loops; colours are not mixed
    sigmas = (sigma, sigma) if image.ndim == 2 else (sigma, sigma, 0)
    return gaussian_filter(image, sigmas, mode="nearest", truncate=3.0)


def smooth_noise(generator: np.random.Generator, cells: int, octaves: int = 3) -> Gray:
    """Cloud-like noise from 0 to 1."""
    total = np.zeros((SIDE, SIDE))
    for octave in range(octaves):
        n = cells * 2**octave + 1
        position = np.linspace(0, n - 1.001, SIDE)
        low = position.astype(int)
        part = position - low
        part = part * part * (3 - 2 * part)
        values = generator.random((n + 1, n + 1))
        rows = values[low] * (1 - part)[:, np.newaxis] + values[low + 1] * part[:, np.newaxis]
        total += 0.5**octave * (rows[:, low] * (1 - part) + rows[:, low + 1] * part)
    total -= total.min()
    return total / (total.max() + 1e-9)


def paint(image: Color, cover: Gray, color: Color) -> Color:
    """Lay a colour over the image where `cover` says so."""
    return image + (color - image) * cover[..., np.newaxis]


def _fill(contours: tuple[Contour, ...], place: _Place, mask: _Mask, adds: bool) -> None:
    """Non-zero winding fill inside the bounding box of the contours, into `mask`."""
    points, following, owner = _subdivide(contours)
    start = place(points) * _FINE
    stop = start[following]
    area = np.bincount(owner, start[:, 0] * stop[:, 1] - stop[:, 0] * start[:, 1])
    # a warp may have mirrored the shape, and pieces that overlap must wind the same way
    winding = np.where(start[:, 1] < stop[:, 1], 1.0, -1.0) * np.sign(area)[owner]
    top, bottom = np.minimum(start[:, 1], stop[:, 1]), np.maximum(start[:, 1], stop[:, 1])
    first = np.clip(np.ceil(top - 0.5), 0, _FINE).astype(int)
    count = np.clip(np.ceil(bottom - 0.5), 0, _FINE).astype(int) - first
    edge = np.repeat(np.arange(len(start)), count)
    if not len(edge):
        return
    row = first[edge] + np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count)
    slope = (stop[edge, 0] - start[edge, 0]) / (stop[edge, 1] - start[edge, 1])
    crossing = start[edge, 0] + (row + 0.5 - start[edge, 1]) * slope
    column = np.clip(np.ceil(crossing - 0.5), 0, _FINE).astype(int)

    upper, left = row.min(), column.min()
    height, width = row.max() - upper + 1, column.max() - left + 1
    cell = (row - upper) * width + column - left
    turns = np.bincount(cell, winding[edge], minlength=height * width).reshape(height, width)
    inside = np.abs(np.cumsum(turns, axis=1)) > 0.5
    inside = inside[:, : _FINE - left]  # a crossing right of the picture has no pixel
    window = mask[upper : upper + height, left : left + width]
    if adds:
        window |= inside
    else:
        window &= ~inside


def _subdivide(
    contours: tuple[Contour, ...],
) -> tuple[Contour, NDArray[np.int_], NDArray[np.int_]]:
    """All points of all contours with long edges cut up; the point that follows each; its owner."""
    corner = np.concatenate(contours)
    sizes = np.array([len(contour) for contour in contours])
    following = _next_in_ring(sizes)
    step = corner[following] - corner
    pieces = np.maximum(1, np.ceil(np.hypot(step[:, 0], step[:, 1]) / _LONGEST).astype(int))
    edge = np.repeat(np.arange(len(corner)), pieces)
    part = (np.arange(len(edge)) - np.repeat(np.cumsum(pieces) - pieces, pieces)) / pieces[edge]
    points = corner[edge] + step[edge] * part[:, np.newaxis]
    owner = np.repeat(np.arange(len(sizes)), sizes)[edge]
    return points, _next_in_ring(np.bincount(owner)), owner


def _next_in_ring(sizes: NDArray[np.int_]) -> NDArray[np.int_]:
    """For points listed ring by ring, the index of the next point of the same ring."""
    stops = np.cumsum(sizes)
    following = np.arange(1, stops[-1] + 1)
    following[stops - 1] = stops - sizes
    return following
