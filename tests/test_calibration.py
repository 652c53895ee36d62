import numpy as np
import pytest

from marc.calibration import (
    calibrate,
    interval_of,
    simultaneous_radii,
    standard_errors,
    table_width,
)
from marc.errors import MarcError
from marc.geometry import purity
from marc.neighbors import as_keys, neighbors


def make_points(seed, n_points=120, n_classes=4):
    draw = np.random.default_rng(seed)
    labels = draw.integers(n_classes, size=n_points)
    centers = np.random.default_rng(99).standard_normal((n_classes, 8))
    return as_keys(centers[labels] + draw.standard_normal((n_points, 8))), labels


@pytest.mark.parametrize("width", [5, 20, 119])
def test_batches_are_measured_as_if_each_had_come_alone(width):
    keys, labels = make_points(0)
    table = neighbors(keys, width)

    def statistic(part, chosen):
        return purity(None, labels[chosen], 5, table=part)

    got = calibrate(keys, table, statistic, 5, (30, 60, 119), 20, seed=4)
    assert got.shape == (20, 3)
    for number in range(20):
        order = np.random.default_rng([4, number]).permutation(120)
        for place, size in enumerate((30, 60, 119)):
            chosen = np.sort(order[:size])
            assert got[number, place] == purity(keys[chosen], labels[chosen], 5)


def test_the_batches_do_not_depend_on_the_space():
    seen = []
    for seed in (0, 1):
        keys, _ = make_points(seed)
        table = neighbors(keys, 10)
        seen.append(calibrate(keys, table, lambda part, chosen: chosen, 5, (40,), 6))
    np.testing.assert_array_equal(*seen)
    assert all(len(set(batch)) == 40 for batch in seen[0][:, 0])


@pytest.mark.parametrize("size", [5, 120, 500])
def test_a_batch_of_a_wrong_size_is_refused(size):
    keys, _ = make_points(0)
    with pytest.raises(MarcError, match="6 to 119"):
        calibrate(keys, neighbors(keys, 5), lambda part, chosen: 0, 5, (size,), 3)


def test_a_table_is_wide_enough_for_its_batches_and_not_too_wide():
    assert table_width(1000, 10, (500,)) == 54
    assert table_width(1000, 10, (250, 500)) > table_width(1000, 10, (500,))
    assert table_width(40, 10, (20,)) == 39
    assert table_width(10**6, 10, (250,)) < 100
    assert table_width(10**6, 200, (250,)) == 200
    assert table_width(1000, 10, ()) == 10


def test_standard_errors_are_those_of_independent_streams():
    values, errors = [], []
    for seed in range(80):
        keys, labels = make_points(seed, n_points=200)
        table = neighbors(keys, 50)

        def share(part, chosen, labels=labels):
            return (labels[chosen][part] == labels[chosen][:, np.newaxis]).mean()

        values.append(share(table[:, :10], np.arange(200)))
        errors.append(standard_errors(calibrate(keys, table, share, 10, (100,), 60)[:, 0], 200))
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.3)


def test_an_interval_is_symmetric_and_stays_a_share():
    halves = np.array([0.48, 0.5, 0.52])
    interval = interval_of(0.6, halves, 100)
    np.testing.assert_allclose(interval, (0.6, 0.6 - 0.0392, 0.6 + 0.0392), atol=1e-4)
    assert interval_of(0.99, halves, 100).high == 1
    assert interval_of(0.01, halves, 100).low == 0


def test_simultaneous_radii_cover_all_measures_at_once():
    draw = np.random.default_rng(0)
    halves = 0.5 + draw.standard_normal((2000, 5)) * [0.01, 0.02, 0.03, 0.04, 0.0]
    radii = simultaneous_radii(halves, 1000)
    assert radii[4] == 0
    inside = (np.abs(halves - halves.mean(axis=0)) <= radii).all(axis=1)
    assert inside.mean() == pytest.approx(0.95, abs=0.002)
    one = simultaneous_radii(halves[:, :1], 1000)
    assert one[0] < radii[0] < 1.3 * one[0]
    together = np.repeat(halves[:, :1], 5, axis=1)  # measures that vary as one cost nothing more
    np.testing.assert_allclose(simultaneous_radii(together, 1000), np.repeat(one, 5))


def test_an_odd_number_of_images_is_split_as_evenly_as_it_can():
    halves = np.random.default_rng(0).standard_normal((50, 1))
    ratio = standard_errors(halves, 101) / halves.std(axis=0, ddof=1)
    assert ratio[0] == pytest.approx(np.sqrt(50 / 51))
