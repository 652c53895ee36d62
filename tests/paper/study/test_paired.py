"""Paired intervals: each number against online runs and the plain formulas."""

import math

import numpy as np
import pytest
from helpers.studies import cell, column, table_of, tiny_plan, tiny_work, without
from scipy.stats import binomtest

from marc import MARC, run
from marc_paper.study.tables import paired


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def tables(work):
    return paired._make(work)


def right(work, stream, space, weight, seed):
    """Right answers with memory and without, by stored row."""
    found = run(MARC(space, 8, weight), work.stream(stream).shuffled(seed))
    place = np.argsort(found.order)
    return found.correct[place], found.base_correct[place]


def wilson(n_right, n, z=1.959964):
    """The formula of a textbook."""
    share = n_right / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return share, middle - half, middle + half


def ends(cell):
    return cell.value, cell.low, cell.high


@pytest.mark.parametrize(
    ("name", "stream"), [("paired", "first"), ("paired", "second"), ("paired-others", "sixth")]
)
@pytest.mark.parametrize("space", ["own", "best", "noise"])
def test_a_row_is_what_online_runs_give(work, tables, name, stream, space):
    table, where = table_of(tables, name), {"stream": stream, "space": space}
    correct, base = right(work, stream, space, 10.0, 0)
    n = len(base)
    assert ends(cell(table, "no memory", **where)) == pytest.approx(wilson(base.sum(), n))
    accuracy = cell(table, "accuracy at K, w", **where)
    assert ends(accuracy) == pytest.approx(wilson(correct.sum(), n))

    repairs, regressions = int((correct & ~base).sum()), int((base & ~correct).sum())
    assert cell(table, "repairs", **where) == repairs
    assert cell(table, "regressions", **where) == regressions
    assert cell(table, "discordant", **where) == repairs + regressions
    difference = correct.astype(float) - base
    half = 1.959964 * difference.std() / math.sqrt(n)
    mean = difference.mean()
    gain = cell(table, "gain at K, w", **where)
    assert ends(gain) == pytest.approx((mean, mean - half, mean + half))
    p_value = binomtest(repairs, repairs + regressions).pvalue
    assert 10 ** cell(table, "McNemar p", **where) == pytest.approx(p_value)

    orders = [right(work, stream, space, 10.0, seed)[0].mean() - base.mean() for seed in (0, 1, 2)]
    spread = np.std(orders, ddof=1)
    over = cell(table, "gain at K, w, over orders", **where)
    assert over.value == pytest.approx(np.mean(orders))
    assert over.sd == pytest.approx(spread)
    assert over.high - over.value == pytest.approx(2.484 * spread, rel=1e-3, abs=1e-12)
    assert over.value - over.low == pytest.approx(2.484 * spread, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("space", ["best", "noise"])
def test_the_weight_is_chosen_anew_in_each_draw(work, tables, space):
    answers = np.array([right(work, "first", space, w, 0)[0] for w in work.plan.grids.weights])
    base = answers[0]
    draws = np.random.default_rng(0).integers(len(base), size=(40, len(base)))
    gains = [answers[:, drawn].mean(axis=1).max() - base[drawn].mean() for drawn in draws]
    found = cell(tables[0], "G*", stream="first", space=space)
    wanted = answers.mean(axis=1).max() - base.mean(), *np.quantile(gains, (0.025, 0.975))
    assert ends(found) == pytest.approx(wanted)


def test_every_stream_stands_in_one_table_and_gains_descend(work, tables):
    main, others = tables
    assert set(column(main, "stream")) == {"first", "second"}
    assert set(column(others, "stream")) == {"third", "fourth", "fifth", "sixth"}
    gains = [each.value for each in column(main, "gain at K, w", stream="second")]
    assert len(gains) == len(work.plan.spaces.all)
    assert gains == sorted(gains, reverse=True)


def test_one_stream_and_one_order_have_no_interval_over_orders():
    plan = tiny_plan(seeds={"orders": [4]})
    work = tiny_work(without(plan, *list(plan.streams)[1:]))
    [table] = paired._make(work)
    for over in column(table, "gain at K, w, over orders"):
        assert (over.sd, over.low, over.high) == (None, None, None)
    correct, base = right(work, "first", "best", 10.0, 4)
    gain = cell(table, "gain at K, w", space="best").value
    assert gain == pytest.approx(correct.mean() - base.mean())
    assert set(work.used) == set(paired._EXPERIMENT.pieces(work.plan))


def test_the_pieces_are_those_that_are_used(work, tables):
    assert set(work.used) == set(paired._EXPERIMENT.pieces(work.plan))
