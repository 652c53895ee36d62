"""How geometry ranks spaces: against online runs, plain ranks and batches drawn outside a study."""

import numpy as np
import pytest
from helpers.studies import cell, column, table_of, tiny_plan, tiny_work, without
from scipy.stats import spearmanr

from marc import MARC, run
from marc.spaces.geometry import purity
from marc_paper.analysis.regrets import BatchRegret
from marc_paper.study.tables import correlations
from marc_paper.study.tables.correlations import _parts_by_gain

# purity@10 and G* of sixteen spaces on ImageNet-A, as published
PUBLISHED = {
    "DINOv2-L": (67.3, 19.36),
    "DINOv2-B": (48.9, 10.27),
    "DINOv3-B": (44.6, 6.49),
    "DINOv2-S": (26.1, 1.24),
    "DINO v1": (16.8, 0.05),
    "DeiT-III": (46.1, 8.01),
    "Supervised": (35.0, 4.43),
    "ConvNeXt-B": (31.0, 2.85),
    "ResNet-50": (12.3, 0.04),
    "CLIP-L": (42.8, 5.52),
    "EVA-02": (38.9, 4.15),
    "SigLIP": (29.5, 0.99),
    "OpenCLIP": (24.3, 0.76),
    "CLIP": (29.7, 0.44),
    "MAE": (3.2, 0.03),
    "BEiT": (19.1, 0.00),
}


def plan_with_predictor(**changes):
    entry = {"source": "arrays/other.npz", "group": "predictor", "predictor": "other"}
    plan = tiny_plan(streams={"seen-by-other": entry}, **changes)
    return without(plan, "third", "fourth", "fifth", "sixth")


@pytest.fixture(scope="module")
def work():
    return tiny_work(plan_with_predictor())


@pytest.fixture(scope="module")
def tables(work):
    return correlations._make(work)


@pytest.fixture(scope="module")
def gains(work):
    """By stream, space and order: right answers at the best weight, for each capacity."""
    weights, seeds = work.plan.grids.weights, work.plan.seeds.orders
    return {
        (stream, space, seed): {
            capacity: max(
                int(run(MARC(space, capacity, w), shuffled).correct.sum()) for w in weights
            )
            for capacity in ((1, 2, 4, 8, 16) if stream == "first" else (8,))
        }
        for stream in work.plan.streams
        for space in work.plan.spaces.all
        for seed in (seeds if stream == "first" else (0,))
        for shuffled in [work.stream(stream).shuffled(seed)]
    }


def pure(work, stream):
    features = work.stream(stream)
    keys, labels = features.features.keys, features.row_labels
    return {space: purity(keys(space), labels, 10) for space in work.plan.spaces.all}


def outcome(work, gains, stream, seed, spaces=None):
    base = work.stream(stream).features.base.label == work.labels(stream)
    return {
        space: (gains[stream, space, seed][8] - base.sum()) / len(base)
        for space in spaces or work.plan.spaces.all
    }


@pytest.mark.parametrize("measure", ["purity@10", "antihub_fraction@10"])
def test_controls_are_ranked_by_ceilings_and_best_capacities(work, tables, gains, measure):
    ceilings, capacities = {}, {}
    for space in work.plan.spaces.controls:
        totals = {
            k: sum(gains["first", space, seed][k] for seed in (0, 1, 2)) for k in (1, 2, 4, 8, 16)
        }
        capacities[space] = min(totals, key=lambda k: (-totals[k], k))
        ceilings[space] = totals[capacities[space]]
    where = {"stream": "first", "measure": measure}
    for name, outcomes in (("with ceiling", ceilings), ("with K*", capacities)):
        judged = BatchRegret.by_rule(
            work.stream("first"), outcomes, ["purity@10", measure], sizes=(20, 40), n_replicates=8
        )[measure]
        found = cell(tables[0], f"{name}, all images", **where)
        assert found == pytest.approx(judged.choice.rank_correlation, nan_ok=True)
        batches = cell(tables[0], f"{name}, batches", **where)
        wanted = judged.rank_correlation[40]
        assert batches.value == pytest.approx(wanted.estimate, nan_ok=True)
        if not np.isnan(wanted.estimate):
            assert (batches.low, batches.high) == pytest.approx(wanted[1:])
    assert cell(tables[0], "images of a batch", **where) == 40
    assert cell(tables[0], "spaces", **where) == 5


def test_every_order_has_its_own_ranking(work, tables, gains):
    table, measured = table_of(tables, "correlations-orders"), pure(work, "first")
    rhos, highest = [], []
    for seed in (0, 1, 2):
        found = outcome(work, gains, "first", seed)
        where = {"stream": "first", "order": str(seed)}
        rhos.append(spearmanr([measured[s] for s in found], list(found.values())).statistic)
        highest.append(max(found.values()))
        assert cell(table, "correlation", **where) == pytest.approx(rhos[-1])
        assert cell(table, "G* of leader", **where) == pytest.approx(highest[-1])
        assert found[cell(table, "leader", **where)] == highest[-1]
        chosen = max(measured, key=measured.get)
        assert cell(table, "chosen", **where) == chosen
        assert cell(table, "regret", **where) == pytest.approx(highest[-1] - found[chosen])
    base = work.stream("first").features.base.label == work.labels("first")
    assert column(table, "no memory", stream="first") == pytest.approx([base.mean()] * 4)
    where = {"stream": "first", "order": "mean"}
    assert cell(table, "correlation", **where).value == pytest.approx(np.mean(rhos))
    leader = cell(table, "G* of leader", **where)
    assert leader.value == pytest.approx(np.mean(highest))
    assert leader.sd == pytest.approx(np.std(highest, ddof=1))


