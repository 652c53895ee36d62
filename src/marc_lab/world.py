"""A picture of the lab from (seed, index): an object, a pose, scenery, light and a camera.

Pictures come in clips of two frames, indices 2k and 2k + 1. Both frames show one object (class,
shape, colour, fill); pose, position, scenery, light and camera are drawn again. A shift changes how
the same scene is seen; `clean` is no shift, and the only thing that encoders were trained on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, integer, one_of
from marc_lab import shifts
from marc_lab.classes import CLASSES
from marc_lab.raster import SIDE, Color, Contour, Gray, Pen, Shape, X, Y, blur, paint, smooth_noise
from marc_lab.scenery import any_color, background, lay_scrap, pattern

VERSION = 1  # of the pictures: a change that moves one pixel raises it
SHIFTS = ("clean", *shifts.DRAWN, "clutter", *shifts.SEEN)

_SIZES = (("tiny", 0.18, 0.23), ("small", 0.23, 0.3), ("medium", 0.3, 0.37), ("large", 0.37, 0.45))
_LIGHTS = {  # name: colour of the light, and how much it washes out
    "": ((1.0, 1.0, 1.0), 0.0),
    "warm": ((1.12, 1.0, 0.8), 0.0),
    "cold": ((0.82, 0.97, 1.15), 0.0),
    "dark": ((0.6, 0.6, 0.65), 0.0),
    "bright": ((0.92, 0.92, 0.92), 0.16),
}
_BACKGROUNDS = (
    *("plain", "gradient", "cloudy", "striped", "checked"),
    *("dotted", "landscape", "bokeh", "grainy"),
)
_FILLS = ("plain", "striped", "spotted", "checked", "shiny", "rough")
_FLOOR = 0.26  # of lightness, between an object and everything behind it


@dataclass(frozen=True)
class Facts:
    """What is true of a picture: the matter of its caption."""

    label: int
    color: str
    fill: str
    size: str
    angle: float
    x: float
    background: str
    background_color: str
    light: str
    has_shadow: bool
    n_confetti: int


@dataclass(frozen=True)
class _Picture:
    """One frame."""

    image: NDArray[np.uint8]  # (64, 64, 3)
    facts: Facts

    @property
    def label(self) -> int:
        """The class of the object."""
        return self.facts.label


@dataclass(frozen=True)
class _Thing:
    """The object of a clip."""

    label: int
    shape: Shape
    color_name: str
    color: Color
    fill: str
    frequency: float
    rim: int  # 0 none, 1 dark, 2 light


@dataclass(frozen=True)
class _Setting:
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
class _Pose:
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


def render(seed: int, index: int, shift: str = "clean", label: int | None = None) -> _Picture:
    """Draw one picture. The class is drawn too, unless `label` gives it.

    >>> picture = render(seed=7, index=0, shift="sketch", label=1)
    >>> picture.image.shape, picture.facts.label
    ((64, 64, 3), 1)
    """
    integer("seed", seed, 0)
    integer("index", index, 0)
    one_of("shift", shift, SHIFTS)
    if label is not None and integer("label", label, 0) >= len(CLASSES):
        raise MarcError("there is no such class", got=label, allowed=f"0 to {len(CLASSES) - 1}")
    thing = _draw_thing(_object_source(seed, index), label)
    generator = np.random.default_rng([seed, index, 1])
    # what a shift draws comes from a source of its own: the scene stays the same under every shift
    extra = np.random.default_rng([seed, index, 2])
    pose = _draw_pose(generator)
    setting = _draw_setting(generator, thing)
    if shift in shifts.DRAWN:
        image = shifts.DRAWN[shift](extra, thing.shape, pose.place)
    else:
        clutter = extra if shift == "clutter" else None
        image = _photograph(generator, _scene(generator, clutter, thing, pose, setting), setting)
    if shift in shifts.SEEN:
        image = shifts.SEEN[shift](extra, image)
    facts = Facts(
        label=thing.label,
        color=thing.color_name,
        fill=thing.fill,
        size=pose.size_name,
        angle=pose.angle,
        x=pose.x,
        background=setting.background,
        background_color=setting.color_name,
        light=setting.light,
        has_shadow=setting.has_shadow,
        n_confetti=setting.n_confetti,
    )
    return _Picture((np.clip(image, 0, 1) * 255 + 0.5).astype(np.uint8), facts)


def label_of(seed: int, index: int) -> int:
    """The class that `render` draws, without drawing the picture."""
    return _draw_label(_object_source(seed, index))


def _object_source(seed: int, index: int) -> np.random.Generator:
    """Both frames of a clip draw their object from here."""
    return np.random.default_rng([seed, index // 2, 0])


def _scene(
    generator: np.random.Generator,
    clutter: np.random.Generator | None,
    thing: _Thing,
    pose: _Pose,
    setting: _Setting,
) -> Color:
    """The object among its scenery; with a source of clutter, among much more of it."""
    cover = thing.shape.cover(pose.place)
    image = background(generator, setting.background, setting.first, setting.second)
    if clutter is None:
        scraps, n_behind, n_before, largest = generator, setting.n_confetti, setting.n_before, 0.12
    else:
        n_behind, n_before = (int(n) for n in clutter.integers((7, 1), (13, 3)))
        scraps, largest = clutter, 0.15
    for _ in range(n_behind):
        size, x, y = scraps.uniform(0.05, largest), scraps.random(), scraps.random()
        image = lay_scrap(scraps, image, size, x, y)
    if setting.has_shadow:
        dx, dy = generator.integers(1, 4, 2)
        image = image * (1 - 0.4 * blur(np.roll(cover, (dy, dx), (0, 1)), 1.5))[..., np.newaxis]
    image = paint(image, cover, _surface(generator, thing, pose, cover, setting.is_lighter))
    if thing.rim:
        soft = blur(cover, 0.7)
        edge = np.clip(4 * soft * (1 - soft) - 0.25, 0, 1) * 0.8
        dark, light = 0.25 * thing.color, 0.6 + 0.4 * thing.color
        image = paint(image, edge, dark if thing.rim == 1 else light)
    for _ in range(n_before):
        image = _hide_a_corner(scraps, image, pose)
    return np.clip(image, 0, 1)


def _surface(
    generator: np.random.Generator, thing: _Thing, pose: _Pose, cover: Gray, on_lighter: bool
) -> Color:
    """The object's colour, its pattern and the light on its rounded edge."""
    surface = np.broadcast_to(thing.color, (SIDE, SIDE, 3))
    if thing.fill in ("striped", "spotted", "checked"):
        # the pattern belongs to the object, so it grows with it
        share = pattern(generator, thing.fill, thing.frequency * 0.33 / pose.size)
        tone = _second_tone(thing.color, background_lighter=on_lighter)
        surface = paint(surface, share, tone)
    elif thing.fill == "rough":
        grain = 0.35 * (smooth_noise(generator, 10, 2) - 0.5)
        grain = grain + 0.05 * generator.standard_normal((SIDE, SIDE))
        surface = surface * (1 + grain[..., np.newaxis])
    down, right = np.gradient(blur(cover, 2.5))
    angle = generator.random() * 2 * np.pi
    lit = right * np.cos(angle) + down * np.sin(angle)
    shiny = thing.fill == "shiny"
    surface = surface * (1 + (2.2 if shiny else 0.9) * lit)[..., np.newaxis]
    if shiny:
        surface = surface + np.clip(6 * lit - 0.3, 0, 0.6)[..., np.newaxis]
    return np.clip(surface, 0, 1)


