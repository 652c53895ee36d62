import math

import numpy as np
import pytest

from marc.errors import MarcError
from marc.peers.distance_covariance import distance_correlation, distance_covariance
from marc.peers.registry import create_method
from marc.peers.tata import CARD


def draw(seed, n=12, d=3):
    return np.random.default_rng(seed).standard_normal((n, d))


def literal_covariance(x, y):
    """The statistic written out over all pairs of rows."""
    n = len(x)
    centred = []
    for rows in (x, y):
        far = [[math.dist(rows[k], rows[m]) for m in range(n)] for k in range(n)]
        row_mean = [sum(far[k]) / n for k in range(n)]
        column_mean = [sum(far[k][m] for k in range(n)) / n for m in range(n)]
        mean = sum(row_mean) / n
        centred.append(
            [[far[k][m] - row_mean[k] - column_mean[m] + mean for m in range(n)] for k in range(n)]
        )
    a, b = centred
    return sum(a[k][m] * b[k][m] for k in range(n) for m in range(n)) / n**2


def rotation(seed, d):
    return np.linalg.qr(draw(seed, d, d))[0]


@pytest.mark.parametrize("seed", range(8))
def test_the_statistic_is_the_mean_product_of_centred_distances(seed):
    n = 2 + 3 * seed
    x, y = np.round(draw(seed, n, 2)), draw(seed + 100, n, 1 + seed)  # rounded: rows that return
    expected = literal_covariance(x, y)
    assert distance_covariance(x, y) == pytest.approx(expected, rel=1e-10, abs=1e-14)
    scale = math.sqrt(literal_covariance(x, x) * literal_covariance(y, y))
    assert distance_correlation(x, y) == pytest.approx(expected / scale, rel=1e-10, abs=1e-14)


def test_two_points_are_known_by_hand():
    # Distances 3 and 5 of two points: centred they are -+1.5 and -+2.5 everywhere.
    assert distance_covariance([[0.0], [3.0]], [[0, 0], [3, 4]]) == pytest.approx(1.5 * 2.5)
    assert distance_correlation([[0.0], [3.0]], [[0, 0], [3, 4]]) == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(20))
def test_it_lies_between_nothing_and_itself_and_does_not_mind_the_side(seed):
    x, y = draw(seed, 2 + seed), draw(seed + 50, 2 + seed, 5)
    assert distance_covariance(x, y) >= 0
    assert 0 <= distance_correlation(x, y) <= 1
    assert distance_covariance(x, y) == pytest.approx(distance_covariance(y, x), rel=1e-12)
    assert distance_correlation(x, x) == pytest.approx(1.0, abs=1e-12)


def test_moving_and_turning_change_nothing_and_scaling_scales():
    x, y = draw(0), draw(1, d=4)
    before = distance_covariance(x, y)
    moved = x @ rotation(2, 3) + [5.0, -3.0, 1.0]
    assert distance_covariance(moved, y @ rotation(3, 4) - 7) == pytest.approx(before, rel=1e-10)
    assert distance_covariance(-3 * x, y) == pytest.approx(3 * before, rel=1e-10)
    assert distance_correlation(-3 * x, 0.1 * y) == pytest.approx(distance_correlation(x, y))


def test_independence_is_near_0_and_a_curved_dependence_is_not():
    x, noise = draw(0, 400, 1), draw(1, 400, 1)
    assert distance_correlation(x, noise) < 0.02
    assert distance_correlation(x, x**2) > 0.2  # their linear correlation is near 0
    assert abs(np.corrcoef(x[:, 0], x[:, 0] ** 2)[0, 1]) < 0.2


def test_what_does_not_vary_has_no_correlation():
    x, constant = draw(0), np.full((12, 2), 0.1)
    assert distance_covariance(x, constant) == 0
    assert distance_correlation(x, constant) == 0
    assert distance_correlation(constant, constant) == 0
    assert distance_covariance(x[:1], x[:1]) == distance_correlation(x[:1], x[:1]) == 0


@pytest.mark.parametrize(
    ("x", "y", "problem"),
    [
        (np.zeros(3), np.zeros((3, 1)), "x must be rows of numbers"),
        (np.zeros((3, 1)), np.zeros((3, 1, 1)), "y must be rows of numbers"),
        (np.zeros((0, 2)), np.zeros((0, 2)), "x must be rows of numbers"),
        (np.zeros((3, 0)), np.zeros((3, 1)), "x must be rows of numbers"),
        (np.array([["a"]]), np.zeros((1, 1)), "x must be rows of numbers"),
        (np.zeros((3, 1)), np.zeros((4, 1)), "one row for each pair"),
        (np.zeros((3, 1)), np.full((3, 1), np.nan), "y must be finite"),
        (np.full((3, 1), np.inf), np.zeros((3, 1)), "x must be finite"),
    ],
)
def test_bad_rows_are_refused(x, y, problem):
    for statistic in (distance_covariance, distance_correlation):
        with pytest.raises(MarcError, match=problem):
            statistic(x, y)


def test_the_method_explains_why_it_is_not_there():
    with pytest.raises(MarcError, match="tata is not implemented: equations not public"):
        create_method("tata")
    assert CARD.factory is None
    assert CARD.settings == {}
