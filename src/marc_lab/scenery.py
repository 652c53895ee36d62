"""What stands behind and before the object: backgrounds, patterns, confetti."""

from __future__ import annotations

import numpy as np

from marc_lab.outlines import PI, Contour, turned
from marc_lab.palette import any_color, shade
from marc_lab.raster import SIDE, Color, Gray, X, Y, fill, paint, shrink, smooth_noise

BACKGROUNDS = (
    "plain",
    "gradient",
    "cloudy",
    "striped",
    "checked",
    "dotted",
    "landscape",
    "bokeh",
    "grainy",
)
FILLS = ("plain", "striped", "spotted", "checked", "shiny", "rough")


def pattern(generator: np.random.Generator, kind: str, frequency: float) -> Gray:
    """Stripes, checks or spots at a random angle."""
    angle, phase = generator.random() * PI, generator.random()
    along = X * np.cos(angle) + Y * np.sin(angle)
    across = Y * np.cos(angle) - X * np.sin(angle)
    if kind == "striped":
        return np.clip(0.5 + 3 * np.sin(2 * PI * (frequency * along + phase)), 0, 1)
    if kind == "checked":
        first = np.sin(2 * PI * (0.7 * frequency * along + phase))
        return np.clip(0.5 + 5 * first * np.sin(2 * PI * (0.7 * frequency * across + phase)), 0, 1)
    spots = np.cos(2 * PI * frequency * along) * np.cos(2 * PI * frequency * across)
    return np.clip(4 * (spots - 0.35) + 0.5, 0, 1)


def background(generator: np.random.Generator, kind: str, first: Color, second: Color) -> Color:
    """One of the `BACKGROUNDS`, between two colours."""
    if kind == "landscape":
        return _landscape(generator, first, second)
    if kind == "bokeh":
        return _bokeh(generator, first, second)
    return _mix(first, second, _blend(generator, kind))


def _blend(generator: np.random.Generator, kind: str) -> Gray:
    """How much of the second colour each pixel has."""
    if kind == "plain":
        return np.zeros((SIDE, SIDE))
    if kind == "gradient":
        angle = generator.random() * 2 * PI
        slope = (X - 0.5) * np.cos(angle) + (Y - 0.5) * np.sin(angle) + 0.5
        rings = 1.4 * np.hypot(X - 0.5, Y - 0.5)
        return np.clip(rings if generator.random() < 0.35 else slope, 0, 1)
    if kind == "cloudy":
        return smooth_noise(generator, int(generator.integers(2, 5)))
    if kind == "grainy":
        return np.clip(0.5 + 0.28 * generator.standard_normal((SIDE, SIDE)), 0, 1)
    frequency = generator.uniform(3, 7)
    return 0.75 * pattern(generator, "spotted" if kind == "dotted" else kind, frequency)


def _landscape(generator: np.random.Generator, first: Color, second: Color) -> Color:
    """A sky and two rows of hills."""
    image, horizon = _mix(first, second, 0.5 * Y), generator.uniform(0.45, 0.75)
    for row in range(2):
        wave = X[0] * generator.uniform(0.6, 2.2) + generator.random()
        ridge = horizon + 0.12 * row + 0.06 * np.sin(2 * PI * wave)
        hills = np.clip((Y - ridge) * SIDE + 0.5, 0, 1)
        image = paint(image, hills, second if row == 0 else 0.6 * first + 0.4 * second)
    return image


def _bokeh(generator: np.random.Generator, first: Color, second: Color) -> Color:
    """Lights out of focus."""
    image = _mix(first, second, 0.6 * Y)
    for _ in range(int(generator.integers(8, 16))):
        distance = np.hypot(X - generator.random(), Y - generator.random())
        disc = np.clip((generator.uniform(0.04, 0.14) - distance) * SIDE * 0.6 + 0.5, 0, 1)
        image = paint(image, disc * generator.uniform(0.15, 0.5), second)
    return image


def _mix(first: Color, second: Color, share: Gray) -> Color:
    return first + (second - first) * share[..., np.newaxis]


def scrap(generator: np.random.Generator, size: float, x: float, y: float) -> Contour:
    """A piece of confetti: three to five corners, or an oval."""
    n = int(generator.choice([3, 4, 5, 24]))
    angles = np.arange(n) * 2 * PI / n + generator.random() * 2 * PI
    radius = 1 + 0.25 * generator.standard_normal(n) * (n < 24)
    flat = generator.uniform(0.3, 1)
    points = np.stack([np.cos(angles) * radius, np.sin(angles) * radius * flat], axis=1)
    return turned(points, generator.random() * 2 * PI) * size + [x, y]


def confetti(generator: np.random.Generator, image: Color, n: int, largest: float) -> Color:
    """Scatter `n` scraps over the image."""
    for _ in range(n):
        size, x, y = generator.uniform(0.05, largest), generator.random(), generator.random()
        cover = shrink(fill([scrap(generator, size, x, y)]))
        image = paint(image, cover, shade(any_color(generator), generator))
    return image
