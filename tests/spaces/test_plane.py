"""A space in two dimensions: groups stay groups, and the same keys give the same places."""

import sys

import numpy as np
import pytest

from marc.spaces.plane import lay_out


def grouped(n=60, dimensions=16):
    draw = np.random.default_rng(0)
    centres = draw.standard_normal((3, dimensions))
    group = np.arange(n) % 3
    return centres[group] + 0.05 * draw.standard_normal((n, dimensions)), group


def without_sklearn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)


@pytest.mark.parametrize("library", [True, False])
@pytest.mark.parametrize(("n", "dimensions"), [(60, 16), (4, 3), (2, 8), (5, 1)])
def test_points_are_inside_and_the_same_each_time(monkeypatch, library, n, dimensions):
    if library:
        pytest.importorskip("sklearn")
    else:
        without_sklearn(monkeypatch)
    keys, _ = grouped(n, dimensions)
    points, name = lay_out(keys.astype(np.float32))
    assert name == ("t-SNE" if library and n > 4 else "PCA")
    assert points.shape == (n, 2)
    assert points.min() >= 0
    assert points.max() <= 1
    assert np.ptp(points, axis=0).max() == pytest.approx(1)
    np.testing.assert_array_equal(points, lay_out(keys.astype(np.float32))[0])


@pytest.mark.parametrize("library", [True, False])
def test_groups_of_a_space_are_groups_on_its_map(monkeypatch, library):
    if library:
        pytest.importorskip("sklearn")
    else:
        without_sklearn(monkeypatch)
    keys, group = grouped()
    points, _ = lay_out(keys)
    distance = np.linalg.norm(points[:, np.newaxis] - points, axis=-1) + np.diag([np.inf] * 60)
    assert (group[distance.argmin(axis=1)] == group).all()


def test_main_directions_are_those_of_most_variance(monkeypatch):
    without_sklearn(monkeypatch)
    keys, _ = grouped()
    values, vectors = np.linalg.eigh(np.cov(keys.T))
    expected = (keys - keys.mean(axis=0)) @ vectors[:, [-1, -2]]
    points, _ = lay_out(keys)
    for direction in range(2):
        correlation = np.corrcoef(points[:, direction], expected[:, direction])[0, 1]
        assert abs(correlation) > 0.9999
    assert values[-1] > values[-2]


def test_images_that_are_all_alike_lie_in_one_place(monkeypatch):
    without_sklearn(monkeypatch)
    points, _ = lay_out(np.ones((6, 3)))
    assert len(np.unique(points, axis=0)) == 1
