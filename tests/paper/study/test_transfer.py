"""Weights chosen elsewhere: each number against online runs at every weight."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.online_answers import weight_gains
from helpers.studies import cell, column, table_of, tiny_plan, tiny_work, without

from marc import MARC, run
from marc.replay.sweep import Score
from marc.spaces import geometry
from marc.stats import spearman
from marc_paper.study.tables import transfer

CONTROLS = ["noise", "own", "weak", "good", "best"]
DOMAIN = ("fourth", "fifth", "sixth")
NEAR = ("first", "second", "third")


@pytest.fixture(scope="module")
def work():
    return tiny_work()


@pytest.fixture(scope="module")
def tables(work):
    return transfer._make(work)


def direct(work, stream, sources, space, weight):
    """Whether a weight is best on the sources' mean curve; by order oracle and held-out gains."""
    views = 4 if stream in DOMAIN else 1
    curve = np.mean(
        [weight_gains(work, each, space, views).mean(axis=0) for each in sources], axis=0
    )
    here = weight_gains(work, stream, space, views)
    place = work.plan.grids.weights.index(weight)
    return curve[place] == pytest.approx(curve.max()), here.max(axis=1), here[:, place]


def pure(work, stream, space):
    features = work.stream(stream)
    return geometry.purity(features.features.keys(space), features.row_labels, 10)


CASES = [
    ("transfer-pairs", "second", "first", ["second"]),
    ("transfer-pairs", "first", "second", ["first"]),
    *(
        ("transfer-domain", transfer._DOMAINS, each, [other for other in DOMAIN if other != each])
        for each in DOMAIN
    ),
    *(
        ("transfer-shift", transfer._SHIFTS, each, [other for other in NEAR if other != each])
        for each in NEAR
    ),
]


@pytest.mark.parametrize(("name", "chosen_on", "stream", "sources"), CASES)
def test_cells_and_ranks_are_what_online_runs_give(work, tables, name, chosen_on, stream, sources):
    where = {"chosen on": chosen_on, "stream": stream}
    means = {"oracle": [], "held-out": []}
    for space in CONTROLS:
        at = {**where, "space": space}
        table = table_of(tables, name)
        is_best, oracle, held_out = direct(work, stream, sources, space, cell(table, "w", **at))
        assert is_best
        for column_name, values in (
            ("G*", oracle),
            ("gain", held_out),
            ("cost", oracle - held_out),
        ):
            found = cell(table, column_name, **at)
            assert found.value == pytest.approx(values.mean(), abs=1e-12)
            assert found.sd == pytest.approx(values.std(ddof=1), abs=1e-12)
        assert cell(table, "views", **at) == ("4" if stream in DOMAIN else "1")
        assert cell(table, "purity@10", **at) == pytest.approx(pure(work, stream, space))
        means["oracle"].append(oracle.mean())
        means["held-out"].append(held_out.mean())
    ranked = table_of(tables, "transfer-ranked")
    purities = [pure(work, stream, space) for space in CONTROLS]
    spans = [max(each) - min(each) for each in means.values()]
    assert cell(ranked, "span of G*", **where) == pytest.approx(spans[0])
    assert cell(ranked, "span", **where) == pytest.approx(spans[1])
    assert cell(ranked, "cost of span", **where) == pytest.approx(spans[0] - spans[1])
    for name, key in (("correlation of G*", "oracle"), ("correlation", "held-out")):
        assert cell(ranked, name, **where) == pytest.approx(spearman(purities, means[key]))


