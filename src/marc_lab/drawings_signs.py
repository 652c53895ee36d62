"""Drawings of signs, weather and plants."""

from __future__ import annotations

import numpy as np

from marc_lab.outlines import (
    PI,
    Chance,
    Shape,
    add,
    arc,
    around,
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


def star(chance: Chance) -> Shape:
    """Five or six points."""
    n = int(chance.generator.choice([5, 5, 5, 6]))
    inner = chance.vary(0.45, 0.15)
    angles = np.arange(2 * n) * PI / n
    radius = np.where(np.arange(2 * n) % 2 == 0, 1.0, inner)
    return [add(np.stack([radius * np.sin(angles), -radius * np.cos(angles)], axis=1))]


def heart(chance: Chance) -> Shape:
    """The curve of a playing card."""
    t = np.arange(48) * (2 * PI / 48)
    x = chance.vary(0.99, 0.08) * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return [add(np.stack([x, -chance.vary(0.062, 0.08) * y], axis=1))]


def arrow(chance: Chance) -> Shape:
    """To the right, before it is turned."""
    shaft, head, neck = chance.vary(0.22, 0.2), chance.vary(0.65, 0.15), chance.vary(0.1, 0.8)
    lower = [[neck, head], [neck, shaft], [-1, shaft]]
    return [add(closed([[-1, -shaft], [neck, -shaft], [neck, -head], [1, 0]], lower))]


def moon(chance: Chance) -> Shape:
    """A disc with a disc cut out."""
    bite = ellipse(chance.vary(0.42, 0.15), chance.vary(-0.05, 1), chance.vary(0.82, 0.05))
    return [add(ellipse(0, 0, 1)), cut(bite)]


def cross(chance: Chance) -> Shape:
    """Two bars."""
    width = chance.vary(0.3, 0.2)
    return [add(box(-width, -1, width, 1), box(-1, -width, 1, width))]


def swirl(chance: Chance) -> Shape:
    """A line that winds outwards."""
    path = spiral(0, 0, 0.9, 0.8, chance.vary(2.4, 0.1) * 2 * PI, 60)
    return [add(*stroke(path, chance.vary(0.085, 0.15)))]


def lightning(chance: Chance) -> Shape:
    """One flash."""
    tip = -chance.vary(0.2, 0.3) - 0.1
    left = [[0.25, -1], [-0.55, 0.12], [-0.05, 0.12], [tip, 1]]
    return [add(closed(left, [[0.6, -0.2], [0.1, -0.2], [0.55, -1]]))]


def cloud(chance: Chance) -> Shape:
    """Four discs on a flat foot."""
    foot = (box(-0.7, 0.05, 0.7, 0.5), ellipse(-0.68, 0.2, 0.32), ellipse(0.68, 0.2, 0.31))
    left, right = chance.vary(0.42, 0.1), chance.vary(0.5, 0.1)
    return [add(*foot, ellipse(-0.3, -0.1, left), ellipse(0.25, -0.18, right))]


def diamond(chance: Chance) -> Shape:
    """A cut stone with its edges."""
    table, girdle = chance.vary(0.55, 0.12), chance.vary(-0.3, 0.2)
    stone = closed([[-table, -0.8], [table, -0.8], [1, girdle], [0, 1], [-1, girdle]])
    facets = [
        *stroke(polygon(-0.95, girdle, 0.95, girdle), 0.03),
        *stroke(polygon(-0.35, girdle, 0, 0.9), 0.025),
        *stroke(polygon(0.35, girdle, 0, 0.9), 0.025),
    ]
    return [add(stone), cut(*facets)]


def pine(chance: Chance) -> Shape:
    """Three or four triangles on a trunk."""
    n = chance.whole(3, 4)
    tiers = []
    for tier in range(n):
        top, width = -1 + tier * 1.35 / n, 0.35 + 0.5 * (tier + 1) / n
        right, left = chance.vary(0.72, 0.1), chance.vary(0.72, 0.1)
        tiers.append(polygon(0, top, width, top + right, -width, top + left))
    return [add(*tiers, box(-0.13, 0.5, 0.13, 1))]


def leaf(chance: Chance) -> Shape:
    """One blade, its rib and its stalk."""
    t = np.linspace(0, PI, 20)
    side = np.stack([chance.vary(0.5, 0.15) * np.sin(t), -0.85 * np.cos(t) - 0.1], axis=1)
    blade = closed(side, mirrored(side[::-1]))
    stalk = stroke(polygon(0, 0.6, 0.05, 1), 0.05)
    return [add(blade, *stalk), cut(*stroke(polygon(0, -0.5, 0, 0.6), 0.03))]


def flower(chance: Chance) -> Shape:
    """Five to eight petals."""
    n = chance.whole(5, 8)
    petal = ellipse(0, -0.64, 1.2 * chance.vary(0.3, 0.1) / np.sqrt(n / 5), 0.36)
    petals = [turned(petal, number * 2 * PI / n) for number in range(n)]
    return [add(*petals, ellipse(0, 0, 0.4)), cut(ellipse(0, 0, chance.vary(0.2, 0.15)))]


def mushroom(chance: Chance) -> Shape:
    """A cap with three spots."""
    dome = arc(0, 0.05, 1, chance.vary(0.9, 0.12), PI, 2 * PI)
    width = chance.vary(0.26, 0.15)
    stem = polygon(-width, 0.1, width, 0.1, 1.3 * width, 1, -1.3 * width, 1)
    spots = (ellipse(-0.4, -0.35, 0.15), ellipse(0.2, -0.5, 0.17), ellipse(0.55, -0.15, 0.12))
    return [add(closed(dome, [[0.8, 0.2], [-0.8, 0.2]]), stem), cut(*spots)]


def cactus(chance: Chance) -> Shape:
    """A trunk with two arms."""
    width, left, right = chance.vary(0.2, 0.1), chance.vary(0.1, 1), chance.vary(-0.1, 1)
    trunk = stroke(polygon(0, -0.8, 0, 1), width)
    arm = polygon(0, left + 0.35, -0.55, left + 0.35, -0.55, left - 0.3)
    other = polygon(0, right + 0.2, 0.55, right + 0.2, 0.55, right - 0.45)
    return [add(*trunk, *stroke(arm, 0.7 * width), *stroke(other, 0.7 * width))]


def apple(chance: Chance) -> Shape:
    """Two halves, a stalk and a leaf."""
    left = ellipse(-0.3, 0.15, chance.vary(0.55, 0.06), 0.72)
    right = ellipse(0.3, 0.15, chance.vary(0.55, 0.06), 0.72)
    blade = turned(ellipse(0.3, -0.8, 0.3, 0.13), -0.5, (0.3, -0.8))
    return [add(left, right, blade, *stroke(polygon(0, -0.4, 0.08, -0.95), 0.06))]


def cherry(chance: Chance) -> Shape:
    """Two fruits on one twig."""
    left = ellipse(-0.5, 0.55, chance.vary(0.38, 0.1))
    right = ellipse(0.5, 0.5, chance.vary(0.38, 0.1))
    blade = turned(ellipse(0.4, -0.78, 0.4, 0.16), 0.4, (0.4, -0.78))
    stalk = stroke(polygon(-0.45, 0.4, -0.2, -0.3, 0.1, -0.85), 0.05)
    other = stroke(polygon(0.5, 0.3, 0.4, -0.3, 0.1, -0.85), 0.05)
    return [add(left, right, blade, *stalk, *other)]


def gear(chance: Chance) -> Shape:
    """Seven to eleven teeth."""
    n, depth = chance.whole(7, 11), chance.vary(0.24, 0.15)
    rim = around(lambda angle: 1 - depth * (np.sin(n * angle) < -0.1), 14 * n)
    return [add(rim), cut(ellipse(0, 0, chance.vary(0.35, 0.15)))]
