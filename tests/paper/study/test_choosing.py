"""Leads, usual views, and streams to choose settings on."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from helpers.online_answers import weight_gains
from helpers.studies import tiny_plan, tiny_work

from marc.stats import Interval
from marc_paper.analysis.regrets import BatchValues
from marc_paper.study.artifacts import Estimate
from marc_paper.study.choosing import _rivals, ceilings, first_ceilings, lead_text, sources_of

NAN = math.nan
EQUAL = [each for each in product(range(12), repeat=3) if sum(each) == 12]


def test_only_streams_of_other_classes_have_few_views():
    plan = tiny_plan()
    found = {name: plan.usual_views(name) for name in plan.streams}
    assert found == {"first": 1, "second": 1, "third": 1, "fourth": 4, "fifth": 4, "sixth": 4}
    plan = tiny_plan(streams={"fourth": {"source": "x", "group": "domain", "views": 2}})
    assert plan.usual_views("fourth") == 2
    assert tiny_plan(grids={"few_views": 2}).usual_views("fifth") == 2


def test_a_lead_is_resolved_above_the_sum_of_both_errors():
    wide = {"a": Interval(0.5, 0.4, 0.6), "b": Interval(0.8, 0.7, 0.9), "c": Interval(0.1, 0, 0.2)}
    assert _rivals(wide) == []
    assert _rivals(wide | {"a": Interval(0.5, 0.29, 0.71)}) == ["a"]
    assert lead_text(wide) == "yes"
    assert lead_text(wide | {"a": Interval(0.5, 0.29, 0.71)}) == "no: a"


def test_an_unknown_error_resolves_nothing():
    assert _rivals({"a": Interval(0.9, NAN, NAN), "b": Interval(0.1, NAN, NAN)}) == ["b"]


def test_an_interval_that_is_cut_at_one_counts_with_its_whole_side():
    values = {"a": Interval(1.0, 0.8, 1.0), "b": Interval(0.85, 0.8, 0.9)}
    assert _rivals(values) == ["b"]


def test_a_mean_leaves_out_what_is_not_a_number():
    assert Estimate.mean_known([0.5, NAN, 1.0]) == 0.75
    assert math.isnan(Estimate.mean_known([NAN]))


def test_settings_are_not_chosen_on_the_same_images():
    work = tiny_work()
    sweeps = {name: work.sweep(name, ["own"]) for name in ("first", "second", "third")}
    assert sources_of(sweeps, "first") == ["second", "third"]
    sweeps["third"] = replace(sweeps["third"], images=sweeps["first"].images)
    assert sources_of(sweeps, "first") == ["second"]


def test_ceilings_of_equally_many_right_answers_tie():
    work = tiny_work()
    sweep = work.sweep("first", ["own"])
    base = int(sweep.base_correct.sum())
    right = {str(add): _right([base + each for each in add]) for add in EQUAL}
    found = ceilings(replace(sweep, intervals=right), 8)
    assert len(set(found.values())) == 1


@pytest.mark.parametrize(
    ("asked", "drawn", "said"),
    [
        ((20, 40), (20, 40), []),
        ((20, 400), (20,), ["s is too small for batches of 400."]),
        ((400, 900), (45,), ["s is too small for batches of 400, 900; batches of 45 are drawn."]),
    ],
)
def test_notes_name_sizes_that_were_asked_for_and_drawn(asked, drawn, said):
    nothing = np.zeros(0)
    assert BatchValues((), (), drawn, nothing, nothing).notes("s", asked) == said


def _right(counts):
    """So many of 90 images right at every weight, in each order; (orders, capacities, N) twice."""
    is_right = np.arange(90) < np.array(counts)[:, np.newaxis, np.newaxis]
    shape = (3, 5, 90)
    lower = np.broadcast_to(np.where(is_right, 0.0, np.inf), shape)
    return lower, np.broadcast_to(np.where(is_right, np.inf, -np.inf), shape)


def test_ceilings_and_paired_gains_are_those_of_online_runs():
    work = tiny_work()
    sweep = work.sweep("first", ["own", "best"])
    wanted = {
        space: weight_gains(work, "first", space).max(axis=1).mean() for space in ("own", "best")
    }
    assert ceilings(sweep, 8) == pytest.approx(wanted)
    assert list(ceilings(sweep, 8, ["best"])) == ["best"]
    wanted = weight_gains(work, "first", "best")[0].max()
    assert first_ceilings(sweep, 8, ["best"]) == pytest.approx({"best": wanted})
    found = Estimate.paired_gain(sweep, sweep.fixed("best", 8, 10.0))
    place = work.plan.grids.weights.index(10.0)
    by_order = weight_gains(work, "first", "best")[:, place]
    assert found.value == pytest.approx(by_order.mean())
    assert found.sd == pytest.approx(by_order.std(ddof=1))
    difference = np.mean(
        [sweep.correct("best", 8, 10.0, s) * 1.0 - sweep.base_correct for s in (0, 1, 2)], axis=0
    )
    half = 1.96 * difference.std() / math.sqrt(len(difference))
    assert found.high - found.value == pytest.approx(half, rel=1e-4)
