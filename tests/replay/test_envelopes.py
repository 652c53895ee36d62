import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import marc
from marc import stats
from marc.errors import MarcError
from marc.replay.weights import WeightPath, accuracy_at
from marc.stats import envelope_bootstrap

GRIDS = st.sampled_from([None, (0.0, 1.0, 2.0, 5.0), (0.5,), (1.0, 2.0), marc.WEIGHTS])


def gain_of(images, lower, upper, base, weights):
    """The slow twin: look at every weight that could matter, one at a time."""
    total = 0.0
    for low, high in zip(lower, upper, strict=True):
        tried = weights or [0.0, *(w for w in [*low, *high] if 0 <= w < np.inf)]
        right = [sum(low[i] <= w <= high[i] for i in images) for w in tried]
        total += (max(right) - sum(base[i] for i in images)) / len(images)
    return total / len(lower)


def bootstrap(lower, upper, base, weights, n_replicates, seed):
    draws = np.random.default_rng(seed)
    n_images = len(base)
    drawn = [draws.integers(n_images, size=n_images) for _ in range(n_replicates)]
    gains = [gain_of(images, lower, upper, base, weights) for images in drawn]
    estimate = gain_of(range(n_images), lower, upper, base, weights)
    return [estimate, *np.quantile(gains, [0.025, 0.975])]


def intervals(n_orders, n_images, seed, *, coarse):
    """Intervals of weights as memories leave them; coarse ones share their ends."""
    draw = np.random.default_rng(seed)
    lower, upper = draw.exponential(3.0, (2, n_orders, n_images))
    if coarse:
        lower, upper = np.floor(lower), np.floor(upper)
    upper = upper + np.where(draw.random(upper.shape) < 0.7, lower, 0.0)  # some never right
    lower[draw.random(lower.shape) < 0.3] = 0.0
    upper[draw.random(upper.shape) < 0.2] = np.inf
    upper[draw.random(upper.shape) < 0.1] = -np.inf
    lower[draw.random(lower.shape) < 0.05] = np.inf  # right only beyond all numbers
    return lower, upper, draw.integers(0, 2, n_images)


@settings(max_examples=60)
@given(st.integers(1, 3), st.integers(1, 12), st.integers(0, 2**32 - 1), st.booleans(), GRIDS)
def test_the_bootstrap_equals_its_slow_twin(n_orders, n_images, seed, coarse, weights):
    lower, upper, base = intervals(n_orders, n_images, seed, coarse=coarse)
    found = envelope_bootstrap(lower, upper, base, weights=weights, n_replicates=20, seed=seed)
    expected = bootstrap(lower, upper, base, weights, 20, seed)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("weights", [None, marc.WEIGHTS])
def test_blocks_do_not_change_the_draws(monkeypatch, weights):
    ends = intervals(2, 40, 0, coarse=False)
    whole = envelope_bootstrap(*ends, weights=weights, n_replicates=101)
    monkeypatch.setattr(stats, "_BLOCK", 7 * 40)
    assert envelope_bootstrap(*ends, weights=weights, n_replicates=101) == whole
    monkeypatch.setattr(stats, "_BLOCK", 1)
    assert envelope_bootstrap(*ends, weights=weights, n_replicates=101) == whole


def test_the_estimate_is_the_oracle_gain_of_a_sweep():
    swept = marc.sweep(marc.synthetic_stream(200, 5), capacities=(4,), seeds=(0, 1))
    for space in swept.spaces:
        lower, upper = (side[:, 0] for side in swept.intervals[space])
        for over, weights in (("grid", swept.weights), ("all", None)):
            found = envelope_bootstrap(
                lower, upper, swept.base_correct, weights=weights, n_replicates=50
            )
            assert found.estimate == pytest.approx(swept.oracle(space, 4, over=over).gain)
            assert found.low <= found.high


