import math

import numpy as np
import pytest
from helpers import reference
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from marc.scores import (
    VIEW_ENTROPIES,
    BaseScores,
    _keep_confident_views,
    _n_kept,
    entropy,
    fuse,
    kept_posterior,
    kernel,
    score_views,
    softmax,
    softmax_entropy,
    unit,
)

SEEDS = st.integers(0, 2**32 - 1)
N_CLASSES = st.integers(2, 50)
N_VIEWS = st.sampled_from([1, 2, 8, 20, 64])
SCALES = st.sampled_from([0.01, 1.0, 10.0])


def draw_logits(seed, n_views, n_classes, scale):
    draw = np.random.default_rng(seed)
    return (scale * draw.standard_normal((n_views, n_classes))).astype(np.float32)


view_logits = st.builds(draw_logits, SEEDS, N_VIEWS, N_CLASSES, SCALES)


def assume_clear_ranks(logits):
    """Leave out entropies so near each other that rounding decides their order."""
    entropies = sorted(reference.entropy(reference.softmax(row)) for row in logits)
    assume(np.diff(entropies[: _n_kept(len(logits)) + 1]).min(initial=1.0) > 1e-12)


def close(actual, expected, tolerance=1e-10):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def assert_same_scores(scores, expected):
    np.testing.assert_array_equal(scores.logits, expected.logits)
    np.testing.assert_array_equal(scores.label, expected.label)
    np.testing.assert_array_equal(scores.view_entropy, expected.view_entropy)


@settings(deadline=None)
@given(view_logits)
def test_softmax_and_entropies_equal_the_reference(logits):
    posteriors = [reference.softmax(row) for row in logits]
    entropies = [reference.entropy(row) for row in posteriors]
    close(softmax(logits), posteriors)
    close(entropy(posteriors), entropies)
    close(softmax_entropy(logits), entropies)


@settings(deadline=None)
@given(view_logits)
def test_base_scores_equal_the_reference(logits):
    assume_clear_ranks(logits)
    scores = score_views(logits)
    base = reference.base_logits(logits.astype(np.float64))
    close(scores.logits, base, 1e-6)
    assert scores.label == reference.argmax(scores.logits)
    for reading in VIEW_ENTROPIES:
        close(scores.entropy_as(reading), reference.view_entropy(logits, reading))


@settings(deadline=None)
@given(view_logits)
def test_kept_views_equal_the_reference(logits):
    assume_clear_ranks(logits)
    kept = reference.kept_views(logits)
    assert _keep_confident_views(logits).tolist() == kept
    close(kept_posterior(logits), reference.mean_posterior([logits[view] for view in kept]))


@given(SEEDS, st.floats(0.0, 20.0), st.sampled_from([np.float32, np.float64]))
def test_kernel_equals_the_reference_in_the_dtype_that_comes(seed, beta, dtype):
    similarity = np.random.default_rng(seed).uniform(-1, 1, 30).astype(dtype)
    before = similarity.copy()
    weights = kernel(similarity, beta)
    assert weights.dtype == dtype
    np.testing.assert_allclose(weights, reference.kernel(before, 1.0, beta), rtol=1e-5)
    np.testing.assert_array_equal(similarity, before)


def test_kernel_is_one_at_similarity_one():
    assert kernel(np.ones(1, dtype=np.float32), 5.0) == 1.0


@given(SEEDS, st.floats(0.0, 1e3))
def test_fuse_adds_weighted_evidence_in_float64(seed, weight):
    draw = np.random.default_rng(seed)
    base, evidence = draw.standard_normal((2, 9)).astype(np.float32)
    fused = fuse(base, evidence, weight)
    assert fused.dtype == np.float64
    assert fused.tolist() == [
        float(b) + weight * float(e) for b, e in zip(base, evidence, strict=True)
    ]


@given(SEEDS, st.integers(1, 9), st.integers(1, 40), st.sampled_from([np.float16, np.float64]))
def test_unit_equals_the_reference_and_gives_float32(seed, n_rows, dim, dtype):
    rows = np.random.default_rng(seed).uniform(0.5, 2.0, (n_rows, dim)).astype(dtype)
    before = rows.copy()
    units = unit(rows)
    assert units.dtype == np.float32
    close(units, reference.unit(before), 1e-6)
    np.testing.assert_array_equal(rows, before)


@given(SEEDS, st.integers(1, 9), st.integers(1, 300))
def test_unit_of_a_row_has_the_same_bits_alone_and_in_a_batch(seed, n_rows, dim):
    rows = np.random.default_rng(seed).standard_normal((n_rows, 3, dim), dtype=np.float32)
    units = unit(rows)
    np.testing.assert_array_equal(unit(rows[:, 0]), units[:, 0])
    for image in range(n_rows):
        np.testing.assert_array_equal(unit(rows[image]), units[image])
        for view in range(3):
            np.testing.assert_array_equal(unit(rows[image, view]), units[image, view])


def test_unit_gives_the_same_bits_in_any_memory_layout():
    rows = np.random.default_rng(0).standard_normal((40, 64), dtype=np.float32)
    np.testing.assert_array_equal(unit(np.asfortranarray(rows)), unit(rows))


