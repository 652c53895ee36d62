"""Outlines of things: closed contours in a box from -1 to 1, x to the right and y downwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Contour = NDArray[np.floating]  # (n, 2), closed by itself
PI = np.pi


@dataclass(frozen=True)
class _Part:
    """Contours that are filled together, then added to the shape or cut out of it."""

    adds: bool
    contours: tuple[Contour, ...]


Shape = list[_Part]


class Chance:
    """What makes one star different from the next: the random choices of a single object."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def vary(self, value: float, spread: float) -> float:
        """A number near `value`, with a relative deviation of at most twice `spread`."""
        return value * (1 + spread * float(np.clip(self.generator.standard_normal(), -2, 2)))

    def whole(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both possible."""
        return int(self.generator.integers(low, high + 1))


Drawing = Callable[[Chance], Shape]


def add(*contours: Contour) -> _Part:
    """A part of the shape."""
    return _Part(True, contours)


def cut(*contours: Contour) -> _Part:
    """A hole in what was drawn before."""
    return _Part(False, contours)


def polygon(*coordinates: float) -> Contour:
    """Corners given as x, y, x, y, ..."""
    return np.array(coordinates, dtype=np.float64).reshape(-1, 2)


def box(left: float, top: float, right: float, bottom: float) -> Contour:
    """An upright rectangle."""
    return polygon(left, top, right, top, right, bottom, left, bottom)


def ellipse(x: float, y: float, width: float, height: float | None = None, n: int = 28) -> Contour:
    """An ellipse around (x, y) with half axes `width` and `height`."""
    angles = np.arange(n) * (2 * PI / n)
    height = width if height is None else height
    return np.stack([x + width * np.cos(angles), y + height * np.sin(angles)], axis=1)


def arc(x: float, y: float, width: float, height: float, start: float, stop: float) -> Contour:
    """Points along an ellipse from angle `start` to `stop`, both included."""
    angles = np.linspace(start, stop, 18)
    return np.stack([x + width * np.cos(angles), y + height * np.sin(angles)], axis=1)


def around(radius: Callable[[NDArray[np.floating]], NDArray[np.floating]], n: int) -> Contour:
    """A contour given by its distance from the middle, clockwise from the top."""
    angles = np.arange(n) * (2 * PI / n)
    distance = radius(angles)
    return np.stack([distance * np.sin(angles), -distance * np.cos(angles)], axis=1)


def turned(points: Contour, angle: float, about: tuple[float, float] = (0.0, 0.0)) -> Contour:
    """The points turned by `angle` around a centre."""
    x, y = points[:, 0] - about[0], points[:, 1] - about[1]
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.stack([cosine * x - sine * y + about[0], sine * x + cosine * y + about[1]], axis=1)


def mirrored(points: Contour) -> Contour:
    """The points with left and right exchanged."""
    return points * [-1.0, 1.0]


def closed(*pieces: Contour | Sequence[Sequence[float]]) -> Contour:
    """One contour from pieces laid end to end."""
    return np.concatenate([np.asarray(piece, dtype=np.float64).reshape(-1, 2) for piece in pieces])


def stroke(path: Contour, half_width: float) -> list[Contour]:
    """A line of some thickness with round joints, as overlapping pieces."""
    step = path[1:] - path[:-1]
    length = np.hypot(step[:, 0], step[:, 1]) + 1e-9
    side = np.stack([-step[:, 1], step[:, 0]], axis=1) * (half_width / length)[:, np.newaxis]
    start, stop = path[:-1], path[1:]
    pieces = np.stack([start + side, stop + side, stop - side, start - side], axis=1)
    joints = path[:, np.newaxis] + ellipse(0, 0, half_width, n=10)
    return [*pieces, *joints]


def spiral(x: float, y: float, radius: float, start: float, stop: float, n: int) -> Contour:
    """A path that winds outwards; it reaches `radius` at angle `stop`."""
    angles = np.linspace(start, stop, n)
    distance = radius * angles / stop
    return np.stack([x + distance * np.cos(angles), y + distance * np.sin(angles)], axis=1)
