"""The control spaces: each number against online runs over the whole grid."""

from functools import cache

import numpy as np
import pytest
from helpers.studies import cell, column, table_of, tiny_plan, tiny_stream, tiny_work, without

from marc import MARC, run
from marc.spaces.geometry import antihub_fraction, purity
from marc.stats import paired_difference
from marc_paper.study.tables import controls
from marc_paper.study.work import Work, _Held

GRIDS = {"capacities": [1, 4, 8, 16], "weights": [0, 1, 10, 30], "dims": [2, 4]}
SPACES = {"controls": ["own", "weak", "best"]}


def small_plan(**changes):
    plan = tiny_plan(grids=GRIDS, spaces=SPACES, **changes)
    return without(plan, "third", "fourth", "fifth", "sixth")


@pytest.fixture(scope="module")
def work():
    return tiny_work(small_plan())


@pytest.fixture(scope="module")
def tables(work):
    return controls._make(work)


@pytest.fixture(scope="module")
def right(work):
    """Right answers of an online run, for each image by stored row."""

    @cache
    def answers(stream, space, capacity, weight, seed, clip_weight=0.0):
        method = MARC(space, capacity, weight, clip_weight=clip_weight)
        found = run(method, work.stream(stream).shuffled(seed))
        correct = np.empty(len(found.order), dtype=bool)
        correct[found.order] = found.correct
        return correct

    return answers


def best_total(right, plan, stream, space, capacity, seeds):
    """Right answers at each order's own best weight."""
    return sum(
        max(int(right(stream, space, capacity, w, seed).sum()) for w in plan.grids.weights)
        for seed in seeds
    )


@pytest.mark.parametrize(("stream", "other"), [("first", "second"), ("second", "first")])
@pytest.mark.parametrize("space", ["own", "weak", "best"])
def test_a_control_is_what_online_runs_give(work, tables, right, stream, other, space):
    plan, table, where = work.plan, tables[0], {"stream": stream, "space": space}
    capacities, weights, seeds = plan.grids.capacities, plan.grids.weights, plan.seeds.orders
    totals = [best_total(right, plan, stream, space, k, seeds) for k in capacities]
    capacity = capacities[int(np.argmax(totals))]
    assert cell(table, "K*", **where) == capacity

    features = work.stream(stream)
    n_images = len(features)
    base = right(stream, space, capacity, 0.0, seeds[0])
    assert cell(table, "no memory", **where) == pytest.approx(base.mean())
    fixed = [right(stream, space, capacity, 10.0, seed).mean() for seed in seeds]
    accuracy = cell(table, "accuracy at K*, w", **where)
    assert accuracy.value == pytest.approx(np.mean(fixed))
    assert accuracy.sd == pytest.approx(np.std(fixed, ddof=1))
    assert cell(table, "gain at K*, w", **where).value == pytest.approx(
        np.mean(fixed) - base.mean()
    )

    counts = np.array(
        [[right(stream, space, capacity, w, seed).sum() for w in weights] for seed in seeds]
    )
    chosen = "/".join(f"{weights[place]:g}" for place in counts.argmax(axis=1))
    assert cell(table, "w*, each order", **where) == chosen
    assert cell(table, "w*", **where) == weights[int(counts.sum(axis=0).argmax())]
    ceiling = cell(table, "G* at K*", **where)
    gains = counts.max(axis=1) / n_images - base.mean()
    assert ceiling.value == pytest.approx(gains.mean())
    assert ceiling.sd == pytest.approx(gains.std(ddof=1))

    source = [sum(right(other, space, 8, w, seed).sum() for seed in seeds) for w in weights]
    weight = weights[int(np.argmax(source))]
    assert cell(table, "w^tr", **where) == weight
    held_out = np.mean([right(stream, space, 8, weight, seed).mean() for seed in seeds])
    assert cell(table, "G^tr at K", **where).value == pytest.approx(held_out - base.mean())

    keys, labels = features.features.keys(space), features.row_labels
    assert cell(table, "purity@10", **where).value == pytest.approx(purity(keys, labels, 10))
    assert cell(table, "anti-hubs@10", **where) == pytest.approx(antihub_fraction(keys, 10))


