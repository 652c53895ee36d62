"""Every space with the same memory: each number against one online run or a plain formula."""

import numpy as np
import pytest
from helpers.studies import cell, column, table_of, tiny_work

from marc import MARC, run
from marc.spaces.geometry import antihub_fraction, purity
from marc.stats import spearman
from marc_paper.study.artifacts import Estimate
from marc_paper.study.tables import spaces


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def tables(work):
    return spaces._make(work)


@pytest.mark.parametrize("stream", ["first", "second"])
@pytest.mark.parametrize("space", ["own", "best", "noise"])
def test_a_row_is_what_online_runs_give(work, tables, stream, space):
    table = table_of(tables, "spaces")
    features = work.stream(stream)
    gains = {
        seed: {
            weight: run(MARC(space, 8, weight), features.shuffled(seed)).gain
            for weight in work.plan.grids.weights
        }
        for seed in work.plan.seeds.orders
    }
    fixed = [gains[seed][10.0] for seed in gains]
    best = [max(gains[seed].values()) for seed in gains]
    where = {"stream": stream, "space": space}
    assert cell(table, "gain at K, w", **where).value == pytest.approx(np.mean(fixed))
    assert cell(table, "gain at K, w", **where).sd == pytest.approx(np.std(fixed, ddof=1))
    assert cell(table, "G*, first order", **where) == pytest.approx(best[0])
    assert cell(table, "G*, all orders", **where).value == pytest.approx(np.mean(best))
    keys, labels = features.features.keys(space), features.row_labels
    assert cell(table, "purity@10", **where).value == pytest.approx(purity(keys, labels, 10))
    assert cell(table, "anti-hubs@10", **where) == pytest.approx(antihub_fraction(keys, 10))


def test_ranks_and_regret_follow_from_the_rows(work, tables):
    table, ranked = tables
    for stream in ("first", "second"):
        gains = column(table, "G*, first order", stream=stream)
        pure = [each.value for each in column(table, "purity@10", stream=stream)]
        where = {"stream": stream, "measure": "purity@10"}
        wanted = pytest.approx(spearman(pure, gains))
        assert cell(ranked, "correlation, first order", **where) == wanted
        chosen = cell(ranked, "chosen", **where)
        assert chosen == column(table, "space", stream=stream)[int(np.argmax(pure))]
        lost = max(gains) - cell(table, "G*, first order", stream=stream, space=chosen)
        assert cell(ranked, "regret", **where) == pytest.approx(lost)
        assert isinstance(cell(ranked, "correlation, all orders", **where), Estimate)


def test_spaces_stand_by_their_gain(tables):
    gains = column(tables[0], "G*, first order", stream="first")
    assert gains == sorted(gains, reverse=True)