def test_one_order_needs_no_axis_and_its_best_is_that_of_the_weight_path():
    lower, upper, base = intervals(1, 50, 3, coarse=False)
    found = envelope_bootstrap(lower[0], upper[0], base, n_replicates=20)
    assert found == envelope_bootstrap(lower, upper, base, n_replicates=20)
    assert found.estimate == pytest.approx(
        WeightPath.of(lower[0], upper[0]).best()[1] - base.mean()
    )
    grid = envelope_bootstrap(lower[0], upper[0], base, weights=marc.WEIGHTS, n_replicates=20)
    best = accuracy_at(lower[0], upper[0], marc.WEIGHTS).max()
    assert grid.estimate == pytest.approx(best - base.mean())


def test_images_are_clusters_so_the_same_order_twice_is_no_more_evidence_than_once():
    lower, upper, base = intervals(1, 50, 4, coarse=False)
    once = envelope_bootstrap(lower, upper, base, n_replicates=200)
    twice = envelope_bootstrap(
        np.tile(lower, (2, 1)), np.tile(upper, (2, 1)), base, n_replicates=200
    )
    assert twice == pytest.approx(once)


def test_a_memory_that_never_helps_gains_nothing_in_every_draw():
    base = np.array([1, 1, 0, 0, 1])
    lower, upper = np.zeros(5), np.where(base, 3.0, -np.inf)
    assert envelope_bootstrap(lower, upper, base, n_replicates=100) == (0, 0, 0)
    assert envelope_bootstrap(lower, upper, base, weights=[4.0], n_replicates=100).estimate == -0.6


def test_the_seed_decides_the_draws():
    ends = intervals(1, 30, 5, coarse=False)
    assert envelope_bootstrap(*ends, seed=1) == envelope_bootstrap(*ends, seed=1)
    assert envelope_bootstrap(*ends, seed=1) != envelope_bootstrap(*ends, seed=2)


def test_the_interval_covers_about_as_often_as_it_says():
    # every image is right on [0, 1] or [1, 2]: at w = 1 all are, so the gain is the share of
    # those that are wrong at w = 0, a plain proportion
    draw, hits = np.random.default_rng(6), 0
    for trial in range(200):
        late = draw.random(100) < 0.3
        lower, upper = late.astype(float), 1.0 + late
        found = envelope_bootstrap(lower, upper, ~late, n_replicates=300, seed=trial)
        hits += found.low <= 0.3 <= found.high
    assert 180 <= hits <= 199


def test_two_thousand_draws_of_a_large_stream_take_seconds():
    ends = intervals(1, 7500, 7, coarse=False)
    for weights in (None, marc.WEIGHTS):
        start = time.process_time()
        envelope_bootstrap(*ends, weights=weights)
        assert time.process_time() - start < 20  # half a second on an idle core


@pytest.mark.parametrize(
    ("lower", "upper", "base"),
    [
        ([], [], []),
        ([0.0], [1.0, 2.0], [1]),
        ([0.0, 1.0], [1.0, 2.0], [1]),
        ([[0.0], [1.0]], [[0.0, 1.0]], [1]),
        ([0.0, 1.0], [1.0, 2.0], [[1, 0]]),
        ([[[0.0]]], [[[1.0]]], [1]),
        ([np.nan], [1.0], [1]),
        ([0.0], [np.nan], [1]),
        ([0.0], [1.0], [0.5]),
        ([0.0], [1.0], [np.nan]),
    ],
)
def test_what_are_not_intervals_and_answers_is_refused(lower, upper, base):
    with pytest.raises(MarcError, match="an envelope needs"):
        envelope_bootstrap(lower, upper, base)


@pytest.mark.parametrize(
    "options",
    [{"weights": [2.0, 1.0]}, {"weights": []}, {"n_replicates": 0}, {"seed": -1}, {"seed": 0.5}],
)
def test_settings_that_cannot_be_are_refused(options):
    with pytest.raises(MarcError):
        envelope_bootstrap([0.0], [1.0], [1], **options)
