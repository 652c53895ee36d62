"""Drawings of the 48 things: signs and plants, tools and vehicles, animals and clothes."""

from __future__ import annotations

import numpy as np

from marc_lab.raster import Contour, Pen, Shape


def _line(half_width: float, *coordinates: float) -> list[Contour]:
    return Pen.stroke(Pen.polygon(*coordinates), half_width)


def _star(pen: Pen) -> Shape:
    n = int(pen.generator.choice([5, 5, 5, 6]))
    inner, angles = pen.vary(0.45, 0.15), np.arange(2 * n) * np.pi / n
    return Shape(Pen.around(angles, np.where(np.arange(2 * n) % 2 == 0, 1.0, inner)))


def _heart(pen: Pen) -> Shape:
    t = np.arange(48) * (2 * np.pi / 48)
    x = pen.vary(0.99, 0.08) * np.sin(t) ** 3
    y = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return Shape(np.stack([x, -pen.vary(0.062, 0.08) * y], axis=1))


def _arrow(pen: Pen) -> Shape:
    shaft, head, neck = pen.vary(0.22, 0.2), pen.vary(0.65, 0.15), pen.vary(0.1, 0.8)
    lower = [[neck, head], [neck, shaft], [-1, shaft]]
    return Shape(pen.closed([[-1, -shaft], [neck, -shaft], [neck, -head], [1, 0]], lower))


def _moon(pen: Pen) -> Shape:
    bite = pen.ellipse(pen.vary(0.42, 0.15), pen.vary(-0.05, 1), pen.vary(0.82, 0.05))
    return Shape(pen.ellipse(0, 0, 1)).cut(bite)


def _cross(pen: Pen) -> Shape:
    width = pen.vary(0.3, 0.2)
    return Shape(pen.box(-width, -1, width, 1), pen.box(-1, -width, 1, width))


def _spiral(pen: Pen) -> Shape:
    path = Pen.path_outwards(0, 0, 0.9, 0.8, pen.vary(2.4, 0.1) * 2 * np.pi, 60)
    return Shape(*pen.stroke(path, pen.vary(0.085, 0.15)))


def _lightning(pen: Pen) -> Shape:
    tip = -pen.vary(0.2, 0.3) - 0.1
    left = [[0.25, -1], [-0.55, 0.12], [-0.05, 0.12], [tip, 1]]
    return Shape(pen.closed(left, [[0.6, -0.2], [0.1, -0.2], [0.55, -1]]))


def _cloud(pen: Pen) -> Shape:
    ends = (pen.ellipse(-0.68, 0.2, 0.32), pen.ellipse(0.68, 0.2, 0.31))
    left, right = pen.vary(0.42, 0.1), pen.vary(0.5, 0.1)
    puffs = (pen.ellipse(-0.3, -0.1, left), pen.ellipse(0.25, -0.18, right))
    return Shape(pen.box(-0.7, 0.05, 0.7, 0.5), *ends, *puffs)


def _diamond(pen: Pen) -> Shape:
    table, girdle = pen.vary(0.55, 0.12), pen.vary(-0.3, 0.2)
    stone = pen.closed([[-table, -0.8], [table, -0.8], [1, girdle], [0, 1], [-1, girdle]])
    facets = _line(0.03, -0.95, girdle, 0.95, girdle)
    for x in (-0.35, 0.35):
        facets += _line(0.025, x, girdle, 0, 0.9)
    return Shape(stone).cut(*facets)


def _pine(pen: Pen) -> Shape:
    n, tiers = pen.integer(3, 4), []
    for tier in range(n):
        top, width = -1 + tier * 1.35 / n, 0.35 + 0.5 * (tier + 1) / n
        right, left = pen.vary(0.72, 0.1), pen.vary(0.72, 0.1)
        tiers.append(pen.polygon(0, top, width, top + right, -width, top + left))
    return Shape(*tiers, pen.box(-0.13, 0.5, 0.13, 1))


def _leaf(pen: Pen) -> Shape:
    t = np.linspace(0, np.pi, 20)
    side = np.stack([pen.vary(0.5, 0.15) * np.sin(t), -0.85 * np.cos(t) - 0.1], axis=1)
    blade, stalk = pen.closed(side, pen.mirrored(side[::-1])), _line(0.05, 0, 0.6, 0.05, 1)
    return Shape(blade, *stalk).cut(*_line(0.03, 0, -0.5, 0, 0.6))


