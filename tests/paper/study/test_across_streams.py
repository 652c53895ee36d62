"""One space over all streams: each number against online runs and plain formulas."""

import pytest
from helpers.online_answers import weight_gains
from helpers.studies import cell, column, table_of, tiny_plan, tiny_work, without

from marc.spaces import geometry
from marc.stats import spearman
from marc_paper.study.tables import across_streams

VIEWS = {"first": 1, "second": 1, "third": 1, "fourth": 4, "fifth": 4, "sixth": 4}
DIRECT = {
    "purity": lambda keys, labels, kappa: geometry.purity(keys, labels, kappa),
    "anti-hubs": lambda keys, labels, kappa: geometry.antihub_fraction(keys, kappa),
    "skewness": lambda keys, labels, kappa: geometry.hub_skewness(keys, kappa),
}


@pytest.fixture(scope="module")
def work():
    # a weak space as the deployed one, whose fixed and oracle gains rank streams differently
    return tiny_work(tiny_plan(spaces={"deployed": "weak"}))


@pytest.fixture(scope="module")
def tables(work):
    return across_streams._make(work)


@pytest.mark.parametrize("stream", VIEWS)
def test_values_are_what_online_runs_give(work, tables, stream):
    table, features = table_of(tables, "across-streams-values"), work.stream(stream)
    keys = features.features.keys("weak")
    for name, direct in DIRECT.items():
        for kappa in (5, 10):
            wanted = pytest.approx(direct(keys, features.row_labels, kappa))
            assert cell(table, f"{name}@{kappa}", stream=stream) == wanted
    by_weight = weight_gains(work, stream, "weak", VIEWS[stream])
    place = work.plan.grids.weights.index(10.0)
    assert cell(table, "gain", stream=stream).value == pytest.approx(by_weight[:, place].mean())
    assert cell(table, "G*", stream=stream).value == pytest.approx(by_weight.max(axis=1).mean())
    assert cell(table, "images", stream=stream) == 90
    assert cell(table, "views", stream=stream) == str(VIEWS[stream])


def test_correlations_follow_from_the_values(tables):
    table, values = table_of(tables, "across-streams"), table_of(tables, "across-streams-values")
    names = [f"{name}@{kappa}" for name in DIRECT for kappa in (5, 10)]
    assert column(table, "measure") == [*names, "no memory"]
    for outcome in ("gain", "G*"):
        found = [round(each.value, 9) for each in column(values, outcome)]  # equal ones tie
        for name in column(table, "measure"):
            wanted = spearman(column(values, name), found)
            got = cell(table, f"correlation with {outcome}", measure=name)
            assert got == pytest.approx(wanted, nan_ok=True)
            assert cell(table, "streams", measure=name) == 6
    assert column(table, "correlation with gain") != column(table, "correlation with G*")


def test_images_of_another_predictor_do_not_count_twice():
    plan = tiny_plan(streams={"third": {"source": "x", "group": "predictor"}})
    work = tiny_work(plan)
    tables = across_streams._make(work)
    assert "third" not in column(table_of(tables, "across-streams-values"), "stream")
    assert set(work.used) == set(across_streams._EXPERIMENT.pieces(plan))


def test_its_pieces_are_those_it_uses_and_two_streams_are_too_few():
    plan = tiny_plan(seeds={"orders": [0]})
    work = tiny_work(plan)
    tables = across_streams._make(work)
    assert set(work.used) == set(across_streams._EXPERIMENT.pieces(plan))
    assert {each.sd for each in column(table_of(tables, "across-streams-values"), "gain")} == {None}
    two = without(plan, "third", "fourth", "fifth", "sixth")
    assert "fewer than 3" in across_streams._EXPERIMENT.missing(two)
    assert across_streams._EXPERIMENT.missing(plan) == ""
