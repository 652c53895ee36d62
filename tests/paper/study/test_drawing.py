"""What figures share: looks of spaces that can be told apart, and axes that cut no mark."""

import pytest
from helpers.studies import tiny_plan
from matplotlib.figure import Figure

from marc_paper.study.drawing import Axis, looks_of


def looks(n_spaces):
    names = [f"space-{place}" for place in range(n_spaces)]
    roles = {"own": "space-3", "deployed": "space-1", "strong": "space-0"}
    return looks_of(tiny_plan(spaces={"all": names, "controls": names[:2], **roles}))


def test_no_two_spaces_look_alike():
    found = looks(17)
    assert list(found) == [f"space-{place}" for place in range(17)]
    assert len({(each.color, each.dash) for each in found.values()}) == 17
    assert len({(each.color, each.marker) for each in found.values()}) == 17
    assert [name for name, each in found.items() if each.marker == "X"] == ["space-3"]


def test_no_mark_is_too_thin_to_be_seen_when_small():
    assert not {each.marker for each in looks(30).values()} & set("*+x|_1234,.")


@pytest.mark.parametrize("weights", [(0.0, 0.1, 10.0, 100.0), (0.0, 10.0), (0.0,)])
def test_the_axis_of_weights_leaves_room_at_both_ends(weights):
    axes = Figure().subplots()
    Axis.weight(axes, weights)
    low, high = axes.get_xlim()
    assert low < 0 <= weights[-1] < high
    assert axes.get_xticks()[0] == 0
