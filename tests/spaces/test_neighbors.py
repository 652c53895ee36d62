import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from helpers.literal_neighbors import clustered, slow_neighbors
from hypothesis import given
from hypothesis import strategies as st

from marc.errors import MarcError
from marc.spaces import neighbors as module
from marc.spaces.calibration import _thinned
from marc.spaces.neighbors import _as_keys, approximate_neighbors, as_table, neighbors


@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 12), st.integers(1, 9))
def test_the_table_is_that_of_the_slow_way(seed, n_points, n_neighbors, dim):
    n_neighbors = min(n_neighbors, n_points - 1)
    features = clustered(seed, n_points, dim)
    # integers, so that the order of a sum does not matter, with many equal cosines
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
    for rows, columns in ((1, 301), (7, 10), (400, 100), (64, 31)):
        monkeypatch.setattr(module, "_ROWS", rows)
        monkeypatch.setattr(module, "_COLUMNS", columns)
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


@pytest.mark.parametrize("n_distinct", [1, 2, 7])
def test_many_copies_are_ranked_as_the_slow_way_does(n_distinct, monkeypatch):
    # far more candidates within rounding of each other than a query has room for
    monkeypatch.setattr(module, "_COLUMNS", 50)
    draw = np.random.default_rng(n_distinct)
    features = draw.standard_normal((n_distinct, 24))[draw.integers(n_distinct, size=400)]
    np.testing.assert_array_equal(neighbors(features, 6), slow_neighbors(features, 6))


def test_near_copies_are_told_apart_exactly(monkeypatch):
    monkeypatch.setattr(module, "_COLUMNS", 64)
    draw = np.random.default_rng(0)
    features = draw.standard_normal(40) + 1e-6 * draw.standard_normal((300, 40))
    np.testing.assert_array_equal(neighbors(features, 5), slow_neighbors(features, 5))


def test_how_far_a_table_is_can_be_told(monkeypatch):
    monkeypatch.setattr(module, "_ROWS", 40)
    told = []
    keys = _as_keys(clustered(0, 90))
    module.nearest(keys, np.arange(90), 3, lambda *step: told.append(step))
    assert told == [("neighbours", done, 90) for done in (0, 40, 80, 90)]


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
    keys = _as_keys(features)
    chosen = np.sort(np.random.default_rng(size).choice(200, size, replace=False))
    got = _thinned(keys, neighbors(keys, width), chosen, 6)
    np.testing.assert_array_equal(got, neighbors(features[chosen], 6))


@pytest.mark.parametrize(
    ("table", "n_neighbors", "message"),
    [
        ([[1], [0]], 2, "too narrow"),
        ([[1], [2]], 1, "other points"),
        ([[-1], [0]], 1, "other points"),
        ([[0], [0]], 1, "no point in its own row"),
        ([[1.0], [0.0]], 1, "integers"),
        ([1, 0], 1, "integers"),
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
        unreached = ()

        def __init__(self, dim, links, metric):
            self.hnsw = SimpleNamespace()

        def add(self, keys):
            self.keys = np.concatenate([getattr(self, "keys", keys[:0]), keys])

        def search(self, queries, count):
            first = int(np.flatnonzero((self.keys == queries[0]).all(axis=1))[0])
            rows = np.arange(first, first + len(queries))
            table = neighbors(self.keys, count + self.missing - 1)[rows, self.missing :]
            hits = np.column_stack([rows, table]).astype(np.int64)
            hits[np.isin(rows, self.unreached), -1] = -1
            return None, hits

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


def test_an_index_is_filled_and_asked_in_parts_and_tells_how_far_it_is(index, monkeypatch):
    monkeypatch.setattr(module, "_INDEXED", 25)
    features, told = clustered(7, 60), []
    found = approximate_neighbors(features, 5, on_progress=lambda *step: told.append(step))
    np.testing.assert_array_equal(found.table, neighbors(features, 5))
    assert told == [(what, n, 3) for what in ("index", "neighbours") for n in (0, 1, 2, 3)]


def test_places_that_an_index_leaves_empty_are_found_exactly(index):
    index.unreached = [0, 7, 59]
    features = clustered(7, 60)
    found = approximate_neighbors(features, 5)
    np.testing.assert_array_equal(found.table, neighbors(features, 5))


def test_an_index_may_miss_a_point_itself():
    found = np.array([[0, 2, 1], [2, 0, 3], [3, 2, 1], [1, 2, 3]])
    assert module._without_self(found, 0).tolist() == [[2, 1], [2, 0], [3, 1], [1, 2]]
    assert module._without_self(found[2:], 2).tolist() == [[3, 1], [1, 2]]


def test_a_given_table_has_the_recall_of_its_first_columns():
    keys = _as_keys(clustered(3, 60))
    exact = neighbors(keys, 8)
    assert module.known_table(keys, 4, exact).recall == 1
    wrong = exact.copy()
    wrong[:, 1] = exact[:, 7]
    found = module.known_table(keys, 4, wrong)
    assert found.recall == pytest.approx(3 / 4)
    np.testing.assert_array_equal(found.table, wrong)


def test_only_very_many_points_go_to_the_index(index, monkeypatch):
    keys = _as_keys(clustered(8, 50))
    index.missing = 1
    assert module.wide_table(keys, 4).recall == 1
    monkeypatch.setattr(module, "EXACT_UP_TO", 49)
    assert module.wide_table(keys, 4).recall < 1


def test_an_index_that_is_not_installed_is_asked_for_by_name(monkeypatch):
    monkeypatch.setattr(module, "has_index", lambda: False)
    with pytest.raises(MarcError, match="pip install faiss-cpu"):
        approximate_neighbors(clustered(0, 20), 5)
    monkeypatch.setattr(module, "EXACT_UP_TO", 10)
    assert module.wide_table(_as_keys(clustered(0, 20)), 3).recall == 1


def test_the_index_of_faiss_itself_finds_nearly_all():
    pytest.importorskip("faiss", exc_type=ImportError)
    features = np.round(clustered(9, 3000, 24), 1)
    features[2000:2100] = features[:100]  # copies
    found = approximate_neighbors(features, 10)
    exact = neighbors(features, 10)
    share = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(found.table, exact, strict=True)])
    assert found.recall == pytest.approx(share, abs=0.02)
    assert found.recall > 0.95
    assert not (found.table == np.arange(3000)[:, np.newaxis]).any()
