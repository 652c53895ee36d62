"""Drawings of the 48 things: signs and plants, tools and vehicles, animals and clothes."""

from __future__ import annotations

import numpy as np

from marc_lab.raster import (
    Chance,
    Contour,
    Shape,
    add,
    arc,
    box,
    closed,
    cut,
    ellipse,
    mirrored,
    polygon,
    stroke,
    turned,
)


def _line(half_width: float, *coordinates: float) -> list[Contour]:
    return stroke(polygon(*coordinates), half_width)


def _around(angles: Contour, distance: Contour) -> Contour:
    """Points at some distance from the middle, clockwise from the top."""
    return np.stack([distance * np.sin(angles), -distance * np.cos(angles)], axis=1)


def _path_outwards(x: float, y: float, radius: float, start: float, stop: float, n: int) -> Contour:
    """A path that winds outwards; it reaches `radius` at angle `stop`."""
    angles = np.linspace(start, stop, n)
    distance = radius * angles / stop
    return np.stack([x + distance * np.cos(angles), y + distance * np.sin(angles)], axis=1)


def _star(chance: Chance) -> Shape:
    n = int(chance.generator.choice([5, 5, 5, 6]))
    inner, angles = chance.vary(0.45, 0.15), np.arange(2 * n) * np.pi / n
    return [add(_around(angles, np.where(np.arange(2 * n) % 2 == 0, 1.0, inner)))]


def _heart(chance: Chance) -> Shape:
    t = np.arange(48) * (2 * np.pi / 48)
    x = chance.vary(0.99, 0.08) * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return [add(np.stack([x, -chance.vary(0.062, 0.08) * y], axis=1))]


def _arrow(chance: Chance) -> Shape:
    shaft, head, neck = chance.vary(0.22, 0.2), chance.vary(0.65, 0.15), chance.vary(0.1, 0.8)
    lower = [[neck, head], [neck, shaft], [-1, shaft]]
    return [add(closed([[-1, -shaft], [neck, -shaft], [neck, -head], [1, 0]], lower))]


def _moon(chance: Chance) -> Shape:
    bite = ellipse(chance.vary(0.42, 0.15), chance.vary(-0.05, 1), chance.vary(0.82, 0.05))
    return [add(ellipse(0, 0, 1)), cut(bite)]


def _cross(chance: Chance) -> Shape:
    width = chance.vary(0.3, 0.2)
    return [add(box(-width, -1, width, 1), box(-1, -width, 1, width))]


def _spiral(chance: Chance) -> Shape:
    path = _path_outwards(0, 0, 0.9, 0.8, chance.vary(2.4, 0.1) * 2 * np.pi, 60)
    return [add(*stroke(path, chance.vary(0.085, 0.15)))]


def _lightning(chance: Chance) -> Shape:
    tip = -chance.vary(0.2, 0.3) - 0.1
    left = [[0.25, -1], [-0.55, 0.12], [-0.05, 0.12], [tip, 1]]
    return [add(closed(left, [[0.6, -0.2], [0.1, -0.2], [0.55, -1]]))]


def _cloud(chance: Chance) -> Shape:
    foot = (box(-0.7, 0.05, 0.7, 0.5), ellipse(-0.68, 0.2, 0.32), ellipse(0.68, 0.2, 0.31))
    left, right = chance.vary(0.42, 0.1), chance.vary(0.5, 0.1)
    return [add(*foot, ellipse(-0.3, -0.1, left), ellipse(0.25, -0.18, right))]


def _diamond(chance: Chance) -> Shape:
    table, girdle = chance.vary(0.55, 0.12), chance.vary(-0.3, 0.2)
    stone = closed([[-table, -0.8], [table, -0.8], [1, girdle], [0, 1], [-1, girdle]])
    facets = _line(0.03, -0.95, girdle, 0.95, girdle)
    for x in (-0.35, 0.35):
        facets += _line(0.025, x, girdle, 0, 0.9)
    return [add(stone), cut(*facets)]


def _pine(chance: Chance) -> Shape:
    n, tiers = chance.integer(3, 4), []
    for tier in range(n):
        top, width = -1 + tier * 1.35 / n, 0.35 + 0.5 * (tier + 1) / n
        right, left = chance.vary(0.72, 0.1), chance.vary(0.72, 0.1)
        tiers.append(polygon(0, top, width, top + right, -width, top + left))
    return [add(*tiers, box(-0.13, 0.5, 0.13, 1))]


