"""The plane: perplexities are reached, the gradient is that of the divergence, clusters part."""

import numpy as np
import pytest

from marc.errors import MarcError
from marc_paper.study.plane import (
    allowed_perplexity,
    conditional_affinities,
    divergence,
    gradient,
    joint_affinities,
    plane,
    principal_plane,
    squared_distances,
)


def clusters(n_each=20, apart=8.0, dim=5, seed=0):
    draw = np.random.default_rng(seed)
    points = draw.standard_normal((2 * n_each, dim))
    points[n_each:, 0] += apart
    return points


def joint_of(points, perplexity=10.0):
    return joint_affinities(conditional_affinities(squared_distances(points), perplexity))


def test_distances_are_those_of_pairs():
    points = clusters(5)
    wanted = [[((a - b) ** 2).sum() for b in points] for a in points]
    np.testing.assert_allclose(squared_distances(points), wanted, atol=1e-12)
    assert (squared_distances(np.ones((3, 4)) * 0.1) >= 0).all()


@pytest.mark.parametrize("perplexity", [1.5, 5.0, 30.0])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_every_row_reaches_the_perplexity(perplexity, scale):
    rows = conditional_affinities(squared_distances(scale * clusters()), perplexity)
    for place, row in enumerate(rows):
        assert row[place] == 0
        others = np.delete(row, place)
        assert others.sum() == pytest.approx(1)
        entropy = -sum(p * np.log(p) for p in others if p > 0)
        assert np.exp(entropy) == pytest.approx(perplexity, rel=1e-6)


def test_a_row_is_a_gaussian_of_its_distances():
    distances = squared_distances(clusters(6))
    row = conditional_affinities(distances, 4.0)[3]
    others = np.arange(12) != 3
    logs, apart = np.log(row[others]), distances[3][others]
    slope, _ = np.polyfit(apart, logs, 1)
    np.testing.assert_allclose(logs - slope * apart, (logs - slope * apart)[0], atol=1e-6)
    assert slope < 0


def test_equal_points_and_impossible_perplexities():
    rows = conditional_affinities(squared_distances(np.zeros((6, 3))), 2.0)
    np.testing.assert_allclose(rows[~np.eye(6, dtype=bool)], 1 / 5)
    assert np.isfinite(plane(np.zeros((6, 3)), 2.0, n_steps=20)).all()
    with pytest.raises(MarcError, match="perplexity"):
        conditional_affinities(squared_distances(clusters(3)), 6.0)


def test_pairs_are_one_symmetric_distribution():
    joint = joint_of(clusters())
    assert joint.sum() == pytest.approx(1)
    np.testing.assert_array_equal(joint, joint.T)


def test_the_divergence_is_the_sum_over_pairs():
    points = clusters(4)
    joint, positions = joint_of(points, 3.0), points[:, :2]
    kernel = [[1 / (1 + ((a - b) ** 2).sum()) for b in positions] for a in positions]
    total = sum(kernel[i][j] for i in range(8) for j in range(8) if i != j)
    wanted = sum(
        joint[i, j] * np.log(joint[i, j] / (kernel[i][j] / total))
        for i in range(8)
        for j in range(8)
        if joint[i, j] > 0
    )
    assert divergence(positions, joint) == pytest.approx(wanted)


def test_the_gradient_is_a_numerical_one():
    points = clusters(6)
    joint, positions = joint_of(points, 4.0), points[:, 1:3].copy()
    found = gradient(positions, joint)
    for place in np.ndindex(positions.shape):
        moved = np.zeros_like(positions)
        moved[place] = 1e-6
        rise = divergence(positions + moved, joint) - divergence(positions - moved, joint)
        assert found[place] == pytest.approx(rise / 2e-6, rel=1e-4, abs=1e-8)


def test_the_divergence_falls():
    points = clusters(apart=2.0)
    joint = joint_of(points)
    begun = divergence(principal_plane(points), joint)
    half, whole = (divergence(plane(points, 10.0, n_steps=n), joint) for n in (300, 1000))
    assert whole < half < begun
    assert whole < 0.4 * begun


def test_two_clusters_come_apart():
    positions = plane(clusters(), 10.0, n_steps=300)
    distances = squared_distances(positions)
    np.fill_diagonal(distances, np.inf)
    nearest = distances.argmin(axis=1)
    assert ((nearest < 20) == (np.arange(40) < 20)).all()
    inside, across = distances[:20, :20], distances[:20, 20:]
    assert across.min() > np.median(inside[np.isfinite(inside)])
    np.testing.assert_allclose(positions.mean(axis=0), 0, atol=1e-9)


def test_the_same_points_give_the_same_plane():
    points = clusters()
    np.testing.assert_array_equal(plane(points, 8.0, 60), plane(points.copy(), 8.0, 60))


def test_the_plane_begins_at_the_principal_components():
    draw = np.random.default_rng(2)
    points = draw.standard_normal((30, 3)) * [1.0, 9.0, 4.0]
    begun = principal_plane(points)
    assert begun[:, 0].std() == pytest.approx(1e-4)
    assert np.corrcoef(begun[:, 0], points[:, 1])[0, 1] > 0.9
    assert np.corrcoef(begun[:, 1], points[:, 2])[0, 1] > 0.9
    # a reflection of all points turns their components with it: the sign is that of an axis
    np.testing.assert_allclose(principal_plane(-points), -begun, atol=1e-12)
    assert principal_plane(points[:, :1]).shape == (30, 2)


def test_few_points_have_a_smaller_perplexity():
    assert allowed_perplexity(800) == 30
    assert allowed_perplexity(31) == 10
    assert allowed_perplexity(2) == 1
    assert plane(clusters(1), allowed_perplexity(2), 10).shape == (2, 2)
