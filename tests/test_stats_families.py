"""Families of p-values, and rank correlations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from marc.errors import MarcError
from marc.stats import benjamini_hochberg, benjamini_hochberg_log10, bonferroni, spearman

RANKED = st.lists(st.tuples(st.integers(0, 5), st.integers(-2, 4)), min_size=2, max_size=20)


@given(RANKED)
def test_a_rank_correlation_is_that_of_scipy(pairs):
    first, second = zip(*pairs, strict=True)
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert math.isnan(spearman(first, second))
        return
    assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic, abs=1e-12)
    assert spearman(first, first) == 1
    assert spearman(first, [-x for x in first]) == -1


@given(RANKED)
def test_a_rank_correlation_without_ties_at_zero_leaves_out_what_does_not_gain(pairs):
    kept = [(a, b) for a, b in pairs if b > 0]
    result = spearman(*zip(*pairs, strict=True), only_positive=True)
    expected = spearman(*zip(*kept, strict=True)) if kept else math.nan
    assert result == expected or (math.isnan(result) and math.isnan(expected))


@pytest.mark.parametrize(("first", "second"), [([], []), ([1, 2], [1]), ([1, np.nan], [1, 2])])
def test_a_rank_correlation_needs_pairs_of_numbers(first, second):
    with pytest.raises(MarcError, match="a rank correlation needs"):
        spearman(first, second)


P_VALUES = st.lists(st.floats(1e-300, 1), min_size=1, max_size=12)


@given(P_VALUES)
def test_adjusted_p_values_follow_from_their_definition(p_values):
    n, ordered = len(p_values), sorted(p_values)
    for p_value, adjusted in zip(p_values, benjamini_hochberg(p_values), strict=True):
        # the smallest level at which the step-up rule rejects it
        levels = [ordered[k] * n / (k + 1) for k in range(n) if ordered[k] >= p_value]
        assert adjusted == pytest.approx(min(1, *levels))
    assert bonferroni(p_values).tolist() == pytest.approx([min(1, n * p) for p in p_values])


@given(P_VALUES)
def test_adjusting_logarithms_adjusts_the_p_values(p_values):
    adjusted = benjamini_hochberg_log10(np.log10(p_values))
    np.testing.assert_allclose(10**adjusted, benjamini_hochberg(p_values), rtol=1e-9)


def test_a_family_keeps_its_shape_and_the_smallest_stay_above_zero():
    family = np.array([[0.01, 0.5, 0.02], [0.03, 1.0, 0.2]])
    flat = benjamini_hochberg(family.ravel())
    assert benjamini_hochberg(family).tolist() == flat.reshape(2, 3).tolist()
    assert bonferroni(family).shape == (2, 3)
    assert benjamini_hochberg_log10([-1000.0, -2.0]) == pytest.approx([-1000 + np.log10(2), -2])


@pytest.mark.parametrize("family", [[], [0.5, np.nan], [-0.1, 0.5], [0.5, 1.1]])
@pytest.mark.parametrize("function", [benjamini_hochberg, bonferroni])
def test_what_is_not_a_p_value_is_refused(function, family):
    with pytest.raises(MarcError, match="between 0 and 1"):
        function(family)


@pytest.mark.parametrize("family", [[], [-1.0, np.nan], [0.1], [-np.inf]])
def test_what_is_not_the_logarithm_of_a_p_value_is_refused(family):
    with pytest.raises(MarcError, match="finite numbers <= 0"):
        benjamini_hochberg_log10(family)