def _leaf(chance: Chance) -> Shape:
    t = np.linspace(0, np.pi, 20)
    side = np.stack([chance.vary(0.5, 0.15) * np.sin(t), -0.85 * np.cos(t) - 0.1], axis=1)
    blade, stalk = closed(side, mirrored(side[::-1])), _line(0.05, 0, 0.6, 0.05, 1)
    return [add(blade, *stalk), cut(*_line(0.03, 0, -0.5, 0, 0.6))]


def _flower(chance: Chance) -> Shape:
    n = chance.integer(5, 8)
    petal = ellipse(0, -0.64, 1.2 * chance.vary(0.3, 0.1) / np.sqrt(n / 5), 0.36)
    petals = [turned(petal, number * 2 * np.pi / n) for number in range(n)]
    return [add(*petals, ellipse(0, 0, 0.4)), cut(ellipse(0, 0, chance.vary(0.2, 0.15)))]


def _mushroom(chance: Chance) -> Shape:
    dome, width = arc(0, 0.05, 1, chance.vary(0.9, 0.12), np.pi, 2 * np.pi), chance.vary(0.26, 0.15)
    stem = polygon(-width, 0.1, width, 0.1, 1.3 * width, 1, -1.3 * width, 1)
    spots = (ellipse(-0.4, -0.35, 0.15), ellipse(0.2, -0.5, 0.17), ellipse(0.55, -0.15, 0.12))
    return [add(closed(dome, [[0.8, 0.2], [-0.8, 0.2]]), stem), cut(*spots)]


def _cactus(chance: Chance) -> Shape:
    width, left, right = chance.vary(0.2, 0.1), chance.vary(0.1, 1), chance.vary(-0.1, 1)
    trunk = _line(width, 0, -0.8, 0, 1)
    arm = polygon(0, left + 0.35, -0.55, left + 0.35, -0.55, left - 0.3)
    other = polygon(0, right + 0.2, 0.55, right + 0.2, 0.55, right - 0.45)
    return [add(*trunk, *stroke(arm, 0.7 * width), *stroke(other, 0.7 * width))]


def _apple(chance: Chance) -> Shape:
    left = ellipse(-0.3, 0.15, chance.vary(0.55, 0.06), 0.72)
    right = ellipse(0.3, 0.15, chance.vary(0.55, 0.06), 0.72)
    blade = turned(ellipse(0.3, -0.8, 0.3, 0.13), -0.5, (0.3, -0.8))
    return [add(left, right, blade, *_line(0.06, 0, -0.4, 0.08, -0.95))]


def _cherry(chance: Chance) -> Shape:
    left = ellipse(-0.5, 0.55, chance.vary(0.38, 0.1))
    right = ellipse(0.5, 0.5, chance.vary(0.38, 0.1))
    blade = turned(ellipse(0.4, -0.78, 0.4, 0.16), 0.4, (0.4, -0.78))
    stalk = _line(0.05, -0.45, 0.4, -0.2, -0.3, 0.1, -0.85)
    other = _line(0.05, 0.5, 0.3, 0.4, -0.3, 0.1, -0.85)
    return [add(left, right, blade, *stalk, *other)]


def _gear(chance: Chance) -> Shape:
    n, depth = chance.integer(7, 11), chance.vary(0.24, 0.15)
    angles = np.arange(14 * n) * (2 * np.pi / (14 * n))
    rim = _around(angles, 1 - depth * (np.sin(n * angles) < -0.1))
    return [add(rim), cut(ellipse(0, 0, chance.vary(0.35, 0.15)))]


def _house(chance: Chance) -> Shape:
    eaves = -chance.vary(0.1, 0.6)
    roof = polygon(-1, eaves + 0.05, 0, -chance.vary(0.95, 0.08), 1, eaves + 0.05)
    walls, chimney = box(-0.72, eaves, 0.72, 0.9), box(0.35, -0.85, 0.58, -0.2)
    door, window = box(-0.15, 0.3, 0.2, 0.91), box(-0.52, 0.12, -0.28, 0.4)
    return [add(walls, roof, chimney), cut(door, window)]


