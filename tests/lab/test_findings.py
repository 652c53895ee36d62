"""What the lab is for: the space decides, and purity alone does not tell everything."""

import numpy as np
import pytest

import marc
from marc.spaces import geometry
from marc.stats import paired_difference


@pytest.fixture(scope="module")
def stream():
    return marc.load_stream("lab/sketch-12")


@pytest.fixture(scope="module")
def gains(stream):
    """Gain at the fixed setting, K = 16 and w = 10, with its interval over images."""
    found = marc.sweep(stream, capacities=(16,), weights=(0.0, 10.0))
    right = {s: (low <= 10.0) & (high >= 10.0) for s, (low, high) in found.intervals.items()}
    base = np.broadcast_to(found.base_correct, (3, len(stream)))
    return {s: paired_difference(each.reshape(base.shape), base) for s, each in right.items()}


def test_the_same_memory_repairs_in_one_space_and_ruins_in_another(gains):
    assert gains["pairs-large"].low > 0.05
    assert gains["masked-vit"].high < -0.2
    assert gains["random"].high < -0.2


def test_a_pure_space_is_worthless_if_it_repeats_the_predictors_mistakes(stream, gains):
    """`captions` is the predictor's own space: pure, but its neighbours share its errors."""
    answers = geometry.pseudo_labels(stream)
    purity = {s: geometry.purity(stream.features.keys(s), stream.row_labels) for s in gains}
    agreement = {s: geometry.pseudo_purity(stream.features.keys(s), answers) for s in gains}
    assert purity["captions"] > 0.55
    assert agreement["captions"] > purity["captions"] - 0.05  # as much agreement as truth
    assert gains["captions"].high < -0.1
    assert agreement["rotation"] < agreement["captions"]  # a space that agrees less
    assert gains["rotation"].low > 0.03  # and helps


def test_the_label_free_choice_is_one_of_the_good_spaces(stream, gains):
    candidates = [s for s in gains if s not in ("captions", "labels", "random", "pixels")]
    first = marc.select(stream, candidates, n_replicates=50).ranking[0].space
    assert gains[first].low > 0.05
