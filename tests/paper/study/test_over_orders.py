"""What tables of systems share, against plain arithmetic and the methods' own refusals."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers.studies import tiny_plan, tiny_stream, tiny_work

from marc import create_method, run
from marc.errors import MarcError
from marc.peers.registry import METHODS
from marc.stream.predictor import PromptEmbeddings
from marc_paper.study.artifacts import Estimate
from marc_paper.study.plan import _FEWEST_VIEWS, Plan
from marc_paper.study.tables.over_orders import Mean, Runs


def _half(differences):
    return 1.959963984540054 * np.std(differences) / math.sqrt(len(differences))


def test_a_difference_of_one_stream_averages_orders_before_images():
    draw = np.random.default_rng(0)
    correct, reference = (draw.random((3, 50)) < share for share in (0.7, 0.5))
    found = Estimate.over_streams([(correct, reference)])
    by_image = correct.mean(axis=0) - reference.mean(axis=0)
    by_order = correct.mean(axis=1) - reference.mean(axis=1)
    assert found.value == pytest.approx(by_image.mean())
    assert found.sd == pytest.approx(np.std(by_order, ddof=1))
    assert found.high - found.value == pytest.approx(_half(by_image))
    assert found.value - found.low == pytest.approx(_half(by_image))


def test_a_difference_over_streams_weighs_each_stream_the_same():
    draw = np.random.default_rng(1)
    pairs = [tuple(draw.random((2, n)) < share for share in (0.8, 0.4)) for n in (30, 90)]
    found = Estimate.over_streams(pairs)
    means = [(a.mean(axis=1) - b.mean(axis=1)) for a, b in pairs]
    halves = [_half(a.mean(axis=0) - b.mean(axis=0)) for a, b in pairs]
    assert found.value == pytest.approx(np.mean(means))
    assert found.sd == pytest.approx(np.std((means[0] + means[1]) / 2, ddof=1))
    assert found.high - found.value == pytest.approx(math.sqrt(sum(h * h for h in halves)) / 2)


def test_runs_are_those_of_the_loop():
    work = tiny_work()
    settings = {"space": "best", "capacity": 4, "weight": 3.0}
    found = Runs.of(work, "second", "marc", 2, **settings)
    stream = work.stream("second", 2)
    runs = [run(create_method("marc", **settings), stream.shuffled(seed)) for seed in (0, 1, 2)]
    accuracies = [each.accuracy for each in runs]
    assert found.accuracy.value == pytest.approx(np.mean(accuracies))
    assert found.accuracy.sd == pytest.approx(np.std(accuracies, ddof=1))
    assert found.no_memory == pytest.approx(runs[0].base_accuracy)
    assert found.gain.value == pytest.approx(np.mean([each.gain for each in runs]))
    other = Runs.of(work, "second", "marc", 2, **settings, gamma=1.0)
    assert other.against(found).value == pytest.approx(other.accuracy.value - np.mean(accuracies))
    both = Mean([found, other]).accuracy
    pairs = zip(found.answers, other.answers, strict=True)
    by_order = [(a.accuracy + b.accuracy) / 2 for a, b in pairs]
    assert both.value == pytest.approx(np.mean(by_order))
    assert both.sd == pytest.approx(np.std(by_order, ddof=1))


def test_averages_leave_out_what_the_paper_leaves_out():
    plan = tiny_plan()
    assert plan.averages(("first",)) == {}
    assert plan.averages(("first", "second")) == {"mean": ("first", "second")}
    names, groups = {"second": "imagenet-val"}, {"fourth": "extra"}
    streams = {
        name: replace(entry, dataset=names.get(name, ""), group=groups.get(name, entry.group))
        for name, entry in plan.streams.items()
    }
    plan = replace(plan, streams=streams)
    found = plan.averages(("first", "second", "third"))
    assert found == {"mean": ("first", "second", "third"), "mean, shifts": ("first", "third")}
    found = plan.averages(("fourth", "fifth", "sixth"))
    assert found["mean, without extra"] == ("fifth", "sixth")
    assert plan.averages(("first", "second")) == {"mean": ("first", "second")}


def _with_prompts(stream, count=5):
    """A stream whose classes have some prompts, all alike: etta asks for them."""
    predictor = stream.features.predictor
    rows = np.repeat(predictor.prototypes, count, axis=0)
    prompts = PromptEmbeddings(np.repeat(np.arange(predictor.n_classes), count), lambda: rows)
    predictor = replace(predictor, prompts=prompts)
    return replace(stream, features=replace(stream.features, predictor=predictor))


@pytest.mark.parametrize("method", [*_FEWEST_VIEWS, "cosmic"])
def test_the_fewest_views_are_where_a_method_stops_to_refuse(method):
    stream = _with_prompts(tiny_stream("views", 5, n_images=6, n_views=10))
    settings = {"space": "good"} if "space" in METHODS[method].needs else {}
    taken, reasons = [], []
    for views in range(1, 11):
        made = create_method(method, **settings)
        try:
            made.step(next(iter(stream.with_views(views))))
            taken.append(views)
        except MarcError as error:
            reasons.append(error.problem)
    fewest = _FEWEST_VIEWS.get(method, 2)
    assert taken == [1, *range(fewest, 11)]
    assert all("views" in reason for reason in reasons)


def test_views_are_few_where_a_method_takes_them_else_many_else_one():
    plan = tiny_plan()
    assert plan.method_views("first", "zero-shot") == 1
    assert plan.method_views("first", "zero") == 4
    assert plan.method_views("first", "cosmic") == 8
    assert plan.method_views("second", "cosmic") == 4
    assert plan.method_views("first", "tda") == 1
    first = {"source": "arrays/first.npz", "group": "main", "views": 16}
    plan = tiny_plan(streams={"first": first}, grids={"views": [1, 2, 4, 8, 16], "few_views": 2})
    assert plan.method_views("first", "tda") == 16
    assert plan.method_views("first", "zero") == 16
    with pytest.raises(MarcError, match="unknown method"):
        plan.method_views("first", "tad")


def test_published_settings_are_taken_where_a_method_has_them():
    plan = tiny_plan(benchmark={"published": "imagenet-a"})
    assert plan.peer_settings("tda") == {"published": "imagenet-a"}
    assert plan.peer_settings("cosmic") == {"space": "good", "published": "imagenet-a"}
    assert plan.peer_settings("dmn-zs") == {}
    assert Plan.peer_settings(tiny_plan(), "tda") == {}
