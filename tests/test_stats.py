import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, ttest_1samp

from marc.errors import MarcError
from marc.scores import softmax
from marc.stats import (
    mcnemar_exact,
    mcnemar_log10,
    paired_difference,
    paired_interval,
    ratio_interval,
    seed_interval,
    temperature,
    wilson,
)

BITS = st.integers(0, 1)
PAIRS = st.lists(st.tuples(BITS, BITS), min_size=1, max_size=40)
COUNTS = st.integers(0, 60)
NUMBERS = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))
Z = statistics.NormalDist().inv_cdf(0.975)


def answers(gained, lost, n_images):
    rest = np.zeros(n_images - gained - lost)
    correct = np.concatenate([np.ones(gained), np.zeros(lost), rest])
    reference = np.concatenate([np.zeros(gained), np.ones(lost), rest])
    return correct, reference


def percent(interval):
    return [round(100 * value, 2) for value in interval]


@pytest.mark.parametrize(
    ("gained", "lost", "expected"),
    [(1511, 147, [18.19, 17.21, 19.17]), (545, 1316, [-10.28, -11.38, -9.18])],
)
def test_paired_differences_of_the_paper(gained, lost, expected):
    assert percent(paired_difference(*answers(gained, lost, 7500))) == expected


@given(PAIRS)
def test_the_interval_follows_from_discordant_images(pairs):
    correct, reference = np.array(pairs).T
    gained, lost = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
    estimate = (gained - lost) / len(pairs)
    half = Z * math.sqrt(gained + lost - (gained - lost) ** 2 / len(pairs)) / len(pairs)
    result = paired_difference(correct, reference)
    np.testing.assert_allclose(result, [estimate, estimate - half, estimate + half], atol=1e-12)
    assert (result.estimate, result.low, result.high) == tuple(result)


@given(st.integers(1, 5), st.integers(1, 20), st.integers(0, 2**32 - 1))
def test_orders_are_averaged_for_each_image_first(n_orders, n_images, seed):
    correct, reference = np.random.default_rng(seed).integers(0, 2, (2, n_orders, n_images))
    differences = [
        statistics.fmean(float(correct[o, i] - reference[o, i]) for o in range(n_orders))
        for i in range(n_images)
    ]
    estimate = statistics.fmean(differences)
    half = Z * statistics.pstdev(differences) / math.sqrt(n_images)
    result = paired_difference(correct, reference)
    np.testing.assert_allclose(result, [estimate, estimate - half, estimate + half], atol=1e-12)


def test_the_same_order_twice_is_no_more_evidence_than_once():
    correct, reference = answers(30, 10, 100)
    once = paired_difference(correct, reference)
    twice = paired_difference(np.tile(correct, (2, 1)), np.tile(reference, (2, 1)))
    assert twice == pytest.approx(once)


def test_swapping_the_sides_turns_the_interval_round():
    correct, reference = answers(30, 10, 100)
    one, other = paired_difference(correct, reference), paired_difference(reference, correct)
    assert one == pytest.approx((-other.estimate, -other.high, -other.low))


def test_booleans_are_answers_too():
    correct, reference = answers(30, 10, 100)
    result = paired_difference(correct.astype(bool), reference.astype(bool))
    assert result == paired_difference(correct, reference)
    assert mcnemar_exact(correct.astype(bool), reference.astype(bool)) < 0.05


@settings(deadline=None)  # the first call imports scipy
@given(st.integers(0, 25), st.integers(0, 25))
def test_mcnemar_equals_the_binomial_sum(gained, lost):
    n = gained + lost
    tail = sum(math.comb(n, k) for k in range(min(gained, lost) + 1)) / 2**n
    p_value = mcnemar_exact(*answers(gained, lost, 60))
    assert p_value == pytest.approx(min(1.0, 2 * tail))
    assert p_value == pytest.approx(mcnemar_exact(*answers(lost, gained, 60)))


def test_mcnemar_is_one_where_no_answer_differs():
    assert mcnemar_exact([1, 0, 1], [1, 0, 1]) == 1.0


def test_mcnemar_refuses_more_than_one_order():
    with pytest.raises(MarcError) as refused:
        mcnemar_exact(np.ones((2, 3)), np.zeros((2, 3)))
    assert str(refused.value) == (
        "an exact test compares one order.\n  got:  (2, 3)\n  allowed:  (T,)"
    )


@settings(deadline=None)  # the first call imports scipy
@given(st.integers(1, 500), st.data())
def test_wilson_equals_the_closed_formula(n, data):
    k = data.draw(st.integers(0, n))
    share = k / n
    middle = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    np.testing.assert_allclose(wilson(k, n), [share, middle - half, middle + half], atol=1e-12)


@pytest.mark.parametrize(("n_correct", "n_images"), [(0, 0), (5, 3), (-1, 3)])
def test_wilson_refuses_counts_that_cannot_be(n_correct, n_images):
    with pytest.raises(ValueError, match="must"):
        wilson(n_correct, n_images)


@pytest.mark.parametrize("function", [paired_difference, mcnemar_exact])
@pytest.mark.parametrize(
    ("one", "other"), [((3,), (4,)), ((3,), (1, 3)), ((2, 3), (3, 2)), ((0,), (0,)), ((1,), ())]
)
def test_different_shapes_and_empty_answers_are_refused(function, one, other):
    with pytest.raises(MarcError) as refused:
        function(np.ones(one), np.ones(other))
    assert str(refused.value) == (
        f"a paired comparison needs the same images on both sides.\n  got:  {one}, {other}"
    )


