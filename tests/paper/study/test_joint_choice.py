"""A choice without labels: against online runs over every space, capacity and weight."""

import numpy as np
import pytest
from helpers.online_answers import weight_gains
from helpers.studies import SPACES, cell, column, tiny_plan, tiny_work, without

from marc import MARC, run
from marc.spaces.geometry import pseudo_labels, pseudo_purity
from marc_paper.study.tables import joint_choice

OTHER = {"first": "second", "second": "first"}


@pytest.fixture(scope="module")
def work():
    return tiny_work(tiny_plan(grids={"capacities": [2, 8, 16]}))


@pytest.fixture(scope="module")
def table(work):
    return joint_choice._make(work)[0]


def grid(work, stream, space):
    """(capacities, orders, weights)."""
    return np.stack([weight_gains(work, stream, space, 1, k) for k in work.plan.grids.capacities])


@pytest.mark.parametrize("stream", ["first", "second"])
@pytest.mark.parametrize("named", [joint_choice._ALL, joint_choice._WITHOUT_OWN])
def test_a_row_is_what_online_runs_give(work, table, stream, named):
    where = {"stream": stream, "candidates": named}
    features = work.stream(stream)
    agreed = {
        space: pseudo_purity(features.features.keys(space), pseudo_labels(features), 10)
        for space in SPACES
        if named == joint_choice._ALL or space != "own"
    }
    space = max(agreed, key=agreed.get)
    assert cell(table, "chosen", **where) == space
    mean = grid(work, OTHER[stream], space).mean(axis=1)
    k, w = np.unravel_index(mean.argmax(), mean.shape)
    capacity, weight = work.plan.grids.capacities[k], work.plan.grids.weights[w]
    assert cell(table, "chosen on", **where) == OTHER[stream]
    assert (cell(table, "K", **where), cell(table, "w", **where)) == (capacity, weight)

    runs = [run(MARC(space, capacity, weight), features.shuffled(seed)) for seed in (0, 1, 2)]
    accuracies = [each.accuracy for each in runs]
    assert cell(table, "no memory", **where) == pytest.approx(runs[0].base_accuracy)
    assert cell(table, "accuracy, first order", **where) == pytest.approx(accuracies[0])
    assert cell(table, "accuracy", **where).value == pytest.approx(np.mean(accuracies))
    assert cell(table, "gain, first order", **where) == pytest.approx(runs[0].gain)
    gain = cell(table, "gain", **where)
    assert gain.value == pytest.approx(np.mean([each.gain for each in runs]))
    assert gain.low <= gain.value <= gain.high


@pytest.mark.parametrize("stream", ["first", "second"])
def test_the_oracle_is_over_all_spaces_even_where_one_is_left_out(work, table, stream):
    by_order = {
        (space, capacity): grid(work, stream, space)[k].max(axis=1)
        for space in SPACES
        for k, capacity in enumerate(work.plan.grids.capacities)
    }
    base = work.stream(stream)
    no_memory = run(MARC("own", 1, 0.0), base).base_accuracy
    top = max(values.mean() for values in by_order.values())
    first = max(values[0] for values in by_order.values())
    for named in (joint_choice._ALL, joint_choice._WITHOUT_OWN):
        where = {"stream": stream, "candidates": named}
        assert cell(table, "oracle", **where).value == pytest.approx(no_memory + top)
        assert cell(table, "oracle, first order", **where) == pytest.approx(no_memory + first)
        accuracy = cell(table, "accuracy", **where).value
        assert cell(table, "regret", **where).value == pytest.approx(no_memory + top - accuracy)
        alone = cell(table, "accuracy, first order", **where)
        wanted = pytest.approx(no_memory + first - alone)
        assert cell(table, "regret, first order", **where) == wanted
        share = cell(table, "share of oracle gain", **where)
        assert share == pytest.approx((accuracy - no_memory) / top)
        best = cell(table, "best", **where).split(", K = ")
        assert by_order[best[0], int(best[1])].mean() == pytest.approx(top)
        assert table.settings["configurations"] == 6 * 3 * 6


def test_one_order_has_no_deviation_and_one_space_no_second_row():
    spaces = dict.fromkeys(("own", "deployed", "strong"), "own") | {"all": ["own"]}
    plan = tiny_plan(seeds={"orders": [0]}, spaces={**spaces, "controls": ["own"]})
    [table] = joint_choice._make(tiny_work(plan))
    assert column(table, "candidates") == [joint_choice._ALL] * 2
    assert [each.sd for each in column(table, "gain")] == [None, None]
    assert column(table, "lead resolved") == ["yes", "yes"]


def test_its_pieces_are_those_it_uses_and_one_stream_is_not_enough():
    work = tiny_work()
    joint_choice._make(work)
    assert set(work.used) == set(joint_choice._EXPERIMENT.pieces(work.plan))
    assert joint_choice._EXPERIMENT.missing(work.plan) == ""
    assert "none" in joint_choice._EXPERIMENT.missing(without(work.plan, "second"))
