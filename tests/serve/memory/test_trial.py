"""The judge: how often it is wrong, how soon it decides, and its interval beside a slow twin."""

import math

import numpy as np
import pytest

from marc.results.judge import log_evidence
from marc.serve.memory.trial import ALPHA, Tally, Trial, rate_bounds, verdict

_LOOKS = 400
_TABLE = np.array(
    [[log_evidence(won, n - won) if won <= n else -1.0 for won in range(_LOOKS + 1)]
     for n in range(_LOOKS + 1)]
)  # fmt: skip


def _first_looks(rate, n_streams, seed):
    """When "helps" and when "harms" is first claimed of streams of decided labels."""
    draw = np.random.default_rng(seed)
    won = np.cumsum(draw.random((n_streams, _LOOKS)) < rate, axis=1)
    n = np.arange(1, _LOOKS + 1)
    times = []
    for side in (won, n - won):
        fires = _TABLE[n, side] >= -math.log(ALPHA)
        times.append(np.where(fires.any(axis=1), fires.argmax(axis=1) + 1, _LOOKS + 1))
    return times


def test_false_alarms_at_every_look_stay_below_alpha():
    helps, harms = _first_looks(0.5, 4000, seed=0)
    error = 3 * math.sqrt(ALPHA * (1 - ALPHA) / 4000)
    for times in (helps, harms):
        rate = (times <= _LOOKS).mean()
        assert 0.005 < rate <= ALPHA + error
    _, harms = _first_looks(0.6, 4000, seed=1)
    assert (harms <= _LOOKS).mean() <= ALPHA


@pytest.mark.parametrize(("rate", "median"), [(0.8, 17), (0.7, 37), (0.6, 155)])
def test_labels_until_it_decides(rate, median):
    helps, _ = _first_looks(rate, 2000, seed=2)
    assert abs(np.median(helps) - median) <= 0.15 * median + 2
    _, harms = _first_looks(1 - rate, 2000, seed=3)
    assert abs(np.median(harms) - median) <= 0.15 * median + 2


def test_the_verdict_is_the_evidence_at_its_level():
    for won, lost in [(0, 0), (3, 0), (8, 0), (0, 8), (20, 5), (5, 20), (50, 50)]:
        expected = "not shown"
        if _TABLE[won + lost, won] >= math.log(20):
            expected = "helps"
        if _TABLE[won + lost, lost] >= math.log(20):
            expected = "harms"
        assert verdict(Tally(won, lost, neither=100, agreements=1000)) == expected


def _slow_bounds(won, lost, neither, alpha):
    """Every pair of probabilities of a grid, one after the other; the mixture as a plain mean."""

    def likelihood(a, b):
        c = max(0.0, 1 - a - b)
        return a**won * b**lost * c**neither

    steps = 400
    grid = [(i / steps, j / steps) for i in range(steps + 1) for j in range(steps + 1 - i)]
    mean = sum(likelihood(*each) for each in grid) / len(grid)
    left = [a - b for a, b in grid if likelihood(a, b) >= alpha * mean]
    return min(left), max(left)


@pytest.mark.parametrize(
    "counts", [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 4), (5, 1, 0), (9, 9, 3), (2, 30, 8)]
)
def test_the_interval_beside_a_slow_twin(counts):
    low, high = rate_bounds(*counts, 0.05)
    slow_low, slow_high = _slow_bounds(*counts, 0.05)
    assert abs(low - slow_low) < 0.02
    assert abs(high - slow_high) < 0.02
    won, lost, neither = counts
    assert rate_bounds(lost, won, neither, 0.05) == (-high, -low)


@pytest.mark.parametrize("rates", [(0.5, 0.2), (0.05, 0.05), (0.1, 0.6), (0.95, 0.0)])
def test_the_interval_holds_the_truth_at_every_look(rates):
    draw = np.random.default_rng(4)
    missed, n_streams = 0, 150
    for _ in range(n_streams):
        results = draw.choice(3, size=120, p=[*rates, 1 - sum(rates)])
        counts = np.cumsum(np.eye(3, dtype=int)[results], axis=0)
        for look in (1, 2, 3, 5, 8, 13, 20, 30, 45, 70, 120):
            low, high = rate_bounds(*map(int, counts[look - 1]), 0.1)
            if not low <= rates[0] - rates[1] <= high:
                missed += 1
                break
    assert missed / n_streams <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / n_streams)


