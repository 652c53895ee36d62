"""`Sweep` and `Score`, and how they are computed."""

import numpy as np
import pytest
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import run
from marc.method import MARC
from marc.replay.replay import replay
from marc.replay.sweep import Sweep
from marc.replay.sweep_job import sweep
from marc.stream import Stream
from marc.types import CAPACITIES, WEIGHTS

STREAM = make_stream(0, n_images=150, n_views=2, n_classes=6)


def test_every_cell_equals_its_own_run():
    capacities, weights, seeds = (1, 3, 64), (0.0, 0.3, 10.0, 100.0), (0, 4)
    result = sweep(STREAM, ["good", "bad+center"], capacities, weights, seeds)
    assert result.accuracy.shape == (2, 3, 4, 2)
    for s, space in enumerate(result.spaces):
        for k, capacity in enumerate(capacities):
            for w, weight in enumerate(weights):
                for o, seed in enumerate(seeds):
                    single = run(
                        MARC(space, capacity=capacity, weight=weight), STREAM.shuffled(seed)
                    )
                    # float32 sums in another order: at most one image may fall the other way
                    assert abs(result.accuracy[s, k, w, o] - single.accuracy) < 1.5 / len(STREAM)
                    assert result.base_accuracy[o] == single.base_accuracy


@pytest.mark.parametrize("policy", ["entropy", "confidence", "fifo", "reservoir"])
def test_every_policy_is_swept_as_it_is_replayed(policy):
    settings = {"admission_capacity": 2, "alpha": 1.0, "beta": 8.0, "refine_labels": True}
    result = sweep(STREAM, ["good"], (2, 5), seeds=(3,), policy=policy, **settings)
    method = MARC("good", capacity=5, weight=7.0, policy=policy, seed=3, **settings)
    single = replay(method, STREAM.shuffled(3))
    swept = result.correct("good", 5, 7.0, seed=3)[single.order]
    assert (swept != single.correct).sum() <= 1


def test_a_larger_sweep_has_the_same_cells():
    small = sweep(STREAM, ["good"], (2, 8), (0.0, 10.0), (1,))
    large = sweep(STREAM, None, CAPACITIES, WEIGHTS, (0, 1, 2))
    for capacity in (2, 8):
        lower, upper = small._ends("good", capacity, 1)
        more_lower, more_upper = large._ends("good", capacity, 1)
        assert np.array_equal(np.isfinite(upper), np.isfinite(more_upper))
        np.testing.assert_allclose(lower, more_lower, rtol=1e-3, atol=1e-6)


def test_the_weight_path_agrees_with_the_grid():
    result = sweep(STREAM, ["good"], seeds=(0,))
    for k, capacity in enumerate(result.capacities):
        path = result.weight_path("good", capacity)
        assert [path.at(w) for w in result.weights] == result.accuracy[0, k, :, 0].tolist()


def test_weight_zero_is_no_memory_in_every_cell():
    result = sweep(STREAM)
    assert (result.accuracy[:, :, 0, :] == result.base_accuracy).all()
    assert np.array_equal(result.correct("bad", 8, 0.0), result.base_correct)


def test_equal_means_go_to_the_smaller_capacity_whatever_their_last_bit():
    counts = {4: (69, 70, 68), 16: (69, 69, 69)}  # of 90 images: the means differ by rounding
    upper = np.full((3, 2, 90), -np.inf)
    for place, rights in enumerate(counts.values()):
        for order, right in enumerate(rights):
            upper[order, place, :right] = np.inf
    swept = Sweep(
        capacities=(4, 16),
        weights=(0.0, 1.0),
        seeds=(0, 1, 2),
        intervals={"s": (np.zeros_like(upper), upper)},
        base_correct=np.zeros(90, dtype=bool),
        stream="x",
        images=frozenset("x"),
        settings={},
    )
    assert swept.oracle("s").capacity == 4
    assert swept.best_setting("s") == (4, 0.0)


def test_the_oracle_is_the_best_cell_and_says_so():
    result = sweep(STREAM)
    score = result.oracle("good")
    assert score.selection == "oracle"
    best_per_order = result.accuracy[0].max(axis=1)  # (capacity, seed)
    assert score.accuracy == pytest.approx(best_per_order.mean(axis=1).max())
    assert score.gain >= 0
    exact = result.oracle("good", over="all")
    assert exact.accuracy >= score.accuracy
    at_eight = result.oracle("good", 8)
    assert at_eight.capacity == 8
    assert at_eight.accuracy <= score.accuracy


def test_equal_scores_go_to_the_smaller_capacity_and_weight():
    """Evidence that never decides anything: every cell ties, so the smallest settings win."""
    features = STREAM.features
    sure = Stream.from_arrays(
        features.views, features.predictor.prototypes, {"good": features.spaces["good"]},
        logit_scale=1e7, labels=STREAM.row_labels,
    )  # fmt: skip
    score = sweep(sure).oracle("good")
    assert score.capacity == 1
    assert set(score.weights) == {0.0}


