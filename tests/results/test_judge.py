"""The judge keeps its level at every look: exactly for small audits, by simulation for larger."""

import math
from bisect import bisect_left
from functools import cache

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import marc
from marc.errors import MarcError
from marc.results.audit import Disagreement
from marc.results.judge import Judgement, labels_needed, log_evidence, net_bounds

ALPHA, D = 0.05, 20
MOST_NEVER_DECIDED = 1.14  # the largest E where wins and losses differ by less than sqrt(n)


def judged(won, lost, neither, total, n_images=100):
    results = [1] * won + [-1] * lost + [0] * neither
    results += [None] * (total - len(results))
    rows = tuple(Disagreement(i, str(i), "a", "b", result) for i, result in enumerate(results))
    return Judgement("run", 0, n_images, rows, 0, ALPHA, has_truth=False)


@cache
def seen(won, lost, neither, total):
    """Verdict, and bounds of W - L, as they are printed."""
    judgement = judged(won, lost, neither, total, n_images=1)
    gain = judgement.gain
    ends = (-math.inf, math.inf) if gain is None else (round(gain.low), round(gain.high))
    return judgement.verdict, *ends


@cache
def fewest_wins(n):
    """The wins of n at which it helps; n + 1 if none are enough."""
    return bisect_left(range(n + 1), -math.log(ALPHA), key=lambda k: log_evidence(k, n - k))


@pytest.mark.parametrize(
    ("won", "lost"), [(0, 0), (1, 0), (0, 1), (7, 3), (40, 60), (3000, 2000), (0, 5000), (5000, 0)]
)
def test_the_evidence_is_the_integral_of_the_mixture(won, lost):
    theta = 0.5 + (np.arange(200_000) + 0.5) / 400_000  # midpoints
    density = np.log(2 * 6 * theta * (1 - theta))  # beta(2, 2), cut to the upper half
    ratio = won * np.log(2 * theta) + lost * np.log(2 * (1 - theta))
    integral = logsumexp(density + ratio) + math.log(theta[1] - theta[0])
    assert log_evidence(won, lost) == pytest.approx(integral, abs=1e-4)


def test_no_null_without_replacement_is_worse_than_a_fair_coin_where_it_matters():
    def log_falling(start, length):
        return gammaln(start + 1) - gammaln(start - length + 1)

    for n in range(1, 41):
        for won in range(n + 1):
            lost = n - won
            if (won - lost) ** 2 < n or won < lost:
                assert won < lost or math.exp(log_evidence(won, lost)) < MOST_NEVER_DECIDED
                continue
            for L in range(lost, 60):
                W = np.arange(won, L + 1)
                q = log_falling(W, won) + log_falling(L, lost) - log_falling(W + L, n)
                assert (q <= -n * math.log(2) + 1e-9).all()


def chance_of_helps(n_labels, n_wins=None):
    """Exactly how often "helps" is ever said of a fair coin, or where n_wins of n_labels win."""
    alive = {0: 1.0}  # wins so far, of the paths that have not been stopped
    said = 0.0
    for n in range(n_labels):
        after = dict.fromkeys(range(n + 2), 0.0)
        for won, chance in alive.items():
            p = 0.5 if n_wins is None else (n_wins - won) / (n_labels - n)
            after[won + 1] += chance * p
            after[won] += chance * (1 - p)
        said += sum(chance for won, chance in after.items() if won >= fewest_wins(n + 1))
        alive = {won: c for won, c in after.items() if c > 0 and won < fewest_wins(n + 1)}
    return said


def test_helps_is_said_wrongly_with_at_most_alpha_however_long_one_looks():
    coin = chance_of_helps(400)
    assert 0.01 < coin <= ALPHA
    for half in (5, 20, 100):
        assert chance_of_helps(2 * half, half) <= coin
    print(f"\nhelps is said of a fair coin in {100 * coin:.2f} % within 400 labels")


