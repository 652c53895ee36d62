import numpy as np
import pytest
from helpers.making import make_stream

from marc.errors import MarcError
from marc.spaces.calibration import Calibration, central
from marc.spaces.geometry import agreement, purity
from marc.spaces.neighbors import _as_keys, neighbors


def make_points(seed, n_points=120, n_classes=4):
    draw = np.random.default_rng(seed)
    labels = draw.integers(n_classes, size=n_points)
    centers = np.random.default_rng(99).standard_normal((n_classes, 8))
    return _as_keys(centers[labels] + draw.standard_normal((n_points, 8))), labels


@pytest.mark.parametrize("width", [5, 20, 119])
def test_batches_are_measured_as_if_each_had_come_alone(width):
    keys, labels = make_points(0)
    table = neighbors(keys, width)

    def statistic(part, chosen):
        return purity(None, labels[chosen], 5, table=part)

    got = Calibration(120, 5).measure(keys, table, statistic, (30, 60, 119), 20, seed=4)
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
        seen.append(
            Calibration(len(keys), 5).measure(keys, table, lambda part, chosen: chosen, (40,), 6)
        )
    np.testing.assert_array_equal(*seen)
    assert all(len(set(batch)) == 40 for batch in seen[0][:, 0])


@pytest.mark.parametrize("size", [5, 120, 500])
def test_a_batch_of_a_wrong_size_is_refused(size):
    keys, _ = make_points(0)
    with pytest.raises(MarcError, match="6 to 119"):
        Calibration(len(keys), 5).measure(
            keys, neighbors(keys, 5), lambda part, chosen: 0, (size,), 3
        )


def test_a_table_is_wide_enough_for_its_batches_and_not_too_wide():
    assert Calibration(1000, 10).table_width() == 34
    assert Calibration(1000, 10).table_width((500,)) == 54
    assert Calibration(1000, 10).table_width((250, 500)) > Calibration(1000, 10).table_width((500,))
    assert Calibration(40, 10).table_width((20,)) == 39
    assert Calibration(10**4, 10).table_width((250, 500, 1000, 2000)) == 512
    assert Calibration(3 * 10**5, 10).table_width((250, 2000)) == 34  # small ones: directly
    assert Calibration(10**6, 200).table_width((250,)) == 326


@pytest.mark.parametrize(("n_points", "n_classes"), [(40, 6), (160, 4), (160, 20)])
def test_errors_of_a_measure_and_of_a_lead_are_those_of_independent_streams(n_points, n_classes):
    """Also where a class has no more images than neighbours are looked at."""
    centers = np.random.default_rng(99).standard_normal((2, n_classes, 8))
    values, batches = [], []
    for seed in range(50):
        draw = np.random.default_rng(seed)
        labels = draw.integers(n_classes, size=n_points)

        def share(part, chosen, labels=labels):
            return agreement(part, labels[chosen]).mean()

        for space in range(2):
            noise = (0.7 + 0.1 * space) * draw.standard_normal((n_points, 8))
            keys = _as_keys(centers[space, labels] + noise)
            table = neighbors(keys, Calibration(n_points, 10).table_width())
            values.append(share(table[:, :10], np.arange(n_points)))
            size = Calibration(n_points, 10).error_size
            batches.append(Calibration(n_points, 10).measure(keys, table, share, (size,), 30)[:, 0])
    values, batches = np.reshape(values, (50, 2)), np.reshape(batches, (50, 2, 30))
    for told, found in (
        (batches[:, 0], values[:, 0]),
        (batches[:, 0] - batches[:, 1], values[:, 0] - values[:, 1]),
    ):
        errors = Calibration(n_points, 10)._standard_errors(told.T)
        assert errors.mean() == pytest.approx(found.std(), rel=0.35)


def test_an_interval_is_symmetric_and_stays_a_share():
    batches = np.array([0.48, 0.5, 0.52])
    interval = Calibration(100, 10).interval(0.6, batches)
    np.testing.assert_allclose(interval, (0.6, 0.6 - 0.0784, 0.6 + 0.0784), atol=1e-4)
    assert Calibration(100, 10).interval(0.99, batches).high == 1
    assert Calibration(100, 10).interval(0.01, batches).low == 0


def test_the_middle_of_batches_is_their_mean_and_central_share():
    values = np.random.default_rng(0).standard_normal(500)
    expected = (values.mean(), *np.quantile(values, [0.025, 0.975]))
    np.testing.assert_allclose(central(values), expected)


def test_sizes_that_do_not_fit_are_left_out():
    assert Calibration(1000, 10).usable_sizes((250, 500, 250, 10, 1000)) == [250, 500]
    with pytest.raises(MarcError, match="size must be"):
        Calibration(1000, 10).usable_sizes((0,))


@pytest.mark.parametrize(("number", "message"), [(1, "no spread"), (-1, ">= 0"), (2.5, ">= 0")])
def test_one_batch_is_refused(number, message):
    with pytest.raises(MarcError, match=message):
        Calibration.check_replicates(number)


def test_a_sample_is_a_stream_of_some_of_the_images():
    stream = make_stream(n_images=50, n_views=2)
    few = stream.sample(20, seed=3)
    rows = [stream.features.ids.index(name) for name in few.features.ids]
    assert rows == sorted(set(rows))
    assert len(few) == len(rows) == 20
    np.testing.assert_array_equal(few.row_labels, stream.row_labels[rows])
    np.testing.assert_array_equal(few.features.views, stream.features.views[rows])
    np.testing.assert_array_equal(few.features.keys("bad"), stream.features.keys("bad")[rows])
    np.testing.assert_allclose(few.features.base.logits, stream.features.base.logits[rows])
    assert stream.sample(20, seed=3).features.ids == few.features.ids
    assert stream.sample(20, seed=4).features.ids != few.features.ids
    with pytest.raises(MarcError, match="1 to 50"):
        stream.sample(51)


def test_simultaneous_radii_cover_all_measures_at_once():
    draw = np.random.default_rng(0)
    batches = 0.5 + draw.standard_normal((2000, 5)) * [0.01, 0.02, 0.03, 0.04, 0.0]
    radii = Calibration(1000, 10).radii(batches)
    assert radii[4] == 0
    # a batch of four fifths varies half as much as a measure on all images errs
    inside = (2 * np.abs(batches - batches.mean(axis=0)) <= radii).all(axis=1)
    assert inside.mean() == pytest.approx(0.95, abs=0.002)
    one = Calibration(1000, 10).radii(batches[:, :1])
    assert one[0] < radii[0] < 1.3 * one[0]
    together = np.repeat(batches[:, :1], 5, axis=1)  # measures that vary as one cost nothing more
    np.testing.assert_allclose(Calibration(1000, 10).radii(together), np.repeat(one, 5))


@pytest.mark.parametrize("n_images", [41, 500, 2533])
def test_errors_scale_with_the_images_that_a_batch_leaves_out(n_images):
    batches = np.random.default_rng(0).standard_normal((50, 1))
    size = Calibration(n_images, 10).error_size
    ratio = Calibration(n_images, 10)._standard_errors(batches) / batches.std(axis=0, ddof=1)
    assert ratio[0] ** -2 == pytest.approx((1 / size - 1 / n_images) / (1 / n_images))