@pytest.mark.parametrize(
    ("family", "name", "n_streams"),
    [
        (transfer._PAIRS, "pairs", 2),
        (transfer._DOMAINS, "domain", 3),
        (transfer._SHIFTS, "shift", 3),
    ],
)
def test_the_summary_follows_from_the_cells(tables, family, name, n_streams):
    table, summary = table_of(tables, f"transfer-{name}"), table_of(tables, "transfer-summary")
    where = {"chosen on": family}
    costs = [each.value for each in column(table, "cost")]
    lowest = [each.value for each in column(table, "gain")]
    names = [
        f"{stream}, {space}"
        for stream, space in zip(column(table, "stream"), column(table, "space"), strict=True)
    ]
    assert cell(summary, "cells", **where) == 5 * n_streams == len(costs)
    assert cell(summary, "mean cost", **where) == pytest.approx(np.mean(costs))
    assert cell(summary, "largest cost", **where) == max(costs)
    assert cell(summary, "largest cost at", **where) == names[int(np.argmax(costs))]
    assert cell(summary, "lowest gain", **where) == min(lowest)
    assert cell(summary, "lowest gain at", **where) == names[int(np.argmin(lowest))]
    ranked = table_of(tables, "transfer-ranked")
    streams = set(column(table, "chosen on"))
    rows = [v for each in streams for v in column(ranked, "correlation", **{"chosen on": each})]
    assert cell(summary, "streams", **where) == n_streams
    assert cell(summary, "mean correlation", **where) == pytest.approx(np.mean(rows))
    assert cell(summary, "streams above zero", **where) == sum(each > 0 for each in rows)


def test_streams_whose_ranks_do_not_hold_are_not_counted():
    def found(stream, gains):
        scores = {
            space: Score("held_out", space, 8, (1.0,), (0.5 + gain,), (0.5,))
            for space, gain in zip("abc", gains, strict=True)
        }
        pure = {"a": 0.1, "b": 0.2, "c": 0.3}
        return transfer._Transfer("others", stream, 1, pure, scores, scores)

    rows = [found("up", (0.1, 0.2, 0.3)), found("down", (0.3, 0.2, 0.1)), found("flat", (0, 0, 0))]
    names = [each.name for each in transfer._SUMMARY]
    row = dict(zip(names, transfer._summary_row("others", rows), strict=True))
    assert (row["streams"], row["streams above zero"], row["mean correlation"]) == (3, 1, 0)


def test_three_main_streams_are_six_pairs():
    entry = {"source": "x", "group": "main", "views": 4}
    plan = without(tiny_plan(streams={"third": entry}), *DOMAIN)
    tables = transfer._make(tiny_work(plan))
    summary = table_of(tables, "transfer-summary")
    assert cell(summary, "cells", **{"chosen on": transfer._PAIRS}) == 6 * 5
    assert cell(summary, "streams", **{"chosen on": transfer._PAIRS}) == 6
    assert cell(summary, "cells", **{"chosen on": transfer._SHIFTS}) == 3 * 5


def test_families_without_two_streams_are_left_out():
    plan = tiny_plan()
    assert list(transfer._families(without(plan, "third", *DOMAIN))) == [transfer._PAIRS]
    assert list(transfer._families(without(plan, "second", *DOMAIN))) == [transfer._SHIFTS]
    alone = without(plan, "second", "third", "fifth", "sixth")
    assert "there is none" in transfer._EXPERIMENT.missing(alone)
    assert transfer._EXPERIMENT.missing(plan) == ""


def test_streams_of_the_same_images_choose_nothing_for_each_other():
    work = tiny_work(without(tiny_plan(), "third", *DOMAIN))
    sweep = work.sweep
    images = sweep("first", ["own"]).images
    work.sweep = lambda *given: replace(sweep(*given), images=images)
    assert transfer._make(work) == []


@pytest.mark.parametrize("left_out", [(), ("second",), ("third", *DOMAIN), ("fifth", "sixth")])
def test_its_pieces_are_those_it_uses(left_out):
    plan = without(tiny_plan(seeds={"orders": [0]}), *left_out)
    work = tiny_work(plan)
    tables = transfer._make(work)
    assert set(work.used) == set(transfer._EXPERIMENT.pieces(plan))
    assert all(each.sd is None for each in column(tables[0], "cost"))


def test_online_runs_have_the_printed_baseline(work, tables):
    for stream in ("first", "second"):
        base = run(MARC("own", 1, 0.0), work.stream(stream)).base_accuracy
        found = column(table_of(tables, "transfer-pairs"), "no memory", stream=stream)
        assert found == pytest.approx([base] * 5)
        ranked = column(table_of(tables, "transfer-ranked"), "no memory", stream=stream)
        assert ranked == pytest.approx([base] * 2)