def test_the_leader_is_not_what_a_wrong_measure_chooses(work, gains):
    found = outcome(work, gains, "first", 0)
    geometry = work.geometry("first", work.plan.spaces.all)
    wrong = geometry | {"noise": geometry["best"], "best": geometry["noise"]}
    sweep = work.sweep("first", work.plan.spaces.all)
    row, *_ = correlations._order_rows("first", sweep, wrong, 8)
    assert row[4:7] == ("best", pytest.approx(found["best"]), "noise")
    assert row[7] == pytest.approx(found["best"] - found["noise"])
    assert row[7] > 0


def test_published_gains_have_the_published_parts_and_ranks():
    sets = _parts_by_gain({space: gain / 100 for space, (_, gain) in PUBLISHED.items()})
    assert {name: len(part) for name, part in sets.items()} == {
        "all": 16,
        "positive gain": 15,
        "near-matched": 6,
    }
    for name, wanted in (("all", 0.959), ("positive gain", 0.971), ("near-matched", 0.943)):
        part = sets[name]
        found = spearmanr([PUBLISHED[space][0] for space in part], list(part.values()))
        assert found.statistic == pytest.approx(wanted, abs=5e-4)


def test_small_parts_are_left_out():
    assert list(_parts_by_gain({"a": 0.0, "b": 0.0, "c": 0.0, "d": 0.0})) == ["all"]
    assert list(_parts_by_gain({"a": 0.2, "b": 0.1, "c": 0.1, "d": 0.0})) == [
        "all",
        "positive gain",
    ]


@pytest.mark.parametrize("stream", ["first", "second", "seen-by-other"])
def test_checks_rank_parts_with_every_predictor(work, tables, gains, stream):
    table, found = table_of(tables, "correlations-checks"), outcome(work, gains, stream, 0)
    measured = pure(work, stream)
    predictor = "other" if stream == "seen-by-other" else "tiny"
    assert set(column(table, "predictor", stream=stream)) == {predictor}
    parts = {"all": list(found), "positive gain": [s for s in found if found[s] > 0]}
    for name, spaces in parts.items():
        where = {"stream": stream, "set": name}
        rho = spearmanr([measured[s] for s in spaces], [found[s] for s in spaces]).statistic
        assert cell(table, "spaces", **where) == len(spaces)
        assert cell(table, "correlation", **where) == pytest.approx(rho)
        assert cell(table, "lowest G*", **where) == pytest.approx(min(found[s] for s in spaces))
        assert cell(table, "highest G*", **where) == pytest.approx(max(found.values()))
        chosen = max(spaces, key=lambda s: measured[s])
        assert cell(table, "chosen", **where) == chosen
        lost = max(found.values()) - found[chosen]
        assert cell(table, "regret", **where) == pytest.approx(lost)
        base = run(MARC("own", 8, 0.0), work.stream(stream).shuffled(0)).base_accuracy
        assert cell(table, "no memory", **where) == pytest.approx(base)


@pytest.mark.parametrize("stream", ["first", "second"])
def test_all_spaces_are_ranked_on_batches(work, tables, gains, stream):
    table = table_of(tables, "correlations-batches")
    judged = BatchRegret.by_rule(
        work.stream(stream), outcome(work, gains, stream, 0), sizes=(20, 40), n_replicates=8
    )
    for rule, wanted in judged.items():
        where = {"stream": stream, "measure": rule}
        assert cell(table, "all images", **where) == pytest.approx(
            wanted.choice.rank_correlation, nan_ok=True
        )
        batches = cell(table, "batches", **where)
        assert batches.value == pytest.approx(wanted.rank_correlation[40].estimate, nan_ok=True)
        if not np.isnan(batches.value):
            assert batches.low == pytest.approx(wanted.rank_correlation[40].low)
            assert batches.high == pytest.approx(wanted.rank_correlation[40].high)


def test_one_stream_and_one_order_are_enough():
    plan = plan_with_predictor(seeds={"orders": [1]})
    work = tiny_work(without(plan, "second", "seen-by-other"))
    made = correlations._make(work)
    orders = table_of(made, "correlations-orders")
    assert column(orders, "order") == ["1", "mean"]
    assert cell(orders, "G* of leader", order="mean").sd is None
    assert set(work.used) == set(correlations._EXPERIMENT.pieces(work.plan))


def test_a_stream_that_is_too_small_says_the_size_of_its_batches():
    plan = plan_with_predictor(seeds={"orders": [1]}, draws={"sizes": [500]})
    made = correlations._make(tiny_work(without(plan, "second", "seen-by-other")))
    for name in ("correlations", "correlations-batches"):
        table = table_of(made, name)
        assert set(column(table, "images of a batch")) == {45}
        said = "first is too small for batches of 500; batches of 45 are drawn."
        assert table.notes == (said,)


def test_the_pieces_are_those_that_are_used(work, tables):
    pieces = correlations._EXPERIMENT.pieces(work.plan)
    assert set(work.used) == set(pieces)
    assert not [piece for piece in pieces if piece.kind == "batches" and "other" in piece.stream]
