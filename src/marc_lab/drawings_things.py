"""Drawings of tools, vehicles and what stands in a house."""

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
    stroke,
    turned,
)


def house(chance: Chance) -> Shape:
    """A roof, a chimney, a door and a window."""
    eaves = -chance.vary(0.1, 0.6)
    roof = polygon(-1, eaves + 0.05, 0, -chance.vary(0.95, 0.08), 1, eaves + 0.05)
    walls, chimney = box(-0.72, eaves, 0.72, 0.9), box(0.35, -0.85, 0.58, -0.2)
    return [
        add(walls, roof, chimney),
        cut(box(-0.15, 0.3, 0.2, 0.91), box(-0.52, 0.12, -0.28, 0.4)),
    ]


def mug(chance: Chance) -> Shape:
    """With its handle."""
    edge = chance.vary(0.62, 0.08)
    body = polygon(-0.8, -0.7, edge - 0.1, -0.7, edge - 0.2, 0.8, -0.7, 0.8)
    handle = arc(edge - 0.15, 0, 0.45, 0.42, -PI / 2.1, PI / 2.1)
    return [add(body, *stroke(handle, chance.vary(0.1, 0.15)))]


def key(chance: Chance) -> Shape:
    """A ring, a shaft and two teeth."""
    ring = chance.vary(0.36, 0.12)
    shaft = box(-0.4, -0.09, 0.95, 0.09)
    teeth = (
        box(0.5, 0, 0.66, chance.vary(0.36, 0.15)),
        box(0.78, 0, 0.95, chance.vary(0.42, 0.15)),
    )
    return [add(ellipse(-0.6, 0, ring), shaft, *teeth), cut(ellipse(-0.62, 0, 0.5 * ring))]


def anchor(chance: Chance) -> Shape:
    """Shank, stock, ring and flukes."""
    arms = stroke(arc(0, 0.1, 0.8, 0.8, 0.1 * PI, 0.9 * PI), chance.vary(0.1, 0.1))
    fluke = polygon(0.98, 0.02, 0.95, 0.6, 0.5, 0.35)
    shank = stroke(polygon(0, -0.55, 0, 0.9), 0.1)
    stock = stroke(polygon(-0.42, -0.32, 0.42, -0.32), 0.08)
    ring = ellipse(0, -0.75, 0.25)
    return [
        add(*shank, *stock, *arms, ring, fluke, mirrored(fluke)),
        cut(ellipse(0, -0.75, 0.12)),
    ]


def bottle(chance: Chance) -> Shape:
    """With its cork."""
    width, neck, shoulder = (
        chance.vary(0.42, 0.15),
        chance.vary(0.15, 0.15),
        chance.vary(-0.25, 0.3),
    )
    side = closed([[neck, -1], [neck, -0.55], [width, shoulder], [width, 1]])
    cork = box(-neck - 0.06, -1, neck + 0.06, -0.84)
    return [add(closed(side, mirrored(side[::-1])), cork)]


def car(chance: Chance) -> Shape:
    """From the side."""
    roof = chance.vary(0.6, 0.12)
    rear = [[-1, 0.35], [-0.95, -0.05], [-0.6, -0.1], [-0.4, -roof]]
    body = closed(rear, [[0.35, -roof], [0.6, -0.1], [0.95, 0], [1, 0.35]])
    wheels = (ellipse(-0.52, 0.38, 0.24), ellipse(0.52, 0.38, 0.24))
    hubs = (ellipse(-0.52, 0.38, 0.1), ellipse(0.52, 0.38, 0.1))
    back = polygon(-0.4, -0.12, -0.28, -roof + 0.12, -0.06, -roof + 0.12, -0.06, -0.12)
    front = polygon(0.05, -0.12, 0.05, -roof + 0.12, 0.27, -roof + 0.12, 0.42, -0.12)
    return [add(body, *wheels), cut(*hubs, back, front)]


def sailboat(chance: Chance) -> Shape:
    """Two sails."""
    hull = polygon(-0.9, 0.5, 0.95, 0.5, 0.6, 0.95, -0.6, 0.95)
    main = polygon(0.1, -chance.vary(0.9, 0.06), 0.1, 0.38, chance.vary(0.8, 0.1), 0.38)
    fore = polygon(-0.12, -0.7, -0.12, 0.38, -chance.vary(0.65, 0.1), 0.38)
    return [add(hull, box(-0.05, -1, 0.03, 0.5), main, fore)]


