"""What a GPU computes is what the CPU does. Torch's own CPU stands in for the card."""

import math

import numpy as np
import pytest
from helpers.literal_neighbors import clustered, slow_neighbors
from helpers.making import make_stream
from hypothesis import given
from hypothesis import strategies as st

import marc
from marc.errors import MarcError
from marc.replay import device
from marc.spaces import calibration, geometry, neighbors, selection
from marc.spaces.calibration import Calibration, _thinned
from marc.spaces.neighbors import _as_keys, nearest

torch = pytest.importorskip("torch")
from marc.spaces import _gpu  # noqa: E402


def assert_same(keys, n_neighbors, rows=None):
    rows = np.arange(len(keys)) if rows is None else rows
    found = nearest(keys, rows, n_neighbors, gpu="cpu")
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, nearest(np.ascontiguousarray(keys), rows, n_neighbors))
    return found


@pytest.fixture
def card(monkeypatch):
    """The torch path for every device that is named."""
    for module in (neighbors, geometry, selection):
        monkeypatch.setattr(module, "choose_gpu", lambda device: "cpu" if device != "cpu" else None)


class Rows:
    """Keys of which only rows can be had, and never all of them."""

    def __init__(self, keys):
        self._keys, self.shape, self.dtype, self.read = keys, keys.shape, keys.dtype, []

    def __len__(self):
        return len(self._keys)

    def __getitem__(self, rows):
        found = self._keys[rows]
        self.read.append(len(found))
        return found


@given(st.integers(0, 10**6), st.integers(2, 40), st.integers(1, 12), st.integers(1, 9))
def test_the_table_is_that_of_the_slow_way_with_many_ties(seed, n_points, n_neighbors, dim):
    n_neighbors = min(n_neighbors, n_points - 1)
    features = np.where(clustered(seed, n_points, dim) > 0, 1.0, -1.0)
    found = assert_same(_as_keys(features), n_neighbors)
    np.testing.assert_array_equal(found, slow_neighbors(features, n_neighbors))


