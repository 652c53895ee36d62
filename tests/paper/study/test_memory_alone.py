"""The memory alone: each number against online runs without the base logits."""

import math

import numpy as np
import pytest
from helpers.studies import cell, column, tiny_plan, tiny_work, without
from scipy.stats import binomtest

from marc import MARC, run
from marc_paper.study.tables import memory_alone


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def table(work):
    [made] = memory_alone._make(work)
    return made


@pytest.mark.parametrize("stream", ["first", "second"])
@pytest.mark.parametrize("space", ["own", "good", "best"])
def test_a_row_is_what_online_runs_give(work, table, stream, space):
    after, before = [], []
    for seed in work.plan.seeds.orders:
        found = run(MARC(space, 8, 10.0, use_base=False), work.stream(stream).shuffled(seed))
        place = np.argsort(found.order)
        after.append(found.correct[place])
        before.append(found.base_correct[place])
    where = {"stream": stream, "space": space}
    accuracies = np.mean(after, axis=1)
    assert cell(table, "accuracy", **where).value == pytest.approx(accuracies.mean())
    assert cell(table, "accuracy", **where).sd == pytest.approx(accuracies.std(ddof=1))
    assert cell(table, "no memory", **where) == pytest.approx(np.mean(before))
    assert cell(table, "accuracy", stream=stream, space="no memory") == pytest.approx(
        np.mean(before)
    )

    by_image = np.subtract(after, before, dtype=float).mean(axis=0)
    half = 1.96 * by_image.std() / math.sqrt(len(by_image))
    found = cell(table, "difference", **where)
    assert found.value == pytest.approx(by_image.mean())
    assert found.high - found.value == pytest.approx(half, rel=1e-3)
    assert found.value - found.low == pytest.approx(half, rel=1e-3)
    assert found.sd == pytest.approx((accuracies - np.mean(before)).std(ddof=1))

    gained, lost = (after[0] & ~before[0]).sum(), (before[0] & ~after[0]).sum()
    assert cell(table, "discordant, first order", **where) == gained + lost
    p_value = binomtest(int(gained), int(gained + lost)).pvalue
    assert 10 ** cell(table, "McNemar p, first order", **where) == pytest.approx(p_value)


def test_no_memory_comes_first(table):
    assert column(table, "space", stream="first") == ["no memory", "own", "good", "best"]


def test_one_stream_one_order_and_one_space_are_enough():
    plan = tiny_plan(seeds={"orders": [2]}, spaces={"deployed": "own", "strong": "own"})
    work = tiny_work(without(plan, "second"))
    [table] = memory_alone._make(work)
    assert column(table, "space") == ["no memory", "own"]
    assert column(table, "accuracy")[1].sd is None
    assert set(work.used) == set(memory_alone._EXPERIMENT.pieces(work.plan))


def test_the_pieces_are_those_that_are_used(work, table):
    assert set(work.used) == set(memory_alone._EXPERIMENT.pieces(work.plan))
