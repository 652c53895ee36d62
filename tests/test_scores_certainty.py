"""Calibration error, Brier score and log-loss against plain loops, and what they must give."""

import math

import numpy as np
import pytest
from helpers.making import make_stream
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import log_loss as sklearn_log_loss

from marc import create_method, replay, run
from marc.errors import MarcError
from marc.method import MARC
from marc.scores import BINS, Certainty, calibration_error, reliability, share, softmax
from marc.stream import Stream


def probabilities_of(seed, n_images=200, n_classes=5, scale=3.0):
    draw = np.random.default_rng(seed)
    logits = scale * draw.standard_normal((n_images, n_classes))
    return softmax(logits), draw.integers(n_classes, size=n_images)


def slow_error(confidence, correct, bins):
    """Bin by bin: (i / bins, (i + 1) / bins], and 0 in the first."""
    total = 0.0
    for i in range(bins):
        inside = [
            k
            for k, p in enumerate(confidence)
            if i / bins < p <= (i + 1) / bins or (p == 0 and i == 0)
        ]
        if inside:
            sure = sum(float(confidence[k]) for k in inside) / len(inside)
            right = sum(bool(correct[k]) for k in inside) / len(inside)
            total += len(inside) / len(confidence) * abs(sure - right)
    return total


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), bins=st.sampled_from([1, 2, 7, 15, 40]))
def test_the_calibration_error_is_that_of_a_loop_over_bins(seed, bins):
    draw = np.random.default_rng(seed)
    confidence, correct = draw.random(90), draw.random(90) < 0.6
    confidence[:3] = 0.0, 1.0, 0.5
    found = calibration_error(confidence, correct, bins)
    assert found == pytest.approx(slow_error(confidence, correct, bins), abs=1e-12)


def test_fifteen_bins_unless_one_says_others():
    confidence, correct = np.linspace(0.2, 1, 300), np.arange(300) % 3 > 0
    assert BINS == 15
    assert calibration_error(confidence, correct) == calibration_error(confidence, correct, 15)
    assert calibration_error(confidence, correct) != calibration_error(confidence, correct, 14)
    count, sure, right = reliability(confidence, correct)
    assert len(count) == len(sure) == len(right) == 15
    assert count.sum() == 300
    assert np.isnan(sure[0])  # nothing is so unsure
    assert ((sure[3:] > np.arange(3, 15) / 15) & (sure[3:] <= np.arange(4, 16) / 15)).all()


@pytest.mark.parametrize("seed", range(5))
def test_brier_and_log_loss_are_those_of_a_loop_over_classes(seed):
    p, labels = probabilities_of(seed)
    found = Certainty.of(p, labels)
    for t, (row, label) in enumerate(zip(p, labels, strict=True)):
        brier = sum((row[c] - (c == label)) ** 2 for c in range(len(row)))
        assert found.brier[t] == pytest.approx(brier, rel=1e-6)
        assert found.log_loss[t] == pytest.approx(-math.log(row[label]), rel=1e-6)
        assert found.confidence[t] == pytest.approx(max(row), rel=1e-6)
    measures = found.measures(p.argmax(axis=1) == labels)
    assert measures["log_loss"] == pytest.approx(sklearn_log_loss(labels, p, labels=range(5)))


def test_a_perfect_predictor_has_zero_and_the_worst_has_the_most():
    labels = np.arange(4)
    right, wrong = np.eye(4), np.roll(np.eye(4), 1, axis=1)
    perfect = Certainty.of(right, labels).measures(np.full(4, True))
    assert perfect == {"ece": 0, "brier": 0, "log_loss": 0}
    worst = Certainty.of(wrong, labels).measures(np.full(4, False))
    assert worst["ece"] == 1
    assert worst["brier"] == 2
    tiny = float(np.finfo(np.float32).tiny)
    assert worst["log_loss"] == pytest.approx(-math.log(tiny), rel=1e-6)  # and not infinite


def test_neither_the_order_of_images_nor_that_of_classes_matters():
    p, labels = probabilities_of(7)
    correct = p.argmax(axis=1) == labels
    before = Certainty.of(p, labels).measures(correct)
    draw = np.random.default_rng(0)
    images, classes = draw.permutation(len(p)), draw.permutation(p.shape[1])
    moved = Certainty.of(p[images][:, classes], np.argsort(classes)[labels[images]])
    assert moved.measures(correct[images]) == pytest.approx(before, abs=1e-7)


def test_of_several_orders_the_error_is_their_mean():
    draw = np.random.default_rng(3)
    confidence, correct = draw.random((3, 50)), draw.random((3, 50)) < 0.5
    each = [calibration_error(*pair) for pair in zip(confidence, correct, strict=True)]
    assert calibration_error(confidence, correct) == pytest.approx(np.mean(each))