def _mug(chance: Chance) -> Shape:
    edge = chance.vary(0.62, 0.08)
    body = polygon(-0.8, -0.7, edge - 0.1, -0.7, edge - 0.2, 0.8, -0.7, 0.8)
    handle = arc(edge - 0.15, 0, 0.45, 0.42, -np.pi / 2.1, np.pi / 2.1)
    return [add(body, *stroke(handle, chance.vary(0.1, 0.15)))]


def _key(chance: Chance) -> Shape:
    ring, shaft = chance.vary(0.36, 0.12), box(-0.4, -0.09, 0.95, 0.09)
    tooth = box(0.5, 0, 0.66, chance.vary(0.36, 0.15))
    other = box(0.78, 0, 0.95, chance.vary(0.42, 0.15))
    return [add(ellipse(-0.6, 0, ring), shaft, tooth, other), cut(ellipse(-0.62, 0, 0.5 * ring))]


def _anchor(chance: Chance) -> Shape:
    arms = stroke(arc(0, 0.1, 0.8, 0.8, 0.1 * np.pi, 0.9 * np.pi), chance.vary(0.1, 0.1))
    fluke = polygon(0.98, 0.02, 0.95, 0.6, 0.5, 0.35)
    shank, stock = _line(0.1, 0, -0.55, 0, 0.9), _line(0.08, -0.42, -0.32, 0.42, -0.32)
    ring, hole = ellipse(0, -0.75, 0.25), ellipse(0, -0.75, 0.12)
    return [add(*shank, *stock, *arms, ring, fluke, mirrored(fluke)), cut(hole)]


def _bottle(chance: Chance) -> Shape:
    width, neck = chance.vary(0.42, 0.15), chance.vary(0.15, 0.15)
    shoulder = chance.vary(-0.25, 0.3)
    side = closed([[neck, -1], [neck, -0.55], [width, shoulder], [width, 1]])
    cork = box(-neck - 0.06, -1, neck + 0.06, -0.84)
    return [add(closed(side, mirrored(side[::-1])), cork)]


def _car(chance: Chance) -> Shape:
    roof = chance.vary(0.6, 0.12)
    rear = [[-1, 0.35], [-0.95, -0.05], [-0.6, -0.1], [-0.4, -roof]]
    body = closed(rear, [[0.35, -roof], [0.6, -0.1], [0.95, 0], [1, 0.35]])
    wheels = (ellipse(-0.52, 0.38, 0.24), ellipse(0.52, 0.38, 0.24))
    hubs = (ellipse(-0.52, 0.38, 0.1), ellipse(0.52, 0.38, 0.1))
    back = polygon(-0.4, -0.12, -0.28, -roof + 0.12, -0.06, -roof + 0.12, -0.06, -0.12)
    front = polygon(0.05, -0.12, 0.05, -roof + 0.12, 0.27, -roof + 0.12, 0.42, -0.12)
    return [add(body, *wheels), cut(*hubs, back, front)]


def _sailboat(chance: Chance) -> Shape:
    hull = polygon(-0.9, 0.5, 0.95, 0.5, 0.6, 0.95, -0.6, 0.95)
    main = polygon(0.1, -chance.vary(0.9, 0.06), 0.1, 0.38, chance.vary(0.8, 0.1), 0.38)
    fore = polygon(-0.12, -0.7, -0.12, 0.38, -chance.vary(0.65, 0.1), 0.38)
    return [add(hull, box(-0.05, -1, 0.03, 0.5), main, fore)]


def _airplane(chance: Chance) -> Shape:
    sweep = chance.vary(0.35, 0.3)
    wing = polygon(0.1, -0.2, 1, sweep, 1, sweep + 0.2, 0.1, 0.2)
    tail = polygon(0, 0.6, 0.42, 0.9, 0.42, 1, 0, 0.9)
    return [add(ellipse(0, 0, 0.15, 1), wing, mirrored(wing), tail, mirrored(tail))]


