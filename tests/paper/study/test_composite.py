"""Purity less anti-hubs: the fit against a fine scan over lambda."""

import math

import numpy as np
import pytest
from helpers.online_answers import best_gains
from helpers.studies import cell, column, tiny_plan, tiny_work, without

from marc.spaces import geometry
from marc.stats import spearman
from marc_paper.study.tables import composite
from marc_paper.study.tables.composite import _Geometries

SETS = {
    "all": ["noise", "own", "weak", "good", "best", "tilted"],
    "controls": ["noise", "own", "weak", "good", "best"],
}


def some(seed, n=6):
    draw = np.random.default_rng(seed)
    return _Geometries(draw.random(n), draw.random(n).round(1), draw.random(n))


@pytest.mark.parametrize("seed", range(6))
def test_a_fit_is_the_best_of_a_fine_scan(seed):
    stream = some(seed)
    scan = np.concatenate([[0], np.geomspace(1e-3, 1e3, 1500)])
    values = [spearman(stream.purity - penalty * stream.antihubs, stream.gains) for penalty in scan]
    found = composite._fit(stream)
    # a scan may fall on a crossing, where two spaces tie, but never exactly
    assert stream.correlation(found.penalty) == pytest.approx(max(values))
    rankings = {tuple(np.argsort(stream.purity - p * stream.antihubs)) for p in scan}
    assert found.n_rankings >= len(rankings)
    assert found.n_rankings <= 6 * 5 // 2 + 1
    inside = [v for p, v in zip(scan, values, strict=True) if found.low < p < found.high]
    assert inside == pytest.approx([max(values)] * len(inside))
    assert found.low <= found.penalty <= found.high


def test_of_equal_fits_the_smallest_lambda_counts():
    stream = _Geometries(np.array([0.9, 0.5, 0.1]), np.zeros(3), np.array([3.0, 2.0, 1.0]))
    assert composite._fit(stream) == composite._Fit(0.0, 0.0, math.inf, 1)
    # two rankings that differ in two spaces of equal gain
    stream = _Geometries(np.array([0.3, 0.2, 0.9]), np.array([0.2, 0.1, 0]), np.array([1, 1, 3.0]))
    found = composite._fit(stream)
    assert (found.penalty, found.low, found.n_rankings) == (0.0, 0.0, 2)


def test_another_stream_may_change_ranks_where_the_fitted_one_does_not():
    gains = np.array([1.0, 2.0, 3.0])
    streams = {
        "fitted": _Geometries(np.array([0.1, 0.5, 0.9]), np.zeros(3), gains),
        "other": _Geometries(np.array([0.3, 0.26, 0.9]), np.array([0.06, 0.01, 0.0]), gains),
    }
    names = [each.name for each in composite._COLUMNS]
    row = dict(zip(names, composite._composite_rows("all", streams)[1], strict=True))
    found = row["correlation of composite"], row["lowest"], row["highest"]
    assert found == pytest.approx((0.5, 0.5, 1.0))


def test_one_inversion_is_repaired():
    # the second has less purity but fewer anti-hubs, and gains more
    stream = _Geometries(
        np.array([0.3, 0.26, 0.9]), np.array([0.06, 0.01, 0.0]), np.array([1, 2, 3])
    )
    found = composite._fit(stream)
    assert stream.correlation(0.0) == pytest.approx(0.5)
    assert stream.correlation(found.penalty) == pytest.approx(1.0)
    assert (found.low, found.high) == (pytest.approx(0.8), math.inf)
    assert found.n_rankings == 2


def test_spaces_that_tie_in_purity_are_parted_by_any_lambda_above_zero():
    # a tiny lambda ranks the first two as they gain, a larger one breaks the third's place
    stream = _Geometries(
        np.array([0.5, 0.5, 0.4]), np.array([0.3, 0.1, 0.0]), np.array([2.0, 3.0, 1.0])
    )
    found = composite._fit(stream)
    first = pytest.approx(1 / 3)
    assert (found.low, found.high, found.n_rankings) == (0.0, first, 4)
    assert 0 < found.penalty < 1 / 3
    assert stream.correlation(found.penalty) == pytest.approx(1.0)
    assert stream.correlation(0.0) < 1
    scan = np.concatenate([[0], np.geomspace(1e-6, 1e3, 2000)])
    assert stream.correlation(found.penalty) == pytest.approx(max(map(stream.correlation, scan)))


