"""Estimates with their errors, against plain arithmetic."""

import math

import numpy as np
import pytest
from scipy.stats import t

from marc_paper.study.artifacts import Estimate


def answers(seed, shape):
    draw = np.random.default_rng(seed)
    return draw.random(shape) < 0.7, draw.random(shape) < 0.4


def half_width(by_image):
    deviation = math.sqrt(np.mean((by_image - by_image.mean()) ** 2))
    return 1.959963984540054 * deviation / math.sqrt(len(by_image))


def test_a_paired_estimate_averages_orders_before_images():
    correct, reference = answers(0, (3, 50))
    found = Estimate.paired(correct, reference)
    by_image = np.mean([a * 1.0 - b for a, b in zip(correct, reference, strict=True)], axis=0)
    by_order = [a.mean() - b.mean() for a, b in zip(correct, reference, strict=True)]
    half = half_width(by_image)
    assert found.value == pytest.approx(by_image.mean())
    assert (found.low, found.high) == pytest.approx((found.value - half, found.value + half))
    assert found.sd == pytest.approx(np.std(by_order, ddof=1))


def test_one_order_has_an_interval_and_no_deviation():
    correct, reference = answers(1, (1, 40))
    found = Estimate.paired(correct, reference)
    assert found == Estimate.paired(correct[0], reference[0])
    assert found.sd is None
    assert found.high - found.value == pytest.approx(half_width(correct[0] * 1.0 - reference[0]))


def test_a_reference_may_be_the_same_in_every_order():
    correct, reference = answers(2, (3, 40))
    found = Estimate.paired(correct, reference[0])
    assert found == Estimate.paired(correct, np.stack([reference[0]] * 3))


def test_values_may_be_gains():
    first, second = (np.array([[1, -1, 0, 0], [0, 0, 1, 1]], np.int8) * sign for sign in (1, -1))
    found = Estimate.paired(first, second)
    assert found.value == pytest.approx(0.5)
    assert found.sd == pytest.approx(np.std([0, 1], ddof=1))


def test_across_orders_there_is_a_t_interval():
    values = [0.2, 0.5, 0.6, 0.1]
    found = Estimate.across_orders(values)
    half = t.ppf(0.975, 3) * np.std(values, ddof=1) / 2
    assert (found.value, found.sd) == pytest.approx((0.35, np.std(values, ddof=1)))
    assert (found.low, found.high) == pytest.approx((0.35 - half, 0.35 + half))


def test_one_order_or_an_unknown_value_has_no_t_interval():
    assert Estimate.across_orders([0.3]) == Estimate(0.3)
    found = Estimate.across_orders([0.3, math.nan])
    assert math.isnan(found.value)
    assert (found.low, found.high) == (None, None)