def _flower(pen: Pen) -> Shape:
    n = pen.integer(5, 8)
    petal = pen.ellipse(0, -0.64, 1.2 * pen.vary(0.3, 0.1) / np.sqrt(n / 5), 0.36)
    petals = [pen.turned(petal, number * 2 * np.pi / n) for number in range(n)]
    return Shape(*petals, pen.ellipse(0, 0, 0.4)).cut(pen.ellipse(0, 0, pen.vary(0.2, 0.15)))


def _mushroom(pen: Pen) -> Shape:
    dome, width = pen.arc(0, 0.05, 1, pen.vary(0.9, 0.12), np.pi, 2 * np.pi), pen.vary(0.26, 0.15)
    stem = pen.polygon(-width, 0.1, width, 0.1, 1.3 * width, 1, -1.3 * width, 1)
    places = ((-0.4, -0.35, 0.15), (0.2, -0.5, 0.17), (0.55, -0.15, 0.12))
    spots = [pen.ellipse(*place) for place in places]
    return Shape(pen.closed(dome, [[0.8, 0.2], [-0.8, 0.2]]), stem).cut(*spots)


def _cactus(pen: Pen) -> Shape:
    width, left, right = pen.vary(0.2, 0.1), pen.vary(0.1, 1), pen.vary(-0.1, 1)
    trunk = _line(width, 0, -0.8, 0, 1)
    arm = pen.polygon(0, left + 0.35, -0.55, left + 0.35, -0.55, left - 0.3)
    other = pen.polygon(0, right + 0.2, 0.55, right + 0.2, 0.55, right - 0.45)
    return Shape(*trunk, *pen.stroke(arm, 0.7 * width), *pen.stroke(other, 0.7 * width))


def _apple(pen: Pen) -> Shape:
    left = pen.ellipse(-0.3, 0.15, pen.vary(0.55, 0.06), 0.72)
    right = pen.ellipse(0.3, 0.15, pen.vary(0.55, 0.06), 0.72)
    blade = pen.turned(pen.ellipse(0.3, -0.8, 0.3, 0.13), -0.5, (0.3, -0.8))
    return Shape(left, right, blade, *_line(0.06, 0, -0.4, 0.08, -0.95))


def _cherry(pen: Pen) -> Shape:
    left = pen.ellipse(-0.5, 0.55, pen.vary(0.38, 0.1))
    right = pen.ellipse(0.5, 0.5, pen.vary(0.38, 0.1))
    blade = pen.turned(pen.ellipse(0.4, -0.78, 0.4, 0.16), 0.4, (0.4, -0.78))
    stalk = _line(0.05, -0.45, 0.4, -0.2, -0.3, 0.1, -0.85)
    other = _line(0.05, 0.5, 0.3, 0.4, -0.3, 0.1, -0.85)
    return Shape(left, right, blade, *stalk, *other)


def _gear(pen: Pen) -> Shape:
    n, depth = pen.integer(7, 11), pen.vary(0.24, 0.15)
    angles = np.arange(14 * n) * (2 * np.pi / (14 * n))
    rim = Pen.around(angles, 1 - depth * (np.sin(n * angles) < -0.1))
    return Shape(rim).cut(pen.ellipse(0, 0, pen.vary(0.35, 0.15)))


def _house(pen: Pen) -> Shape:
    eaves = -pen.vary(0.1, 0.6)
    roof = pen.polygon(-1, eaves + 0.05, 0, -pen.vary(0.95, 0.08), 1, eaves + 0.05)
    walls, chimney = pen.box(-0.72, eaves, 0.72, 0.9), pen.box(0.35, -0.85, 0.58, -0.2)
    door, window = pen.box(-0.15, 0.3, 0.2, 0.91), pen.box(-0.52, 0.12, -0.28, 0.4)
    return Shape(walls, roof, chimney).cut(door, window)


def _mug(pen: Pen) -> Shape:
    edge = pen.vary(0.62, 0.08)
    body = pen.polygon(-0.8, -0.7, edge - 0.1, -0.7, edge - 0.2, 0.8, -0.7, 0.8)
    handle = pen.arc(edge - 0.15, 0, 0.45, 0.42, -np.pi / 2.1, np.pi / 2.1)
    return Shape(body, *pen.stroke(handle, pen.vary(0.1, 0.15)))