def test_a_tie_in_purity_may_be_best_left_as_it_is():
    stream = _Geometries(
        np.array([0.5, 0.5, 0.4]), np.array([0.3, 0.1, 0.0]), np.array([2.0, 2.0, 1.0])
    )
    assert composite._fit(stream) == composite._Fit(0.0, 0.0, 0.0, 4)
    gains = np.array([1.0, 2.0, 3.0])
    other = _Geometries(np.array([0.1, 0.5, 0.9]), np.array([0.0, 0.5, 0.9]), gains)
    names = [each.name for each in composite._COLUMNS]
    row = composite._composite_rows("all", {"fitted": stream, "other": other})[1]
    found = dict(zip(names, row, strict=True))
    assert (found["lambda"], found["lambda to"]) == (0.0, 0.0)
    assert (found["lowest"], found["highest"]) == pytest.approx((1.0, 1.0))


def test_a_tie_that_no_lambda_parts_adds_no_ranking():
    gains = np.array([1.0, 2.0, 3.0])
    stream = _Geometries(np.array([0.5, 0.5, 0.9]), np.array([0.2, 0.2, 0.0]), gains)
    assert composite._fit(stream) == composite._Fit(0.0, 0.0, math.inf, 1)


def test_lowest_and_highest_hold_the_composite_where_another_stream_ties():
    gains = np.array([1.0, 2.0, 3.0])
    streams = {
        "fitted": _Geometries(np.array([0.1, 0.5, 0.9]), np.zeros(3), gains),
        "other": _Geometries(np.array([0.5, 0.5, 0.9]), np.array([0.1, 0.3, 0.0]), gains),
    }
    names = [each.name for each in composite._COLUMNS]
    row = dict(zip(names, composite._composite_rows("all", streams)[1], strict=True))
    assert row["lowest"] < row["correlation of composite"] == row["highest"]


@pytest.mark.parametrize("candidates", SETS)
def test_rows_follow_from_online_runs(candidates):
    work = tiny_work(tiny_plan(), n_images=60)
    [table] = composite._make(work)
    measured = {}
    for stream in ("first", "second"):
        features = work.stream(stream)
        keys = [features.features.keys(space) for space in SETS[candidates]]
        measured[stream] = _Geometries(
            np.array([geometry.purity(each, features.row_labels, 10) for each in keys]),
            np.array([geometry.antihub_fraction(each, 10) for each in keys]),
            np.array([work_best(work, stream, space) for space in SETS[candidates]]),
        )
    fitted = composite._fit(measured["first"])
    for stream, role in (("first", "fitted"), ("second", "not fitted again")):
        where = {"candidates": candidates, "stream": stream, "role": role}
        found = measured[stream]
        assert cell(table, "lambda", **where) == pytest.approx(fitted.penalty)
        assert cell(table, "lambda from", **where) == pytest.approx(fitted.low)
        high = cell(table, "lambda to", **where)
        assert (high or math.inf) == pytest.approx(fitted.high)
        wanted = pytest.approx(found.correlation(fitted.penalty))
        assert cell(table, "correlation of composite", **where) == wanted
        wanted = pytest.approx(spearman(found.purity, found.gains))
        assert cell(table, "correlation of purity", **where) == wanted
        top = 4 * fitted.low + 50 if math.isinf(fitted.high) else fitted.high
        scan = np.linspace(fitted.low, top, 801)[1:-1]
        values = [found.correlation(penalty) for penalty in scan]
        assert cell(table, "lowest", **where) <= min(values) + 1e-9
        assert cell(table, "highest", **where) >= max(values) - 1e-9
    assert column(table, "rankings", candidates=candidates) == [fitted.n_rankings, None]


def work_best(work, stream, space):
    sweep = work.sweep(stream, [space])
    scores = [sweep.fixed(space, 8, weight).accuracies for weight in work.plan.grids.weights]
    return np.max(scores, axis=0).mean() - sweep.base_correct.mean()


def test_its_pieces_are_those_it_uses_and_a_fit_needs_another_stream():
    work = tiny_work(tiny_plan(seeds={"orders": [0]}))
    composite._make(work)
    assert set(work.used) == set(composite._EXPERIMENT.pieces(work.plan))
    assert composite._EXPERIMENT.missing(work.plan) == ""
    assert "none" in composite._EXPERIMENT.missing(without(work.plan, "second"))


def test_ceilings_are_those_of_online_runs():
    work = tiny_work()
    assert work_best(work, "first", "best") == pytest.approx(
        best_gains(work, "first", "best").mean()
    )
