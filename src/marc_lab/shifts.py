"""The shifts: ways of seeing a scene that no encoder was trained on.

`DRAWN` shifts draw the outline instead of the photograph; `SEEN` shifts change the photograph.
(`clutter` changes the scene itself, in `world`.) Severities were set by eye, so that a person can
read nearly every picture. `_halftone` and `_mosaic` came last and nothing was tuned on them.
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from marc_lab.raster import (
    SIDE,
    Color,
    Contour,
    Gray,
    Pen,
    Shape,
    X,
    Y,
    blur,
    paint,
    shrink,
    smooth_noise,
)
from marc_lab.scenery import pattern

_Place = Callable[[Contour], Contour]  # from an outline's box into the picture

_HEAT = np.array(  # from cold to hot
    [(0, 0, 0.05), (0.2, 0.02, 0.4), (0.6, 0.1, 0.45), (0.9, 0.3, 0.2), (1, 0.65, 0.1), (1, 1, 0.7)]
)
_CYAN, _MAGENTA, _YELLOW = (0.05, 0.62, 0.85), (0.86, 0.1, 0.5), (0.98, 0.85, 0.1)


def _edge(mask: NDArray[np.bool_], strength: float) -> Gray:
    """A soft line along the border of a mask."""
    soft = blur(mask.astype(np.float64), 1.3)
    return shrink(np.clip(4 * soft * (1 - soft) * strength, 0, 1))


def _vivid(hue: float) -> Color:
    """A bright colour of the given hue."""
    return np.array(colorsys.hsv_to_rgb(hue, 0.85, 1.0))


def _unsteady(generator: np.random.Generator, place: _Place) -> _Place:
    """The same placement by a hand that shakes."""
    offset, phase = generator.normal(0, 0.008, 2), generator.random() * 2 * np.pi

    def shaken(points: Contour) -> Contour:
        placed = place(points)
        return placed + offset + 0.006 * np.sin(40 * placed[:, ::-1] + phase)

    return shaken


def _sketch(generator: np.random.Generator, shape: Shape, place: _Place) -> Color:
    """Two ink lines, hatching and stray strokes on paper."""
    mask, again = shape.fill(place), shape.fill(_unsteady(generator, place))
    tint = 1 - 0.06 * smooth_noise(generator, 3) - 0.03 * generator.random((SIDE, SIDE))
    image: Color = np.array([0.95, 0.92, 0.85]) * tint[..., np.newaxis]
    ink = np.array([0.12, 0.11, 0.16]) + generator.uniform(0, 0.12)
    line = np.maximum(_edge(mask, 1.2), 0.6 * _edge(again, 1.0))
    image = paint(image, np.clip(line * generator.uniform(0.8, 1), 0, 1), ink)
    hatching = pattern(generator, "striped", generator.uniform(11, 16)) * shrink(mask)
    where = smooth_noise(generator, 2, 1) > generator.uniform(0.2, 0.7)
    image = paint(image, 0.6 * generator.uniform(0.15, 0.6) * hatching * where, ink)
    for _ in range(int(generator.integers(0, 4))):
        (ax, ay), (bx, by), (cx, cy) = generator.random((3, 2))
        t = np.linspace(0, 1, 12)
        near, middle, far = (1 - t) ** 2, 2 * t * (1 - t), t * t
        x, y = near * ax + middle * bx + far * cx, near * ay + middle * by + far * cy
        image = paint(image, 0.5 * Shape(*Pen.stroke(np.stack([x, y], 1), 0.006)).cover(), ink)
    return image


def _neon(generator: np.random.Generator, shape: Shape, place: _Place) -> Color:
    """A glowing tube in the dark, and pieces of others."""
    wall = _vivid(generator.random()) * 0.1 + 0.03
    image = wall * (1 - 0.5 * Y)[..., np.newaxis]
    tube, line = _vivid(generator.random()), _edge(shape.fill(place), 1.0)
    glow = np.clip(1.6 * blur(line, 1.8), 0, 1)
    image = image + 0.9 * glow[..., np.newaxis] * tube
    image = image + 0.9 * line[..., np.newaxis] * (0.5 * tube + 0.5)
    for _ in range(int(generator.integers(0, 4))):
        line = Shape(*Pen.stroke(Pen.polygon(*generator.random(4)), 0.007)).cover()
        tube = 0.5 * _vivid(generator.random())
        glow = np.clip(1.4 * blur(line, 1.6), 0, 1)
        image = image + (glow + line)[..., np.newaxis] * tube
    return image + 0.02 * generator.standard_normal((SIDE, SIDE, 3))


def _fog(generator: np.random.Generator, image: Color) -> Color:
    """A third to a half of the light comes through, unevenly."""
    through = generator.uniform(0.34, 0.5) * (0.8 + 0.4 * smooth_noise(generator, 2, 2))
    haze = np.array([0.8, 0.82, 0.85]) * generator.uniform(0.85, 1.1)
    image = haze + (blur(image, generator.uniform(0.5, 1.0)) - haze) * through[..., np.newaxis]
    return image + 0.01 * generator.standard_normal((SIDE, SIDE, 3))


def _noise(generator: np.random.Generator, image: Color) -> Color:
    """A sensor at its limit, with dead and hot pixels."""
    strength = generator.uniform(0.06, 0.13)
    image = 0.8 * image + 0.1 + strength * generator.standard_normal((SIDE, SIDE, 3))
    chance, fraction = generator.random((SIDE, SIDE)), generator.uniform(0.003, 0.02)
    image[chance < fraction] = 0
    image[chance > 1 - fraction] = 1
    return image


def _pixel(generator: np.random.Generator, image: Color) -> Color:
    """Few large pixels of few colours."""
    n = int(generator.choice([24, 26, 28]))
    cell = (np.arange(SIDE) * n) // SIDE
    starts, sizes = np.searchsorted(cell, np.arange(n)), np.bincount(cell)
    coarse = np.add.reduceat(np.add.reduceat(image, starts, axis=0), starts, axis=1)
    coarse = coarse / (sizes[:, np.newaxis] * sizes)[..., np.newaxis]
    return (np.round(coarse * 6) / 6)[cell][:, cell]


def _negative(generator: np.random.Generator, image: Color) -> Color:
    """Light and dark exchanged."""
    del generator
    return 1 - image


def _thermal(generator: np.random.Generator, image: Color) -> Color:
    """Lightness as heat."""
    heat = blur(_light_of(image), 0.8)
    heat = 5 * (heat - heat.min()) / (heat.max() - heat.min() + 1e-6)
    low = np.minimum(heat.astype(int), 4)
    image = _HEAT[low] + (_HEAT[low + 1] - _HEAT[low]) * (heat - low)[..., np.newaxis]
    return image + 0.02 * generator.standard_normal((SIDE, SIDE, 3))


def _halftone(generator: np.random.Generator, image: Color) -> Color:
    """Printed with dots of three inks, each screen at its own angle."""
    pitch, turn = generator.uniform(2.6, 3.4), generator.random() * np.pi
    soft = np.clip(blur(image, 0.5), 0, 1)
    paper = np.array([0.98, 0.96, 0.91])
    inks = np.array([_CYAN, _MAGENTA, _YELLOW])
    printed = np.broadcast_to(paper, (SIDE, SIDE, 3))
    for channel, angle in enumerate((15, 45, 75)):
        dots = _dots(np.radians(angle) + turn, pitch, 0.85 * (1 - soft[..., channel]))
        printed = printed * (1 - dots[..., np.newaxis] * (1 - inks[channel]))
    return printed


def _dots(angle: float, pitch: float, darkness: Gray) -> Gray:
    """A screen of round dots that cover as much of each cell as it is dark."""
    u = (X * np.cos(angle) + Y * np.sin(angle)) * SIDE / pitch
    v = (Y * np.cos(angle) - X * np.sin(angle)) * SIDE / pitch
    away = np.hypot(u - np.round(u), v - np.round(v)) * pitch
    radius = pitch * np.sqrt(darkness / np.pi)
    return np.clip(radius - away + 0.5, 0, 1)


def _mosaic(generator: np.random.Generator, image: Color) -> Color:
    """Small tiles of one colour each, with dark joints."""
    from scipy.spatial import cKDTree

    n = int(generator.choice([18, 20, 22]))
    corner = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), -1).reshape(-1, 2)
    centres = (corner + 0.5 + generator.uniform(-0.32, 0.32, corner.shape)) / n
    away, tile = cKDTree(centres).query(np.stack([Y, X], -1).reshape(-1, 2), k=2)
    size = np.maximum(np.bincount(tile[:, 0], minlength=n * n), 1)
    flat = image.reshape(-1, 3)
    colors = np.stack([np.bincount(tile[:, 0], flat[:, c], n * n) / size for c in range(3)], 1)
    colors = colors * (1 + 0.06 * generator.standard_normal((n * n, 1)))
    joint = np.clip(1.0 - (away[:, 1] - away[:, 0]) * SIDE, 0, 1).reshape(SIDE, SIDE)
    return paint(colors[tile[:, 0]].reshape(SIDE, SIDE, 3), 0.4 * joint, np.full(3, 0.2))


def _light_of(image: Color) -> Gray:
    return 0.3 * image[..., 0] + 0.59 * image[..., 1] + 0.11 * image[..., 2]


DRAWN: dict[str, Callable[[np.random.Generator, Shape, _Place], Color]] = {
    "sketch": _sketch,
    "neon": _neon,
}
SEEN: dict[str, Callable[[np.random.Generator, Color], Color]] = {
    "fog": _fog,
    "noise": _noise,
    "pixel": _pixel,
    "negative": _negative,
    "thermal": _thermal,
    "halftone": _halftone,
    "mosaic": _mosaic,
}