def _key(pen: Pen) -> Shape:
    ring, shaft = pen.vary(0.36, 0.12), pen.box(-0.4, -0.09, 0.95, 0.09)
    tooth = pen.box(0.5, 0, 0.66, pen.vary(0.36, 0.15))
    other = pen.box(0.78, 0, 0.95, pen.vary(0.42, 0.15))
    bow, hole = pen.ellipse(-0.6, 0, ring), pen.ellipse(-0.62, 0, 0.5 * ring)
    return Shape(bow, shaft, tooth, other).cut(hole)


def _anchor(pen: Pen) -> Shape:
    arms = pen.stroke(pen.arc(0, 0.1, 0.8, 0.8, 0.1 * np.pi, 0.9 * np.pi), pen.vary(0.1, 0.1))
    fluke = pen.polygon(0.98, 0.02, 0.95, 0.6, 0.5, 0.35)
    shank, stock = _line(0.1, 0, -0.55, 0, 0.9), _line(0.08, -0.42, -0.32, 0.42, -0.32)
    ring, hole = pen.ellipse(0, -0.75, 0.25), pen.ellipse(0, -0.75, 0.12)
    return Shape(*shank, *stock, *arms, ring, fluke, pen.mirrored(fluke)).cut(hole)


def _bottle(pen: Pen) -> Shape:
    width, neck = pen.vary(0.42, 0.15), pen.vary(0.15, 0.15)
    shoulder = pen.vary(-0.25, 0.3)
    side = pen.closed([[neck, -1], [neck, -0.55], [width, shoulder], [width, 1]])
    cork = pen.box(-neck - 0.06, -1, neck + 0.06, -0.84)
    return Shape(pen.closed(side, pen.mirrored(side[::-1])), cork)


def _car(pen: Pen) -> Shape:
    roof = pen.vary(0.6, 0.12)
    rear = [[-1, 0.35], [-0.95, -0.05], [-0.6, -0.1], [-0.4, -roof]]
    body = pen.closed(rear, [[0.35, -roof], [0.6, -0.1], [0.95, 0], [1, 0.35]])
    wheels = (pen.ellipse(-0.52, 0.38, 0.24), pen.ellipse(0.52, 0.38, 0.24))
    hubs = (pen.ellipse(-0.52, 0.38, 0.1), pen.ellipse(0.52, 0.38, 0.1))
    back = pen.polygon(-0.4, -0.12, -0.28, -roof + 0.12, -0.06, -roof + 0.12, -0.06, -0.12)
    front = pen.polygon(0.05, -0.12, 0.05, -roof + 0.12, 0.27, -roof + 0.12, 0.42, -0.12)
    return Shape(body, *wheels).cut(*hubs, back, front)


def _sailboat(pen: Pen) -> Shape:
    hull = pen.polygon(-0.9, 0.5, 0.95, 0.5, 0.6, 0.95, -0.6, 0.95)
    main = pen.polygon(0.1, -pen.vary(0.9, 0.06), 0.1, 0.38, pen.vary(0.8, 0.1), 0.38)
    fore = pen.polygon(-0.12, -0.7, -0.12, 0.38, -pen.vary(0.65, 0.1), 0.38)
    return Shape(hull, pen.box(-0.05, -1, 0.03, 0.5), main, fore)


def _airplane(pen: Pen) -> Shape:
    sweep = pen.vary(0.35, 0.3)
    wing = pen.polygon(0.1, -0.2, 1, sweep, 1, sweep + 0.2, 0.1, 0.2)
    tail = pen.polygon(0, 0.6, 0.42, 0.9, 0.42, 1, 0, 0.9)
    return Shape(pen.ellipse(0, 0, 0.15, 1), wing, pen.mirrored(wing), tail, pen.mirrored(tail))