def chance_of_a_lapse(truth):
    """Exactly how often a wrong verdict, or bounds that miss, are ever seen: truth is (W, L, Z)."""
    net, alive, wrong, missed = truth[0] - truth[1], {(0, 0, 0): 1.0}, 0.0, 0.0
    for n in range(D):
        after = {}
        for state, chance in alive.items():
            for side in range(3):
                p = (truth[side] - state[side]) / (D - n)
                to = tuple(count + (i == side) for i, count in enumerate(state))
                after[to] = after.get(to, 0.0) + chance * p
        alive = {}
        for state, chance in after.items():
            if chance == 0:
                continue
            verdict, low, high = seen(*state, D)
            false = (verdict == "helps" and net <= 0) or (verdict == "harms" and net >= 0)
            wrong += chance * false
            missed += chance * (not false and not low <= net <= high)
            if not false and low <= net <= high:
                alive[state] = chance
    return wrong, missed


def test_exactly_of_every_truth_verdict_and_bounds_keep_their_level():
    truths = [(w, k, D - w - k) for w in range(D + 1) for k in range(D - w + 1)]
    wrong, missed = np.array([chance_of_a_lapse(truth) for truth in truths]).T
    by_net = {truth: truth[0] - truth[1] for truth in truths}
    one_sided = [p for p, net in zip(wrong, by_net.values(), strict=True) if net != 0]
    assert max(one_sided) <= ALPHA
    assert max(wrong) <= 2 * ALPHA  # at a gain of 0 both verdicts are wrong
    assert (wrong + missed).max() <= 2 * ALPHA
    assert 0 < missed.max() <= ALPHA
    print(f"\nof {D}: wrong at most {100 * wrong.max():.2f} %, missed {100 * missed.max():.2f} %")


def test_simulated_audits_of_a_larger_run_keep_their_level():
    rng = np.random.default_rng(0)
    n_runs, total, looks = 300, 100, range(1, 61)
    for share in (0.0, 0.3):  # of disagreements that neither wins
        W = round(total * (1 - share) / 2)
        results = np.repeat([1, -1, 0], [W, W, total - 2 * W])
        helps = misses = 0
        for _ in range(n_runs):
            path = rng.permutation(results)[: max(looks)]
            counts = [np.cumsum(path == value) for value in (1, -1, 0)]
            states = [seen(*(int(each[n - 1]) for each in counts), total) for n in looks]
            helps += any(verdict == "helps" for verdict, *_ in states)
            misses += any(not low <= 0 <= high for _, low, high in states)
        margin = 3 * math.sqrt(ALPHA * (1 - ALPHA) / n_runs)
        assert helps / n_runs <= ALPHA + margin
        assert misses / n_runs <= 2 * ALPHA + margin
        print(f"\nneither {share}: helps {helps / n_runs:.3f}, missed {misses / n_runs:.3f}")


@pytest.mark.parametrize(("rate", "most"), [(0.8, 25), (0.65, 110)])
def test_few_labels_decide_where_one_side_is_clearly_better(rate, most):
    rng = np.random.default_rng(1)
    won = np.cumsum(rng.random((2000, 400)) < rate, axis=1)
    enough = np.array([fewest_wins(n) for n in range(1, 401)])
    decided = won >= enough
    assert decided.any(axis=1).mean() > 0.9
    median = np.median(np.where(decided.any(axis=1), decided.argmax(axis=1) + 1, 400))
    print(f"\nwin rate {rate}: {median:.0f} labels, the median")
    assert median <= most


@pytest.mark.parametrize("total", [1, 2, 3, 5, 8, 13, 24])
def test_the_bounds_are_those_of_looking_at_every_possible_truth(total):
    def log_falling(start, length):
        return gammaln(start + 1) - gammaln(start - length + 1)

    for won, lost, neither in np.ndindex(total + 1, total + 1, total + 1):
        if won + lost + neither > total:
            continue
        W, L = np.meshgrid(np.arange(won, total + 1), np.arange(lost, total + 1))
        W, L = (each[total - neither >= W + L] for each in (W, L))
        likelihood = np.exp(
            log_falling(W, won) + log_falling(L, lost) + log_falling(total - W - L, neither)
        )
        mixture = 2 * likelihood.sum() / ((total + 1) * (total + 2))
        left = (W - L)[mixture / likelihood < 1 / ALPHA]
        assert net_bounds(won, lost, neither, total, ALPHA) == (left.min(), left.max())


