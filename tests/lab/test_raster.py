"""Filling against a slow twin that counts windings pixel by pixel."""

import numpy as np
import pytest

from marc_lab import raster
from marc_lab.raster import Pen, Shape


def windings(contour, x, y):
    """How often the contour goes round the point: crossings of a ray to the left."""
    total = 0
    for (ax, ay), (bx, by) in zip(contour, np.roll(contour, -1, axis=0), strict=True):
        if (ay <= y < by) or (by <= y < ay):
            crossing = ax + (y - ay) * (bx - ax) / (by - ay)
            if crossing <= x:
                total += 1 if by > ay else -1
    return total


def area(contour):
    (x, y), (u, v) = contour.T, np.roll(contour, -1, axis=0).T
    return (x * v - u * y).sum()


def slow_fill(contours, rows, columns):
    """The twin: contours wound the same way, a pixel is inside if any of them goes round it."""
    n = 3 * raster.SIDE
    turned = [c if area(c) > 0 else c[::-1] for c in contours]
    inside = np.zeros((n, n), dtype=bool)
    for row in rows:
        for column in columns:
            x, y = (column + 0.5) / n, (row + 0.5) / n
            inside[row, column] = sum(windings(c, x, y) for c in turned) != 0
    return inside


SHAPES = {
    "a triangle": [Pen.polygon(0.1, 0.2, 0.9, 0.35, 0.4, 0.8)],
    "its mirror image": [Pen.mirrored(Pen.polygon(-0.1, 0.2, -0.9, 0.35, -0.4, 0.8))],
    "pieces that overlap": [Pen.box(0.2, 0.2, 0.6, 0.6), Pen.box(0.7, 0.7, 0.4, 0.3)],
    "a line with joints": Pen.stroke(Pen.polygon(0.2, 0.2, 0.7, 0.4, 0.3, 0.8), 0.04),
    "a shape that leaves the picture": [Pen.ellipse(0.95, 0.1, 0.3)],
    "a contour that crosses itself": [Pen.polygon(0.2, 0.2, 0.8, 0.8, 0.8, 0.2, 0.2, 0.8)],
}


@pytest.mark.parametrize("contours", SHAPES.values(), ids=SHAPES.keys())
def test_filling_agrees_with_counting_windings(contours):
    rows = columns = range(0, 3 * raster.SIDE, 5)
    fast = Shape(*contours).fill()
    slow = slow_fill(contours, rows, columns)
    grid = np.ix_(rows, columns)
    assert fast[grid].any()
    assert np.array_equal(fast[grid], slow[grid])


def test_a_shape_outside_the_picture_covers_nothing():
    assert not Shape(Pen.box(0.2, 1.2, 0.6, 1.5)).fill().any()
    assert not Shape(Pen.box(1.2, 0.2, 1.6, 0.5)).fill().any()


def test_a_hole_is_cut_from_what_was_drawn_before_it():
    shape = Shape(Pen.box(0.1, 0.1, 0.9, 0.9)).cut(Pen.box(0.4, 0.4, 0.6, 0.6))
    cover = shape.add(Pen.box(0.5, 0.5, 0.55, 0.55)).cover()
    assert cover[10, 10] == 1.0
    assert cover[27, 27] == 0.0
    assert cover[33, 33] == 1.0


def test_coverage_is_the_fraction_of_nine_points():
    assert Shape(Pen.box(0, 0, 1 / 192, 1 / 192)).cover()[0, 0] == pytest.approx(1 / 9)


def test_blur_keeps_the_mean_of_a_picture_that_is_even_at_its_border():
    image = np.full((64, 64, 3), 0.25)
    image[20:40, 20:40] = 0.75
    assert raster.blur(image, 1.2).mean() == pytest.approx(image.mean())
    assert np.allclose(raster.blur(np.full((64, 64), 0.3), 2.0), 0.3)


def test_smooth_noise_fills_its_range():
    noise = raster.smooth_noise(np.random.default_rng(0), 4)
    assert noise.shape == (64, 64)
    assert noise.min() == 0.0
    assert noise.max() == pytest.approx(1.0)
