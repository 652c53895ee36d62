"""Drawings of animals, clothes and what people wear or wave."""

from __future__ import annotations

import numpy as np

from marc_lab.outlines import (
    PI,
    Chance,
    Shape,
    add,
    arc,
    box,
    closed,
    cut,
    ellipse,
    mirrored,
    polygon,
    spiral,
    stroke,
    turned,
)


def fish(chance: Chance) -> Shape:
    """Body, tail, fin and eye."""
    belly, upper, lower = chance.vary(0.45, 0.15), chance.vary(0.5, 0.15), chance.vary(0.5, 0.15)
    tail = polygon(0.4, 0, 1, -upper, 0.85, 0, 1, lower)
    fin = polygon(-0.3, -0.8 * belly, 0.1, -belly - 0.25, 0.3, -0.6 * belly)
    return [add(ellipse(-0.2, 0, 0.75, belly), tail, fin), cut(ellipse(-0.62, -0.1, 0.08))]


def bird(chance: Chance) -> Shape:
    """A small one, standing."""
    body, head = ellipse(-0.05, 0.1, 0.6, chance.vary(0.38, 0.1)), ellipse(-0.55, -0.35, 0.28)
    beak = polygon(-0.78, -0.45, -1.05, -0.3, -0.75, -0.25)
    tail = polygon(0.4, 0, 1, -chance.vary(0.3, 0.3), 0.95, 0.15, 0.4, 0.3)
    wing = polygon(-0.1, 0.05, 0.5, -chance.vary(0.75, 0.2), 0.45, 0.1)
    legs = [
        *stroke(polygon(-0.1, 0.4, -0.1, 0.85), 0.04),
        *stroke(polygon(0.12, 0.4, 0.12, 0.85), 0.04),
    ]
    return [add(body, head, beak, tail, wing, *legs), cut(ellipse(-0.6, -0.4, 0.06))]


def butterfly(chance: Chance) -> Shape:
    """Four wings and two feelers."""
    upper = ellipse(0.52, -0.42, chance.vary(0.55, 0.1), 0.38)
    lower = ellipse(0.42, 0.45, chance.vary(0.4, 0.1), 0.32)
    wings = [turned(upper, -0.6, (0.52, -0.42)), turned(lower, 0.6, (0.42, 0.45))]
    half = [*wings, *stroke(polygon(0, -0.55, 0.3, -1), 0.035)]
    return [add(ellipse(0, 0.05, 0.09, 0.7), *half, *(mirrored(piece) for piece in half))]


def snail(chance: Chance) -> Shape:
    """A foot, a house and two horns."""
    foot = polygon(-1, 0.35, -0.75, 0.3, -0.5, 0.55, 0.9, 0.6, 1, 0.85, -0.8, 0.85)
    shell = ellipse(0.15, 0.05, chance.vary(0.58, 0.08))
    horns = [
        *stroke(polygon(-0.85, 0.5, -1, -0.2), 0.05),
        *stroke(polygon(-0.75, 0.5, -0.7, -0.2), 0.05),
    ]
    groove = stroke(spiral(0.15, 0.05, 0.5, 0.5, 4 * PI, 40), 0.035)
    return [add(foot, shell, *horns), cut(*groove)]


def cat(chance: Chance) -> Shape:
    """A face with pointed ears."""
    ears = chance.vary(0.95, 0.08)
    face = ellipse(0, 0.15, 0.85, chance.vary(0.75, 0.06))
    ear = polygon(0.8, 0.1, 0.75, -ears, 0.15, -0.5)
    eye = ellipse(0.32, 0.05, 0.12, 0.16)
    nose = polygon(-0.12, 0.35, 0.12, 0.35, 0, 0.5)
    return [add(face, ear, mirrored(ear)), cut(eye, mirrored(eye), nose)]


def rabbit(chance: Chance) -> Shape:
    """A face with long ears."""
    spread = chance.vary(0.2, 0.4)
    face = ellipse(0, 0.4, chance.vary(0.6, 0.07), 0.58)
    ear = turned(ellipse(0.25, -0.5, 0.19, 0.58), spread, (0.2, 0.0))
    eye = ellipse(0.22, 0.28, 0.09)
    return [add(face, ear, mirrored(ear)), cut(eye, mirrored(eye), ellipse(0, 0.55, 0.09, 0.06))]