def _rocket(chance: Chance) -> Shape:
    width, t = chance.vary(0.32, 0.1), np.linspace(0, 1, 10)
    nose = np.stack([width * np.sin(t * np.pi / 2), -1 + 0.7 * t], axis=1)
    body = closed(nose, [[width, 0.5], [-width, 0.5]], mirrored(nose[::-1]))
    right = polygon(width, 0, chance.vary(0.75, 0.12), 0.75, width, 0.5)
    left = polygon(-width, 0, -chance.vary(0.75, 0.12), 0.75, -width, 0.5)
    flame = polygon(-0.2, 0.55, 0.2, 0.55, 0, 1)
    return [add(body, right, left, flame), cut(ellipse(0, -0.25, 0.14))]


def _guitar(chance: Chance) -> Shape:
    lower = ellipse(0, 0.58, chance.vary(0.45, 0.1), 0.42)
    upper = ellipse(0, 0.05, chance.vary(0.34, 0.1), 0.34)
    neck, head = box(-0.08, -0.9, 0.08, 0), box(-0.16, -1, 0.16, -0.72)
    return [add(lower, upper, neck, head), cut(ellipse(0, 0.2, 0.13))]


def _hammer(chance: Chance) -> Shape:
    half = chance.vary(0.22, 0.15)
    top, bottom = -0.75 - half, -0.75 + half
    head = closed([[-0.6, top], [0.4, top], [0.8, -0.55], [0.4, bottom], [-0.6, bottom]])
    return [add(box(-0.1, -0.6, 0.1, 1), head)]


def _scissors(chance: Chance) -> Shape:
    opening = chance.vary(0.32, 0.3)
    blade = turned(polygon(-0.08, 0.1, 0.08, 0.1, 0.02, -1), opening)
    grip = turned(ellipse(0, 0.62, 0.26, 0.34), -0.55)
    arm = stroke(turned(polygon(0, 0, 0, 0.4), -0.55), 0.07)
    hole, half = turned(ellipse(0, 0.62, 0.14, 0.21), -0.55), [blade, grip, *arm]
    return [add(*half, *(mirrored(piece) for piece in half)), cut(hole, mirrored(hole))]


def _chair(chance: Chance) -> Shape:
    top = -chance.vary(1, 0.05)
    back, seat, leg = box(-0.6, top, -0.42, 1), box(-0.6, -0.02, 0.6, 0.2), box(0.42, 0.1, 0.6, 1)
    return [add(back, seat, leg, box(-0.6, top, -0.2, -0.75), box(-0.6, -0.5, -0.25, -0.35))]


def _lamp(chance: Chance) -> Shape:
    top = chance.vary(0.35, 0.15)
    shade = polygon(-top, -0.95, top, -0.95, 0.75, -0.05, -0.75, -0.05)
    foot = polygon(-0.45, 1, -0.3, 0.8, 0.3, 0.8, 0.45, 1)
    return [add(shade, box(-0.07, -0.1, 0.07, 0.85), foot)]


def _candle(chance: Chance) -> Shape:
    width, flame = chance.vary(0.24, 0.15), polygon(0, -1, 0.17, -0.55, 0, -0.35, -0.17, -0.55)
    dish = ellipse(0, 0.88, chance.vary(0.7, 0.1), 0.13)
    return [add(box(-width, -0.2, width, 0.85), flame, box(-0.03, -0.4, 0.03, -0.15), dish)]


def _hourglass(chance: Chance) -> Shape:
    neck = chance.vary(0.09, 0.2)
    side = closed([[0.6, -0.8], [0.55, -0.5], [neck, 0], [0.55, 0.5], [0.6, 0.8]])
    glass = closed(side, mirrored(side[::-1]))
    sand = polygon(-0.4, -0.68, 0.4, -0.68, 0.35, -0.5, -0.35, -0.5)
    return [add(box(-0.75, -1, 0.75, -0.8), box(-0.75, 0.8, 0.75, 1), glass), cut(sand)]


def _fish(chance: Chance) -> Shape:
    belly, upper, lower = chance.vary(0.45, 0.15), chance.vary(0.5, 0.15), chance.vary(0.5, 0.15)
    tail = polygon(0.4, 0, 1, -upper, 0.85, 0, 1, lower)
    fin = polygon(-0.3, -0.8 * belly, 0.1, -belly - 0.25, 0.3, -0.6 * belly)
    return [add(ellipse(-0.2, 0, 0.75, belly), tail, fin), cut(ellipse(-0.62, -0.1, 0.08))]


