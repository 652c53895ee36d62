"""Admission policies and the controls of the protocol, against online runs."""

import numpy as np
import pytest
from helpers.odd_studies import declares_its_work, odd_work
from helpers.studies import cell, column, tiny_plan, tiny_work

from marc import MARC, run
from marc.admission import POLICIES
from marc.scores import VIEW_ENTROPIES
from marc_paper.study.tables import policies, protocol_controls


@pytest.fixture(scope="module")
def work():
    """Small capacities, so that policies have something to decide."""
    return tiny_work(tiny_plan(grids={"capacity": 2, "benchmark_capacity": 4}))


@pytest.fixture(scope="module")
def table(work):
    [found] = policies._make(work)
    return found


@pytest.fixture(scope="module")
def controls(work):
    [found] = protocol_controls._make(work)
    return found


def _accuracies(work, **settings):
    """The reservoir draws anew in each order; no other policy draws at all."""
    features = work.stream("first")
    orders = work.plan.seeds.orders
    return np.array(
        [run(MARC(weight=10.0, seed=o, **settings), features.shuffled(o)).accuracy for o in orders]
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_is_what_online_runs_give(work, table, policy):
    base = float((work.stream("first").features.base.label == work.labels("first")).mean())
    low = _accuracies(work, space="good", capacity=4, policy=policy)
    high = _accuracies(work, space="best", capacity=4, policy=policy)
    assert cell(table, "no memory", policy=policy) == pytest.approx(base)
    for name, accuracies in (("deployed", low), ("strong", high)):
        found = cell(table, name, policy=policy)
        assert found.value == pytest.approx(accuracies.mean())
        assert found.sd == pytest.approx(np.std(accuracies, ddof=1))
        gain = cell(table, f"gain, {name}", policy=policy)
        assert gain.value == pytest.approx(accuracies.mean() - base)
    gap = cell(table, "gap", policy=policy)
    assert gap.value == pytest.approx((high - low).mean(), abs=1e-12)
    assert gap.sd == pytest.approx(np.std(high - low, ddof=1))
    assert gap.low <= gap.value <= gap.high


def test_the_mean_of_the_policies_has_no_interval(table):
    gaps = [cell(table, "gap", policy=policy).value for policy in POLICIES]
    found = cell(table, "gap", policy="mean of the policies")
    assert found.value == pytest.approx(np.mean(gaps))
    assert found.low is None
    assert len(table.rows) == len(POLICIES) + 1


@pytest.mark.parametrize(
    ("variant", "space", "capacity", "settings"),
    [
        ("posterior", "good", 2, {"view_entropy": "posterior"}),
        ("retrieval_aware", "good", 4, {"policy": "retrieval_aware"}),
        ("retrieval_aware", "best", 4, {"policy": "retrieval_aware"}),
    ],
)
def test_a_control_changes_one_setting(work, controls, variant, space, capacity, settings):
    where = {"variant is": variant, "space": space}
    before = _accuracies(work, space=space, capacity=capacity)
    after = _accuracies(work, space=space, capacity=capacity, **settings)
    assert cell(controls, "K", **where) == str(capacity)
    assert cell(controls, "reference", **where).value == pytest.approx(before.mean())
    assert cell(controls, "variant", **where).value == pytest.approx(after.mean())
    found = cell(controls, "change", **where)
    assert found.value == pytest.approx((after - before).mean(), abs=1e-12)
    assert found.sd == pytest.approx(np.std(after - before, ddof=1))


def test_the_defaults_are_named_as_references(controls):
    assert set(column(controls, "reference is")) == {MARC("s").view_entropy, MARC("s").policy}
    assert len(controls.rows) == 3


def test_the_reading_that_is_left_out_is_another_one_s_at_one_view(work):
    scores = work.stream("first").features.base
    left_out = {*VIEW_ENTROPIES} - {"double_softmax", "posterior"}
    assert left_out == {"tda"}
    np.testing.assert_array_equal(scores.entropy_as("tda"), scores.entropy_as("posterior"))


@pytest.mark.parametrize("experiment", [policies._EXPERIMENT, protocol_controls._EXPERIMENT])
def test_they_declare_their_work_and_take_odd_plans(experiment):
    assert declares_its_work(experiment, tiny_work(n_images=30))
    same = {"all": ["own", "good"], "controls": ["own"], "own": "own"}
    work = odd_work(spaces={**same, "deployed": "good", "strong": "good"})
    assert declares_its_work(experiment, work)
    [table] = experiment.make(work)
    assert table.rows