def test_verdict_and_bounds_never_contradict_each_other():
    for won, lost, neither in np.ndindex(D + 1, D + 1, D + 1):
        if 0 < won + lost + neither <= D:
            verdict, low, high = seen(won, lost, neither, D)
            assert (low > 0, high < 0) == (verdict == "helps", verdict == "harms")
            assert low <= high


def test_once_all_is_labelled_the_gain_is_known():
    judgement = judged(3, 1, 1, total=5)
    assert judgement.verdict == "helps"
    assert judgement.gain == (0.02, 0.02, 0.02)
    assert judgement.labels_needed == 0
    assert judgement.to_dict()["gain"]["confidence"] == 1
    assert "equally often" in judged(2, 2, 1, total=5).sentence
    assert judged(2, 2, 1, total=5).gain == (0, 0, 0)
    assert judged(4, 0, 0, total=6).sentence.endswith("whatever the labels that are missing")


def test_thousands_of_labels_are_no_trouble():
    judgement = judged(4000, 9000, 2000, total=40_000, n_images=50_000)
    data = judgement.to_dict()
    assert data["verdict"] == "harms"
    assert data["evidence"]["log10_harms"] > 300  # more than a float holds
    assert data["gain"]["low"] < data["gain"]["estimate"] < data["gain"]["high"] < 0


def test_labels_needed_are_those_of_trying_one_after_the_other():
    for won, lost, neither in [(5, 0, 0), (6, 2, 3), (2, 9, 1), (12, 9, 4), (1, 0, 5)]:
        rate = (max(won, lost) + 2) / (won + lost + 4)
        more = 0
        while True:
            wins = round(rate * more)
            if log_evidence(max(won, lost) + wins, min(won, lost) + more - wins) >= -math.log(
                ALPHA
            ):
                break
            more += 1
        labels = math.ceil(more * (won + lost + neither) / (won + lost))
        found = labels_needed(won, lost, neither, 10_000, ALPHA)
        assert found == pytest.approx(labels, abs=0.1 * labels + 3)
        assert labels_needed(won, lost, neither, won + lost + neither + 4, ALPHA) <= 4
    assert labels_needed(0, 0, 9, 100, ALPHA) is None
    assert labels_needed(4, 4, 0, 100, ALPHA) is None


STREAM = marc.synthetic_stream(n_images=200, n_classes=5, n_views=1)
RUNS = [marc.run(marc.MARC("classes"), STREAM.shuffled(seed)) for seed in (3, 1)]


def test_a_run_is_judged_by_hand():
    labels = {row: int(STREAM.row_labels[row]) for row in range(120)}
    judgement = marc.judge(RUNS, labels, order=1)
    answers = RUNS[1].by_image()
    won = lost = neither = agree = 0
    for row, label in labels.items():
        a, b = answers.predictions[row], answers.base_predictions[row]
        agree += a == b
        won += a != b and a == label
        lost += a != b and b == label
        neither += a != b and label not in (a, b)
    assert judgement.tally == (won, lost, neither)
    assert judgement.n_agreements == agree > 0
    assert len(judgement.disagreements) == (answers.predictions != answers.base_predictions).sum()
    assert judgement.has_truth


def test_all_labels_give_the_exact_gain_of_each_order():
    for run in RUNS:
        gain = marc.judge(RUNS, dict(enumerate(STREAM.row_labels)), order=run.seed).gain
        assert gain == pytest.approx((run.gain,) * 3)
    assert marc.judge(RUNS).order == 3  # the first
    with pytest.raises(MarcError, match="does not have this order"):
        marc.judge(RUNS, order=7)


def test_without_a_disagreement_there_is_nothing_to_judge():
    judgement = marc.judge(marc.run(marc.MARC("classes", weight=0.0), STREAM), {0: 1})
    assert judgement.verdict == "not shown"
    assert judgement.gain == (0, 0, 0)
    assert "same answer" in judgement.sentence
    assert judgement._columns()["id"] == []


@pytest.mark.parametrize("alpha", [0, 0.5, -1, math.nan])
def test_a_level_is_between_0_and_a_half(alpha):
    with pytest.raises(MarcError, match="alpha"):
        marc.judge(RUNS, alpha=alpha)