def test_the_interval_of_a_ceiling_draws_all_orders_of_an_image_together(work, tables, right):
    plan, where = work.plan, {"stream": "first", "space": "best"}
    capacity, seeds = cell(tables[0], "K*", **where), plan.seeds.orders
    answers = np.array(
        [[right("first", "best", capacity, w, seed) for w in plan.grids.weights] for seed in seeds]
    )
    base = answers[0, 0]
    draws = np.random.default_rng(plan.seeds.draws).integers(90, size=(40, 90))
    gains = [
        np.mean([answers[place][:, drawn].mean(axis=1).max() for place in range(len(seeds))])
        - base[drawn].mean()
        for drawn in draws
    ]
    found = cell(tables[0], "G* at K*", **where)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(gains, (0.025, 0.975))))


@pytest.mark.parametrize("stream", ["first", "second"])
def test_the_span_is_the_strongest_minus_the_weakest(tables, stream):
    for name in ("G* at K*", "G^tr at K"):
        cells = [
            cell(tables[0], name, stream=stream, space=space).value
            for space in ("own", "weak", "best")
        ]
        wanted = pytest.approx(max(cells) - min(cells))
        assert cell(tables[0], name, stream=stream, space="span") == wanted


def test_every_space_stands_at_its_ceiling_of_the_first_order(work, tables, right):
    plan, table = work.plan, table_of(tables, "controls-all")
    assert column(table, "space", stream="first").__len__() == len(plan.spaces.all)
    ceilings = column(table, "G* ceiling", stream="first")
    assert ceilings == sorted(ceilings)
    for space in ("tilted", "noise"):
        where = {"stream": "first", "space": space}
        capacities, weights = plan.grids.capacities, plan.grids.weights
        totals = [best_total(right, plan, "first", space, k, [0]) for k in capacities]
        capacity = capacities[int(np.argmax(totals))]
        counts = [right("first", space, capacity, w, 0).sum() for w in weights]
        assert cell(table, "K*", **where) == capacity
        assert cell(table, "w*", **where) == weights[int(np.argmax(counts))]
        gain = max(totals) / 90 - cell(table, "no memory", **where)
        assert cell(table, "G* ceiling", **where) == pytest.approx(gain)


@pytest.mark.parametrize("weight", [1.0, 10.0])
def test_parallel_memories_are_an_online_run_with_clip_evidence(work, tables, right, weight):
    table = table_of(tables, "controls-parallel")
    seeds, where = work.plan.seeds.orders, {"K": "4", "w": f"{weight:g}"}
    single = np.stack([right("first", "own", 4, weight, seed) for seed in seeds])
    both = np.stack([right("first", "own", 4, weight, seed, 1.0) for seed in seeds])
    base = np.stack([right("first", "own", 4, 0.0, 0)] * len(seeds))
    assert cell(table, "single memory", **where).value == pytest.approx(single.mean())
    assert cell(table, "parallel memories", **where).value == pytest.approx(both.mean())
    spread = np.std(both.mean(axis=1), ddof=1)
    assert cell(table, "parallel memories", **where).sd == pytest.approx(spread)
    for name, reference in (
        ("gain of parallel memories", base),
        ("parallel minus single", single),
    ):
        found = cell(table, name, **where)
        wanted = tuple(paired_difference(both, reference))
        assert (found.value, found.low, found.high) == pytest.approx(wanted)
    assert column(table, "K") == [k for k in ("1", "4", "8", "16") for _ in range(2)]
    best = cell(tables[0], "K*", stream="first", space="own")
    assert table.notes == (f"The best capacity K* of the single memory in own is {best}.",)


def test_one_stream_and_one_order_have_no_held_out_gain():
    work = tiny_work(without(small_plan(seeds={"orders": [3]}), "second"))
    table = controls._make(work)[0]
    assert column(table, "G^tr at K") == [None] * 4
    assert table.notes
    for found in column(table, "G* at K*")[:-1]:
        assert found.sd is None
        assert found.low <= found.value <= found.high
    assert set(work.used) == set(controls._EXPERIMENT.pieces(work.plan))


def test_a_weight_is_never_chosen_on_the_same_images():
    plan = small_plan()
    stream = tiny_stream("twice", 5).with_views(4)
    table = controls._make(Work(plan, _Held(), {"first": stream, "second": stream}))[0]
    assert column(table, "G^tr at K") == [None] * 8


def test_the_pieces_are_those_that_are_used(work, tables):
    assert set(work.used) == set(controls._EXPERIMENT.pieces(work.plan))
