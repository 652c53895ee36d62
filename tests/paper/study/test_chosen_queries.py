"""Queries that are shown: what they read against the online memory, and how they are chosen."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers.studies import tiny_plan, tiny_work

from marc.memory import Memory
from marc_paper.study.figures.neighbours import _spread_evenly
from marc_paper.study.queries import FirstOrder, _read_at


@pytest.fixture(scope="module")
def ordered():
    work = tiny_work(tiny_plan(seeds={"orders": [5, 0]}))
    return FirstOrder.of(work)


def test_the_first_order_is_the_plans(ordered):
    stream, trajectory = ordered
    assert stream.seed == 5
    np.testing.assert_array_equal(trajectory.order, stream.order)


@pytest.mark.parametrize("capacity", [1, 3, 8])
@pytest.mark.parametrize("space", ["own", "best"])
def test_a_reading_is_what_the_online_memory_gives(ordered, space, capacity):
    stream, trajectory = ordered
    keys = stream.features.keys(space)
    memory = Memory(stream.n_classes, capacity, keys.shape[1])
    for position, item in enumerate(trajectory.order.tolist()):
        found = _read_at(keys, trajectory, position, capacity)
        wanted = memory.neighbors(keys[item], len(memory))
        assert found.items.tolist() == [each.item for each in wanted]
        assert found.stored.tolist() == [each.label for each in wanted]
        np.testing.assert_allclose(found.cosines, [each.similarity for each in wanted], atol=1e-6)
        np.testing.assert_allclose(found.weights, [each.weight for each in wanted], rtol=1e-5)
        np.testing.assert_allclose(
            found.evidence(stream.n_classes), memory.read(keys[item]), rtol=1e-5, atol=1e-12
        )
        assert found.first(2).weights.tolist() == found.weights[:2].tolist()
        label, priority = trajectory.label[position], trajectory.priority[position]
        memory.write(keys[item], int(label), float(priority), item)


def test_equal_cosines_stand_by_row(ordered):
    stream, trajectory = ordered
    same = np.tile(np.float32([1, 0]), (len(stream), 1))
    assert _read_at(same, trajectory, 60, 8).items.tolist() == sorted(
        item for items in trajectory.retained(60, 8).values() for item in items
    )


def test_a_query_knows_its_image(ordered):
    stream, trajectory = ordered
    query = FirstOrder(stream, trajectory).query_at(40, ("own", "best"), 8)
    row = stream.order[40]
    assert (query.row, query.position, query.id) == (row, 40, stream.features.ids[row])
    assert query.true == stream.row_labels[row]
    assert query.predicted == stream.features.base.label[row]
    assert list(query.readings) == ["own", "best"]
    ours, theirs = query.readings.values()
    assert sorted(ours.items) == sorted(theirs.items)
    np.testing.assert_array_equal(
        theirs.items, _read_at(stream.features.keys("best"), trajectory, 40, 8).items
    )


def test_named_rows_stand_in_stream_order():
    named = np.array([True, False, True, True])
    stream = SimpleNamespace(order=np.array([3, 1, 0, 2]))
    assert FirstOrder(stream, None).positions(named).tolist() == [0, 2, 3]


@pytest.mark.parametrize("n_named", [1, 3, 4, 5, 7, 8, 9, 100])
def test_the_shown_are_the_middles_of_equal_parts(n_named):
    positions = 10 * np.arange(n_named)
    shown = _spread_evenly(positions, 4)
    if n_named <= 4:
        assert shown.tolist() == positions.tolist()
        return
    assert len(set(shown.tolist())) == 4
    for part, position in enumerate(shown):
        place = position / 10
        assert place <= (part + 0.5) * n_named / 4 < place + 1


def test_one_space_cannot_be_compared_with_itself():
    assert FirstOrder.needs_two_spaces(tiny_plan()) == ""
    reason = FirstOrder.needs_two_spaces(tiny_plan(spaces={"strong": "own"}))
    assert reason == "the own and the strong space of this plan are one: own"


def test_a_rule_that_names_nothing_is_told():
    rule = "base prediction wrong"
    table = FirstOrder.none_chosen(tiny_plan(), "name", "kernel-weights", rule)
    assert (table.name, table.answers) == ("name", ("fig:s_kernel",))
    assert table.rows == (("first", "base prediction wrong", 0),)
    assert "no image" in table.caption