def _hide_a_corner(generator: np.random.Generator, image: Color, pose: _Pose) -> Color:
    """A scrap that lies over the rim of the object."""
    angle, away = generator.random() * 2 * np.pi, pose.size * generator.uniform(0.6, 1.0)
    x, y = pose.x + away * np.cos(angle), pose.y + away * np.sin(angle)
    return lay_scrap(generator, image, pose.size * generator.uniform(0.25, 0.42), x, y)


def _photograph(generator: np.random.Generator, image: Color, setting: _Setting) -> Color:
    """Light, a darker rim, and a camera that is slightly out of focus and noisy."""
    tint, wash = _LIGHTS[setting.light]
    image = image * np.array(tint) + wash
    corners = (X - 0.5) ** 2 + (Y - 0.5) ** 2
    image = image * (1 - 0.5 * generator.random() * corners)[..., np.newaxis]
    focus, contrast = generator.random(2)
    if focus < 0.35:
        image = blur(image, 0.3 + 0.5 * focus / 0.35)
    if contrast < 0.4:
        kept = 0.72 + 0.28 * contrast / 0.4
        image = image * kept + (1 - kept) * image.mean()
    image = np.clip(image, 0, 1) ** np.exp(np.clip(generator.normal(0, 0.18), -0.36, 0.36))
    noise = generator.standard_normal((SIDE, SIDE, 3))
    return np.clip(image + generator.uniform(0, 0.035) * noise, 0, 1)


