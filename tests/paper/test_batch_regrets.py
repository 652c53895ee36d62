"""Rules judged on calibration batches, against the slow way."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.making import make_stream
from scipy.stats import spearmanr

import marc
from marc.errors import MarcError
from marc.spaces.geometry import measure
from marc_paper.analysis.regrets import BatchRegret, BatchValues, Regret, Rule

RULES_AT = [f"{name}@{kappa}" for name in Rule.SIGNS for kappa in (3, 5)]


def test_batches_are_judged_as_in_the_slow_way():
    stream = make_stream(n_images=80)
    spaces = ["good", "bad", "good+center", "predictor"]
    gains = dict(zip(spaces, [0.2, 0.0, 0.2, 0.1], strict=True))
    found = BatchRegret.by_rule(
        stream, gains, RULES_AT, sizes=(20, 60, 500), n_replicates=12, seed=5
    )
    assert list(found) == RULES_AT
    kinds = {"purity": stream.row_labels, "pseudo_purity": stream.features.base.label}
    for rule, judged in found.items():
        name, kappa = rule.split("@")
        assert list(judged.zero_regret) == list(judged.rank_correlation) == [20, 60]
        for size in (20, 60):
            hits, correlations = [], []
            for number in range(12):
                order = np.random.default_rng([5, number]).permutation(80)
                chosen = np.sort(order[:size])
                scores = []
                for space in spaces:
                    keys = stream.features.keys(space)[chosen]
                    labels = [kinds[name][chosen]] if name in kinds else []
                    value = getattr(marc.spaces.geometry, name)(keys, *labels, int(kappa))
                    scores.append(Rule.SIGNS[name] * value)
                hits.append(gains[spaces[int(np.argmax(scores))]] == 0.2)
                if len(set(scores)) > 1:  # else there is none
                    correlations.append(spearmanr(scores, list(gains.values())).statistic)
            assert judged.zero_regret[size] == np.mean(hits)
            expected = (np.mean(correlations), *np.quantile(correlations, [0.025, 0.975]))
            np.testing.assert_allclose(judged.rank_correlation[size], expected, atol=1e-12)


def test_batches_of_a_swept_stream_are_judged_by_its_oracle_gains():
    stream = make_stream(seed=0, n_images=120)
    sweep = marc.sweep(stream, capacities=(2, 8), seeds=(0,))
    geometry = {space: measure(stream, space, n_replicates=0) for space in stream.spaces}
    options = {"sizes": (40,), "n_replicates": 10}
    rules = ["pseudo_purity@10", "purity@5"]
    found = BatchRegret.by_rule(stream, sweep, rules, **options)
    gains = {space: sweep.oracle(space).gain for space in sweep.spaces}
    assert found == BatchRegret.by_rule(stream, gains, rules, **options)
    expected = Regret.of([sweep], [geometry], "purity@5").choices[0]
    assert found["purity@5"].choice == replace(expected, stream=stream.name)
    with pytest.raises(MarcError, match="on the images of the stream"):
        BatchRegret.by_rule(make_stream(seed=5, n_images=120), sweep, **options)
    # the same batches as those of a selection
    selection = marc.select(stream, n_replicates=10, sizes=(40,))
    judged = found["pseudo_purity@10"]
    assert judged.zero_regret[40] == selection.zero_regret(gains)[40]
    assert judged.rank_correlation[40] == selection.rank_correlation(gains)[40]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sizes": (500,)}, "batches of 11 to 59 images"),
        ({"gains": {}}, "0 space"),
        ({"rules": ["luck@10"]}, "unknown rule"),
        ({"rules": ["purity@0"]}, "a rule needs a kappa"),
        ({"rules": ["purity@60"]}, "60 neighbours of 60 image"),
        ({"gains": {"missing": 0.1}}, "no space 'missing'"),
        ({"n_replicates": 1}, "n_replicates must be"),
    ],
)
def test_what_cannot_be_judged_is_refused(settings, message):
    usual = {"gains": {"good": 0.1, "bad": 0.0}, "sizes": (30,), "n_replicates": 5}
    with pytest.raises(MarcError, match=message):
        BatchRegret.by_rule(make_stream(), **(usual | settings))


def test_purity_of_batches_needs_labels():
    stream = replace(make_stream(), row_labels=None)
    with pytest.raises(MarcError, match="purity needs labels"):
        BatchRegret.by_rule(stream, {"good": 0.1, "bad": 0.0}, sizes=(30,), n_replicates=3)
    rules = ["pseudo_purity@10", "antihub_fraction@10"]
    found = BatchRegret.by_rule(
        stream, {"good": 0.1, "bad": 0.0}, rules, sizes=(30,), n_replicates=3
    )
    assert list(found) == rules


def test_spaces_may_be_measured_one_by_one_and_judged_by_several_outcomes():
    stream, options = make_stream(n_images=80), {"sizes": (20, 60), "n_replicates": 6}
    rules = ("purity@5", "antihub_fraction@5")
    kept = [BatchValues.measure(stream, [space], rules, **options) for space in ("good", "bad")]
    parts = [BatchValues.from_arrays(part.as_arrays(), part.spaces, part.rules) for part in kept]
    joined = BatchValues.joined(parts)
    for outcome in ({"good": 0.2, "bad": 0.1}, {"good": 1.0, "bad": 8.0}):
        together = BatchRegret.by_rule(stream, outcome, rules, **options)
        for rule in rules:
            assert joined.judged(rule, outcome, stream.name) == together[rule]
    with pytest.raises(MarcError, match="rule that was measured"):
        joined.scores("purity@7")
