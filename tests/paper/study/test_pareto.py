"""Accuracy against time: no number covers a mark or another number."""

from itertools import combinations

import pytest
from helpers.studies import tiny_plan
from matplotlib.backends.backend_agg import FigureCanvasAgg

from marc.report.style import drawing
from marc_paper.study.tables import cost
from marc_paper.study.tables.cost import _Point, _sides


def point(label, views, seconds, accuracy):
    return _Point(label, views, seconds, 0.9 * seconds, 1.1 * seconds, accuracy, is_front=False)


FAR = [
    _Point("MARC, strong", 1, 0.004, 0.003, 0.005, 0.48, is_front=True),
    point("no memory", 1, 0.002, 0.36),
]
CLOSE = {
    "the wanted sides clash": [point("TDA", 32, 0.035, 0.392), point("no memory", 32, 0.035, 0.38)],
    "the same side": [point("TDA", 32, 0.035, 0.38), point("MARC, deployed", 32, 0.036, 0.392)],
    "three above each other": [
        point("no memory", 32, 0.035, 0.38),
        point("COSMIC", 16, 0.035, 0.386),
        point("TDA", 32, 0.035, 0.392),
    ],
    "side by side": [point("TDA", 32, 0.035, 0.38), point("MARC, deployed", 32, 0.0365, 0.38)],
}


def drawn(points):
    with drawing():
        figure = cost._draw(points, cost._looks(tiny_plan()), "milliseconds an image")
        FigureCanvasAgg(figure).draw()
    return figure


def overlap(one, other):
    return min(
        min(one.x1, other.x1) - max(one.x0, other.x0), min(one.y1, other.y1) - max(one.y0, other.y0)
    )


@pytest.mark.parametrize("close", CLOSE.values(), ids=CLOSE)
def test_numbers_meet_no_mark_and_no_other_number(close):
    points = [*FAR, *close]
    figure = drawn(points)
    axes, pixel = figure.axes[0], figure.dpi / 72
    boxes = [text.get_window_extent(figure.canvas.get_renderer()) for text in axes.texts]
    assert [text.get_text() for text in axes.texts] == [str(each.views) for each in points]
    for one, other in combinations(boxes, 2):
        assert overlap(one, other) <= 0
    for each in points:
        x, y = axes.transData.transform((each.seconds, 100 * each.accuracy))
        for box in boxes:
            # the middle half of a mark; a text has room of its own around its digits
            nearest = max(box.x0 - x, x - box.x1, box.y0 - y, y - box.y1)
            assert nearest > 2 * pixel


@pytest.mark.parametrize("higher", ["TDA", "no memory", "MARC, deployed", "COSMIC"])
@pytest.mark.parametrize("lower", ["TDA", "no memory", "MARC, deployed", "COSMIC"])
def test_of_two_close_points_the_higher_has_its_number_above(higher, lower):
    close = [point(lower, 32, 0.035, 0.384), point(higher, 8, 0.035, 0.392)]
    below, above = drawn([*FAR, *close]).axes[0].texts[2:]
    assert (below.get_position()[1] < 0, above.get_position()[1] > 0) == (True, True)


def test_points_that_stand_alone_have_the_side_that_is_wanted():
    places = [(0.0, 0.0), (0.0, 100.0), (50.0, 0.0)]
    assert _sides(places, ["1", "8", "32"], ["above", "below", "left"]) == [
        "above",
        "below",
        "left",
    ]


def test_the_highest_chooses_first():
    places = [(0.0, 0.0), (0.0, 24.0)]  # there is room for one number between them
    assert _sides(places, ["1", "8"], ["above", "below"]) == ["below", "below"]


def test_a_number_is_nearer_to_its_own_mark_than_to_another():
    places = [(0.0, 0.0), (0.0, 17.0)]
    assert _sides(places, ["1", "8"], ["below", "below"]) == ["below", "above"]


def test_where_both_sides_are_taken_the_number_stands_beside():
    places = [(0.0, 11.0), (0.0, 0.0), (0.0, -11.0)]
    assert _sides(places, ["1", "8", "32"], ["above"] * 3) == ["above", "right", "below"]


def test_no_place_at_all_is_the_one_of_the_fewest_collisions():
    around = [(0.0, 11.0), (0.0, -11.0), (11.0, 0.0), (-11.0, 0.0)]
    found = _sides([(0.0, 0.0), *around], ["4"] * 5, ["above"] * 5)
    assert len(found) == 5
    assert set(found) <= set(cost._SIDES)