def airplane(chance: Chance) -> Shape:
    """From above."""
    sweep = chance.vary(0.35, 0.3)
    wing = polygon(0.1, -0.2, 1, sweep, 1, sweep + 0.2, 0.1, 0.2)
    tail = polygon(0, 0.6, 0.42, 0.9, 0.42, 1, 0, 0.9)
    return [add(ellipse(0, 0, 0.15, 1), wing, mirrored(wing), tail, mirrored(tail))]


def rocket(chance: Chance) -> Shape:
    """With fins, a window and a flame."""
    width = chance.vary(0.32, 0.1)
    t = np.linspace(0, 1, 10)
    nose = np.stack([width * np.sin(t * PI / 2), -1 + 0.7 * t], axis=1)
    body = closed(nose, [[width, 0.5], [-width, 0.5]], mirrored(nose[::-1]))
    right = polygon(width, 0, chance.vary(0.75, 0.12), 0.75, width, 0.5)
    left = polygon(-width, 0, -chance.vary(0.75, 0.12), 0.75, -width, 0.5)
    flame = polygon(-0.2, 0.55, 0.2, 0.55, 0, 1)
    return [add(body, right, left, flame), cut(ellipse(0, -0.25, 0.14))]


def guitar(chance: Chance) -> Shape:
    """Body, neck and head."""
    lower = ellipse(0, 0.58, chance.vary(0.45, 0.1), 0.42)
    upper = ellipse(0, 0.05, chance.vary(0.34, 0.1), 0.34)
    neck, head = box(-0.08, -0.9, 0.08, 0), box(-0.16, -1, 0.16, -0.72)
    return [add(lower, upper, neck, head), cut(ellipse(0, 0.2, 0.13))]


def hammer(chance: Chance) -> Shape:
    """A head with a point."""
    half = chance.vary(0.22, 0.15)
    top, bottom = -0.75 - half, -0.75 + half
    head = closed([[-0.6, top], [0.4, top], [0.8, -0.55], [0.4, bottom], [-0.6, bottom]])
    return [add(box(-0.1, -0.6, 0.1, 1), head)]


def scissors(chance: Chance) -> Shape:
    """Open."""
    opening = chance.vary(0.32, 0.3)
    blade = turned(polygon(-0.08, 0.1, 0.08, 0.1, 0.02, -1), opening)
    grip = turned(ellipse(0, 0.62, 0.26, 0.34), -0.55)
    arm = stroke(turned(polygon(0, 0, 0, 0.4), -0.55), 0.07)
    hole = turned(ellipse(0, 0.62, 0.14, 0.21), -0.55)
    half = [blade, grip, *arm]
    return [add(*half, *(mirrored(piece) for piece in half)), cut(hole, mirrored(hole))]


def chair(chance: Chance) -> Shape:
    """From the side."""
    top = -chance.vary(1, 0.05)
    back, seat, leg = box(-0.6, top, -0.42, 1), box(-0.6, -0.02, 0.6, 0.2), box(0.42, 0.1, 0.6, 1)
    return [add(back, seat, leg, box(-0.6, top, -0.2, -0.75), box(-0.6, -0.5, -0.25, -0.35))]


def lamp(chance: Chance) -> Shape:
    """A shade on a foot."""
    top = chance.vary(0.35, 0.15)
    shade = polygon(-top, -0.95, top, -0.95, 0.75, -0.05, -0.75, -0.05)
    foot = polygon(-0.45, 1, -0.3, 0.8, 0.3, 0.8, 0.45, 1)
    return [add(shade, box(-0.07, -0.1, 0.07, 0.85), foot)]


def candle(chance: Chance) -> Shape:
    """Burning, on a dish."""
    width = chance.vary(0.24, 0.15)
    flame = polygon(0, -1, 0.17, -0.55, 0, -0.35, -0.17, -0.55)
    dish = ellipse(0, 0.88, chance.vary(0.7, 0.1), 0.13)
    return [add(box(-width, -0.2, width, 0.85), flame, box(-0.03, -0.4, 0.03, -0.15), dish)]


def hourglass(chance: Chance) -> Shape:
    """Between two boards."""
    neck = chance.vary(0.09, 0.2)
    side = closed([[0.6, -0.8], [0.55, -0.5], [neck, 0], [0.55, 0.5], [0.6, 0.8]])
    glass = closed(side, mirrored(side[::-1]))
    sand = polygon(-0.4, -0.68, 0.4, -0.68, 0.35, -0.5, -0.35, -0.5)
    return [add(box(-0.75, -1, 0.75, -0.8), box(-0.75, 0.8, 0.75, 1), glass), cut(sand)]
