"""Gains at every view budget: each number against online runs and plain formulas."""

import numpy as np
import pytest
from helpers.online_answers import gains, online, wald
from helpers.studies import cell, column, table_of, tiny_plan, tiny_work, without
from scipy.stats import t

from marc_paper.study.budgets import Arm, Budget
from marc_paper.study.tables import view_budget

VIEWS = (1, 2, 4, 8)
ARMS = {
    "own memory, w = 1": ("own", 1.0),
    "own memory": ("own", 10.0),
    "deployed memory": ("good", 10.0),
    "strong memory": ("best", 10.0),
}


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def tables(work):
    return view_budget._make(work)


@pytest.mark.parametrize("views", VIEWS)
def test_accuracies_are_those_of_the_first_order_online(work, tables, views):
    table = table_of(tables, "view-budget")
    for arm, (space, weight) in ARMS.items():
        right, base = online(work, "first", space, 16, weight, 0, views)
        assert cell(table, arm, views=str(views)) == pytest.approx(right.mean())
        assert cell(table, "no memory", views=str(views)) == pytest.approx(base.mean())


@pytest.mark.parametrize("views", VIEWS)
@pytest.mark.parametrize(("name", "space"), [("deployed", "good"), ("strong", "best")])
def test_gains_carry_deviations_and_paired_intervals(work, tables, name, space, views):
    table = table_of(tables, "view-budget")
    found = gains(work, "first", space, 16, 10.0, views)
    first = cell(table, f"{name} gain, first order", views=str(views))
    assert (first.value, first.low, first.high) == pytest.approx(wald(found[:1]))
    assert first.sd is None
    every = cell(table, f"{name} gain, all orders", views=str(views))
    assert (every.value, every.low, every.high) == pytest.approx(wald(found))
    assert every.sd == pytest.approx(np.std(found.mean(axis=1), ddof=1))


def same(found, differences):
    """Whether a cell has the mean, interval and deviation of differences (orders, N)."""
    assert (found.value, found.low, found.high) == pytest.approx(wald(differences))
    if len(differences) == 1:
        assert found.sd is None
    else:
        assert found.sd == pytest.approx(np.std(differences.mean(axis=1), ddof=1))


def test_changes_from_one_view_to_the_most_are_a_table_of_points(work, tables):
    assert column(table_of(tables, "view-budget"), "views") == [*map(str, VIEWS)]
    table = table_of(tables, "view-budget-change")
    gained = {"deployed gain": "good", "strong gain": "best"}
    assert column(table, "quantity") == ["no memory", *ARMS, *gained]
    assert {each.unit for each in table.columns[1:]} == {"points"}
    changes = {}
    for arm, (space, weight) in ARMS.items():
        right = {
            views: [online(work, "first", space, 16, weight, seed, views)[0] for seed in (0, 1, 2)]
            for views in (1, 8)
        }
        changes[arm] = np.subtract(right[8], right[1], dtype=float)
    for name, space in gained.items():
        many, one = (gains(work, "first", space, 16, 10.0, views) for views in (8, 1))
        changes[name] = many - one
    for name, found in changes.items():
        same(cell(table, "first order", quantity=name), found[:1])
        same(cell(table, "all orders", quantity=name), found)
    bases = [online(work, "first", "good", 16, 10.0, 0, views)[1] for views in (8, 1)]
    for orders in ("first order", "all orders"):
        same(cell(table, orders, quantity="no memory"), np.subtract(*bases, dtype=float)[None])


@pytest.mark.parametrize("arm", ARMS)
def test_means_over_orders_stand_for_every_memory(work, tables, arm):
    table = table_of(tables, "view-budget-orders")
    space, weight = ARMS[arm]
    one = gains(work, "first", space, 16, weight, 1)
    for views in VIEWS:
        where = {"memory": arm, "views": str(views), "space": space, "weight": f"{weight:g}"}
        runs = [online(work, "first", space, 16, weight, seed, views) for seed in (0, 1, 2)]
        accuracies = [right.mean() for right, _ in runs]
        found = cell(table, "accuracy", **where)
        assert found.value == pytest.approx(np.mean(accuracies))
        assert found.sd == pytest.approx(np.std(accuracies, ddof=1))
        assert cell(table, "no memory", **where) == pytest.approx(runs[0][1].mean())
        now = gains(work, "first", space, 16, weight, views)
        assert cell(table, "gain", **where).value == pytest.approx(now.mean())
        contrast = cell(table, "Sub(1, M)", **where)
        if views == 1:
            assert contrast is None
        else:
            assert (contrast.value, contrast.low, contrast.high) == pytest.approx(wald(now - one))


