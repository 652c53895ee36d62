"""All paired tests as one family: against online runs and a step-up by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.studies import cell, column, table_of, tiny_plan, tiny_work, without
from scipy.stats import binomtest

from marc import MARC, run
from marc.stats import Interval
from marc_paper.study.tables import multiplicity
from marc_paper.study.tables.multiplicity import _paired_tests, _PairedTest, _procedure_rows


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def tables(work):
    return multiplicity._make(work)


def family_of(p_values):
    """Tests with some p-values; those above 0.3 have an interval around zero."""
    return [
        _PairedTest(
            *("stream", f"space {place}", 0, 0.5),
            gain=Interval(0.1, -0.1 if p > 0.3 else 0.05, 0.2),
            n_discordant=10,
            log10_p=math.log10(p),
        )
        for place, p in enumerate(p_values)
    ]


@pytest.mark.parametrize("stream", ["first", "third"])
def test_a_stream_has_a_test_for_every_space_and_order(work, stream):
    tests = _paired_tests(stream, work.sweep(stream, ["own", "best"]), 8, 10.0)
    assert len(tests) == 2 * 3
    for test in tests:
        found = run(MARC(test.space, 8, 10.0), work.stream(test.stream).shuffled(test.order))
        gained = int((found.correct & ~found.base_correct).sum())
        lost = int((found.base_correct & ~found.correct).sum())
        difference = found.correct.astype(float) - found.base_correct
        half = 1.959964 * difference.std() / math.sqrt(len(difference))
        assert test.no_memory == pytest.approx(found.base_accuracy)
        assert test.gain == pytest.approx((found.gain, found.gain - half, found.gain + half))
        assert test.n_discordant == gained + lost
        p_value = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
        assert 10**test.log10_p == pytest.approx(p_value)


@pytest.mark.parametrize("seed", range(4))
def test_the_procedures_reject_what_a_step_up_by_hand_rejects(seed):
    draw = np.random.default_rng(seed)
    p_values = np.r_[draw.uniform(size=20), 10 ** draw.uniform(-6, -1, size=12)].tolist()
    rows = {row[:2]: row[2:] for row in _procedure_rows(family_of(p_values))}
    n, ranked = len(p_values), sorted(p_values)
    assert rows["uncorrected", "0.05"][:3] == (
        n,
        sum(p <= 0.05 for p in p_values),
        sum(p > 0.05 for p in p_values),
    )
    for level in (0.05, 0.01):
        steps = [i for i, p in enumerate(ranked, 1) if p <= level * i / n]
        _, n_rejected, n_kept, threshold, allowance = rows["Benjamini-Hochberg", f"{level:g}"]
        assert n_rejected == max(steps, default=0)
        assert n_kept == n - n_rejected
        assert sum(p <= 10**threshold for p in p_values) == n_rejected
        assert allowance == pytest.approx(level * n_rejected)
    found = rows["Bonferroni", "0.05"]
    assert found[1] == sum(p <= 0.05 / n for p in p_values)
    assert 10 ** found[3] == pytest.approx(0.05 / n)
    without_zero = rows["paired interval without zero", "0.05"]
    assert without_zero[1] == sum(p <= 0.3 for p in p_values)


def test_the_threshold_of_378_tests_is_the_papers():
    tests = [replace(test, log10_p=-400.0) for test in family_of([0.01] * 328)]
    rows = _procedure_rows(tests + family_of([0.9] * 50))
    by_name = {row[:2]: row for row in rows}
    assert by_name["Bonferroni", "0.05"][-2] == pytest.approx(math.log10(1.32e-4), abs=1e-3)
    assert by_name["Benjamini-Hochberg", "0.05"][3] == 328
    assert by_name["Benjamini-Hochberg", "0.05"][-1] == pytest.approx(16.4)


def test_nothing_may_be_rejected():
    rows = _procedure_rows(family_of([0.5, 0.9]))
    assert [row[3] for row in rows] == [0, 0, 0, 0, 0]


def test_tests_with_no_effect_are_counted_and_listed(work, tables, monkeypatch):
    whole, streams, listed = tables
    procedure = "paired interval without zero"
    n_none = cell(whole, "not rejected", procedure=procedure)
    assert cell(whole, "tests", procedure=procedure) == 6 * 6 * 3
    assert sum(column(streams, "no detectable effect")) == n_none
    assert sum(column(streams, "tests")) == 6 * 6 * 3
    for gains, losses, none in zip(
        *(column(streams, name) for name in ("gains", "losses", "no detectable effect")),
        strict=True,
    ):
        assert gains + losses + none == 18
    assert len(listed.rows) == min(n_none, multiplicity._LISTED)
    assert all(each.low <= 0 <= each.high for each in column(listed, "gain at K, w"))
    monkeypatch.setattr(multiplicity, "_LISTED", 2)
    short = table_of(multiplicity._make(work), "multiplicity-undetected")
    assert short.rows == listed.rows[:2]
    assert short.notes == (f"{n_none} in all; {n_none - 2} more are not listed.",)


def test_a_loss_is_not_a_gain(tables, work):
    tests = _paired_tests("first", work.sweep("first", work.plan.spaces.all), 8, 10.0)
    losses = sum(test.gain.high < 0 for test in tests)
    assert losses > 0
    assert cell(tables[1], "losses", stream="first") == losses


def test_one_stream_and_one_order_are_a_family():
    plan = tiny_plan(seeds={"orders": [1]})
    work = tiny_work(without(plan, *list(plan.streams)[1:]))
    made = multiplicity._make(work)
    assert column(made[0], "tests") == [6] * 5
    assert set(work.used) == set(multiplicity._EXPERIMENT.pieces(work.plan))


def test_the_pieces_are_those_that_are_used():
    work = tiny_work()
    multiplicity._make(work)
    assert set(work.used) == set(multiplicity._EXPERIMENT.pieces(work.plan))