def _draw_label(generator: np.random.Generator) -> int:
    """A class; the first thing that is drawn of an object."""
    return int(generator.integers(len(CLASSES)))


def _draw_thing(generator: np.random.Generator, label: int | None) -> _Thing:
    """An object of some class, or of the given one."""
    drawn = _draw_label(generator)
    label = drawn if label is None else label
    shape = CLASSES[label].drawing(Pen(generator))
    name, color = any_color(generator)
    return _Thing(
        label=label,
        shape=shape,
        color_name=name,
        color=color,
        fill=_FILLS[int(generator.integers(len(_FILLS)))],
        frequency=generator.uniform(4, 9),
        rim=int(generator.choice(3, p=[0.6, 0.25, 0.15])),
    )


def _draw_pose(generator: np.random.Generator) -> _Pose:
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
    return _Pose(
        size_name=name,
        size=size,
        x=float(x),
        y=float(y),
        angle=angle,
        matrix=np.array(matrix),
        waves=generator.normal(0, 2.2, (2, 2)),
        phases=generator.random(2) * 2 * np.pi,
        heights=0.085 * np.abs(np.clip(generator.standard_normal(2), -2, 2)),
    )


def _draw_setting(generator: np.random.Generator, thing: _Thing) -> _Setting:
    """Scenery that keeps clear of the object's lightness."""
    name, first = any_color(generator, but=thing.color_name)
    second = 0.55 * first + 0.45 * any_color(generator)[1]
    lighter = _lies_above(first, thing.color)
    return _Setting(
        background=_BACKGROUNDS[int(generator.integers(len(_BACKGROUNDS)))],
        color_name=name,
        first=_apart(first, thing.color, lighter=lighter),
        second=_apart(second, thing.color, lighter=lighter),
        is_lighter=lighter,
        light=tuple(_LIGHTS)[int(generator.choice(5, p=[0.5, 0.13, 0.13, 0.12, 0.12]))],
        n_confetti=int(generator.choice([0, 0, 1, 2, 4])),
        has_shadow=bool(generator.random() < 0.5),
        n_before=int(generator.random() < 0.22),
    )


def _lightness(color: Color) -> float:
    """How light a colour looks."""
    return float(0.3 * color[0] + 0.59 * color[1] + 0.11 * color[2])


def _with_lightness(color: Color, wanted: float) -> Color:
    """The colour mixed with white or black until it has the wanted lightness."""
    now = _lightness(color)
    if wanted > now:
        return color + (1 - color) * ((wanted - now) / (1 - now))
    return color * (wanted / now) if now > 0 else color


def _apart(color: Color, thing: Color, *, lighter: bool) -> Color:
    """The colour, moved if it must to stand `_FLOOR` lighter or darker than the thing."""
    now, limit = _lightness(color), _lightness(thing) + (_FLOOR if lighter else -_FLOOR)
    wanted = max(now, limit) if lighter else min(now, limit)
    return _with_lightness(color, min(max(wanted, 0.0), 1.0))


def _lies_above(color: Color, thing: Color) -> bool:
    """Whether a background shall be lighter than the thing: as it is, if there is room for it."""
    light = _lightness(thing)
    if light + _FLOOR > 1:
        return False
    return light - _FLOOR < 0 or _lightness(color) > light


def _second_tone(thing: Color, *, background_lighter: bool) -> Color:
    """The other colour of a striped or spotted thing, still clear of the background.

    It moves away from the background where there is room, else halfway towards it.
    """
    light = _lightness(thing)
    away = light - 0.28 if background_lighter else light + 0.28
    towards = light + 0.45 * _FLOOR if background_lighter else light - 0.45 * _FLOOR
    return _with_lightness(thing, away if 0.02 < away < 0.98 else towards)
