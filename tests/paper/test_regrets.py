import math

import numpy as np
import pytest
from helpers.making import make_stream
from scipy.stats import spearmanr

import marc
from marc.errors import MarcError
from marc.spaces.geometry import measure
from marc_paper.analysis.regrets import Choice, Regret, Rule


@pytest.fixture(scope="module")
def streams():
    """Two streams with their sweeps and the geometry of their spaces."""
    made = [make_stream(seed=seed, n_images=120) for seed in (0, 1)]
    sweeps = [marc.sweep(stream, capacities=(2, 8), seeds=(0,)) for stream in made]
    geometries = [
        {space: measure(stream, space, n_replicates=0) for space in stream.spaces}
        for stream in made
    ]
    return sweeps, geometries


@pytest.mark.parametrize("rule", ["purity@5", "purity@10", "pseudo_purity@10", "hub_skewness@5"])
def test_a_rule_is_judged_by_the_gain_that_it_loses(streams, rule):
    sweeps, geometries = streams
    result = Regret.of(sweeps, geometries, rule)
    losses = []
    for sweep, geometry, choice in zip(sweeps, geometries, result.choices, strict=True):
        gains = {space: sweep.oracle(space).gain for space in sweep.spaces}
        scores = {space: Rule.score(geometry, space, rule) for space in sweep.spaces}
        assert choice.chosen == max(scores, key=scores.get)
        losses.append(max(gains.values()) - gains[choice.chosen])
        assert choice.regret == losses[-1]
    assert result.rule == rule
    assert result.hits == losses.count(0)
    assert result.mean == np.mean(losses)
    assert result.worst == max(losses)


def test_purity_is_best_high_and_hubs_are_best_low(streams):
    _, (geometry, _) = streams
    measures = geometry["good"].measures[10]
    assert Rule.score(geometry, "good", "purity@10") == measures.purity.estimate
    assert Rule.score(geometry, "good", "antihub_fraction@10") == -measures.antihub_fraction
    assert Rule.score(geometry, "good", "hub_skewness@10") == -measures.hub_skewness


def test_gains_can_be_compared_at_one_capacity(streams):
    sweeps, geometries = streams
    choice = Regret.of(sweeps, geometries, capacity=2).choices[0]
    gains = [sweeps[0].oracle(space, 2).gain for space in ("good", "bad")]
    assert choice.chosen == "good"
    assert choice.regret == max(gains) - gains[0]


def test_equal_scores_choose_the_first_and_say_so():
    choice = Choice.of("s", {"a": 0.5, "b": 0.5, "c": 0.1}, {"a": 0.1, "b": 0.3, "c": 0.2})
    assert (choice.chosen, choice.best, choice.is_tied, choice.hit) == ("a", "b", True, False)
    assert choice.regret == pytest.approx(0.2)


def test_a_choice_of_equal_gain_is_a_hit():
    choice = Choice.of("s", {"a": 0.4, "b": 0.5}, {"a": 0.1, "b": 0.1})
    assert choice.hit
    assert math.isnan(choice.rank_correlation)


def test_the_rank_correlation_has_midranks():
    scores = {"a": 0.9, "b": 0.5, "c": 0.5, "d": 0.1, "e": 0.3}
    gains = {"a": 0.2, "b": 0.0, "c": 0.1, "d": 0.0, "e": 0.0}
    expected = spearmanr(list(scores.values()), list(gains.values())).statistic
    assert Choice.of("s", scores, gains).rank_correlation == pytest.approx(expected)


@pytest.mark.parametrize(
    ("rule", "message"),
    [("luck@5", "unknown rule"), ("purity@7", "purity@5, purity@10"), ("purity", "needs a kappa")],
)
def test_unknown_rules_are_refused(streams, rule, message):
    with pytest.raises(MarcError, match=message):
        Regret.of(*streams, rule)


def test_what_is_missing_is_named(streams):
    sweeps, geometries = streams
    with pytest.raises(MarcError, match=r"2 sweep\(s\), 1 geometries"):
        Regret.of(sweeps, geometries[:1])
    with pytest.raises(MarcError, match="geometry of a swept space is missing"):
        Regret.of(sweeps, [{}, {}])
    stream = make_stream()
    unlabelled = marc.Stream(stream.features, stream.order)
    bare = {space: measure(unlabelled, space, n_replicates=0) for space in stream.spaces}
    with pytest.raises(MarcError, match="pseudo_purity@10"):
        Regret.of(sweeps[:1], [bare], "purity@10")
