"""Gains with one view and with few on every stream, against online runs."""

import numpy as np
import pytest
from helpers.online_answers import gains, online, wald
from helpers.studies import PLAN, cell, column, table_of, tiny_plan, tiny_work

from marc_paper.study.plan import Plan
from marc_paper.study.tables import splits

STREAMS = {"first": 16, "second": 16, "third": 16, "fourth": 8, "fifth": 8, "sixth": 8}
SIDES = {"one view": 1, "few views": 4}


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def tables(work):
    return splits._make(work)


def of_streams(streams):
    """A plan of these streams alone, with one order."""
    return Plan.of({**PLAN, "streams": streams, "seeds": {"orders": [7]}})


@pytest.mark.parametrize("stream", STREAMS)
def test_the_first_order_is_as_online(work, tables, stream):
    table = table_of(tables, "splits")
    capacity = STREAMS[stream]
    where = {"stream": stream, "capacity": str(capacity), "few views": "4"}
    for name, views in SIDES.items():
        right, base = online(work, stream, "good", capacity, 10.0, 0, views)
        assert cell(table, f"memory, {name}", **where).value == pytest.approx(right.mean())
        assert cell(table, f"no memory, {name}", **where) == pytest.approx(base.mean())
        gain = cell(table, f"gain, {name}", **where)
        wanted = wald([right.astype(int) - base])
        assert (gain.value, gain.low, gain.high) == pytest.approx(wanted)
    few, one = (gains(work, stream, "good", capacity, 10.0, views)[:1] for views in (4, 1))
    shrink = cell(table, "shrink", **where)
    assert (shrink.value, shrink.low, shrink.high) == pytest.approx(wald(few - one))
    assert shrink.sd is None


@pytest.mark.parametrize("stream", STREAMS)
def test_all_orders_are_as_online(work, tables, stream):
    table = table_of(tables, "splits-orders")
    few, one = (gains(work, stream, "good", STREAMS[stream], 10.0, views) for views in (4, 1))
    for name, found in (("gain, one view", one), ("gain, few views", few), ("shrink", few - one)):
        wanted = cell(table, name, stream=stream)
        assert (wanted.value, wanted.low, wanted.high) == pytest.approx(wald(found))
        assert wanted.sd == pytest.approx(np.std(found.mean(axis=1), ddof=1))
    right = [online(work, stream, "good", STREAMS[stream], 10.0, s, 4)[0].mean() for s in (0, 1, 2)]
    found = cell(table, "memory, few views", stream=stream)
    assert (found.value, found.sd) == pytest.approx((np.mean(right), np.std(right, ddof=1)))


def test_groups_stand_in_order(tables):
    for table in tables:
        assert column(table, "stream") == list(STREAMS)
        assert column(table, "group") == ["main"] * 2 + ["shift"] + ["domain"] * 3


def test_streams_of_one_view_are_left_out_and_named():
    streams = {
        "fourth": {"source": "arrays/fourth.npz", "group": "domain", "views": 2},
        "second": {"source": "arrays/second.npz", "group": "shift"},
        "first": {"source": "arrays/first.npz", "group": "main", "views": 8},
        "third": {"source": "arrays/third.npz", "group": "predictor", "views": 8},
    }
    fresh = tiny_work(of_streams(streams))
    table, orders = splits._EXPERIMENT.make(fresh)
    assert set(fresh.used) == set(splits._EXPERIMENT.pieces(fresh.plan))
    assert column(table, "stream") == ["first", "fourth"]
    assert column(table, "few views") == ["4", "2"]
    assert table.notes[-1] == "Left out, as they have one view: second."
    assert cell(orders, "shrink", stream="first").sd is None


def test_what_is_missing(work):
    assert splits._EXPERIMENT.missing(work.plan) == ""
    flat = of_streams({"first": {"source": "arrays/first.npz", "group": "main"}})
    assert "several views" in splits._EXPERIMENT.missing(flat)
    assert "few_views is 1" in splits._EXPERIMENT.missing(tiny_plan(grids={"few_views": 1}))
