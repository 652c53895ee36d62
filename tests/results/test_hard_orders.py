"""Hard orders in runs, sweeps and folders: the same answers, another result, never mixed up."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.commands import PAPER, call, call_json, events, json_in, make_sources
from helpers.making import make_stream

import marc
from marc.errors import MarcError
from marc.results.folder import Folder
from marc.results.run import RunPlan
from marc.stats import worst_tenth

STREAM = replace(make_stream(n_images=90), row_domains=np.arange(90) % 3)
KINDS = ("sorted", "dirichlet:gamma=0.01", "bursts:length=4", "long-tail:ratio=5", "returning")


@pytest.fixture
def sources(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_sources(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", [marc.MARC("good", 4), marc.create_method("tda")])
def test_a_replay_gives_the_answers_of_the_run(kind, method):
    stream = STREAM.ordered(kind, seed=1)
    run, again = marc.run(method, stream), marc.replay(method, stream)
    np.testing.assert_array_equal(run.predictions, again.predictions)
    assert run.ordering == again.ordering == stream.ordering.name
    assert run.to_dict()["order"] == f"{stream.ordering.name}, seed 1"


@pytest.mark.parametrize("kind", KINDS)
def test_a_sweep_gives_the_accuracies_of_the_runs(kind, tmp_path):
    stream = STREAM.ordered(kind)
    sweep = marc.sweep(stream, ["good"], [4], [0.0, 10.0], seeds=(0, 5))
    runs = [marc.run(marc.MARC("good", 4, 10.0), stream.in_order(seed)) for seed in (0, 5)]
    assert sweep.accuracy[0, 0, 1].tolist() == [run.accuracy for run in runs]
    path = marc.save_sweep(sweep, tmp_path / "sweep", STREAM)
    loaded = marc.load_sweep(path)
    assert loaded.ordering == sweep.ordering == stream.ordering.name
    np.testing.assert_array_equal(loaded.accuracy, sweep.accuracy)
    with pytest.raises(MarcError, match="another result"):
        marc.save_sweep(marc.sweep(STREAM, ["good"], [4], [0.0, 10.0]), path, STREAM)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_run_is_loaded_again_with_its_orders(kind, tmp_path):
    stream = STREAM.ordered(kind)
    runs = [marc.run(marc.MARC("good"), stream.in_order(seed)) for seed in (0, 1)]
    for given in (STREAM, stream, stream.in_order(1)):  # whatever is at hand
        path = marc.save_run(runs, tmp_path / "run", given)
    assert json_in(path / "config.json")["ordering"] == stream.ordering.name
    loaded = marc.load_run(path)
    for run, again in zip(runs, loaded, strict=True):
        np.testing.assert_array_equal(run.order, again.order)
        np.testing.assert_array_equal(run.predictions, again.predictions)
        assert (run.seed, run.ordering) == (again.seed, again.ordering)
    assert marc.compare(path, runs).runs[0]["difference"] == 0
    gains = [run.gain for run in runs]
    assert json_in(path / "metrics.json")["worst_tenth_gain"] == pytest.approx(min(gains))


def test_orders_of_two_kinds_are_not_compared_and_not_in_one_folder(tmp_path):
    method = marc.MARC("good")
    hard, plain = marc.run(method, STREAM.ordered("sorted")), marc.run(method, STREAM.shuffled(0))
    tail = marc.run(method, STREAM.ordered("long-tail"))
    for other in (plain, tail):
        with pytest.raises(MarcError, match="orders are of different kinds") as refused:
            marc.compare(hard, other)
        assert "(sorted)" in refused.value.got
    with pytest.raises(MarcError, match="one method over distinct orders"):
        marc.save_run([hard, replace(plain, seed=1)], tmp_path / "run", STREAM)
    with pytest.raises(MarcError, match="records an order by its seed"):
        marc.save_run(replace(plain, ordering="sorted"), tmp_path / "run", STREAM)


def test_shuffled_runs_are_recorded_as_ever(sources, tmp_path):
    words = ("run", sources["labelled"], *PAPER, "--views", 1)
    plain = call_json(*words)
    assert plain["folder"] == "runs/labelled-m1-marc-classes-k16-w10"
    assert "ordering" not in plain["config"]
    hard = call_json(*words, "--order", "dirichlet")
    assert hard["folder"] == f"{plain['folder']}-dirichlet-gamma-0.1"
    assert hard["config"] == plain["config"] | {"ordering": "dirichlet:gamma=0.1"}
    stored = call_json(*words, "--order", "stored")
    assert stored["config"] == call_json(*words, "--in-order")["config"]


def test_the_kind_and_the_worst_order_are_printed(sources):
    words = (sources["labelled"], "--order", "bursts:length=4", "--space", "classes", "--views", 1)
    for verb in ("run", "sweep"):
        outcome = call(verb, *words)
        assert outcome.status == 0, outcome.err
        assert "orders: bursts:length=4" in outcome.out.splitlines()
    first = call_json("run", *words, "-o", "first")
    worst = f"{100 * min(row['gain'] for row in first['metrics']['orders']):+.2f}"
    assert f"gain {worst} points in the worst order" in call("run", *words, "-o", "first").out
    call("run", *words, "--weight", 5, "-o", "second")
    compared = call("compare", "first", "second")
    assert "orders: bursts:length=4" in compared.out.splitlines()
    assert "points in the worst order" in compared.out


def test_every_method_runs_in_a_hard_order_and_is_compared(sources):
    words = ("run", sources["labelled"], "--space", "classes", "--views", 1, "--method", "all")
    result = call_json(*words, "--order", "sorted", "--seed", 0)
    assert result["folder"] == "runs/labelled-m1-all-sorted"
    assert result["failed"] == {}
    assert {row["ordering"] for row in result["comparison"]["runs"]} == {"sorted"}


@pytest.mark.parametrize("kind", ["long-tail", "dirichlet"])
def test_a_page_is_made_of_a_run_in_a_hard_order(sources, kind):
    call(
        "run",
        sources["labelled"],
        *PAPER,
        "--order",
        kind,
        "-o",
        "run",
    )
    outcome = call("report", "run", "-o", "page.html")
    assert outcome.status == 0, outcome.err
    assert f"of the kind {kind}:" in outcome.out


@pytest.mark.parametrize("order", ["sort", "dirichlet:gamma=0", "domains", "sorted --in-order"])
def test_a_wrong_order_ends_a_command_before_anything_is_written(sources, tmp_path, order):
    for verb in ("run", "sweep"):
        outcome = call(verb, sources["labelled"], "--space", "classes", "--order", *order.split())
        assert outcome.status == 2
        assert "try:" in outcome.err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("kind", ["sorted", "long-tail"])
def test_a_run_that_was_killed_goes_on_with_the_orders_that_are_missing(tmp_path, kind):
    plan = RunPlan(STREAM.ordered(kind), (0, 1), "marc", {"space": "good"})

    def watch(name, stream, done):
        if stream.seed == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan.write(Folder.open(tmp_path / "run", plan.config()), watch)
    assert Folder.parts_done(tmp_path / "run") == ["order-0"]
    other = RunPlan(STREAM, (0, 1), "marc", {"space": "good"})
    assert Folder.differing(plan.config(), other.config())  # its parts would not be taken up
    plan.write(Folder.open(tmp_path / "run", plan.config()))
    lines = events(tmp_path / "run")
    assert [line for line in lines if line.startswith("part")] == ["part order-0", "part order-1"]
    for run, seed in zip(marc.load_run(tmp_path / "run"), (0, 1), strict=True):
        np.testing.assert_array_equal(run.order, plan.stream.in_order(seed).order)


def test_the_worst_tenth_is_the_mean_of_the_lowest_values():
    values = np.random.default_rng(0).permutation(40) / 10
    assert worst_tenth(values) == pytest.approx(np.mean([0.0, 0.1, 0.2, 0.3]))
    assert worst_tenth(values[:9]) == values[:9].min()
    with pytest.raises(MarcError, match="needs finite numbers"):
        worst_tenth([])
