import itertools

import numpy as np
import pytest
from helpers import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from marc.errors import MarcError
from marc.replay.weights import (
    WeightPath,
    accuracy_at,
    check_weights,
    right_weights,
    winning_segments,
)

NEAR = 1e-6  # of the largest score: closer than this, rounding may decide

small = st.sampled_from([0.0, 0.0, 1.0, 1.0, 2.0, 3.5])  # whole ties are likely


@st.composite
def scored_images(draw):
    n_images, n_classes = draw(st.integers(1, 12)), draw(st.integers(2, 6))
    tied = draw(st.booleans())
    if tied:
        rows = st.lists(small, min_size=n_classes, max_size=n_classes)
        base = np.array([draw(rows) for _ in range(n_images)])
        evidence = np.array([draw(rows) for _ in range(n_images)])
    else:
        random = np.random.default_rng(draw(st.integers(0, 10**6)))
        base = 5 * random.standard_normal((n_images, n_classes))
        evidence = random.exponential(size=(n_images, n_classes))
    labels = np.array([draw(st.integers(0, n_classes - 1)) for _ in range(n_images)])
    return base.astype(np.float32), evidence.astype(np.float32), labels


@settings(max_examples=300)
@given(scored_images(), st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0, 3.0, 10.0, 100.0]))
def test_the_interval_agrees_with_argmax_also_at_exact_ties(images, weight):
    base, evidence, labels = images
    lower, upper = right_weights(base, evidence, labels)
    for t, label in enumerate(labels):
        b, e = base[t].astype(np.float64), evidence[t].astype(np.float64)
        gap = np.abs((b + weight * e) - (b[label] + weight * e[label]))
        rounding = (gap > 0) & (gap < NEAR * (1 + np.abs(b).max() + weight * e.max()))
        if not rounding.any():  # an exact tie has gap 0 and must be decided by the class index
            right = lower[t] <= weight <= upper[t]
            assert right == reference.correct_at(b, e, label, weight)


def test_the_path_agrees_with_brute_force_at_a_thousand_weights():
    draw = np.random.default_rng(0)
    n_images, n_classes = 400, 30
    base = (4 * draw.standard_normal((n_images, n_classes))).astype(np.float32)
    evidence = draw.exponential(size=(n_images, n_classes)).astype(np.float32)
    evidence[draw.random(evidence.shape) < 0.3] = 0.0  # empty classes
    labels = draw.integers(n_classes, size=n_images)
    lower, upper = right_weights(base, evidence, labels)
    path = WeightPath.of(lower, upper)
    n_near = 0
    for weight in np.concatenate([[0.0], 10 ** draw.uniform(-3, 3, size=1000)]):
        fused = base.astype(np.float64) + weight * evidence
        top = np.sort(fused, axis=1)
        near = top[:, -1] - top[:, -2] < NEAR * np.abs(fused).max(axis=1)
        right = fused.argmax(axis=1) == labels
        inside = (lower <= weight) & (weight <= upper)
        assert np.array_equal(right[~near], inside[~near])
        assert abs(path.at(weight) - right.mean()) * n_images <= near.sum() + 1e-9
        n_near += near.sum()
    assert n_near < 40  # of 400,400 decisions


@given(scored_images())
def test_each_piece_of_the_path_is_the_accuracy_between_its_ends(images):
    lower, upper = right_weights(*images)
    path = WeightPath.of(lower, upper)
    assert path.starts[0] == 0
    assert (np.diff(path.starts) > 0).all()
    assert np.array_equal(path.accuracy, accuracy_at(lower, upper, tuple(path.starts)))
    for piece, (start, end) in enumerate(itertools.pairwise(path.starts)):
        middle = (start + end) / 2
        if middle < end:  # neighbouring floats have nothing between them
            assert accuracy_at(lower, upper, (middle,))[0] == path.accuracy[piece]
    assert path.at(1e9) == path.accuracy[-1]


@given(scored_images())
def test_the_best_weight_is_the_smallest_of_the_best(images):
    lower, upper = right_weights(*images)
    weight, accuracy = WeightPath.of(lower, upper).best()
    tried = np.concatenate([np.linspace(0, 50, 501), 10 ** np.linspace(-3, 4, 200)])
    accuracies = accuracy_at(lower, upper, tuple(tried))
    assert accuracies.max() <= accuracy
    assert (accuracies[tried < weight] < accuracy).all()


@given(scored_images(), st.floats(0, 200))
def test_segments_name_the_winner_without_labels(images, weight):
    base, evidence, _ = images
    for b, e in zip(base.astype(np.float64), evidence.astype(np.float64), strict=True):
        starts = [start for start, _ in winning_segments(b, e)]
        classes = [winner for _, winner in winning_segments(b, e)]
        assert starts == sorted(starts)
        assert len(set(classes)) == len(classes) <= len(b)
        winner = classes[np.searchsorted(starts, weight, side="right") - 1]
        fused = b + weight * e
        assert fused[winner] >= fused.max() - NEAR * (1 + np.abs(fused).max())
        if weight == 0:
            assert base[0].argmax() == winning_segments(base[0], evidence[0])[0][1]


def test_an_image_that_no_weight_gets_right_has_an_empty_interval():
    lower, upper = right_weights(
        np.array([[1.0, 0.0]], np.float32), np.array([[1.0, 1.0]], np.float32), np.array([1])
    )
    assert upper[0] < lower[0]
    assert WeightPath.of(lower, upper).accuracy.tolist() == [0.0]


@pytest.mark.parametrize("bad", [(), (1.0, 1.0), (2.0, 1.0), (-1.0,), (float("nan"),), ("x",)])
def test_odd_weights_are_refused(bad):
    with pytest.raises(MarcError, match="weight"):
        check_weights(bad)