def _rocket(pen: Pen) -> Shape:
    width, t = pen.vary(0.32, 0.1), np.linspace(0, 1, 10)
    nose = np.stack([width * np.sin(t * np.pi / 2), -1 + 0.7 * t], axis=1)
    body = pen.closed(nose, [[width, 0.5], [-width, 0.5]], pen.mirrored(nose[::-1]))
    right = pen.polygon(width, 0, pen.vary(0.75, 0.12), 0.75, width, 0.5)
    left = pen.polygon(-width, 0, -pen.vary(0.75, 0.12), 0.75, -width, 0.5)
    flame = pen.polygon(-0.2, 0.55, 0.2, 0.55, 0, 1)
    return Shape(body, right, left, flame).cut(pen.ellipse(0, -0.25, 0.14))


def _guitar(pen: Pen) -> Shape:
    lower = pen.ellipse(0, 0.58, pen.vary(0.45, 0.1), 0.42)
    upper = pen.ellipse(0, 0.05, pen.vary(0.34, 0.1), 0.34)
    neck, head = pen.box(-0.08, -0.9, 0.08, 0), pen.box(-0.16, -1, 0.16, -0.72)
    return Shape(lower, upper, neck, head).cut(pen.ellipse(0, 0.2, 0.13))


def _hammer(pen: Pen) -> Shape:
    half = pen.vary(0.22, 0.15)
    top, bottom = -0.75 - half, -0.75 + half
    head = pen.closed([[-0.6, top], [0.4, top], [0.8, -0.55], [0.4, bottom], [-0.6, bottom]])
    return Shape(pen.box(-0.1, -0.6, 0.1, 1), head)


def _scissors(pen: Pen) -> Shape:
    opening = pen.vary(0.32, 0.3)
    blade = pen.turned(pen.polygon(-0.08, 0.1, 0.08, 0.1, 0.02, -1), opening)
    grip = pen.turned(pen.ellipse(0, 0.62, 0.26, 0.34), -0.55)
    arm = pen.stroke(pen.turned(pen.polygon(0, 0, 0, 0.4), -0.55), 0.07)
    hole, half = pen.turned(pen.ellipse(0, 0.62, 0.14, 0.21), -0.55), [blade, grip, *arm]
    return Shape(*half, *(pen.mirrored(piece) for piece in half)).cut(hole, pen.mirrored(hole))


def _chair(pen: Pen) -> Shape:
    top = -pen.vary(1, 0.05)
    back, seat = pen.box(-0.6, top, -0.42, 1), pen.box(-0.6, -0.02, 0.6, 0.2)
    bars = (pen.box(-0.6, top, -0.2, -0.75), pen.box(-0.6, -0.5, -0.25, -0.35))
    return Shape(back, seat, pen.box(0.42, 0.1, 0.6, 1), *bars)


def _lamp(pen: Pen) -> Shape:
    top = pen.vary(0.35, 0.15)
    shade = pen.polygon(-top, -0.95, top, -0.95, 0.75, -0.05, -0.75, -0.05)
    foot = pen.polygon(-0.45, 1, -0.3, 0.8, 0.3, 0.8, 0.45, 1)
    return Shape(shade, pen.box(-0.07, -0.1, 0.07, 0.85), foot)


def _candle(pen: Pen) -> Shape:
    width, flame = pen.vary(0.24, 0.15), pen.polygon(0, -1, 0.17, -0.55, 0, -0.35, -0.17, -0.55)
    dish = pen.ellipse(0, 0.88, pen.vary(0.7, 0.1), 0.13)
    return Shape(pen.box(-width, -0.2, width, 0.85), flame, pen.box(-0.03, -0.4, 0.03, -0.15), dish)


def _hourglass(pen: Pen) -> Shape:
    neck = pen.vary(0.09, 0.2)
    side = pen.closed([[0.6, -0.8], [0.55, -0.5], [neck, 0], [0.55, 0.5], [0.6, 0.8]])
    glass = pen.closed(side, pen.mirrored(side[::-1]))
    sand = pen.polygon(-0.4, -0.68, 0.4, -0.68, 0.35, -0.5, -0.35, -0.5)
    return Shape(pen.box(-0.75, -1, 0.75, -0.8), pen.box(-0.75, 0.8, 0.75, 1), glass).cut(sand)


