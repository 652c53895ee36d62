"""Two capacities at the most views: accuracies against online runs, ratios against the paper's."""

import numpy as np
import pytest
from helpers.online_answers import online, wald
from helpers.studies import PLAN, cell, column, tiny_plan, tiny_work

from marc_paper.study.plan import Plan
from marc_paper.study.tables import large_views

STREAMS = ("fourth", "fifth", "sixth")
SIDES = {"at capacity": 8, "at benchmark capacity": 16}


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def table(work):
    [table] = large_views._make(work)
    return table


def right(work, stream, capacity):
    """Right answers in every order at four views, (orders, N)."""
    return np.array([online(work, stream, "good", capacity, 10.0, s, 4)[0] for s in (0, 1, 2)])


@pytest.mark.parametrize("stream", STREAMS)
def test_a_row_is_what_online_runs_give(work, table, stream):
    where = {"stream": stream, "views": "4"}
    accuracies = {}
    for name, capacity in SIDES.items():
        accuracies[name] = right(work, stream, capacity).mean(axis=1)
        found = cell(table, name, **where)
        assert found.value == pytest.approx(accuracies[name].mean())
        assert found.sd == pytest.approx(accuracies[name].std(ddof=1))
    less, more = accuracies.values()
    change = cell(table, "change", **where)
    differences = right(work, stream, 16).astype(int) - right(work, stream, 8)
    assert (change.value, change.low, change.high) == pytest.approx(wald(differences))
    assert change.sd == pytest.approx((more - less).std(ddof=1))
    pooled = np.sqrt((less.var(ddof=1) + more.var(ddof=1)) / 2)
    assert cell(table, "ratio", **where) == pytest.approx(abs(more.mean() - less.mean()) / pooled)
    base = online(work, stream, "good", 8, 10.0, 0, 4)[1].mean()
    assert cell(table, "no memory", **where) == pytest.approx(base)


def test_the_mean_is_over_streams(work, table):
    assert column(table, "stream") == [*STREAMS, "mean"]
    means = []
    for name, capacity in SIDES.items():
        by_order = np.mean([right(work, s, capacity).mean(axis=1) for s in STREAMS], axis=0)
        found = cell(table, name, stream="mean")
        assert found.value == pytest.approx(by_order.mean())
        assert found.sd == pytest.approx(by_order.std(ddof=1))
        means.append(by_order)
    change = cell(table, "change", stream="mean")
    assert change.value == pytest.approx(np.mean(means[1] - means[0]))
    assert change.sd == pytest.approx((means[1] - means[0]).std(ddof=1))
    halves = [
        np.subtract(*wald(right(work, s, 16).astype(int) - right(work, s, 8))[2::-2])
        for s in STREAMS
    ]
    half = np.sqrt(np.sum(np.square(halves))) / 3
    assert (change.low, change.high) == pytest.approx((change.value - half, change.value + half))
    bases = [cell(table, "no memory", stream=stream) for stream in STREAMS]
    assert cell(table, "no memory", stream="mean") == pytest.approx(np.mean(bases))


@pytest.mark.parametrize(
    ("first", "second", "ratio"),
    [
        ((94.69, 0.08), (93.51, 0.14), 10.3),
        ((54.37, 0.87), (50.18, 1.24), 3.9),
        ((80.67, 0.33), (79.71, 0.39), 2.6),
        ((92.39, 0.19), (91.66, 0.05), 5.2),
        ((71.94, 0.33), (70.65, 0.52), 3.0),
        ((58.67, 1.52), (58.67, 0.42), 0.0),
    ],
)
def test_the_pooled_deviation_gives_the_printed_ratios(first, second, ratio):
    found = large_views._dispersion_ratio(second[0] - first[0], first[1], second[1])
    # what is printed was computed before rounding: each number may be half a unit off
    low = (abs(second[0] - first[0]) - 0.01) / np.hypot(first[1] + 0.005, second[1] + 0.005)
    high = (abs(second[0] - first[0]) + 0.01) / np.hypot(first[1] - 0.005, second[1] - 0.005)
    assert low * np.sqrt(2) - 0.05 <= ratio <= high * np.sqrt(2) + 0.05
    assert found == pytest.approx(ratio, abs=0.06)


def test_a_ratio_needs_deviations():
    assert large_views._dispersion_ratio(0.1, None, None) is None
    assert large_views._dispersion_ratio(0.1, 0.0, 0.0) is None
    assert large_views._dispersion_ratio(-0.1, 0.0, 0.1) == pytest.approx(np.sqrt(2))


def test_one_stream_in_one_order_has_no_mean_and_no_ratio():
    streams = {
        "first": {"source": "arrays/first.npz", "group": "main"},
        "fourth": {"source": "arrays/fourth.npz", "group": "domain", "views": 3},
        "fifth": {"source": "arrays/fifth.npz", "group": "domain"},
    }
    work = tiny_work(Plan.of({**PLAN, "streams": streams, "seeds": {"orders": [2]}}))
    [table] = large_views._EXPERIMENT.make(work)
    assert set(work.used) == set(large_views._EXPERIMENT.pieces(work.plan))
    assert column(table, "stream") == ["fourth"]
    assert cell(table, "views", stream="fourth") == "2"
    assert cell(table, "ratio", stream="fourth") is None
    assert cell(table, "change", stream="fourth").sd is None
    assert table.notes[-1] == "Left out, as they have one view: fifth."


def test_what_is_missing(work):
    missing = large_views._EXPERIMENT.missing
    assert missing(work.plan) == ""
    assert "both 8" in missing(tiny_plan(grids={"benchmark_capacity": 8}))
    streams = {"first": {"source": "arrays/first.npz", "group": "main", "views": 8}}
    assert "group domain" in missing(Plan.of({**PLAN, "streams": streams}))
