"""What is in a picture, drawn from a random source before anything is painted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marc_lab.classes import CLASSES
from marc_lab.outlines import PI, Chance, Contour, Shape
from marc_lab.palette import any_color, apart, lies_above, shade
from marc_lab.raster import Color
from marc_lab.scenery import BACKGROUNDS, FILLS

_SIZES = (("tiny", 0.18, 0.23), ("small", 0.23, 0.3), ("medium", 0.3, 0.37), ("large", 0.37, 0.45))
LIGHTS = {  # name: colour of the light, and how much it washes out
    "": ((1.0, 1.0, 1.0), 0.0),
    "warm": ((1.12, 1.0, 0.8), 0.0),
    "cold": ((0.82, 0.97, 1.15), 0.0),
    "dark": ((0.6, 0.6, 0.65), 0.0),
    "bright": ((0.92, 0.92, 0.92), 0.16),
}


@dataclass(frozen=True)
class Thing:
    """The object of a clip."""

    label: int
    shape: Shape
    color_name: str
    color: Color
    fill: str
    frequency: float
    rim: int  # 0 none, 1 dark, 2 light


@dataclass(frozen=True)
class Setting:
    """The scenery and the light of a frame."""

    background: str
    color_name: str
    first: Color
    second: Color
    is_lighter: bool  # than the object
    light: str
    n_confetti: int
    has_shadow: bool
    n_before: int  # scraps that hide a corner of the object


@dataclass(frozen=True)
class Pose:
    """Where the object is in this frame, and how it is bent."""

    size_name: str
    size: float
    x: float
    y: float
    angle: float
    matrix: NDArray[np.float64]
    waves: NDArray[np.float64]  # (2, 2) wave vectors
    phases: NDArray[np.float64]
    heights: NDArray[np.float64]

    def place(self, points: Contour) -> Contour:
        """Points of the outline's box, moved into the picture's unit square."""
        x, y = points[:, 0], points[:, 1]
        (ax, ay), (bx, by) = self.waves
        u = x + self.heights[0] * np.sin(x * ax + y * ay + self.phases[0])
        v = y + self.heights[1] * np.sin(x * bx + y * by + self.phases[1])
        (a, b), (c, d) = self.matrix
        return np.stack(
            [(u * a + v * c) * self.size + self.x, (u * b + v * d) * self.size + self.y], 1
        )


def draw_label(generator: np.random.Generator) -> int:
    """A class; the first thing that is drawn of an object."""
    return int(generator.integers(len(CLASSES)))


def draw_thing(generator: np.random.Generator, label: int | None) -> Thing:
    """An object of some class, or of the given one."""
    drawn = draw_label(generator)
    label = drawn if label is None else label
    shape = CLASSES[label].drawing(Chance(generator))
    name = any_color(generator)
    return Thing(
        label=label,
        shape=shape,
        color_name=name,
        color=shade(name, generator),
        fill=FILLS[int(generator.integers(len(FILLS)))],
        frequency=generator.uniform(4, 9),
        rim=int(generator.choice(3, p=[0.6, 0.25, 0.15])),
    )


def draw_pose(generator: np.random.Generator) -> Pose:
    """Size, place, turn and warp."""
    name, low, high = _SIZES[int(generator.choice(4, p=[0.12, 0.3, 0.38, 0.2]))]
    size = generator.uniform(low, high)
    room = 0.5 - 0.9 * size
    x, y = 0.5 + np.clip(generator.normal(0, 0.1, 2), -room, room)
    angle = float(np.clip(generator.normal(0, 0.33), -0.9, 0.9))
    stretch, shear = np.exp(0.13 * generator.standard_normal(2)), 0.14 * generator.standard_normal()
    mirror = -1.0 if generator.random() < 0.5 else 1.0
    cosine, sine = np.cos(angle), np.sin(angle)
    first = (mirror * stretch[0], shear)
    # (stretch and shear), then a turn, written out: two rows of a 2 x 2 matrix
    matrix = [
        [first[0] * cosine - first[1] * sine, first[0] * sine + first[1] * cosine],
        [-stretch[1] * sine, stretch[1] * cosine],
    ]
    return Pose(
        size_name=name,
        size=size,
        x=float(x),
        y=float(y),
        angle=angle,
        matrix=np.array(matrix),
        waves=generator.normal(0, 2.2, (2, 2)),
        phases=generator.random(2) * 2 * PI,
        heights=0.085 * np.abs(np.clip(generator.standard_normal(2), -2, 2)),
    )


def draw_setting(generator: np.random.Generator, thing: Thing) -> Setting:
    """Scenery that keeps clear of the object's lightness."""
    name = any_color(generator)
    while name == thing.color_name:
        name = any_color(generator)
    first = shade(name, generator)
    second = 0.55 * first + 0.45 * shade(any_color(generator), generator)
    lighter = lies_above(first, thing.color)
    return Setting(
        background=BACKGROUNDS[int(generator.integers(len(BACKGROUNDS)))],
        color_name=name,
        first=apart(first, thing.color, lighter=lighter),
        second=apart(second, thing.color, lighter=lighter),
        is_lighter=lighter,
        light=tuple(LIGHTS)[int(generator.choice(5, p=[0.5, 0.13, 0.13, 0.12, 0.12]))],
        n_confetti=int(generator.choice([0, 0, 1, 2, 4])),
        has_shadow=bool(generator.random() < 0.5),
        n_before=int(generator.random() < 0.22),
    )
