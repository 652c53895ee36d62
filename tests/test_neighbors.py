import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from marc import neighbors as module
from marc.errors import MarcError
from marc.neighbors import approximate_neighbors, as_keys, as_table, neighbors, thinned


def slow_neighbors(features, n_neighbors):
    """One pair at a time: the cosine in float64, rounded to float32, then the lower index."""
    keys = as_keys(features).astype(np.float64)
    table = []
    for i, key in enumerate(keys):
        others = [j for j in range(len(keys)) if j != i]
        cosine = {j: np.float32((key * keys[j]).sum()) for j in others}
        table.append(sorted(others, key=lambda j: (-cosine[j], j))[:n_neighbors])
    return np.array(table)


def clustered(seed, n_points, dim=16, n_clusters=4):
    draw = np.random.default_rng(seed)
    centers = draw.standard_normal((n_clusters, dim))
    return centers[draw.integers(n_clusters, size=n_points)] + draw.standard_normal((n_points, dim))


@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 12), st.integers(1, 9))
def test_the_table_is_that_of_the_slow_way(seed, n_points, n_neighbors, dim):
    n_neighbors = min(n_neighbors, n_points - 1)
    features = clustered(seed, n_points, dim)
    # whole numbers, so that the order of a sum does not matter, with many equal cosines
    features = np.where(features > 0, 1.0, -1.0)
    np.testing.assert_array_equal(
        neighbors(features, n_neighbors), slow_neighbors(features, n_neighbors)
    )


@pytest.mark.parametrize("dim", [3, 64, 769])
def test_the_table_is_that_of_the_slow_way_for_general_features(dim):
    features = clustered(1, 120, dim)
    np.testing.assert_array_equal(neighbors(features, 20), slow_neighbors(features, 20))


def test_the_table_does_not_depend_on_the_blocks(monkeypatch):
    features = np.round(clustered(2, 301, 48), 1)
    features[150:] = features[:151]  # every image has a copy
    expected = neighbors(features, 15)
    for block in (301, 7 * 301, 100 * 301):
        monkeypatch.setattr(module, "_BLOCK", block)
        np.testing.assert_array_equal(neighbors(features, 15), expected)


def test_wider_tables_begin_with_narrower_ones():
    features = clustered(3, 80)
    wide = neighbors(features, 40)
    for n_neighbors in (1, 5, 10):
        np.testing.assert_array_equal(wide[:, :n_neighbors], neighbors(features, n_neighbors))


def test_a_point_is_left_out_by_its_index_and_its_copy_stays():
    features = clustered(4, 30)
    features[20] = features[3]
    table = neighbors(features, 5)
    assert table[3, 0] == 20
    assert table[20, 0] == 3
    assert not (table == np.arange(30)[:, np.newaxis]).any()


def test_equal_vectors_have_the_lowest_indices_as_neighbours():
    table = neighbors(np.ones((9, 4)), 3)
    assert table[:4].tolist() == [[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]]
    assert (table[4:] == [0, 1, 2]).all()


def test_lengths_do_not_matter():
    features = clustered(5, 40)
    scaled = features * np.random.default_rng(0).choice([0.25, 1.0, 4.0], size=(40, 1))
    np.testing.assert_array_equal(neighbors(features, 10), neighbors(scaled, 10))


@pytest.mark.parametrize(
    ("n_neighbors", "message"),
    [(10, "10 neighbours of 10 image"), (11, "1 to 9"), (0, ">= 1"), (2.5, ">= 1")],
)
def test_too_few_images_are_refused(n_neighbors, message):
    with pytest.raises(MarcError, match=message):
        neighbors(clustered(0, 10), n_neighbors)


@pytest.mark.parametrize("features", [np.zeros((5, 3)), np.ones(5), np.full((5, 3), np.nan), [[1]]])
def test_bad_features_are_refused(features):
    with pytest.raises(MarcError, match="features must be"):
        neighbors(features, 1)


@pytest.mark.parametrize("width", [6, 25, 199])
@pytest.mark.parametrize("size", [8, 50, 199, 200])
def test_a_thinned_table_is_the_table_of_the_subsample(width, size):
    features = np.round(clustered(6, 200, 8), 1)
    features[100:150] = features[:50]
    keys = as_keys(features)
    chosen = np.sort(np.random.default_rng(size).choice(200, size, replace=False))
    got = thinned(keys, neighbors(keys, width), chosen, 6)
    np.testing.assert_array_equal(got, neighbors(features[chosen], 6))


@pytest.mark.parametrize(
    ("table", "n_neighbors", "message"),
    [
        ([[1], [0]], 2, "too narrow"),
        ([[1], [2]], 1, "other points"),
        ([[-1], [0]], 1, "other points"),
        ([[0], [0]], 1, "no point in its own row"),
        ([[1.0], [0.0]], 1, "whole numbers"),
        ([1, 0], 1, "whole numbers"),
    ],
)
def test_bad_tables_are_refused(table, n_neighbors, message):
    with pytest.raises(MarcError, match=message):
        as_table(None, n_neighbors, table)


def test_a_measure_needs_features_or_a_table_of_the_same_size():
    with pytest.raises(MarcError, match="features or a neighbour table"):
        as_table(None, 1, None)
    with pytest.raises(MarcError, match="other features"):
        as_table(np.ones((3, 2)), 1, [[1], [0]])


@pytest.fixture
def index(monkeypatch):
    """A stand-in for faiss whose index finds everything but what a test takes away."""

    class Index:
        missing = 0

        def __init__(self, dim, links, metric):
            self.hnsw = SimpleNamespace()

        def add(self, keys):
            self.keys = keys

        def search(self, queries, count):
            table = neighbors(self.keys, count + self.missing - 1)[:, self.missing :]
            return None, np.column_stack([np.arange(len(table)), table]).astype(np.int64)

    faiss = ModuleType("faiss")
    faiss.IndexHNSWFlat, faiss.METRIC_INNER_PRODUCT = Index, 0
    monkeypatch.setitem(sys.modules, "faiss", faiss)
    monkeypatch.setattr(module, "has_index", lambda: True)
    return Index


def test_an_index_says_how_many_neighbours_it_found(index):
    features = clustered(7, 60)
    exact = neighbors(features, 5)
    found = approximate_neighbors(features, 5)
    assert found.recall == 1
    np.testing.assert_array_equal(found.table, exact)
    index.missing = 1
    assert approximate_neighbors(features, 5).recall == pytest.approx(4 / 5)


def test_an_index_may_miss_a_point_itself():
    found = np.array([[0, 2, 1], [2, 0, 3], [3, 2, 1], [1, 2, 3]])
    expected = [[2, 1], [2, 0], [3, 1], [1, 2]]
    assert module._without_self(found, 2).tolist() == expected
    with pytest.raises(MarcError, match="did not find enough"):
        module._without_self(np.array([[0, -1], [1, 0]]), 1)


def test_only_very_many_points_go_to_the_index(index, monkeypatch):
    keys = as_keys(clustered(8, 50))
    index.missing = 1
    assert module.wide_table(keys, 4).recall == 1
    monkeypatch.setattr(module, "EXACT_UP_TO", 49)
    assert module.wide_table(keys, 4).recall < 1


def test_an_index_that_is_not_installed_is_asked_for_by_name(monkeypatch):
    monkeypatch.setattr(module, "has_index", lambda: False)
    with pytest.raises(MarcError, match="pip install faiss-cpu"):
        approximate_neighbors(clustered(0, 20), 5)
    monkeypatch.setattr(module, "EXACT_UP_TO", 10)
    assert module.wide_table(as_keys(clustered(0, 20)), 3).recall == 1