@given(
    st.integers(0, 10**6),
    st.integers(2, 300),
    st.integers(1, 299),
    st.integers(1, 33),
    st.sampled_from([0, 1, 2]),
)
def test_the_table_is_that_of_the_cpu(seed, n_points, n_neighbors, dim, digits):
    features = np.round(clustered(seed, n_points, dim), digits) + 2.0**-9  # never zero
    features[n_points // 2 :: 3] = features[0]  # copies
    assert_same(_as_keys(features), min(n_neighbors, n_points - 1))


@pytest.mark.parametrize("dim", [1, 3, 64, 769, 2000])
@pytest.mark.parametrize("n_neighbors", [1, 20, 119])
def test_the_table_is_that_of_the_slow_way_for_general_features(dim, n_neighbors):
    features = clustered(1, 120, dim)
    found = assert_same(_as_keys(features), n_neighbors)
    np.testing.assert_array_equal(found, slow_neighbors(features, n_neighbors))


@pytest.mark.parametrize("queries", [1, 7, 1000])
@pytest.mark.parametrize("memory", [1, 3000, 40_000, 10**6])
@pytest.mark.parametrize("block", [1, 1000])
def test_the_table_does_not_depend_on_the_tiles(monkeypatch, queries, memory, block):
    monkeypatch.setattr(_gpu, "_QUERIES", queries)
    monkeypatch.setattr(device, "_ELSEWHERE", memory)
    monkeypatch.setattr(_gpu, "_BLOCK", block)
    features = np.round(clustered(2, 121, 12), 1)
    features[60:] = features[:61]  # every image has a copy
    assert_same(_as_keys(features), 15)


def test_tables_of_some_rows_in_any_order_of_keys_in_any_layout():
    keys = _as_keys(clustered(3, 90, 10))
    rows = np.array([88, 3, 3, 0, 41])
    assert_same(keys, 4, rows)
    assert_same(keys[::2], 4, rows[1:] // 2)
    assert_same(keys[::-1], 4, rows[::-1])
    assert_same(np.asfortranarray(keys), 4, rows)
    keys.flags.writeable = False
    assert_same(keys, 4, rows)
    assert assert_same(keys, 4, rows[:0]).shape == (0, 4)


def test_opposite_and_orthogonal_points_are_tied_by_index_alone():
    features = np.concatenate([np.eye(5), -np.eye(5)])
    features[features == 0] *= -1.0  # cosines of -0 and 0
    found = assert_same(_as_keys(features), 9)
    np.testing.assert_array_equal(found, slow_neighbors(features, 9))


@pytest.mark.parametrize("n_distinct", [1, 2, 7])
def test_what_has_more_candidates_than_there_is_room_for_is_left_to_the_cpu(
    n_distinct, monkeypatch
):
    draw = np.random.default_rng(n_distinct)
    copies = draw.standard_normal((n_distinct, 24))[draw.integers(n_distinct, size=900)]
    keys = _as_keys(np.concatenate([copies, draw.standard_normal((100, 24))]))
    table, left = _gpu.find("cpu", keys, np.arange(1000), 6, 1e-5, lambda *_: None)
    assert set(range(900)) <= set(left) < set(range(1000))
    expected = nearest(keys, np.arange(1000), 6)
    np.testing.assert_array_equal(np.delete(table, left, 0), np.delete(expected, left, 0))
    assert_same(keys, 6)
    monkeypatch.setattr(_gpu, "_SPARE", 0)  # even the last neighbour itself may have a rival
    assert_same(keys, 6)


def test_near_copies_are_told_apart_exactly():
    draw = np.random.default_rng(0)
    features = draw.standard_normal(40) + 1e-6 * draw.standard_normal((60, 40))
    found = assert_same(_as_keys(features), 5)
    np.testing.assert_array_equal(found, slow_neighbors(features, 5))


@pytest.mark.parametrize("seed", range(5))
def test_candidates_within_rounding_of_the_last_neighbour_are_ranked_again(seed, monkeypatch):
    keys = _as_keys(np.random.default_rng(seed).standard_normal((400, 64)) + 1.0)
    expected = nearest(keys, np.arange(400), 10)
    exact, draw = _gpu._highest, np.random.default_rng(seed)

    def rounded(tile, count):  # any product within the margin is good enough
        noise = torch.tensor(draw.uniform(-1, 1, tile.shape), dtype=torch.float32)
        return exact(tile + 0.4 * neighbors._margin(keys) * noise, count)

    monkeypatch.setattr(_gpu, "_highest", rounded)
    np.testing.assert_array_equal(nearest(keys, np.arange(400), 10, gpu="cpu"), expected)


def test_keys_too_large_for_the_card_are_read_in_blocks(monkeypatch):
    monkeypatch.setattr(device, "_ELSEWHERE", 120_000)
    monkeypatch.setattr(_gpu, "_QUERIES", 50)
    keys = _as_keys(clustered(5, 1000, 20))
    rows = Rows(keys)
    found = nearest(rows, np.arange(1000), 3, gpu="cpu")
    np.testing.assert_array_equal(found, nearest(keys, np.arange(1000), 3))
    assert max(rows.read) < 200


def test_keys_that_fit_are_uploaded_once_and_block_by_block(monkeypatch):
    monkeypatch.setattr(_gpu, "_BLOCK", 4 * 20 * 64)
    keys = _as_keys(clustered(5, 1000, 20))
    rows = Rows(keys)
    found = nearest(rows, np.arange(1000), 3, gpu="cpu")
    np.testing.assert_array_equal(found, nearest(keys, np.arange(1000), 3))
    assert (max(rows.read), sum(rows.read)) == (64, 1000)


@given(st.integers(0, 10**6), st.integers(1, 700), st.integers(1, 40))
def test_the_highest_values_are_those_of_a_sort(seed, n_columns, count):
    tile = np.random.default_rng(seed).integers(30, size=(5, n_columns)).astype(np.float32)
    values, columns = _gpu._highest(torch.tensor(tile), count)
    np.testing.assert_array_equal(values, -np.sort(-tile)[:, :count])
    np.testing.assert_array_equal(np.take_along_axis(tile, columns.numpy(), 1), values)
    assert all(len(set(row.tolist())) == min(count, n_columns) for row in columns)


@pytest.fixture
def precision():
    """What torch does with products of float32 numbers."""
    yield torch.backends.cuda.matmul
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("before", ["highest", "high", "medium"])
def test_products_are_not_rounded_and_the_setting_comes_back(monkeypatch, before, precision):
    seen, exact = [], _gpu._highest

    def look(*arguments):
        seen.append(precision.allow_tf32)
        return exact(*arguments)

    monkeypatch.setattr(_gpu, "_highest", look)
    torch.set_float32_matmul_precision(before)
    nearest(_as_keys(clustered(0, 20)), np.arange(20), 3, gpu="cpu")
    assert seen == [False]
    with pytest.raises(ZeroDivisionError), device.full_precision():
        1 / 0  # noqa: B018
    assert torch.get_float32_matmul_precision() == before
    assert precision.allow_tf32 == (before != "highest")


def test_the_newer_setting_of_products_comes_back_too(precision):
    pytest.importorskip("torch", minversion="2.9")
    for before in ("tf32", "ieee", "none"):
        precision.fp32_precision = before
        with device.full_precision():
            assert (precision.fp32_precision, precision.allow_tf32) == ("ieee", False)
        assert precision.fp32_precision == before


def test_a_card_says_how_much_memory_is_left(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (600, 1000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda gpu: 300)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda gpu: 100)
    assert device.free_memory("cuda:1") == 600


def test_how_far_a_table_is_can_be_told(monkeypatch):
    monkeypatch.setattr(_gpu, "_QUERIES", 40)
    told = []
    nearest(_as_keys(clustered(0, 90)), np.arange(90), 3, lambda *step: told.append(step), "cpu")
    assert told == [("neighbours", done, 90) for done in (0, 40, 80, 90)]


@pytest.mark.parametrize("width", [6, 25, 199])
@pytest.mark.parametrize("size", [8, 50, 199, 200])
@pytest.mark.parametrize("thinned", [1, 2**24])
def test_a_table_is_thinned_as_on_the_cpu(width, size, thinned, monkeypatch):
    monkeypatch.setattr(_gpu, "_THINNED", thinned)
    keys = _as_keys(np.round(clustered(6, 200, 8), 1))
    table = neighbors.neighbors(keys, width)
    chosen = np.sort(np.random.default_rng(size).choice(200, size, replace=False))
    expected = _thinned(keys, table, chosen, 6)
    got, short = _gpu.thin(device.place(table, "cpu"), device.place(chosen, "cpu"), 6)
    others = np.isin(table[chosen], chosen).sum(axis=1)
    np.testing.assert_array_equal(short, np.flatnonzero(others < 6))
    full = np.setdiff1d(np.arange(size), short)
    np.testing.assert_array_equal(got.numpy()[full], expected[full])


@given(st.integers(0, 10**6), st.integers(30, 120), st.integers(6, 60), st.integers(1, 6))
def test_batches_measure_the_same_to_the_last_bit(seed, n_images, width, n_kinds):
    draw = np.random.default_rng(seed)
    keys = _as_keys(np.round(clustered(seed, n_images, 3)) + 0.25)  # with many ties
    table = neighbors.neighbors(keys, min(width, n_images - 1))
    kinds = [draw.integers(5, size=n_images).astype(np.uint16) for _ in range(n_kinds)]
    sizes, kappas = (8, n_images // 2, n_images - 1), (3, 5)

    def measure(gpu):
        settings = (kinds, kappas, sizes, 4, seed, None, gpu)
        return Calibration(n_images, 5).purities(keys, table, *settings)

    on_cpu = measure(None)
    assert on_cpu.shape == (4, 3, n_kinds, 2)
    np.testing.assert_array_equal(measure("cpu"), on_cpu)


def test_purities_are_means_of_agreement():
    keys, labels = _as_keys(clustered(1, 60)), np.arange(60) % 3
    table = neighbors.neighbors(keys, 9)
    for kappa, value in zip((2, 9), calibration.purities(table, [labels], (2, 9))[0], strict=True):
        assert value == geometry.agreement(table[:, :kappa], labels).mean()


def test_the_geometry_and_the_choice_are_the_same_on_every_device(card, monkeypatch):
    stream, found = make_stream(n_images=150), []
    exact = _gpu.find
    monkeypatch.setattr(_gpu, "find", lambda *each: found.append(each[0]) or exact(*each))
    first = marc.geometry_of(stream, n_replicates=20)
    assert not found
    second = marc.geometry_of(stream, n_replicates=20, device="cuda")
    assert found[: len(stream.spaces)] == ["cpu"] * len(stream.spaces)
    for space, expected in first.items():
        assert second[space].measures == expected.measures
        assert second[space].hubs == expected.hubs
    here, there = (
        marc.select(stream, sizes=(30,), n_replicates=20, device=device)
        for device in ("cpu", "auto")
    )
    assert str(here.ranking) == str(there.ranking)  # a trust may be not a number
    for size, draws in here.draws.items():
        np.testing.assert_array_equal(there.draws[size], draws)
    keys = stream.features.keys("good")
    table = geometry.neighbors(keys, 4, device="cuda:1")
    np.testing.assert_array_equal(table, geometry.neighbors(keys, 4))


def test_a_gpu_makes_the_exact_table_of_very_many_points(monkeypatch):
    monkeypatch.setattr(neighbors, "EXACT_UP_TO", 10)
    monkeypatch.setattr(neighbors, "has_index", lambda: True)
    monkeypatch.setattr(neighbors, "_indexed", None)
    keys = _as_keys(clustered(0, 30))
    whole, recall = neighbors.wide_table(keys, 4, gpu="cpu")
    assert recall == 1
    np.testing.assert_array_equal(whole, nearest(keys, np.arange(30), 4))


def test_an_unknown_device_is_refused():
    stream = make_stream(n_images=50)
    for call in (
        lambda: geometry.neighbors(stream.features.keys("good"), 3, device="gpu"),
        lambda: geometry.measure(stream, "good", device="gpu"),
        lambda: marc.select(stream, device="gpu"),
    ):
        with pytest.raises(MarcError, match="no such device"):
            call()


def test_margins_cover_the_sums_of_a_product():
    assert neighbors._margin(np.zeros((2, 768))) == pytest.approx(2 * 784 * math.ldexp(1, -24))
