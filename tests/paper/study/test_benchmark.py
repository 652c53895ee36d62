"""Methods side by side, each cell against an online run."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.odd_studies import declares_its_work, odd_work
from helpers.studies import cell, column, table_of, tiny_plan, tiny_work

from marc import create_method, run
from marc.errors import MarcError
from marc_paper.study.tables import benchmark

METHODS = ["zero-shot", "zero", "tda", "cosmic", "etta", "lame"]


@pytest.fixture(scope="module")
def work():
    return tiny_work(tiny_plan(benchmark={"methods": METHODS}), n_images=60)


@pytest.fixture(scope="module")
def tables(work):
    return benchmark._make(work)


def _runs(work, stream, method, views, **settings):
    features = work.stream(stream, views)
    orders = work.plan.seeds.orders
    return [run(create_method(method, **settings), features.shuffled(seed)) for seed in orders]


def _accuracies(runs):
    return np.array([each.accuracy for each in runs])


@pytest.mark.parametrize(
    ("stream", "method", "views", "settings"),
    [
        ("first", "zero-shot", 1, {}),
        ("first", "zero", 4, {}),
        ("third", "tda", 1, {}),
        ("first", "cosmic", 8, {"space": "good"}),
        ("fourth", "cosmic", 4, {"space": "good"}),
    ],
)
def test_a_method_is_what_online_runs_give(work, tables, stream, method, views, settings):
    is_domain = stream == "fourth"
    table = table_of(tables, "benchmark-domains" if is_domain else "benchmark")
    where = {"stream": stream, "method": method}
    runs = _runs(work, stream, method, views, **settings)
    assert cell(table, "views", **where) == str(views)
    assert cell(table, "no memory", **where) == pytest.approx(runs[0].base_accuracy)
    found = cell(table, "accuracy", **where)
    assert found.value == pytest.approx(_accuracies(runs).mean())
    assert found.sd == pytest.approx(_accuracies(runs).std(ddof=1), abs=1e-12)
    ours = {"space": "good", "capacity": 8 if is_domain else 16, "weight": 10.0}
    advantage = _accuracies(_runs(work, stream, "marc", views, **ours)) - _accuracies(runs)
    found = cell(table, "MARC minus method", **where)
    assert found.value == pytest.approx(advantage.mean(), abs=1e-12)
    assert found.sd == pytest.approx(advantage.std(ddof=1), abs=1e-12)


def test_marc_stands_at_one_few_and_many_views(work, tables):
    table = table_of(tables, "benchmark")
    where = {"stream": "first", "method": "marc"}
    assert column(table, "views", **where) == ["1", "4", "8", "8"]
    assert column(table, "space", **where) == ["good", "good", "good", "best"]
    assert column(table, "views", stream="second", method="marc", space="good") == ["1", "4"]
    runs = _runs(work, "first", "marc", 8, space="best", capacity=16, weight=10.0)
    found = cell(table, "accuracy", **where, space="best")
    assert found.value == pytest.approx(_accuracies(runs).mean())
    domains = table_of(tables, "benchmark-domains")
    assert column(domains, "views", stream="fifth", method="marc") == ["1", "4"]
    assert set(column(domains, "stream")) == {"fourth", "fifth", "sixth", "mean"}
    assert (table.settings["capacity"], domains.settings["capacity"]) == (16, 8)


def test_means_are_over_all_streams_of_a_table(tables):
    table = table_of(tables, "benchmark")
    streams = ("first", "second", "third")
    for name in ("accuracy", "gain", "MARC minus method"):
        values = [cell(table, name, stream=each, method="tda").value for each in streams]
        found = cell(table, name, stream="mean", method="tda")
        assert found.value == pytest.approx(np.mean(values), abs=1e-12)
    assert cell(table, "views", stream="mean", method="cosmic") == "4 to 8"
    many = {"stream": "mean", "method": "marc", "space": "best"}
    values = [
        cell(table, "accuracy", stream=stream, method="marc", space="best").value
        for stream in streams
    ]
    assert cell(table, "accuracy", **many).value == pytest.approx(np.mean(values))


def test_a_method_that_refuses_is_named_with_its_reason(tables):
    table = table_of(tables, "benchmark")
    assert "etta" not in column(table, "method")
    [note] = table.notes
    assert note.startswith("etta has no row for first, second, third: ")
    assert "prompts" in note


def test_what_methods_use_comes_from_their_cards(tables):
    table = table_of(tables, "benchmark-methods")
    assert column(table, "method") == [*METHODS, "marc"]
    assert cell(table, "second encoder", method="cosmic") == "yes"
    assert cell(table, "order", method="tda") == "stores, then answers"
    assert cell(table, "order", method="marc") == "answers, then stores"
    assert cell(table, "sees", method="lame") == "a batch"


def test_published_settings_are_used_and_told():
    plan = tiny_plan(benchmark={"methods": ["tda", "dmn-zs"], "published": "imagenet-r"})
    work = tiny_work(plan, n_images=40)
    tables = benchmark._make(work)
    methods = table_of(tables, "benchmark-methods")
    assert cell(methods, "settings here", method="tda") == "published for imagenet-r"
    assert cell(methods, "settings here", method="dmn-zs") == "its defaults"
    stream = work.stream("first")
    made = [create_method("tda", published="imagenet-r") for _ in range(3)]
    found = [run(each, stream.shuffled(seed)).accuracy for seed, each in enumerate(made)]
    accuracy = cell(table_of(tables, "benchmark"), "accuracy", stream="first", method="tda")
    assert accuracy.value == pytest.approx(np.mean(found))


def test_an_unknown_method_is_an_error():
    plan = tiny_plan()
    plan = replace(plan, benchmark=replace(plan.benchmark, methods=("tad",)))
    work = tiny_work(plan, n_images=30)
    with pytest.raises(MarcError, match="unknown method"):
        benchmark._make(work)
    with pytest.raises(MarcError, match="unknown method"):
        benchmark._EXPERIMENT.pieces(work.plan)


def test_it_declares_its_work_and_takes_an_odd_plan():
    plan = tiny_plan(benchmark={"methods": [*METHODS, "marc"]})
    assert declares_its_work(benchmark._EXPERIMENT, tiny_work(plan, n_images=30))
    odd = odd_work(benchmark={"methods": ["tda", "zero"]})
    assert declares_its_work(benchmark._EXPERIMENT, odd)
    tables = benchmark._make(odd)
    assert [each.name for each in tables] == ["benchmark", "benchmark-methods"]
    assert column(tables[0], "method") == ["tda", "zero", "marc", "marc"]
    assert column(tables[0], "stream") == ["first"] * 4


def test_calibration_stands_beside_accuracy(work, tables):
    table, where = table_of(tables, "benchmark"), {"stream": "third", "method": "tda"}
    found = [each.calibration() for each in _runs(work, "third", "tda", 1)]
    for name, key in (("ECE", "ece"), ("log-loss, no memory", "base_log_loss")):
        expected = np.mean([each[key] for each in found])
        assert cell(table, name, **where) == pytest.approx(expected, abs=1e-4)
    votes = {"stream": "first", "method": "zero"}
    assert cell(table, "ECE", **votes) is None  # votes are no probabilities