@pytest.mark.parametrize(
    "counts", [(999_750, 0, 250), (10**6, 0, 0), (0, 0, 10**6), (1, 99_999, 0), (7, 10**6, 13)]
)
def test_the_interval_of_very_many_labels_is_narrow_and_there(counts):
    low, high = rate_bounds(*counts, 0.05)
    net = (counts[0] - counts[1]) / sum(counts)
    assert low <= net <= high
    assert high - low < 0.02


def test_a_trial_of_a_million_labels_is_small():
    trial = Trial()
    for number in range(1_000_000):
        trial.add((1, -1, 0, None)[number % 4])
    assert trial.tally == (250_000,) * 4
    assert len(trial._path) <= 401
    assert vars(trial).keys() == {"tally", "_stride", "_path"}
    counts = [count for count, _, _ in trial.curve()]
    assert counts == sorted({*counts})
    assert counts[0] == 0
    assert counts[-1] == 500_000


def test_the_curve_ends_with_the_evidence_and_is_rebuilt_from_what_is_left():
    results = [1, None, -1, 1, 0, 1, 1, 1, -1, None, 1]
    trial = Trial()
    for result in results:
        trial.add(result)
    assert [point[0] for point in trial.curve()] == list(range(9))
    assert trial.curve()[-1][1] == pytest.approx(log_evidence(6, 2) / math.log(10))
    assert Trial(trial.tally, results).curve() == trial.curve()
    assert Trial(trial.tally, results[4:]).curve() == trial.curve()[3:]
    assert Trial(trial.tally).curve() == trial.curve()[-1:]


def test_what_a_judgement_says():
    nothing = Trial().to_dict(steps=0, disagreements=0, since=1)
    assert nothing["verdict"] == "not shown"
    assert "without labels nothing is proven" in nothing["sentence"]
    assert nothing["disagreement_rate"] is None
    assert nothing["gain"] is None
    assert nothing["labels_needed"] == 0
    assert nothing["e_values"] == {"helps": pytest.approx(1), "harms": pytest.approx(1)}

    helps = Trial(Tally(30, 5, 2, 40)).to_dict(steps=1000, disagreements=200, since=7)
    assert helps["verdict"] == "helps"
    assert helps["since_seq"] == 7
    assert helps["labelled"] == {"won": 30, "lost": 5, "neither": 2, "agreements": 40}
    low, high = rate_bounds(30, 5, 2, ALPHA)
    assert helps["gain"] == {
        "estimate": pytest.approx(25 / 37 * 0.2),
        "low": pytest.approx(low * 0.2),
        "high": pytest.approx(high * 0.2),
        "confidence": 0.9,
    }
    assert helps["labels_needed"] == 0
    harms = Trial(Tally(5, 30)).to_dict(steps=1000, disagreements=200, since=1)
    assert harms["verdict"] == "harms"
    assert harms["gain"]["high"] <= 0
    open_ = Trial(Tally(6, 3)).to_dict(steps=1000, disagreements=200, since=1)
    assert open_["gain"]["low"] <= 0 <= open_["gain"]["high"]
    assert 0 < open_["labels_needed"] <= 191


def test_labels_that_are_needed_are_not_estimated_for_ever():
    even = Trial(Tally(500, 500)).to_dict(10**7, 10**6, 1)
    assert even["labels_needed"] is None
    close = Trial(Tally(5001, 4990)).to_dict(10**7, 10**6, 1)
    assert close["labels_needed"] is None
    few_left = Trial(Tally(6, 5)).to_dict(100, 14, 1)
    assert few_left["labels_needed"] == 3


def test_huge_evidence_stays_a_number_of_json():
    wins = Trial(Tally(5000, 0)).to_dict(10_000, 6000, 1)
    assert math.isfinite(wins["e_values"]["helps"])
    assert wins["e_values"]["harms"] >= 0
    assert all(math.isfinite(each) for point in wins["curve"] for each in point)