def _bird(chance: Chance) -> Shape:
    body, head = ellipse(-0.05, 0.1, 0.6, chance.vary(0.38, 0.1)), ellipse(-0.55, -0.35, 0.28)
    beak = polygon(-0.78, -0.45, -1.05, -0.3, -0.75, -0.25)
    tail = polygon(0.4, 0, 1, -chance.vary(0.3, 0.3), 0.95, 0.15, 0.4, 0.3)
    wing = polygon(-0.1, 0.05, 0.5, -chance.vary(0.75, 0.2), 0.45, 0.1)
    legs = [*_line(0.04, -0.1, 0.4, -0.1, 0.85), *_line(0.04, 0.12, 0.4, 0.12, 0.85)]
    return [add(body, head, beak, tail, wing, *legs), cut(ellipse(-0.6, -0.4, 0.06))]


def _butterfly(chance: Chance) -> Shape:
    upper = ellipse(0.52, -0.42, chance.vary(0.55, 0.1), 0.38)
    lower = ellipse(0.42, 0.45, chance.vary(0.4, 0.1), 0.32)
    wings = [turned(upper, -0.6, (0.52, -0.42)), turned(lower, 0.6, (0.42, 0.45))]
    half = [*wings, *_line(0.035, 0, -0.55, 0.3, -1)]
    return [add(ellipse(0, 0.05, 0.09, 0.7), *half, *(mirrored(piece) for piece in half))]


def _snail(chance: Chance) -> Shape:
    foot = polygon(-1, 0.35, -0.75, 0.3, -0.5, 0.55, 0.9, 0.6, 1, 0.85, -0.8, 0.85)
    shell = ellipse(0.15, 0.05, chance.vary(0.58, 0.08))
    horns = [*_line(0.05, -0.85, 0.5, -1, -0.2), *_line(0.05, -0.75, 0.5, -0.7, -0.2)]
    groove = stroke(_path_outwards(0.15, 0.05, 0.5, 0.5, 4 * np.pi, 40), 0.035)
    return [add(foot, shell, *horns), cut(*groove)]


def _cat(chance: Chance) -> Shape:
    ears, face = chance.vary(0.95, 0.08), ellipse(0, 0.15, 0.85, chance.vary(0.75, 0.06))
    ear = polygon(0.8, 0.1, 0.75, -ears, 0.15, -0.5)
    eye, nose = ellipse(0.32, 0.05, 0.12, 0.16), polygon(-0.12, 0.35, 0.12, 0.35, 0, 0.5)
    return [add(face, ear, mirrored(ear)), cut(eye, mirrored(eye), nose)]


def _rabbit(chance: Chance) -> Shape:
    spread, face = chance.vary(0.2, 0.4), ellipse(0, 0.4, chance.vary(0.6, 0.07), 0.58)
    ear = turned(ellipse(0.25, -0.5, 0.19, 0.58), spread, (0.2, 0.0))
    eye = ellipse(0.22, 0.28, 0.09)
    return [add(face, ear, mirrored(ear)), cut(eye, mirrored(eye), ellipse(0, 0.55, 0.09, 0.06))]


def _hand(chance: Chance) -> Shape:
    pieces = [ellipse(0, 0.4, 0.45, 0.52)]
    fingers = ((-0.36, -0.28, 0.85), (-0.12, -0.08, 1.05), (0.13, 0.08, 1.02), (0.36, 0.27, 0.85))
    for x, angle, length in fingers:
        tip = x + length * np.sin(angle * chance.vary(1, 0.3))
        pieces += _line(0.12, x, 0.2, tip, 0.2 - length)
    thumb = stroke(polygon(0.2, 0.6, 0.85, chance.vary(0.08, 0.8)), 0.14)
    return [add(*pieces, *thumb)]


def _crown(chance: Chance) -> Shape:
    valley = chance.vary(0.1, 0.8)
    left = [[-0.9, 0.6], [-1, -0.5], [-0.45, valley], [0, -0.8]]
    band = closed(left, [[0.45, valley], [1, -0.5], [0.9, 0.6]])
    balls = (ellipse(-1, -0.55, 0.13), ellipse(0, -0.85, 0.13), ellipse(1, -0.55, 0.13))
    return [add(band, *balls), cut(box(-0.8, 0.34, 0.8, 0.44))]


