"""Optional components, each step against online runs."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.odd_studies import declares_its_work, odd_work
from helpers.studies import cell, column, tiny_plan, tiny_stream, tiny_work

from marc import MARC, run
from marc_paper.study.tables import components
from marc_paper.study.work import Work, _Held

USUAL = {"space": "good", "capacity": 4, "weight": 10.0}
STEPS = {
    "reduced system": {},
    "refinement": {"refine_labels": True},
    "negative memory": {"refine_labels": True, "negative_weight": 0.117},
    "adaptive fusion": {"refine_labels": True, "negative_weight": 0.117, "gamma": 1.0},
    "strict one memory": {"admission_capacity": 0},
}


@pytest.fixture(scope="module")
def work():
    """A small capacity and unsure logits, so that the CLIP memory has something to decide."""
    plan = tiny_plan(grids={"benchmark_capacity": 4})
    streams = {
        name: _unsure(tiny_stream(name, seed)).with_views(entry.views)
        for seed, (name, entry) in enumerate(plan.streams.items())
    }
    return Work(plan, _Held(), streams)


def _unsure(stream):
    predictor = replace(stream.features.predictor, logit_scale=4.0)
    return replace(stream, features=replace(stream.features, predictor=predictor))


@pytest.fixture(scope="module")
def table(work):
    [found] = components._make(work)
    return found


def _accuracies(work, stream, views, step):
    features = work.stream(stream, views)
    method = MARC(**USUAL, **STEPS[step])
    return [run(method, features.shuffled(seed)).accuracy for seed in work.plan.seeds.orders]


@pytest.mark.parametrize(("stream", "views"), [("first", 1), ("third", 1), ("first", 8)])
@pytest.mark.parametrize("step", STEPS)
def test_a_step_is_what_online_runs_give(work, table, stream, views, step):
    accuracies = _accuracies(work, stream, views, step)
    where = {"stream": stream, "views": str(views), "component": step}
    found = cell(table, "accuracy", **where)
    assert found.value == pytest.approx(np.mean(accuracies))
    assert found.sd == pytest.approx(np.std(accuracies, ddof=1))
    base = np.mean(work.stream(stream, views).features.base.label == work.labels(stream))
    assert cell(table, "no memory", **where) == pytest.approx(base)
    assert cell(table, "gain", **where).value == pytest.approx(np.mean(accuracies) - base)


def test_a_change_is_that_from_the_step_before(work, table):
    names = list(STEPS)
    assert cell(table, "change", stream="first", views="1", component=names[0]) is None
    before = {"strict one memory": "reduced system"}
    for place, step in enumerate(names[1:]):
        now, then = (
            np.array(_accuracies(work, "first", 1, name))
            for name in (step, before.get(step, names[place]))
        )
        found = cell(table, "change", stream="first", views="1", component=step)
        assert found.value == pytest.approx((now - then).mean(), abs=1e-12)
        assert found.sd == pytest.approx(np.std(now - then, ddof=1))
        assert found.low <= found.value <= found.high


def test_the_mean_is_over_main_and_shift_streams(table):
    for step in STEPS:
        changes = [
            cell(table, "accuracy", stream=stream, views="1", component=step).value
            for stream in ("first", "second", "third")
        ]
        found = cell(table, "accuracy", stream="mean", component=step)
        assert found.value == pytest.approx(np.mean(changes))
    assert set(column(table, "stream")) == {"first", "second", "third", "mean"}


def test_what_the_paper_does_not_print_is_told(table):
    assert (table.settings["negative_weight"], table.settings["gamma"]) == (0.117, 1.0)
    assert "lambda_- = 0.117" in table.caption
    assert "gamma = 1; the paper prints neither" in table.caption


def test_it_declares_its_work_and_takes_an_odd_plan(work):
    assert declares_its_work(components._EXPERIMENT, tiny_work(n_images=30))
    odd = odd_work()
    assert declares_its_work(components._EXPERIMENT, odd)
    [table] = components._make(odd)
    assert column(table, "component") == list(STEPS)
    assert all(each.sd is None for each in column(table, "accuracy"))
