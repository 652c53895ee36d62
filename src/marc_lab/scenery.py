"""Colours, and what is behind and before the object: backgrounds, patterns, confetti."""

from __future__ import annotations

import colorsys

import numpy as np

from marc_lab.raster import SIDE, Color, Gray, Pen, Shape, X, Y, paint, smooth_noise

_HUES = {  # hue, saturation, value
    "red": (0.0, 0.85, 0.85),
    "orange": (0.07, 0.85, 0.95),
    "yellow": (0.14, 0.8, 0.97),
    "green": (0.33, 0.7, 0.65),
    "teal": (0.48, 0.75, 0.65),
    "blue": (0.6, 0.8, 0.85),
    "purple": (0.76, 0.6, 0.7),
    "pink": (0.92, 0.45, 0.97),
    "brown": (0.06, 0.65, 0.45),
    "white": (0.1, 0.04, 0.97),
    "grey": (0.6, 0.05, 0.55),
    "black": (0.6, 0.15, 0.1),
}
COLOR_NAMES = tuple(_HUES)


def any_color(generator: np.random.Generator, *, but: str = "") -> tuple[str, Color]:
    """A colour's name, and one of the many reds that are called red."""
    name = but
    while name == but:
        name = COLOR_NAMES[int(generator.integers(len(COLOR_NAMES)))]
    hue, saturation, value = _HUES[name]
    jitter = generator.standard_normal(3) * (0.02, 0.08, 0.06)
    hsv = (hue + jitter[0]) % 1, *np.clip((saturation + jitter[1], value + jitter[2]), 0, 1)
    return name, np.array(colorsys.hsv_to_rgb(*map(float, hsv)))


def pattern(generator: np.random.Generator, kind: str, frequency: float) -> Gray:
    """Stripes, checks or spots at a random angle."""
    angle, phase = generator.random() * np.pi, generator.random()
    along = X * np.cos(angle) + Y * np.sin(angle)
    across = Y * np.cos(angle) - X * np.sin(angle)
    if kind == "striped":
        return np.clip(0.5 + 3 * np.sin(2 * np.pi * (frequency * along + phase)), 0, 1)
    if kind == "checked":
        first = np.sin(2 * np.pi * (0.7 * frequency * along + phase))
        return np.clip(
            0.5 + 5 * first * np.sin(2 * np.pi * (0.7 * frequency * across + phase)), 0, 1
        )
    spots = np.cos(2 * np.pi * frequency * along) * np.cos(2 * np.pi * frequency * across)
    return np.clip(4 * (spots - 0.35) + 0.5, 0, 1)


def background(generator: np.random.Generator, kind: str, first: Color, second: Color) -> Color:
    """A background of some kind, between two colours."""
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
        angle = generator.random() * 2 * np.pi
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
        ridge = horizon + 0.12 * row + 0.06 * np.sin(2 * np.pi * wave)
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


def _mix(first: Color, second: Color, fraction: Gray) -> Color:
    return first + (second - first) * fraction[..., np.newaxis]


def lay_scrap(
    generator: np.random.Generator, image: Color, size: float, x: float, y: float
) -> Color:
    """Lay a piece of confetti over the image: three to five corners, or an oval."""
    n = int(generator.choice([3, 4, 5, 24]))
    angles = np.arange(n) * 2 * np.pi / n + generator.random() * 2 * np.pi
    radius = 1 + 0.25 * generator.standard_normal(n) * (n < 24)
    flat = generator.uniform(0.3, 1)
    points = np.stack([np.cos(angles) * radius, np.sin(angles) * radius * flat], axis=1)
    scrap = Pen.turned(points, generator.random() * 2 * np.pi) * size + [x, y]
    return paint(image, Shape(scrap).cover(), any_color(generator)[1])