def _hat(chance: Chance) -> Shape:
    top = chance.vary(0.42, 0.12)
    body = polygon(-top, -0.65, 0, -0.52, top, -0.65, 0.58, 0.3, -0.58, 0.3)
    brim = ellipse(0, 0.35, 1, chance.vary(0.2, 0.15))
    return [add(body, brim), cut(box(-0.55, 0.02, 0.55, 0.12))]


def _boot(chance: Chance) -> Shape:
    height = chance.vary(0.85, 0.1)
    shaft = [[-0.6, -height], [0.1, -height], [0.15, 0.1], [0.8, 0.3], [0.95, 0.75], [-0.62, 0.75]]
    return [add(closed(shaft), box(-0.65, 0.75, 0.98, 0.95))]


def _shirt(chance: Chance) -> Shape:
    sleeve = 0.3 * chance.vary(0.25, 0.3)
    right = closed([[0.35, -0.85], [1, -0.45], [0.8, 0.05 + sleeve], [0.52, -0.1], [0.52, 0.95]])
    return [add(closed(right, mirrored(right[::-1]))), cut(ellipse(0, -0.87, 0.24, 0.2))]


def _glasses(chance: Chance) -> Shape:
    rim, bow = chance.vary(0.4, 0.1), _line(0.06, 0.9, -0.1, 1.05, -0.35)
    bridge = stroke(arc(0, 0.05, 0.2, 0.2, 1.1 * np.pi, 1.9 * np.pi), 0.06)
    lens, other = ellipse(0.52, 0, rim - 0.13), ellipse(-0.52, 0, rim - 0.13)
    rims = (ellipse(0.52, 0, rim), ellipse(-0.52, 0, rim))
    return [add(*rims, *bridge, *bow, *(mirrored(piece) for piece in bow)), cut(lens, other)]


def _umbrella(chance: Chance) -> Shape:
    t = np.linspace(1, -1, 25)
    rim = np.stack([t, -0.02 - 0.12 * np.abs(np.sin(t * np.pi * 1.5))], axis=1)
    canopy = closed(arc(0, 0, 1, chance.vary(0.85, 0.1), np.pi, 2 * np.pi), rim)
    crook = closed([[0, -0.9], [0, 0.75]], arc(0.2, 0.75, 0.2, 0.2, np.pi, 0))
    return [add(canopy, *stroke(crook, 0.06))]


def _balloon(chance: Chance) -> Shape:
    string = stroke(polygon(0, 0.45, chance.vary(0.1, 1), 0.7, -0.05, 1), 0.03)
    knot = polygon(-0.12, 0.5, 0.12, 0.5, 0, 0.36)
    return [add(ellipse(0, -0.3, chance.vary(0.6, 0.08), 0.7), knot, *string)]


def _bell(chance: Chance) -> Shape:
    waist, t = chance.vary(0.42, 0.1), np.linspace(0, 1, 14)
    side = np.stack([waist + (0.9 - waist) * t**3, -0.5 + 1.1 * t], axis=1)
    knobs = (ellipse(0, -0.5, waist, 0.4), ellipse(0, 0.72, 0.2), ellipse(0, -0.92, 0.12))
    return [add(closed(side, mirrored(side[::-1])), *knobs, box(-0.95, 0.55, 0.95, 0.68))]


DRAWINGS = {
    draw.__name__.removeprefix("_"): draw
    for draw in (
        *(_star, _heart, _arrow, _moon, _cross, _spiral, _lightning, _cloud, _diamond, _pine),
        *(_leaf, _flower, _mushroom, _cactus, _apple, _cherry, _gear, _house, _mug, _key),
        *(_anchor, _bottle, _car, _sailboat, _airplane, _rocket, _guitar, _hammer, _scissors),
        *(_chair, _lamp, _candle, _hourglass, _fish, _bird, _butterfly, _snail, _cat, _rabbit),
        *(_hand, _crown, _hat, _boot, _shirt, _glasses, _umbrella, _balloon, _bell),
    )
}