def _fish(pen: Pen) -> Shape:
    belly, upper, lower = pen.vary(0.45, 0.15), pen.vary(0.5, 0.15), pen.vary(0.5, 0.15)
    tail = pen.polygon(0.4, 0, 1, -upper, 0.85, 0, 1, lower)
    fin = pen.polygon(-0.3, -0.8 * belly, 0.1, -belly - 0.25, 0.3, -0.6 * belly)
    return Shape(pen.ellipse(-0.2, 0, 0.75, belly), tail, fin).cut(pen.ellipse(-0.62, -0.1, 0.08))


def _bird(pen: Pen) -> Shape:
    body, head = pen.ellipse(-0.05, 0.1, 0.6, pen.vary(0.38, 0.1)), pen.ellipse(-0.55, -0.35, 0.28)
    beak = pen.polygon(-0.78, -0.45, -1.05, -0.3, -0.75, -0.25)
    tail = pen.polygon(0.4, 0, 1, -pen.vary(0.3, 0.3), 0.95, 0.15, 0.4, 0.3)
    wing = pen.polygon(-0.1, 0.05, 0.5, -pen.vary(0.75, 0.2), 0.45, 0.1)
    legs = [*_line(0.04, -0.1, 0.4, -0.1, 0.85), *_line(0.04, 0.12, 0.4, 0.12, 0.85)]
    return Shape(body, head, beak, tail, wing, *legs).cut(pen.ellipse(-0.6, -0.4, 0.06))


def _butterfly(pen: Pen) -> Shape:
    upper = pen.ellipse(0.52, -0.42, pen.vary(0.55, 0.1), 0.38)
    lower = pen.ellipse(0.42, 0.45, pen.vary(0.4, 0.1), 0.32)
    wings = [pen.turned(upper, -0.6, (0.52, -0.42)), pen.turned(lower, 0.6, (0.42, 0.45))]
    half = [*wings, *_line(0.035, 0, -0.55, 0.3, -1)]
    return Shape(pen.ellipse(0, 0.05, 0.09, 0.7), *half, *(pen.mirrored(piece) for piece in half))


def _snail(pen: Pen) -> Shape:
    foot = pen.polygon(-1, 0.35, -0.75, 0.3, -0.5, 0.55, 0.9, 0.6, 1, 0.85, -0.8, 0.85)
    shell = pen.ellipse(0.15, 0.05, pen.vary(0.58, 0.08))
    horns = [*_line(0.05, -0.85, 0.5, -1, -0.2), *_line(0.05, -0.75, 0.5, -0.7, -0.2)]
    groove = pen.stroke(Pen.path_outwards(0.15, 0.05, 0.5, 0.5, 4 * np.pi, 40), 0.035)
    return Shape(foot, shell, *horns).cut(*groove)


def _cat(pen: Pen) -> Shape:
    ears, face = pen.vary(0.95, 0.08), pen.ellipse(0, 0.15, 0.85, pen.vary(0.75, 0.06))
    ear = pen.polygon(0.8, 0.1, 0.75, -ears, 0.15, -0.5)
    eye, nose = pen.ellipse(0.32, 0.05, 0.12, 0.16), pen.polygon(-0.12, 0.35, 0.12, 0.35, 0, 0.5)
    return Shape(face, ear, pen.mirrored(ear)).cut(eye, pen.mirrored(eye), nose)


def _rabbit(pen: Pen) -> Shape:
    spread, face = pen.vary(0.2, 0.4), pen.ellipse(0, 0.4, pen.vary(0.6, 0.07), 0.58)
    ear = pen.turned(pen.ellipse(0.25, -0.5, 0.19, 0.58), spread, (0.2, 0.0))
    eye, nose = pen.ellipse(0.22, 0.28, 0.09), pen.ellipse(0, 0.55, 0.09, 0.06)
    return Shape(face, ear, pen.mirrored(ear)).cut(eye, pen.mirrored(eye), nose)


def _hand(pen: Pen) -> Shape:
    pieces = [pen.ellipse(0, 0.4, 0.45, 0.52)]
    fingers = ((-0.36, -0.28, 0.85), (-0.12, -0.08, 1.05), (0.13, 0.08, 1.02), (0.36, 0.27, 0.85))
    for x, angle, length in fingers:
        tip = x + length * np.sin(angle * pen.vary(1, 0.3))
        pieces += _line(0.12, x, 0.2, tip, 0.2 - length)
    thumb = pen.stroke(pen.polygon(0.2, 0.6, 0.85, pen.vary(0.08, 0.8)), 0.14)
    return Shape(*pieces, *thumb)