@pytest.mark.parametrize("function", [paired_difference, mcnemar_exact])
def test_an_answer_that_is_not_a_number_is_refused(function):
    with pytest.raises(MarcError, match=r"right \(1\) or wrong \(0\)"):
        function([1.0, np.nan], [1.0, 0.0])


def test_mcnemar_refuses_shares_of_right_answers():
    with pytest.raises(MarcError, match="right or wrong"):
        mcnemar_exact([0.5, 1.0], [0.0, 1.0])


@given(COUNTS, COUNTS, COUNTS.filter(bool))
def test_the_interval_of_counts_is_that_of_the_answers(gained, lost, others):
    n_images = gained + lost + others
    expected = paired_difference(*answers(gained, lost, n_images))
    assert paired_interval(gained, lost, n_images) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("counts", [(-1, 0, 5), (0, -1, 5), (0, 0, 0), (3, 3, 5), (1.5, 0, 5)])
def test_counts_that_cannot_be_have_no_interval(counts):
    with pytest.raises(MarcError):
        paired_interval(*counts)


@given(st.integers(0, 400), st.integers(0, 400))
def test_the_logarithm_is_that_of_the_binomial_test(gained, lost):
    expected = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert 10 ** mcnemar_log10(gained, lost) == pytest.approx(expected, rel=1e-9)
    p_value = mcnemar_exact(*answers(gained, lost, 801))
    assert 10 ** mcnemar_log10(lost, gained) == pytest.approx(p_value, rel=1e-9)


@pytest.mark.parametrize(
    ("more", "fewer"), [(3416, 140), (1100, 0), (7000, 500), (30000, 19000), (25001, 25000)]
)
def test_the_logarithm_is_exact_where_the_p_value_is_too_small_for_a_number(more, fewer):
    n = more + fewer
    term = total = 1
    for k in range(1, fewer + 1):
        term = term * (n - k + 1) // k
        total += term
    expected = min(0.0, math.log10(2 * total) - n * math.log10(2))  # integers of any size
    assert mcnemar_log10(more, fewer) == pytest.approx(expected, rel=1e-11, abs=1e-9)
    assert math.isfinite(mcnemar_log10(more, fewer))


@pytest.mark.parametrize("counts", [(-1, 0), (0, -1), (1.5, 2), (True, 1), ("1", 2)])
def test_the_logarithm_refuses_counts_that_cannot_be(counts):
    with pytest.raises(MarcError, match="an integer"):
        mcnemar_log10(*counts)


@given(st.lists(NUMBERS, min_size=2, max_size=8).filter(lambda x: len(set(x)) > 1))
def test_the_interval_over_orders_is_that_of_the_t_test(values):
    low, high = ttest_1samp(values, 0).confidence_interval(0.95)
    expected = [statistics.fmean(values), low, high]
    np.testing.assert_allclose(seed_interval(values), expected, rtol=1e-9, atol=1e-6)


def test_three_orders_have_the_factor_of_the_paper():
    interval = seed_interval([1.0, 2.0, 4.0])
    half = 2.484 * statistics.stdev([1.0, 2.0, 4.0])
    assert interval.high - interval.estimate == pytest.approx(half, rel=1e-4)


def test_one_order_has_no_interval_over_orders():
    with pytest.raises(MarcError) as refused:
        seed_interval([0.5])
    assert str(refused.value) == (
        "an interval over orders needs several of them.\n  got:  1 value\n"
        "  allowed:  two or more\n  try:  marc run ... --seed 0 1 2"
    )


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], [1.0, np.nan], [1.0, np.inf]])
def test_an_interval_over_orders_needs_finite_numbers(values):
    with pytest.raises(MarcError, match="finite numbers"):
        seed_interval(values)


def test_a_ratio_is_taken_inside_each_repeat():
    slow, fast = [10.0, 22.0, 57.0], [1.0, 2.0, 6.0]
    assert ratio_interval(slow, fast) == seed_interval([10.0, 11.0, 9.5])
    assert ratio_interval(slow, fast).estimate != pytest.approx(sum(slow) / sum(fast))


@pytest.mark.parametrize(
    ("above", "below", "message"),
    [
        ([1, 2], [1, 0], "not zero"),
        ([1, 2], [1, 2, 3], "2 and 3"),
        ([], [], "finite numbers"),
        ([1, np.nan], [1, 1], "finite numbers"),
        ([1], [2], "several"),
    ],
)
def test_ratios_that_cannot_be_are_refused(above, below, message):
    with pytest.raises(MarcError, match=message):
        ratio_interval(above, below)


def test_a_temperature_gives_the_mean_confidence_and_leaves_the_answers():
    draw = np.random.default_rng(0)
    logits = 9 * draw.standard_normal((200, 6))
    for confidence in (0.2, 0.5, 0.9, 0.999):
        t = temperature(logits, confidence)
        cooled = softmax(logits / t)
        assert cooled.max(axis=1).mean() == pytest.approx(confidence, abs=1e-9)
        assert np.array_equal(cooled.argmax(axis=1), logits.argmax(axis=1))
    own = softmax(logits).max(axis=1).mean()
    assert temperature(logits, own) == pytest.approx(1, abs=1e-6)
    assert temperature(3 * logits, own) == pytest.approx(3, abs=1e-5)


@pytest.mark.parametrize("confidence", [1 / 6, 0.0, 1.0, float("nan")])
def test_a_confidence_that_no_temperature_gives_is_refused(confidence):
    with pytest.raises(MarcError, match="no temperature gives"):
        temperature(np.eye(6), confidence)


@pytest.mark.parametrize("logits", [np.ones(3), np.ones((0, 3)), np.full((2, 3), np.nan)])
def test_a_temperature_needs_finite_logits(logits):
    with pytest.raises(MarcError, match="finite logits"):
        temperature(logits, 0.5)
