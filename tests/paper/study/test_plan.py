"""Plans: what may stand in one, and what is said of what may not."""

from copy import deepcopy
from dataclasses import fields

import pytest
from helpers.repository import ROOT
from helpers.studies import PLAN, tiny_plan

from marc.errors import MarcError
from marc_paper.study.plan import (
    Draws,
    Plan,
    StreamEntry,
    Timing,
    _Benchmark,
    _Grids,
    _Seeds,
    _Spaces,
)


def changed(path, value):
    data = deepcopy(PLAN)
    *tables, name = path.split(".")
    place = data
    for table in tables:
        place = place.setdefault(table, {})
    if value is None:
        del place[name]
    else:
        place[name] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("colour", "blue", "key of the plan"),
        ("grids.capacites", [1], "key of grids"),
        ("streams.first.vews", 3, "key of streams.first"),
        ("streams.first.source", None, "streams.first lacks source"),
        ("streams.first.group", "other", "group of streams.first"),
        ("streams.first.views", 0, "views"),
        ("streams.first", "arrays/a.npz", "streams.first must be a table"),
        ("streams.a/b", {"source": "x", "group": "main"}, "name"),
        ("streams", {}, "needs streams"),
        ("streams.é", {"source": "x", "group": "main"}, "ASCII"),
        ("streams.First", {"source": "x", "group": "main"}, "twice"),
        ("streams.first.dataset", "imagenet_a", "dataset of streams.first"),
        ("draws.sizes", [5], "draws.sizes"),
        ("benchmark.methods", ["memoryless"], "method in benchmark.methods"),
        ("title", None, "the plan lacks title"),
        ("title", 3, "must be text"),
        ("spaces.own", "elsewhere", "space in spaces.own"),
        ("spaces.controls", ["elsewhere"], "space in spaces.controls"),
        ("spaces.all", ["own", "own"], "twice"),
        ("spaces.all", [], "list of one or more"),
        ("spaces", None, "the plan lacks spaces"),
        ("grids.capacities", [2, 1], "apacities"),
        ("grids.capacity", 3, "grids.capacity must be on its grid"),
        ("grids.weight", 7.5, "grids.weight must be on its grid"),
        ("grids.weights", "all", "list"),
        ("grids.views", [2, 4], "begins with 1"),
        ("grids.neighbors", [1, 10], "5 and 10"),
        ("grids.betas", [5, 2], "ascending"),
        ("grids.weights", [1, 10], "begins with 0"),
        ("grids.few_views", 0, "few_views"),
        ("grids.graph_views", 0, "graph_views"),
        ("grids.capacity", 8.5, "capacity"),
        ("seeds.orders", [0, 0], "twice"),
        ("seeds.orders", [-1], "orders"),
        ("seeds.kind", "sort", "unknown kind of order"),
        ("seeds.kind", "stored", "draws its orders by seeds"),
        ("draws.batches", 1, "batches"),
        ("draws.batches", 10**23, "batches"),
        ("draws.bootstraps", 2**63, "bootstraps"),
        ("draws.sizes", [10**30], "sizes"),
        ("streams.first.views", 2**63, "views"),
        ("grids.capacities", [1, 2**63], "apacities"),
        ("grids.neighbors", [5, 10, 2**63], "neighbors"),
        ("grids.views", [1, 2**63], "views"),
        ("seeds.orders", [10**24], "orders"),
        ("timing.images", 10**23, "images"),
        ("timing.sessions", 10**23, "sessions"),
        ("timing.sessions", 1, "sessions"),
        ("benchmark.methods", ["tda", "tda"], "twice"),
        ("benchmark.methods", ["tad"], "method in benchmark.methods"),
    ],
)
def test_what_may_not_stand_in_a_plan(path, value, words):
    with pytest.raises(MarcError, match=words):
        Plan.of(changed(path, value))


def test_a_plan_needs_a_main_stream():
    data = deepcopy(PLAN)
    for entry in data["streams"].values():
        entry["group"] = "shift"
    with pytest.raises(MarcError, match="group main"):
        Plan.of(data)


def test_groups_and_budgets():
    plan = tiny_plan()
    assert plan.main == "first"
    assert plan.group("main", "shift") == ("first", "second", "third")
    assert plan.budgets("first") == (1, 2, 4, 8)
    assert plan.budgets("third") == (1, 2, 4)


def test_what_is_left_out_is_the_papers():
    data = {name: PLAN[name] for name in ("title", "predictor", "streams", "spaces")}
    plan = Plan.of(data)
    assert plan.grids.capacities == (1, 2, 3, 4, 8, 16, 32, 64)
    assert len(plan.grids.weights) == 15
    assert plan.grids.views == (1, 2, 4, 8, 16, 32, 64)
    assert (plan.grids.capacity, plan.grids.benchmark_capacity, plan.grids.weight) == (8, 16, 10)
    assert plan.draws.batches == 300
    assert plan.draws.sizes == (250, 500, 1000, 2000)
    assert plan.seeds.orders == (0, 1, 2)
    assert (plan.timing.images, plan.timing.warm_up, plan.timing.sessions) == (3000, 100, 3)


@pytest.mark.parametrize("path", sorted(Plan.SHIPPED.glob("lab*.toml")), ids=lambda path: path.stem)
def test_plans_of_the_package_are_plans(path):
    plan = Plan.read(path)
    assert all(entry.source.startswith("lab/") for entry in plan.streams.values())


def test_files_that_are_no_plans(tmp_path):
    with pytest.raises(MarcError, match="no such plan"):
        Plan.read(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("title = ")
    with pytest.raises(MarcError, match="not TOML"):
        Plan.read(tmp_path / "bad.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(MarcError, match="not text in UTF-8"):
        Plan.read(tmp_path / "bytes.toml")
    with pytest.raises(MarcError, match="no plain file"):
        Plan.read(tmp_path)
    (tmp_path / "nested.toml").write_text("title = " + "[" * 100_000)
    with pytest.raises(MarcError, match="nested too deeply"):
        Plan.read(tmp_path / "nested.toml")


def test_every_key_is_in_the_documentation():
    text = (ROOT / "docs" / "study.md").read_text()
    tables = (_Grids, _Seeds, Draws, _Benchmark, Timing, _Spaces, StreamEntry)
    names = [field.name for table in tables for field in fields(table)]
    assert [name for name in names if f".{name}`" not in text] == []
