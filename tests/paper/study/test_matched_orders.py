"""MARC and COSMIC over the same orders, against online runs and a plain search of the weights."""

import itertools
import math

import numpy as np
import pytest
from helpers.odd_studies import declares_its_work, odd_work
from helpers.studies import cell, column, table_of, tiny_work
from scipy.stats import binomtest, t

from marc import MARC, create_method, run
from marc.peers.registry import METHODS
from marc_paper.study.tables import matched_orders


@pytest.fixture(scope="module")
def work():
    return tiny_work(n_images=50)


@pytest.fixture(scope="module")
def tables(work):
    return matched_orders._make(work)


def _right(work, method, seed):
    stream = work.stream("first", 8).shuffled(seed)
    found = run(method, stream)
    right = np.empty(len(stream), dtype=bool)
    right[found.order] = found.correct
    return right


@pytest.fixture(scope="module")
def ours(work):
    orders = work.plan.seeds.orders
    return np.stack([_right(work, MARC("good", 16, 10.0), seed) for seed in orders])


@pytest.fixture(scope="module")
def theirs(work):
    orders = work.plan.seeds.orders
    return np.stack([_right(work, create_method("cosmic", space="good"), s) for s in orders])


def test_an_order_is_compared_image_by_image(tables, ours, theirs):
    table = table_of(tables, "matched-orders")
    for seed, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        where = {"order": str(seed)}
        assert cell(table, "MARC", **where) == pytest.approx(a.mean())
        assert cell(table, "COSMIC", **where) == pytest.approx(b.mean())
        gained, lost = int((a & ~b).sum()), int((b & ~a).sum())
        assert cell(table, "discordant", **where) == gained + lost
        p = binomtest(gained, gained + lost).pvalue
        assert cell(table, "p", **where) == pytest.approx(math.log10(p))
        found = cell(table, "advantage", **where)
        difference = a.astype(float) - b
        half = 1.96 * difference.std() / math.sqrt(len(difference))
        assert found.value == pytest.approx(difference.mean())
        assert found.high - found.low == pytest.approx(2 * half, rel=1e-3)


def test_pooled_over_images_and_over_orders(tables, ours, theirs):
    table = table_of(tables, "matched-orders")
    pooled = cell(table, "advantage", order="pooled, clustered by image")
    by_image = ours.mean(axis=0) - theirs.mean(axis=0)
    half = 1.96 * by_image.std() / math.sqrt(len(by_image))
    assert pooled.value == pytest.approx(by_image.mean())
    assert pooled.high - pooled.low == pytest.approx(2 * half, rel=1e-3)
    by_order = ours.mean(axis=1) - theirs.mean(axis=1)
    found = cell(table, "advantage", order="mean over orders")
    half = t.ppf(0.975, 2) * by_order.std(ddof=1) / math.sqrt(3)
    assert found.high - found.value == pytest.approx(half)
    assert found.sd == pytest.approx(by_order.std(ddof=1))
    for name, right in (("MARC", ours), ("COSMIC", theirs)):
        accuracy = cell(table, name, order="mean over orders")
        assert accuracy.sd == pytest.approx(np.std(right.mean(axis=1), ddof=1))


def test_no_memory_is_each_system_s_own(work, tables):
    table = table_of(tables, "matched-orders")
    labels, features = work.labels("first"), work.stream("first", 8).features
    plain = work.stream("first").features.base.label
    assert cell(table, "no memory, MARC", order="0") == np.mean(features.base.label == labels)
    assert cell(table, "no memory, COSMIC", order="0") == np.mean(plain == labels)


def test_oracle_weights_are_the_best_of_the_grid(work, tables):
    table = table_of(tables, "matched-orders-oracle")
    grid = METHODS["cosmic"].searched
    names, best = list(grid), (0.0, ())
    for values in itertools.product(*(each[::3] for each in grid.values())):
        method = create_method("cosmic", space="good", **dict(zip(names, values, strict=True)))
        best = max(best, (float(_right(work, method, 1).mean()), values))
    assert cell(table, "COSMIC", order="1") >= best[0]
    chosen = {name: cell(table, name.replace("_", " "), order="1") for name in names}
    method = create_method("cosmic", space="good", **chosen)
    assert cell(table, "COSMIC", order="1") == pytest.approx(_right(work, method, 1).mean())
    words = {each.name: each.word for each in table.columns}
    assert (words["MARC"], words["COSMIC"], words["advantage"]) == ("fixed", "oracle", "oracle")


def test_it_declares_its_work_and_takes_an_odd_plan():
    assert declares_its_work(matched_orders._EXPERIMENT, tiny_work(n_images=30))
    odd = odd_work()
    assert declares_its_work(matched_orders._EXPERIMENT, odd)
    table = matched_orders._make(odd)[0]
    assert table.settings["views"] == 1
    assert column(table, "order") == ["3", "pooled, clustered by image"]
