"""TDA's replay gives what its loop gives."""

import numpy as np
import pytest
from helpers.gold import gold as released
from helpers.gold import gold_stream
from helpers.making import make_stream
from helpers.tda_twin import tied_stream
from hypothesis import given, settings
from hypothesis import strategies as st

from marc.errors import MarcError
from marc.loop import run
from marc.peers import tda
from marc.peers.tda import TDA, _fuse_all, _Offers, _replay

NEAR = 3e-5  # of fused scores, in float32


def assert_same_run(method, stream):
    fused = []
    online = run(method, stream, on_step=lambda step: fused.append(step.logits))
    offline = _replay(method, stream)
    assert offline.method == online.method
    assert np.array_equal(offline.order, online.order)
    assert np.array_equal(offline.trajectory.label, online.trajectory.label)
    assert np.array_equal(offline.trajectory.priority, online.trajectory.priority)
    assert offline.trajectory.varies_with == online.trajectory.varies_with
    assert np.array_equal(offline.base_predictions, online.base_predictions)
    assert np.array_equal(offline.weights, online.weights)
    assert np.array_equal(offline.labels, online.labels)
    scores = np.full((len(stream), stream.n_classes), np.nan)

    def keep(items, logits):
        scores[items] = logits

    _fuse_all(method, _Offers.of(method, stream), online.trajectory, keep)
    np.testing.assert_allclose(scores[stream.order], fused, rtol=0, atol=NEAR)
    top = np.sort(fused, axis=1)
    near = (top[:, -1] > top[:, -2]) & (top[:, -1] - top[:, -2] < 2 * NEAR)
    assert np.array_equal(online.predictions[~near], offline.predictions[~near])
    return online


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    capacity=st.integers(0, 9),
    negative_capacity=st.integers(0, 4),
    negative_weight=st.sampled_from([0.0, 0.117, 3.0]),
    n_views=st.sampled_from([1, 2, 8, 64]),
    n_classes=st.sampled_from([2, 5, 40, 200]),
    ties=st.booleans(),
)
def test_replay_equals_run(
    seed, capacity, negative_capacity, negative_weight, n_views, n_classes, ties
):
    make = tied_stream if ties else make_stream
    scale = 5.0 if n_classes == 2 else 15.0
    stream = make(seed, 70, n_views, n_classes, logit_scale=scale).shuffled(seed)
    method = TDA(
        capacity=capacity,
        alpha=6.0,
        beta=2.0,
        negative_capacity=negative_capacity,
        negative_weight=negative_weight,
        fraction=0.5,
    )
    assert_same_run(method, stream)


@pytest.mark.parametrize("n_views", [1, 10])
def test_the_memory_decides_answers_in_both(n_views):
    """Votes heavy enough that every read counts, on a stream long enough for several blocks."""
    stream = tied_stream(0, 700, n_views, n_classes=9, logit_scale=7.0).shuffled(1)
    method = TDA(alpha=20.0, beta=3.0, negative_weight=4.0, fraction=0.3)
    online = assert_same_run(method, stream)
    assert (online.predictions != online.base_predictions).mean() > 0.05
    others = [
        TDA(alpha=20.0, beta=3.0, negative_weight=0.0, fraction=0.3),
        TDA(alpha=20.0, beta=3.0, negative_weight=4.0, fraction=0.3, negative_capacity=1),
        TDA(alpha=20.0, beta=3.0, negative_weight=4.0, fraction=0.3, capacity=4),
    ]
    for other in others:  # so that an equal answer is not the answer of another memory
        assert (_replay(other, stream).predictions != online.predictions).any()


def test_small_blocks_give_the_same(monkeypatch):
    stream = tied_stream(4, 90, n_views=8).shuffled(0)
    method = TDA(alpha=20.0, beta=3.0, negative_weight=4.0, fraction=0.3)
    whole, plain = _replay(method, stream), _replay(method, stream.with_views(1))
    monkeypatch.setattr(tda, "_BLOCK", 200)
    monkeypatch.setattr(tda, "_ROWS", 7)
    parts, plain_parts = _replay(method, stream), _replay(method, stream.with_views(1))
    assert np.array_equal(whole.predictions, parts.predictions)
    assert np.array_equal(whole.trajectory.priority, parts.trajectory.priority)
    assert np.array_equal(plain.predictions, plain_parts.predictions)


def test_a_share_that_keeps_no_view_is_refused():
    with pytest.raises(MarcError, match="none of 8"):
        _replay(TDA(), make_stream(0, n_views=8))


def test_replay_leaves_the_method_as_it_was():
    stream = make_stream(0)
    method = TDA()
    _replay(method, stream)
    with pytest.raises(MarcError, match="nothing was seen"):
        method.state()


@pytest.mark.parametrize("pack", ["office_caltech", "caltech101_test"])
def test_it_gives_the_released_predictions(pack):
    gold, stream = released(f"tda_pos_neg_{pack}"), gold_stream(pack, views=1)
    assert np.array_equal(_replay(TDA(), stream).predictions, gold["pred"])
