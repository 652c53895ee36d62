"""The colours of the world, and the floor under the contrast between a thing and its background."""

from __future__ import annotations

import colorsys

import numpy as np

from marc_lab.raster import Color

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
_FLOOR = 0.26  # of lightness, between an object and everything behind it


def shade(name: str, generator: np.random.Generator) -> Color:
    """One of the many reds that are called red."""
    hue, saturation, value = _HUES[name]
    jitter = generator.standard_normal(3) * (0.02, 0.08, 0.06)
    return np.array(
        colorsys.hsv_to_rgb(
            float((hue + jitter[0]) % 1),
            float(np.clip(saturation + jitter[1], 0, 1)),
            float(np.clip(value + jitter[2], 0, 1)),
        )
    )


def vivid(hue: float) -> Color:
    """A bright colour of the given hue."""
    return np.array(colorsys.hsv_to_rgb(hue, 0.85, 1.0))


def any_color(generator: np.random.Generator) -> str:
    """A colour's name."""
    return COLOR_NAMES[int(generator.integers(len(COLOR_NAMES)))]


def _lightness(color: Color) -> float:
    """How light a colour looks."""
    return float(0.3 * color[0] + 0.59 * color[1] + 0.11 * color[2])


def _with_lightness(color: Color, wanted: float) -> Color:
    """The colour mixed with white or black until it has the wanted lightness."""
    now = _lightness(color)
    if wanted > now:
        return color + (1 - color) * ((wanted - now) / (1 - now))
    return color * (wanted / now) if now > 0 else color


def apart(color: Color, thing: Color, *, lighter: bool) -> Color:
    """The colour, moved if it must to stand `_FLOOR` lighter or darker than the thing."""
    now, limit = _lightness(color), _lightness(thing) + (_FLOOR if lighter else -_FLOOR)
    wanted = max(now, limit) if lighter else min(now, limit)
    return _with_lightness(color, min(max(wanted, 0.0), 1.0))


def lies_above(color: Color, thing: Color) -> bool:
    """Whether a background shall be lighter than the thing: as it is, if there is room for it."""
    light = _lightness(thing)
    if light + _FLOOR > 1:
        return False
    return light - _FLOOR < 0 or _lightness(color) > light


def second_tone(thing: Color, *, background_lighter: bool) -> Color:
    """The other colour of a striped or spotted thing, still clear of the background.

    It moves away from the background where there is room, else halfway towards it.
    """
    light = _lightness(thing)
    away = light - 0.28 if background_lighter else light + 0.28
    towards = light + 0.45 * _FLOOR if background_lighter else light - 0.45 * _FLOOR
    return _with_lightness(thing, away if 0.02 < away < 0.98 else towards)