@pytest.mark.parametrize("bins", [0, -1, 2.5, "15"])
def test_bins_are_a_number_of_them(bins):
    result = run(MARC("good"), make_stream(5, 20, 2, 6))
    with pytest.raises(MarcError, match="bins"):
        result.calibration(bins)


def test_shares_of_probabilities_are_probabilities():
    p, _ = probabilities_of(1)
    np.testing.assert_allclose(share(p + 0.5 * p), p, rtol=1e-12)


METHODS = {
    "marc": lambda: MARC("good", capacity=4),
    "auto": lambda: MARC("good", capacity=4, weight="auto"),
    "rich": lambda: MARC("good", gamma=0.5, clip_weight=0.3, negative_weight=0.5),
    "tda": lambda: create_method("tda", fraction=0.5),
}


@pytest.mark.parametrize("name", METHODS)
def test_run_and_replay_are_equally_sure(name):
    stream = make_stream(5, 300, 2, 6).shuffled(1)
    online, offline = (verb(METHODS[name](), stream) for verb in (run, replay))
    for which in ("certainty", "base_certainty"):
        slow, fast = getattr(online, which), getattr(offline, which)
        for what in ("confidence", "log_loss", "brier"):
            np.testing.assert_allclose(
                getattr(fast, what), getattr(slow, what), rtol=1e-3, atol=1e-4
            )
    assert offline.calibration() == pytest.approx(online.calibration(), abs=2e-3)


def test_a_run_is_as_sure_as_its_steps():
    stream = make_stream(5, 300, 2, 6).shuffled(1)
    steps = []
    result = run(MARC("good"), stream, steps.append)
    for name, rows in (
        ("certainty", [step.logits for step in steps]),
        ("base_certainty", [step.base for step in steps]),
    ):
        expected = Certainty.of(softmax(np.array(rows)), stream.labels)
        for what, values in vars(getattr(result, name)).items():
            np.testing.assert_allclose(values, getattr(expected, what), rtol=1e-6, err_msg=what)
    correct = result.predictions == stream.labels
    assert result.calibration()["ece"] == calibration_error(result.certainty.confidence, correct)
    assert result.calibration(3)["ece"] == calibration_error(
        result.certainty.confidence, correct, 3
    )
    assert result.to_dict()["calibration"] == result.calibration()


def test_by_image_is_what_the_rows_were():
    result = run(MARC("good"), make_stream(5, 60, 2, 6).shuffled(1))
    answers = result.by_image()
    row = int(result.order[7])
    assert answers.certainty.brier[row] == result.certainty.brier[7]
    assert answers.base_certainty.log_loss[row] == result.base_certainty.log_loss[7]
    assert answers.calibration() == pytest.approx(result.calibration())


def test_without_labels_there_is_confidence_alone():
    stream = make_stream(5, 60, 2, 6)
    plain = Stream.from_arrays(
        stream.features.views, stream.features.predictor.prototypes, dict(stream.features.spaces)
    )
    for verb in (run, replay):
        result = verb(MARC("good"), plain)
        assert np.isfinite(result.certainty.confidence).all()
        assert result.certainty.brier is None
        assert result.base_certainty.log_loss is None
        assert result.calibration() == {}


@pytest.mark.parametrize(("name", "gives"), [("zero", False), ("shot-pl", False), ("lame", True)])
def test_votes_and_cosines_are_no_probabilities(name, gives):
    result = run(create_method(name), make_stream(5, 60, 8, 6))
    assert (result.certainty is not None) == gives
    assert (result.base_certainty is not None) == gives
    assert bool(result.calibration()) == gives


@pytest.mark.parametrize("name", ["dmn-zs", "bafta", "probability-ensemble"])
def test_mixtures_of_posteriors_are_shared_out(name):
    settings = {} if name == "bafta" else {"fraction": 0.5}
    steps = []
    result = run(create_method(name, **settings), make_stream(5, 60, 8, 6), steps.append)
    scores = steps[-1].logits
    assert result.certainty.confidence[-1] == pytest.approx(scores.max() / scores.sum(), rel=1e-6)


def test_cosines_of_etta_have_the_scale_of_its_entropies():
    from marc.peers.contract import _stream

    stream, steps = _stream(3, 40, 10), []
    result = run(create_method("etta"), stream, steps.append)
    scale = stream.features.predictor.logit_scale
    expected = softmax(scale * steps[-1].logits).max()
    assert result.certainty.confidence[-1] == pytest.approx(expected, rel=1e-6)