def _crown(pen: Pen) -> Shape:
    valley = pen.vary(0.1, 0.8)
    left = [[-0.9, 0.6], [-1, -0.5], [-0.45, valley], [0, -0.8]]
    band = pen.closed(left, [[0.45, valley], [1, -0.5], [0.9, 0.6]])
    balls = (pen.ellipse(-1, -0.55, 0.13), pen.ellipse(0, -0.85, 0.13), pen.ellipse(1, -0.55, 0.13))
    return Shape(band, *balls).cut(pen.box(-0.8, 0.34, 0.8, 0.44))


def _hat(pen: Pen) -> Shape:
    top = pen.vary(0.42, 0.12)
    body = pen.polygon(-top, -0.65, 0, -0.52, top, -0.65, 0.58, 0.3, -0.58, 0.3)
    brim = pen.ellipse(0, 0.35, 1, pen.vary(0.2, 0.15))
    return Shape(body, brim).cut(pen.box(-0.55, 0.02, 0.55, 0.12))


def _boot(pen: Pen) -> Shape:
    height = pen.vary(0.85, 0.1)
    shaft = [[-0.6, -height], [0.1, -height], [0.15, 0.1], [0.8, 0.3], [0.95, 0.75], [-0.62, 0.75]]
    return Shape(pen.closed(shaft), pen.box(-0.65, 0.75, 0.98, 0.95))


def _shirt(pen: Pen) -> Shape:
    sleeve = 0.3 * pen.vary(0.25, 0.3)
    cuff = 0.05 + sleeve
    right = pen.closed([[0.35, -0.85], [1, -0.45], [0.8, cuff], [0.52, -0.1], [0.52, 0.95]])
    return Shape(pen.closed(right, pen.mirrored(right[::-1]))).cut(pen.ellipse(0, -0.87, 0.24, 0.2))


def _glasses(pen: Pen) -> Shape:
    rim, bow = pen.vary(0.4, 0.1), _line(0.06, 0.9, -0.1, 1.05, -0.35)
    bridge = pen.stroke(pen.arc(0, 0.05, 0.2, 0.2, 1.1 * np.pi, 1.9 * np.pi), 0.06)
    lens, other = pen.ellipse(0.52, 0, rim - 0.13), pen.ellipse(-0.52, 0, rim - 0.13)
    rims = (pen.ellipse(0.52, 0, rim), pen.ellipse(-0.52, 0, rim))
    return Shape(*rims, *bridge, *bow, *(pen.mirrored(piece) for piece in bow)).cut(lens, other)


def _umbrella(pen: Pen) -> Shape:
    t = np.linspace(1, -1, 25)
    rim = np.stack([t, -0.02 - 0.12 * np.abs(np.sin(t * np.pi * 1.5))], axis=1)
    canopy = pen.closed(pen.arc(0, 0, 1, pen.vary(0.85, 0.1), np.pi, 2 * np.pi), rim)
    crook = pen.closed([[0, -0.9], [0, 0.75]], pen.arc(0.2, 0.75, 0.2, 0.2, np.pi, 0))
    return Shape(canopy, *pen.stroke(crook, 0.06))


def _balloon(pen: Pen) -> Shape:
    string = pen.stroke(pen.polygon(0, 0.45, pen.vary(0.1, 1), 0.7, -0.05, 1), 0.03)
    knot = pen.polygon(-0.12, 0.5, 0.12, 0.5, 0, 0.36)
    return Shape(pen.ellipse(0, -0.3, pen.vary(0.6, 0.08), 0.7), knot, *string)


def _bell(pen: Pen) -> Shape:
    waist, t = pen.vary(0.42, 0.1), np.linspace(0, 1, 14)
    side = np.stack([waist + (0.9 - waist) * t**3, -0.5 + 1.1 * t], axis=1)
    body, rim = pen.closed(side, pen.mirrored(side[::-1])), pen.box(-0.95, 0.55, 0.95, 0.68)
    knobs = (pen.ellipse(0, 0.72, 0.2), pen.ellipse(0, -0.92, 0.12))
    return Shape(body, pen.ellipse(0, -0.5, waist, 0.4), *knobs, rim)


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
