"""Repairs and regressions: counted image by image from online runs."""

import numpy as np
import pytest
from helpers.online_answers import online
from helpers.studies import cell, column, table_of, tiny_plan, tiny_work, without

from marc_paper.study.artifacts import Estimate
from marc_paper.study.tables import repairs

ARMS = {
    "own memory, w = 1": ("own", 1.0),
    "own memory": ("own", 10.0),
    "deployed memory": ("good", 10.0),
    "strong memory": ("best", 10.0),
}
SEEDS = (0, 1, 2)


@pytest.fixture(scope="module")
def work():
    # views and memories of noisier images repair and break more of them
    return tiny_work(n_images=160, n_classes=8)


@pytest.fixture(scope="module")
def tables(work):
    return repairs._make(work)


def answers(work, arm, views):
    """Right answers in every order as lists of sets of rows, and those without memory."""
    space, weight = ARMS[arm]
    runs = [online(work, "first", space, 16, weight, seed, views) for seed in SEEDS]
    return [set(np.flatnonzero(right)) for right, _ in runs], set(np.flatnonzero(runs[0][1]))


def same(found, values):
    """Whether a cell is the mean over orders with its deviation."""
    assert found.value == pytest.approx(np.mean(values))
    assert found.sd == pytest.approx(np.std(values, ddof=1))


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("views", [1, 8])
def test_a_memory_repairs_and_breaks_what_it_does_online(work, tables, arm, views):
    table = table_of(tables, "repairs")
    _, reference = answers(work, arm, 1)
    right, base = answers(work, arm, views)
    source = arm if views == 1 else f"augmentation and {arm}"
    same(cell(table, "repairs", source=source), [len(each - reference) for each in right])
    same(cell(table, "regressions", source=source), [len(reference - each) for each in right])
    same(cell(table, "accuracy", source=source), [len(each) / 160 for each in right])
    assert cell(table, "no memory", source=source) == pytest.approx(len(base) / 160)
    assert cell(table, "views", source=source) == str(views)
    assert cell(table, "space", source=source) == ARMS[arm][0]


def test_views_alone_do_not_vary_with_the_order(work, tables):
    table = table_of(tables, "repairs")
    _, reference = answers(work, "own memory", 1)
    _, many = answers(work, "own memory", 8)
    assert cell(table, "repairs", source="augmentation") == Estimate(len(many - reference))
    assert cell(table, "regressions", source="augmentation") == Estimate(len(reference - many))
    assert len(many - reference) > 0
    assert len(reference - many) > 0


def test_the_net_change_is_the_change_of_accuracy(tables):
    table = table_of(tables, "repairs")
    reference = cell(table, "accuracy", source="reference")
    for source in column(table, "source")[1:]:
        change = cell(table, "net change", source=source).value
        accuracy = cell(table, "accuracy", source=source).value
        gained, lost = (cell(table, n, source=source).value for n in ("repairs", "regressions"))
        assert change == pytest.approx(accuracy - reference)
        assert change == pytest.approx((gained - lost) / 160)


@pytest.mark.parametrize("arm", ARMS)
def test_what_views_and_a_memory_share(work, tables, arm):
    table = table_of(tables, "repairs-shared")
    right, reference = answers(work, arm, 1)
    _, many = answers(work, arm, 8)
    repaired, broken = many - reference, reference - many
    both = [len(repaired & (each - reference)) for each in right]
    same(cell(table, "shared repairs", memory=arm), both)
    same(cell(table, "augmentation only", memory=arm), [len(repaired) - n for n in both])
    only = [len((each - reference) - repaired) for each in right]
    same(cell(table, "memory only", memory=arm), only)
    same(cell(table, "share of augmentation", memory=arm), [n / len(repaired) for n in both])
    lost = [len(broken & (reference - each)) for each in right]
    same(cell(table, "shared regressions", memory=arm), lost)
    assert cell(table, "cross sets", memory=arm) == 0


@pytest.mark.parametrize("arm", ARMS)
def test_coverage_keeps_what_either_source_has_right(work, tables, arm):
    table = table_of(tables, "repairs-coverage")
    right, reference = answers(work, arm, 1)
    together, many = answers(work, arm, 8)
    same(cell(table, "coverage", memory=arm), [len(each | many) / 160 for each in right])
    kept = [len(each | many | reference) / 160 for each in right]
    same(cell(table, "coverage with reference", memory=arm), kept)
    same(cell(table, "combination", memory=arm), [len(each) / 160 for each in together])
    same(cell(table, "memory alone", memory=arm), [len(each) / 160 for each in right])
    assert cell(table, "no memory", memory=arm) == pytest.approx(len(reference) / 160)
    assert cell(table, "augmentation", memory=arm) == pytest.approx(len(many) / 160)


def test_crossed_sets_would_be_seen():
    repaired, nothing = np.array([True, False, True]), np.zeros(3, bool)
    sets = repairs.RepairSets(
        {"augmentation": repaired, "memory": nothing},
        {"augmentation": nothing, "memory": repaired},
        0,
    )
    assert repairs._crossed(sets, "memory") == 2
    other = repairs.RepairSets(
        {"augmentation": nothing, "memory": repaired},
        {"augmentation": repaired, "memory": nothing},
        0,
    )
    assert repairs._crossed(other, "memory") == 2


def test_an_odd_plan_and_the_work_it_declares():
    plan = tiny_plan(seeds={"orders": [4]}, spaces={"own": "good", "strong": "good"})
    fresh = tiny_work(without(plan, *list(plan.streams)[1:]))
    made = repairs._EXPERIMENT.make(fresh)
    assert set(fresh.used) == set(repairs._EXPERIMENT.pieces(fresh.plan))
    table = table_of(made, "repairs")
    assert cell(table, "repairs", source="deployed memory").sd is None
    own, strong = (
        cell(table, "repairs", source=source) for source in ("own memory", "strong memory")
    )
    assert own == strong
    assert repairs._EXPERIMENT.missing(fresh.plan) == ""
    first = {"source": "arrays/first.npz", "group": "main"}
    assert "one view" in repairs._EXPERIMENT.missing(tiny_plan(streams={"first": first}))
