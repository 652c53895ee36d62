"""A picture of the lab from (seed, index): an object, a pose, scenery, light and a camera.

Pictures come in clips of two frames, indices 2k and 2k + 1. Both frames show one object (class,
shape, colour, fill); pose, place, scenery, light and camera are drawn anew. A shift changes how the
same scene is seen; `clean` is no shift, and the only thing that encoders were trained on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marc.errors import MarcError, integer, one_of
from marc_lab import shifts
from marc_lab.classes import CLASSES
from marc_lab.outlines import PI
from marc_lab.palette import any_color, second_tone, shade
from marc_lab.raster import (
    SIDE,
    Color,
    Gray,
    X,
    Y,
    blur,
    fill,
    fill_shape,
    paint,
    shrink,
    smooth_noise,
)
from marc_lab.scenery import background, confetti, pattern, scrap
from marc_lab.scenes import (
    LIGHTS,
    Pose,
    Setting,
    Thing,
    draw_label,
    draw_pose,
    draw_setting,
    draw_thing,
)

VERSION = 1  # of the pictures: a change that moves one pixel raises it
SHIFTS = ("clean", *shifts.DRAWN, "clutter", *shifts.SEEN)


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
    thing = draw_thing(_object_source(seed, index), label)
    generator = np.random.default_rng([seed, index, 1])
    # what a shift draws comes from a source of its own: the scene stays the same under every shift
    extra = np.random.default_rng([seed, index, 2])
    pose = draw_pose(generator)
    setting = draw_setting(generator, thing)
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
    return draw_label(_object_source(seed, index))


def _object_source(seed: int, index: int) -> np.random.Generator:
    """Both frames of a clip draw their object from here."""
    return np.random.default_rng([seed, index // 2, 0])


def _scene(
    generator: np.random.Generator,
    clutter: np.random.Generator | None,
    thing: Thing,
    pose: Pose,
    setting: Setting,
) -> Color:
    """The object among its scenery; with a source of clutter, among much more of it."""
    cover = shrink(fill_shape(thing.shape, pose.place))
    image = background(generator, setting.background, setting.first, setting.second)
    if clutter is None:
        scraps, n_behind, n_before, largest = generator, setting.n_confetti, setting.n_before, 0.12
    else:
        n_behind, n_before = (int(n) for n in clutter.integers((7, 1), (13, 3)))
        scraps, largest = clutter, 0.15
    image = confetti(scraps, image, n_behind, largest)
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
    generator: np.random.Generator, thing: Thing, pose: Pose, cover: Gray, on_lighter: bool
) -> Color:
    """The object's colour, its pattern and the light on its rounded edge."""
    surface = np.broadcast_to(thing.color, (SIDE, SIDE, 3))
    if thing.fill in ("striped", "spotted", "checked"):
        # the pattern belongs to the object, so it grows with it
        share = pattern(generator, thing.fill, thing.frequency * 0.33 / pose.size)
        tone = second_tone(thing.color, background_lighter=on_lighter)
        surface = paint(surface, share, tone)
    elif thing.fill == "rough":
        grain = 0.35 * (smooth_noise(generator, 10, 2) - 0.5)
        grain = grain + 0.05 * generator.standard_normal((SIDE, SIDE))
        surface = surface * (1 + grain[..., np.newaxis])
    down, right = np.gradient(blur(cover, 2.5))
    angle = generator.random() * 2 * PI
    lit = right * np.cos(angle) + down * np.sin(angle)
    shiny = thing.fill == "shiny"
    surface = surface * (1 + (2.2 if shiny else 0.9) * lit)[..., np.newaxis]
    if shiny:
        surface = surface + np.clip(6 * lit - 0.3, 0, 0.6)[..., np.newaxis]
    return np.clip(surface, 0, 1)


def _hide_a_corner(generator: np.random.Generator, image: Color, pose: Pose) -> Color:
    """A scrap that lies over the rim of the object."""
    angle, away = generator.random() * 2 * PI, pose.size * generator.uniform(0.6, 1.0)
    x, y = pose.x + away * np.cos(angle), pose.y + away * np.sin(angle)
    cover = shrink(fill([scrap(generator, pose.size * generator.uniform(0.25, 0.42), x, y)]))
    return paint(image, cover, shade(any_color(generator), generator))


def _photograph(generator: np.random.Generator, image: Color, setting: Setting) -> Color:
    """Light, a darker rim, and a camera that is slightly out of focus and noisy."""
    tint, wash = LIGHTS[setting.light]
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