def test_a_held_out_choice_uses_only_the_other_streams():
    here, there = make_stream(1, 120), make_stream(2, 120)
    target, source = sweep(here), sweep(there)
    score = target.held_out("good", source)
    assert score.selection == "held_out"
    curve = source.accuracy[0].mean(axis=-1)  # (capacity, weight)
    k, w = np.unravel_index(curve.argmax(), curve.shape)
    assert (score.capacity, score.weights[0]) == (source.capacities[k], source.weights[w])
    assert score.accuracy == pytest.approx(target.accuracy[0, k, w].mean())
    flipped = Stream.from_arrays(
        here.features.views,
        here.features.predictor.prototypes,
        here.features.spaces,
        logit_scale=20.0,
        labels=(here.row_labels + 1) % 5,
    )
    other = sweep(flipped).held_out("good", source)  # wrong labels here cannot change the choice
    assert (other.capacity, other.weights) == (score.capacity, score.weights)


def test_held_out_from_several_streams_averages_their_gains():
    sources = [sweep(make_stream(seed, 100)) for seed in (3, 4)]
    target = sweep(make_stream(5, 100))
    score = target.held_out("good", sources, capacity=8)
    curves = [s.accuracy[0, 4].mean(axis=-1) - s.base_accuracy[0] for s in sources]
    assert score.weights[0] == target.weights[int(np.mean(curves, axis=0).round(12).argmax())]
    assert score.capacity == 8
    assert score.chosen_on == "arrays, arrays"


def test_every_score_says_how_it_was_chosen():
    result = sweep(STREAM)
    assert "fixed" in str(result.fixed("good", 16, 10.0))
    assert "oracle" in str(result.oracle("good"))
    assert "held_out (chosen on" in str(result.held_out("good", sweep(make_stream(9, 80))))


def test_the_streams_own_order_can_be_swept():
    ordered = STREAM.reordered(np.argsort(STREAM.row_labels, kind="stable"))
    result = sweep(ordered, ["good"], (4,), seeds=None)
    assert result.seeds == (None,)
    single = run(MARC("good", capacity=4), ordered)
    swept = result.correct("good", 4, 10.0, seed=None)[ordered.order]
    assert (swept != single.correct).sum() <= 1


def test_labels_reach_a_sweep_only_at_the_end():
    """Trajectories do not depend on labels: other labels, same intervals for the same class."""
    features = STREAM.features
    seen = []
    for labels in (STREAM.row_labels, np.zeros(150, int)):
        stream = Stream.from_arrays(
            features.views,
            features.predictor.prototypes,
            features.spaces,
            logit_scale=20.0,
            labels=labels,
        )
        seen.append(sweep(stream, ["good"], (4,), seeds=(0,))._ends("good", 4, 0))
    zeros = STREAM.row_labels == 0
    assert np.array_equal(seen[0][0][zeros], seen[1][0][zeros])
    assert np.array_equal(seen[0][1][zeros], seen[1][1][zeros])


def test_bad_requests_are_explained():
    unlabelled = Stream.from_arrays(STREAM.features.views, STREAM.features.predictor.prototypes)
    with pytest.raises(MarcError, match="no labels"):
        sweep(unlabelled)
    with pytest.raises(MarcError, match="'retrieval_aware' cannot be replayed"):
        sweep(STREAM, policy="retrieval_aware")
    with pytest.raises(MarcError, match="unknown setting of a sweep"):
        sweep(STREAM, gamma=1.0)
    for seeds in ((), (0, 0)):
        with pytest.raises(MarcError, match="distinct orders"):
            sweep(STREAM, seeds=seeds)
    with pytest.raises(MarcError, match="no space 'nowhere'"):
        sweep(STREAM, ["nowhere"])
    result = sweep(STREAM, ["good"], (4,), (0.0, 1.0), (0,))
    with pytest.raises(MarcError, match="no such capacity"):
        result.fixed("good", 5, 1.0)
    with pytest.raises(MarcError, match="no such order"):
        result.weight_path("good", 4, seed=7)
    with pytest.raises(MarcError, match="unknown space of this sweep"):
        result.oracle("bad")
    with pytest.raises(MarcError, match="same grid"):
        result.held_out("good", sweep(make_stream(1), ["good"], (8,), (0.0, 1.0), (0,)))
    with pytest.raises(MarcError, match="other streams"):
        result.held_out("good", [])
    for same in (result, sweep(STREAM.with_views(1), ["good"], (4,), (0.0, 1.0), (7,))):
        with pytest.raises(MarcError, match="other images"):
            result.held_out("good", same)


def test_means_of_equal_counts_are_equal():
    from marc.replay.sweep import _exact

    thirds, same = np.mean([69 / 90, 70 / 90, 68 / 90]), np.mean([69 / 90] * 3)
    assert thirds != same
    assert _exact(thirds) == _exact(same)


@pytest.mark.parametrize("weight", [float("nan"), -1.0, "", None])
def test_a_score_at_what_is_no_weight_is_refused(weight):
    swept = sweep(make_stream(), ["good"], seeds=(0,))
    with pytest.raises(MarcError, match="weight must be a finite number"):
        swept.fixed("good", 4, weight)