@pytest.mark.parametrize(
    ("n_views", "kept"),
    [(1, 1), (2, 1), (9, 1), (10, 1), (19, 1), (20, 2), (29, 2), (30, 3), (64, 6), (100, 10)],
)
def test_one_view_in_ten_is_kept_and_at_least_one(n_views, kept):
    assert _n_kept(n_views) == kept


@pytest.mark.parametrize("first", [0, 5])
def test_views_of_equal_entropy_keep_the_lower_index(first):
    row = np.array([2.0, 1.0, 0.0, -1.0], dtype=np.float32)
    logits = np.array([row if view >= first else np.zeros(4) for view in range(30)])
    assert _keep_confident_views(logits).tolist() == [first, first + 1, first + 2]


def test_the_most_confident_view_comes_first():
    logits = np.array([[0.0, 0.0], [0.0, 5.0], [0.0, 1.0]], dtype=np.float32)
    assert _keep_confident_views(logits).tolist() == [1]
    assert score_views(logits).logits.tolist() == [0.0, 5.0]


def test_tied_logits_give_the_lowest_class():
    assert score_views(np.array([[1.0, 3.0, 3.0]], dtype=np.float32)).label == 1


@settings(deadline=None)
@given(SEEDS, N_VIEWS, N_CLASSES, st.integers(-1000, 1000))
def test_a_constant_added_to_all_logits_changes_nothing(seed, n_views, n_classes, constant):
    # On a grid of 1/8 the float32 sums are exact, so equality is exact too.
    draw = np.random.default_rng(seed)
    logits = (draw.integers(-200, 200, (n_views, n_classes)) / 8).astype(np.float32)
    moved = logits + np.float32(constant)
    np.testing.assert_array_equal(softmax(moved), softmax(logits))
    np.testing.assert_array_equal(softmax_entropy(moved), softmax_entropy(logits))
    np.testing.assert_array_equal(_keep_confident_views(moved), _keep_confident_views(logits))
    np.testing.assert_array_equal(kept_posterior(moved), kept_posterior(logits))
    scores, plain = score_views(moved), score_views(logits)
    np.testing.assert_array_equal(scores.view_entropy, plain.view_entropy)
    close(scores.logits - np.float32(constant), plain.logits, 1e-3)


def test_double_softmax_entropies_of_a_thousand_classes_are_told_apart():
    logits = 3 * np.random.default_rng(0).standard_normal((2000, 1, 1000), dtype=np.float32)
    entropies = score_views(logits).entropy_as("double_softmax")
    assert entropies.dtype == np.float64
    assert np.ptp(entropies) < 0.01
    assert len(np.unique(entropies)) > 1000


@pytest.mark.parametrize("n_views", [1, 20])
@pytest.mark.parametrize("size", [1e-38, 1e-30, 1e4, 1e30, 3e38])
def test_huge_and_tiny_logits_stay_finite(size, n_views):
    signs = np.random.default_rng(0).uniform(-1, 1, (n_views, 7))
    logits = (size * signs).astype(np.float32)
    scores = score_views(logits)
    assert np.isfinite(scores.logits).all()
    assert np.isfinite(scores.view_entropy).all()
    assert (scores.view_entropy >= 0).all()
    assert (scores.view_entropy <= math.log(7) + 1e-12).all()
    np.testing.assert_allclose(softmax(logits).sum(axis=-1), 1.0)


def test_entropy_of_certainty_is_zero_and_of_uniformity_is_log_c():
    assert entropy([1.0, 0.0, 0.0]) == 0.0
    assert entropy([0.25] * 4) == pytest.approx(math.log(4))
    assert softmax_entropy(np.zeros(4)) == pytest.approx(math.log(4))


@settings(deadline=None)
@given(SEEDS, st.integers(1, 6), N_VIEWS, N_CLASSES, SCALES)
def test_a_batch_gives_every_image_the_bits_it_has_alone(seed, n_images, n_views, n_classes, scale):
    logits = draw_logits(seed, n_images * n_views, n_classes, scale)
    block = logits.reshape(n_images, n_views, n_classes)
    scores, posteriors = score_views(block), kept_posterior(block)
    assert scores.logits.shape == (n_images, n_classes)
    assert scores.label.shape == (n_images,)
    assert scores.view_entropy.shape == (n_images, 3)
    for image in range(n_images):
        assert_same_scores(scores.at(image), score_views(block[image]))
        np.testing.assert_array_equal(posteriors[image], kept_posterior(block[image]))


def test_scores_of_some_images_are_picked_by_index():
    scores = BaseScores(np.eye(3, dtype=np.float32), np.arange(3), np.arange(9.0).reshape(3, 3))
    some = scores.at(np.array([2, 0]))
    assert some.label.tolist() == [2, 0]
    assert some.entropy_as("double_softmax").tolist() == [6.0, 0.0]
    assert some.entropy_as("posterior").tolist() == [7.0, 1.0]
    assert some.entropy_as("tda").tolist() == [8.0, 2.0]
