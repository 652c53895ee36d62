"""Labels at the ends of lines: none over another, none further from its line than it must be."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marc.report.curves import label_ends, line, panels, spread
from marc.report.style import Look, drawing, page_svg

PLACES = st.lists(st.floats(-0.2, 1.2), min_size=1, max_size=12).map(np.array)


@given(PLACES, st.floats(0.01, 0.5))
def test_labels_are_apart_inside_and_in_the_order_of_their_lines(wanted, gap):
    places = spread(wanted, gap)
    order = np.argsort(wanted, kind="stable")
    apart = min(gap, 1 / max(len(wanted) - 1, 1))
    assert (np.diff(places[order]) >= apart - 1e-9).all()
    assert places.min() >= -1e-9
    assert places.max() <= 1 + 1e-9


@given(PLACES, st.floats(0.01, 0.1), st.integers(0, 2**32 - 1))
def test_no_other_places_are_nearer(wanted, gap, seed):
    places, draw = spread(wanted, gap), np.random.default_rng(seed)
    order, apart = np.argsort(wanted, kind="stable"), min(gap, 1 / max(len(wanted) - 1, 1))
    cost = ((places - wanted) ** 2).sum()
    for size in (1e-3, 1e-2, 0.1):
        other = places + size * draw.standard_normal(len(wanted))
        fits = (np.diff(other[order]) >= apart).all() and other.min() >= 0 and other.max() <= 1
        assert not fits or ((other - wanted) ** 2).sum() >= cost - 1e-9


@pytest.mark.parametrize("n_lines", [1, 14, 30])
def test_names_stand_beside_their_lines_and_do_not_overlap(n_lines):
    looks = Look.of([f"space {n}" for n in range(n_lines)], 1)
    with drawing():
        figure, (axes,) = panels(0, n_labels=n_lines)
        curves = {name: ([0, 1], np.array([0.0, n % 3])) for n, name in enumerate(looks)}
        for name, curve in curves.items():
            line(axes, *curve, looks[name])
        label_ends(axes, curves, looks, marker=True)
        figure.draw_without_rendering()
        boxes = sorted(
            (text.get_window_extent() for text in axes.texts if text.get_text()),
            key=lambda box: box.y0,
        )
    assert len(boxes) == n_lines
    for below, above in pairwise(boxes):
        assert above.y0 >= below.y0 + 0.7 * below.height
    edge = figure.bbox.x1
    assert max(box.x1 for box in boxes) <= edge


def test_every_space_looks_like_no_other():
    looks = Look.of([str(n) for n in range(168)], 2).values()
    every = [(look.color, look.marker, str(look.dash)) for look in looks]
    assert len(set(every)) == 168
    assert len({(color, dash) for color, _, dash in every[:24]}) == 24
    assert len({(color, marker) for color, marker, _ in every[:42]}) == 42


def test_an_element_on_a_page_says_of_which_space_it_is():
    text = page_svg('<svg><g id="space-12"><path style="stroke: #d55e00"/></g></svg>', "name")
    assert '<g data-space="12">' in text
    assert "stroke: var(--look-1)" in text
