"""Shared work: the same numbers as the library gives one by one, each computed once."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest
from helpers.studies import SPACES, tiny_plan, tiny_stream, tiny_streams, tiny_work

import marc
from marc.spaces.geometry import measure
from marc_paper.analysis.regrets import BatchValues
from marc_paper.study.estimate import _measure_speed, _seconds_of, _Size, _size_of
from marc_paper.study.plan import Plan
from marc_paper.study.work import _RULES, Piece, Work, _answer, _Held


@pytest.fixture(scope="module")
def work():
    return tiny_work()


def test_a_sweep_is_that_of_the_library(work):
    plan = work.plan
    found = work.sweep("first", ["good", "own"], views=4, beta=2.0)
    wanted = marc.sweep(
        *(work.stream("first", 4), ["good", "own"], plan.grids.capacities, plan.grids.weights),
        seeds=plan.seeds.orders,
        beta=2.0,
    )
    np.testing.assert_array_equal(found.accuracy, wanted.accuracy)
    np.testing.assert_array_equal(found.base_accuracy, wanted.base_accuracy)
    assert found.settings == wanted.settings


@pytest.mark.parametrize("kind", ["sorted", "long-tail:ratio=4"])
def test_orders_are_of_the_kind_of_the_plan(work, kind):
    plan = tiny_plan(seeds={"kind": kind})
    hard = Work(plan, _Held(), tiny_streams(plan))
    stream = work.entry("first").with_views(1).ordered(kind)
    wanted = marc.sweep(stream, ["good"], plan.grids.capacities, plan.grids.weights)
    np.testing.assert_array_equal(hard.sweep("first", ["good"]).accuracy, wanted.accuracy)
    run = marc.run(marc.MARC("good"), stream.in_order(1))
    assert hard.run("first", "marc", 1, space="good").accuracy == run.accuracy
    for piece in hard.used:
        assert hard.file(piece) != work.file(piece)
    assert plan.as_data()["seeds"]["kind"] == kind
    assert "kind" not in work.plan.as_data()["seeds"]  # as studies were recorded before


def test_geometry_comes_back_from_the_shelf_as_it_was(work):
    plan = work.plan
    first = work.geometry("first", ["good"])["good"]
    again = work.geometry("first", ["good"])["good"]
    wanted = measure(
        work.stream("first"), "good", plan.grids.neighbors, n_replicates=plan.draws.batches
    )
    for found in (first, again):
        np.testing.assert_array_equal(found.per_class_purity, wanted.per_class_purity)
        bare = {"per_class_purity": None}
        assert dataclasses.replace(found, **bare) == dataclasses.replace(wanted, **bare)


def test_batches_of_several_spaces_are_those_of_the_library(work):
    draws = work.plan.draws
    options = {"sizes": draws.sizes, "n_replicates": draws.batches, "seed": 0}
    found = work.batches("first", ["good", "noise"])
    wanted = BatchValues.measure(work.stream("first"), ["good", "noise"], _RULES, **options)
    np.testing.assert_array_equal(found.on_all, wanted.on_all)
    np.testing.assert_array_equal(found.on_batches, wanted.on_batches)
    assert (found.spaces, found.sizes) == (wanted.spaces, wanted.sizes)


def test_a_stream_too_small_for_every_size_has_batches_of_half_of_it():
    small = tiny_work(tiny_plan(draws={"sizes": [250, 1000], "batches": 4}))
    found = small.batches("first", ["good"])
    assert found.sizes == (45,)
    assert found.on_batches.shape == (1, 4, 1, len(_RULES))


@pytest.mark.parametrize("policy", ["entropy", "retrieval_aware", "reservoir"])
def test_answers_are_those_of_the_loop_by_stored_row(work, policy):
    found = work.run("first", "marc", 1, views=2, space="good", capacity=4, policy=policy)
    stream = work.stream("first", 2).shuffled(1)
    method = marc.MARC("good", 4, policy=policy, seed=1)
    wanted = marc.run(method, stream)
    np.testing.assert_array_equal(found.predictions[stream.order], wanted.predictions)
    np.testing.assert_array_equal(found.base_predictions[stream.order], wanted.base_predictions)
    assert found.gain == pytest.approx(wanted.gain)
    assert found.accuracy == pytest.approx(wanted.accuracy)
    np.testing.assert_array_equal(found.order, stream.order)
    assert found.chosen == {}


def test_an_oracle_chooses_weights_with_the_labels(work):
    stream = work.stream("first")
    fixed = work.run("first", "cosmic", 0, space="good")
    best = work.run("first", "cosmic", 0, space="good", oracle=True)
    assert set(best.chosen) == set(marc.peers.registry.METHODS["cosmic"].searched)
    assert best.accuracy >= fixed.accuracy
    again = _answer(stream, "cosmic", 0, {"space": "good", **best.chosen})
    assert again.accuracy == pytest.approx(best.accuracy)


def test_a_piece_is_computed_once():
    kept = []

    class Counted(_Held):
        def put(self, name, arrays):
            kept.append(name)
            super().put(name, arrays)

    plan = tiny_plan()
    fresh = Work(plan, Counted(), tiny_streams(plan))
    for _ in range(2):
        fresh.sweep("first", ["good", "own"])
        fresh.run("first", "tda", 0)
    assert len(fresh.used) == 6
    assert len(kept) == len(set(kept)) == 3


def test_a_piece_is_known_by_what_decides_it(work):
    piece = Piece("sweep", "first", "good")
    same = work.file(piece)
    assert tiny_work().file(piece) == same
    for other in (
        replace(piece, space="own"),
        replace(piece, views=2),
        replace(piece, stream="second"),
        replace(piece, kind="geometry"),
        replace(piece, settings=(("beta", 2.0),)),
    ):
        assert work.file(other) != same
    fewer = tiny_plan(grids={"capacities": [1, 8, 16]})
    assert tiny_work(fewer).file(piece) != same
    shown = tiny_plan(grids={"capacity": 4, "weight": 3.0}, title="Another")
    assert tiny_work(shown).file(piece) == same
    streams = {"first": tiny_stream("first", seed=99)}
    assert Work(tiny_plan(), _Held(), streams).file(piece) != same


def test_another_space_of_a_stream_changes_no_piece_of_the_others():
    stream = tiny_stream("first", 0)
    spaces = dict(stream.features.spaces)
    spaces["weak"] = spaces["noise"]
    changed = replace(stream, features=replace(stream.features, spaces=spaces))
    files = [
        [
            Work(tiny_plan(), _Held(), {"first": each}).file(Piece("sweep", "first", space))
            for space in SPACES
        ]
        for each in (stream, changed)
    ]
    differs = [space for space, a, b in zip(SPACES, *files, strict=True) if a != b]
    assert differs == ["weak"]


def test_pieces_are_listed_by_stream_space_and_order():
    plan = tiny_plan()
    assert len(Piece.sweeps(["first", "second"], SPACES, 4, beta=2.0)) == 12
    both = Piece.sweeps(["first"], ["own"], plan.most_views, also=("geometry",))
    assert both == [Piece("sweep", "first", "own", 8), Piece("geometry", "first", "own")]
    runs = Piece.runs(plan.seeds.orders, [("first", "marc", 1, {"space": "good", "capacity": 8})])
    assert [dict(piece.settings)["seed"] for piece in runs] == [0, 1, 2]
    assert runs[0].label == "first: run marc"


def test_sizes_of_the_lab_are_known_without_drawing(monkeypatch, tmp_path):
    monkeypatch.setenv("MARC_CACHE", str(tmp_path / "cache"))
    entry = Plan.read(Plan.SHIPPED / "lab.toml").streams["sketch"]
    size = _size_of(entry, ["captions", "vicreg"])
    assert (size.n_images, dict(size.dims)) == (2000, {"captions": 128, "vicreg": 208})
    assert size.seconds > 0
    assert not (tmp_path / "cache").exists()


def test_larger_work_is_thought_to_take_longer():
    plan, speed = tiny_plan(), 1e10
    small, large = (_Size(n, 10, {"good": 64, "own": 512}, 0.0) for n in (100, 1000))
    for kind in ("sweep", "geometry", "batches"):
        piece = Piece(kind, "first", "good")
        assert _seconds_of(piece, small, plan, speed) < _seconds_of(piece, large, plan, speed)
    loop, replayed = (
        Piece("run", "first", settings=(("method", "marc"), ("policy", policy)))
        for policy in ("retrieval_aware", "entropy")
    )
    assert _seconds_of(loop, small, plan, speed) > _seconds_of(replayed, small, plan, speed)
    assert _measure_speed() > 1e6
