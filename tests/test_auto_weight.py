"""weight="auto": against a twin that starts over at every image, and what it must never do."""

import math

import numpy as np
import pytest
from helpers.making import make_stream
from helpers.slow_twin import slow_twin
from hypothesis import given
from hypothesis import strategies as st

from marc.auto_weight import AutoWeight, _quadratic_scores, beyond_chance
from marc.errors import MarcError
from marc.loop import run
from marc.method import MARC
from marc.replay.replay import replay
from marc.stream import Stream
from marc.types import WEIGHTS
from marc_paper.analysis.interaction import Stability


def probabilities(logits):
    powers = [math.exp(value - max(logits)) for value in logits]
    return [power / sum(powers) for power in powers]


def first_largest(values):
    return max(range(len(values)), key=lambda place: (values[place], -place))


def weight_of_next(base, evidence):
    """The rule in words, over the images that passed: lists (t, C) of base logits and evidence."""
    beyond, label, answer, confidence = [], [], [], []
    for t, row in enumerate(evidence):
        usual = [sum(column) / (t + 1) for column in zip(*evidence[: t + 1], strict=True)]
        beyond.append([value - mean for value, mean in zip(row, usual, strict=True)])
        label.append(first_largest(base[t]))
        answer.append(first_largest(beyond[t]))
        confidence.append(probabilities(base[t])[label[t]])
    doubt = [1 - c for c in confidence]
    if sum(doubt) == 0:
        return 0.0

    def score(weight):
        total = 0.0
        for t, row in enumerate(beyond):
            if confidence[t] >= sum(confidence[: t + 1]) / (t + 1):
                p = probabilities([weight * value for value in row])
                total += 2 * p[label[t]] - sum(value**2 for value in p)
        return total

    def share(votes, c):
        return sum(d for d, vote in zip(doubt, votes, strict=True) if vote == c) / sum(doubt)

    same = [a == b for a, b in zip(label, answer, strict=True)]
    agreed, n = share(same, True), sum(doubt) ** 2 / sum(d * d for d in doubt)
    chance = sum(share(label, c) * share(answer, c) for c in range(len(base[0])))
    if chance >= 1 - 1e-12:
        return 0.0
    error = math.sqrt(max(agreed * (1 - agreed), 1 / n) / n)
    trust = max(0.0, (agreed - error - chance) / (1 - chance))
    return trust * WEIGHTS[first_largest([score(weight) for weight in WEIGHTS])]


@pytest.mark.parametrize("space", ["good", "bad"])
@pytest.mark.parametrize("seed", range(3))
def test_the_weight_of_every_step_is_that_of_the_twin(space, seed):
    stream = make_stream(seed, n_images=60, n_classes=4).shuffled(seed)
    method = MARC(space, capacity=3, weight="auto")
    slow = slow_twin(MARC(space, capacity=3), stream)  # what is stored does not depend on w
    base, evidence = slow.base.tolist(), slow.evidence.tolist()
    expected = [weight_of_next(base[:t], evidence[:t]) if t else 0.0 for t in range(60)]
    online, offline = run(method, stream), replay(method, stream)
    np.testing.assert_allclose(online.weights, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(offline.weights, expected, rtol=1e-4, atol=1e-6)
    assert np.array_equal(online.predictions, offline.predictions)
    usual = np.cumsum(slow.evidence, axis=0) / np.arange(1, 61)[:, np.newaxis]
    fused = slow.base + np.array(expected)[:, np.newaxis] * (slow.evidence - usual)
    assert np.array_equal(online.predictions, fused.argmax(axis=1))


def test_the_weight_grows_where_the_space_is_good_and_not_where_it_is_noise():
    stream = make_stream(0, n_images=600, logit_scale=3.0)
    good, bad = (run(MARC(space, weight="auto"), stream) for space in ("good", "bad"))
    assert good.weights[-1] > 0.3
    assert good.gain > 0.2
    assert bad.weights[-300:].max() < 0.01
    assert run(MARC("bad"), stream).gain < -0.3  # what w = 10 does there


@given(seed=st.integers(0, 10**6), n_classes=st.integers(2, 6), scale=st.floats(0.1, 50))
def test_a_later_image_changes_no_earlier_weight(seed, n_classes, scale):
    draw = np.random.default_rng(seed)
    base, evidence = scale * draw.random((2, 40, n_classes))
    weights, beyond = AutoWeight.replay(base, evidence)
    first, first_beyond = AutoWeight.replay(base[:25], evidence[:25])
    assert np.array_equal(weights[:25], first)
    assert np.array_equal(beyond[:25], first_beyond)
    assert ((weights >= 0) & (weights <= WEIGHTS[-1])).all()


def test_evidence_that_is_the_same_for_every_image_is_not_used():
    draw = np.random.default_rng(0)
    base = draw.standard_normal((200, 5))
    _, beyond = AutoWeight.replay(base, np.tile(draw.random(5), (200, 1)))
    np.testing.assert_allclose(beyond, 0, atol=1e-12)
    stream = Stream.from_arrays(draw.standard_normal((80, 6)), draw.standard_normal((4, 6)), {})
    found = run(MARC("predictor", capacity=0, weight="auto"), stream)
    assert np.array_equal(found.predictions, found.base_predictions)


def test_a_predictor_without_doubt_is_left_alone():
    base = np.zeros((30, 3))
    base[np.arange(30), np.arange(30) % 3] = 1e6  # every confidence is exactly 1
    weights, _ = AutoWeight.replay(base, np.random.default_rng(0).random((30, 3)))
    assert not weights.any()


def test_the_first_image_is_answered_without_memory():
    auto = AutoWeight.fresh(3)
    for _ in range(2):  # and one image proves nothing
        [weight], _ = auto.follow(np.array([[1.0, 0.0, 0.0]]), np.zeros((1, 3)))
        assert weight == 0


def test_answers_that_are_one_and_the_same_prove_nothing():
    rate, chance = np.array([1.0, 0.1, 1.0]), np.array([1.0, 0.4, 0.1])
    one_answer, below, above = beyond_chance(rate, chance, np.full(3, 500.0))
    assert one_answer == below == 0
    assert 0.9 < above < 1
    assert (beyond_chance(rate, chance, np.full(3, 500.0), 1.0) >= [0, 0, above]).all()


def test_the_quadratic_score_is_bounded_and_proper():
    [wrong] = _quadratic_scores(np.array([[5.0, 0.0, 0.0]]), np.array([1]))
    assert wrong.min() >= -1
    assert wrong.argmax() == 0  # evidence that misleads is best not heard
    draw = np.random.default_rng(0)
    evidence = draw.standard_normal((4000, 3))
    powers = np.exp(2.0 * evidence)
    odds = powers / powers.sum(axis=1, keepdims=True)
    labels = (odds.cumsum(axis=1) < draw.random((4000, 1))).sum(axis=1)
    total = _quadratic_scores(evidence, labels).sum(axis=0)
    assert WEIGHTS[int(total.argmax())] == 2.0  # the weight that the labels were drawn with


def test_sums_of_another_grid_are_refused():
    state = AutoWeight.fresh(4).state()
    assert np.array_equal(AutoWeight.from_state(state, 4).scores, state["scores"])
    for damaged in ({**state, "scores": np.zeros(3)}, {"scores": state["scores"]}):
        with pytest.raises(MarcError, match="learned weight"):
            AutoWeight.from_state(damaged, 4)


def test_a_stability_bound_needs_a_weight():
    with pytest.raises(MarcError, match="one weight"):
        Stability.of(MARC("good", weight="auto"), make_stream(), "bad")