@pytest.mark.parametrize("quantity", ["gain", "Sub(1, M)"])
@pytest.mark.parametrize("views", [4, 8])
def test_each_order_has_its_gain_and_contrast(work, tables, quantity, views):
    table = table_of(tables, "substitution")
    found = gains(work, "first", "good", 16, 10.0, views)
    if quantity == "Sub(1, M)":
        found = found - gains(work, "first", "good", 16, 10.0, 1)
    by_order = found.mean(axis=1)
    where = {"quantity": quantity, "views": str(views)}
    for seed in (0, 1, 2):
        one = cell(table, "value", order=str(seed), **where)
        assert (one.value, one.low, one.high) == pytest.approx(wald(found[[seed]]))
    mean = cell(table, "value", order="mean", **where)
    half = t.ppf(0.975, 2) * np.std(by_order, ddof=1) / np.sqrt(3)
    assert (mean.value, mean.sd) == pytest.approx((by_order.mean(), np.std(by_order, ddof=1)))
    assert (mean.low, mean.high) == pytest.approx((mean.value - half, mean.value + half))


def test_repairs_are_counted_image_by_image(work, tables):
    table = table_of(tables, "substitution-repairs")
    _, one = online(work, "first", "good", 16, 10.0, 0, 1)
    _, many = online(work, "first", "good", 16, 10.0, 0, 8)
    shared = []
    for seed in (0, 1, 2):
        right, _ = online(work, "first", "good", 16, 10.0, seed, 1)
        counts = {"augmentation": 0, "retrieval": 0, "shared": 0}
        for before, views, memory in zip(one, many, right, strict=True):
            counts["augmentation"] += not before and views
            counts["retrieval"] += not before and memory
            counts["shared"] += not before and views and memory
        for name, count in counts.items():
            where = {"quantity": f"{name} repairs", "order": str(seed)}
            assert cell(table, "images", **where) == count
        shared.append(counts["shared"] / counts["augmentation"])
        where = {"quantity": "shared repairs", "order": str(seed)}
        assert cell(table, "share of augmentation", **where) == pytest.approx(shared[-1])
    mean = {"quantity": "shared repairs", "order": "mean"}
    assert cell(table, "share of augmentation", **mean).value == pytest.approx(np.mean(shared))
    where = {"quantity": "augmentation repairs", "order": "mean"}
    assert isinstance(cell(table, "images", **where), int), "no order, no deviation"


def test_one_order_has_no_deviation_and_few_views_need_not_be_on_the_grid():
    plan = tiny_plan(seeds={"orders": [5]}, grids={"views": [1, 2, 8], "few_views": 3})
    work = tiny_work(without(plan, *list(plan.streams)[1:]))
    tables = view_budget._EXPERIMENT.make(work)
    assert set(work.used) == set(view_budget._EXPERIMENT.pieces(work.plan))
    table = table_of(tables, "substitution")
    assert dict.fromkeys(column(table, "views")) == dict.fromkeys(["1", "3", "8"])
    mean = cell(table, "value", quantity="gain", views="3", order="mean")
    assert (mean.sd, mean.low) == (None, None)
    assert mean.value == cell(table, "value", quantity="gain", views="3", order="5").value
    assert column(table_of(tables, "view-budget"), "views") == ["1", "2", "8"]


def test_at_weight_one_the_own_memory_stands_once():
    plan = tiny_plan(seeds={"orders": [5]}, grids={"weight": 1, "views": [1, 2]})
    tables = view_budget._make(tiny_work(without(plan, *list(plan.streams)[1:])))
    names = [each.name for each in table_of(tables, "view-budget").columns]
    assert [name for name in names if name.startswith("own memory")] == ["own memory, w = 1"]
    memories = dict.fromkeys(column(table_of(tables, "view-budget-orders"), "memory"))
    assert list(memories) == ["own memory, w = 1", "deployed memory", "strong memory"]


def test_views_are_missing_where_there_is_one_and_work_is_as_declared(work):
    fresh = tiny_work()
    view_budget._EXPERIMENT.make(fresh)
    assert set(fresh.used) == set(view_budget._EXPERIMENT.pieces(fresh.plan))
    assert view_budget._EXPERIMENT.missing(work.plan) == ""
    first = {"source": "arrays/first.npz", "group": "main"}
    assert "one view" in view_budget._EXPERIMENT.missing(tiny_plan(streams={"first": first}))


def test_nothing_repaired_has_no_share():
    work = tiny_work(tiny_plan(grids={"views": [1, 2]}))
    one, same = (Budget.read(work, "first", 1, Arm.all_of(work.plan), 16) for _ in range(2))
    rows = view_budget._repair_rows(one, same, (0, 1, 2))
    [mean] = [row for row in rows if row[:2] == ("shared repairs", "mean")]
    assert mean[2].value == 0
    assert np.isnan(mean[3].value)
    assert mean[3].low is None