def hand(chance: Chance) -> Shape:
    """Four fingers and a thumb."""
    pieces = [ellipse(0, 0.4, 0.45, 0.52)]
    for x, angle, length in (
        (-0.36, -0.28, 0.85),
        (-0.12, -0.08, 1.05),
        (0.13, 0.08, 1.02),
        (0.36, 0.27, 0.85),
    ):
        tip = x + length * np.sin(angle * chance.vary(1, 0.3))
        pieces += stroke(polygon(x, 0.2, tip, 0.2 - length), 0.12)
    thumb = stroke(polygon(0.2, 0.6, 0.85, chance.vary(0.08, 0.8)), 0.14)
    return [add(*pieces, *thumb)]


def crown(chance: Chance) -> Shape:
    """Three points with balls."""
    valley = chance.vary(0.1, 0.8)
    left = [[-0.9, 0.6], [-1, -0.5], [-0.45, valley], [0, -0.8]]
    band = closed(left, [[0.45, valley], [1, -0.5], [0.9, 0.6]])
    balls = (ellipse(-1, -0.55, 0.13), ellipse(0, -0.85, 0.13), ellipse(1, -0.55, 0.13))
    return [add(band, *balls), cut(box(-0.8, 0.34, 0.8, 0.44))]


def hat(chance: Chance) -> Shape:
    """A soft one with a ribbon."""
    top = chance.vary(0.42, 0.12)
    body = polygon(-top, -0.65, 0, -0.52, top, -0.65, 0.58, 0.3, -0.58, 0.3)
    brim = ellipse(0, 0.35, 1, chance.vary(0.2, 0.15))
    return [add(body, brim), cut(box(-0.55, 0.02, 0.55, 0.12))]


def boot(chance: Chance) -> Shape:
    """A high shaft and a sole."""
    height = chance.vary(0.85, 0.1)
    shaft = [[-0.6, -height], [0.1, -height], [0.15, 0.1], [0.8, 0.3], [0.95, 0.75], [-0.62, 0.75]]
    return [add(closed(shaft), box(-0.65, 0.75, 0.98, 0.95))]


def shirt(chance: Chance) -> Shape:
    """Short sleeves."""
    sleeve = 0.3 * chance.vary(0.25, 0.3)
    half = [[0.35, -0.85], [1, -0.45], [0.8, 0.05 + sleeve], [0.52, -0.1], [0.52, 0.95]]
    right = closed(half)
    return [add(closed(right, mirrored(right[::-1]))), cut(ellipse(0, -0.87, 0.24, 0.2))]


def glasses(chance: Chance) -> Shape:
    """Two rims, a bridge and the bows."""
    rim = chance.vary(0.4, 0.1)
    bow = stroke(polygon(0.9, -0.1, 1.05, -0.35), 0.06)
    bridge = stroke(arc(0, 0.05, 0.2, 0.2, 1.1 * PI, 1.9 * PI), 0.06)
    lens, other = ellipse(0.52, 0, rim - 0.13), ellipse(-0.52, 0, rim - 0.13)
    rims = (ellipse(0.52, 0, rim), ellipse(-0.52, 0, rim))
    return [add(*rims, *bridge, *bow, *(mirrored(piece) for piece in bow)), cut(lens, other)]


def umbrella(chance: Chance) -> Shape:
    """A scalloped canopy and a crook."""
    t = np.linspace(1, -1, 25)
    rim = np.stack([t, -0.02 - 0.12 * np.abs(np.sin(t * PI * 1.5))], axis=1)
    canopy = closed(arc(0, 0, 1, chance.vary(0.85, 0.1), PI, 2 * PI), rim)
    crook = closed([[0, -0.9], [0, 0.75]], arc(0.2, 0.75, 0.2, 0.2, PI, 0))
    return [add(canopy, *stroke(crook, 0.06))]


def balloon(chance: Chance) -> Shape:
    """On a string."""
    string = stroke(polygon(0, 0.45, chance.vary(0.1, 1), 0.7, -0.05, 1), 0.03)
    knot = polygon(-0.12, 0.5, 0.12, 0.5, 0, 0.36)
    return [add(ellipse(0, -0.3, chance.vary(0.6, 0.08), 0.7), knot, *string)]


def bell(chance: Chance) -> Shape:
    """With its clapper."""
    waist = chance.vary(0.42, 0.1)
    t = np.linspace(0, 1, 14)
    side = np.stack([waist + (0.9 - waist) * t**3, -0.5 + 1.1 * t], axis=1)
    body = closed(side, mirrored(side[::-1]))
    knobs = (ellipse(0, -0.5, waist, 0.4), ellipse(0, 0.72, 0.2), ellipse(0, -0.92, 0.12))
    return [add(body, *knobs, box(-0.95, 0.55, 0.95, 0.68))]
