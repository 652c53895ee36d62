"""The hinge of the code base: `run` and `replay` agree, and both agree with the reference."""

import itertools

import numpy as np
import pytest
from helpers import reference
from helpers.making import make_stream
from helpers.slow_twin import slow_twin
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from marc.admission import POLICIES
from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.method import MARC
from marc.replay.evidence import KernelValues, read_all
from marc.replay.lifetimes import History
from marc.replay.replay import admit, replay
from marc.stream import Stream

REPLAYABLE = [name for name, policy in POLICIES.items() if not policy.varies_with]
OPTIONS = [
    {},
    {"admission_capacity": 0},
    {"admission_capacity": 1, "view_entropy": "posterior"},
    {"refine_labels": True, "view_entropy": "tda"},
    {"negative_weight": 0.117},
    {"gamma": 1.0},
    {"clip_weight": 1.5},
    {"use_base": False},
    {"alpha": 1.0, "beta": 8.0, "weight": 0.0},
    {"refine_labels": True, "negative_weight": 0.5, "gamma": 0.5, "clip_weight": 0.3},
]
NEAR = 1e-4  # fused scores closer than this may fall either way in float32


def second_best(rows):
    top = np.sort(rows, axis=1)
    return top[:, -1] - top[:, -2]


def priorities_apart(slow, gap=1e-5):
    """Whether float32 cannot change what is kept: no two priorities of a class are close."""
    for label in np.unique(slow.label):
        ranked = np.sort(slow.priority[slow.label == label])
        if (np.diff(ranked) < gap).any():
            return False
    return True


def assert_same_run(fast, slow_run):
    near = second_best(slow_run.fused) < NEAR
    assert near.mean() < 0.1  # the comparison must not be empty
    differ = fast.predictions != slow_run.prediction
    assert not (differ & ~near).any()
    assert np.array_equal(fast.trajectory.label, slow_run.label)
    np.testing.assert_allclose(fast.trajectory.priority, slow_run.priority, rtol=1e-3, atol=1e-5)
    assert np.array_equal(fast.base_predictions, slow_run.base_prediction)


@pytest.mark.parametrize(("policy", "options"), [*itertools.product(POLICIES, OPTIONS)], ids=str)
def test_run_and_replay_agree_with_the_reference(policy, options):
    for seed, capacity, n_views in [(0, 3, 1), (1, 1, 8), (2, 16, 2)]:
        stream = make_stream(seed, n_images=90, n_views=n_views).shuffled(seed)
        method = MARC("good", capacity=capacity, policy=policy, seed=5, **options)
        slow = slow_twin(method, stream)
        assert_same_run(run(method, stream), slow)
        if policy in REPLAYABLE:
            assert_same_run(replay(method, stream), slow)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    policy=st.sampled_from(REPLAYABLE),
    capacity=st.integers(0, 64),
    admission_capacity=st.integers(0, 20),
    n_views=st.sampled_from([1, 2, 8, 64]),
    n_classes=st.sampled_from([2, 3, 17, 200, 1000]),
)
def test_replay_equals_run(seed, policy, capacity, admission_capacity, n_views, n_classes):
    stream = make_stream(seed, 80, n_views, n_classes).shuffled(seed)
    method = MARC(
        "good",
        capacity=capacity,
        policy=policy,
        admission_capacity=admission_capacity,
        seed=seed,
    )
    online, offline = run(method, stream), replay(method, stream)
    assert np.array_equal(online.trajectory.label, offline.trajectory.label)
    online_priority, offline_priority = online.trajectory.priority, offline.trajectory.priority
    np.testing.assert_allclose(online_priority, offline_priority, rtol=1e-4, atol=1e-5)
    slow = slow_twin(method, stream)
    assume(priorities_apart(slow))
    for t in range(len(stream)):
        assert online.trajectory.retained(t, capacity) == slow.retained[t]
        assert offline.trajectory.retained(t, capacity) == slow.retained[t]
    near = second_best(slow.fused) < NEAR
    assert np.array_equal(online.predictions[~near], offline.predictions[~near])


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    policy=st.sampled_from(REPLAYABLE),
    capacity=st.integers(1, 8),
    n_distinct=st.integers(1, 6),
)
def test_tied_priorities_replay_as_they_run(seed, policy, capacity, n_distinct):
    """Many copies of a few images: exact ties everywhere, broken only by arrival."""
    few = make_stream(seed, n_images=n_distinct, n_classes=3).features
    copies = np.random.default_rng(seed).integers(n_distinct, size=50)
    stream = Stream.from_arrays(
        few.views[copies], few.predictor.prototypes, {"good": few.spaces["good"][copies]}
    )
    method = MARC("good", capacity=capacity, policy=policy, admission_capacity=0, seed=seed)
    online, offline, slow = run(method, stream), replay(method, stream), slow_twin(method, stream)
    for t in range(len(stream)):
        kept = online.trajectory.retained(t, capacity)
        assert kept == offline.trajectory.retained(t, capacity)
        assert kept == slow.retained[t]


@pytest.mark.parametrize("policy", REPLAYABLE)
def test_evidence_of_every_capacity_equals_that_of_its_own_memory(policy):
    """Step evidence and blocked evidence agree to 1e-6 of the largest vote."""
    capacities = (1, 2, 3, 5, 8, 64)
    stream = make_stream(4, n_images=150, n_classes=6).shuffled(4)
    method = MARC("good", policy=policy)
    [admitted] = admit(method, [stream], [method.seed])
    blocked = np.empty((len(capacities), len(stream), stream.n_classes))

    def keep(order, items, evidence):
        blocked[:, items] = evidence.transpose(0, 2, 1)

    values = KernelValues(stream.features.keys("good"), method.alpha, method.beta)
    read_all(values, [History.trace(admitted.trajectory, capacities, stream.n_classes)], keep)
    for row, capacity in zip(blocked, capacities, strict=True):
        steps = iter_steps(MARC("good", capacity=capacity, policy=policy), stream)
        online = np.stack([step.evidence["retrieval"] for step in steps])
        np.testing.assert_allclose(row[stream.order], online, atol=2e-6, rtol=2e-6)


def test_retained_items_are_the_same_for_every_space_and_weight():
    stream = make_stream(1, n_images=100, n_views=2).shuffled(0)
    runs = [
        run(MARC(space, capacity=4, weight=weight), stream)
        for space in ("good", "bad", "predictor", "good+pca:3")
        for weight in (0.0, 1.0, 100.0)
    ]
    for other in runs[1:]:
        assert np.array_equal(other.trajectory.label, runs[0].trajectory.label)
        assert np.array_equal(other.trajectory.priority, runs[0].trajectory.priority)


def test_weight_zero_is_no_memory():
    stream = make_stream(2, n_images=100, n_views=8).shuffled(1)
    for answer in (run, replay):
        result = answer(MARC("good", weight=0.0), stream)
        assert np.array_equal(result.predictions, result.base_predictions)
        assert result.gain == 0


def test_without_a_clip_memory_priority_is_the_entropy_of_the_base():
    stream = make_stream(3).shuffled(0)
    result = run(MARC("good", admission_capacity=0), stream)
    base = stream.features.base.logits[stream.order]
    expected = [-reference.entropy(reference.softmax(row)) for row in base]
    np.testing.assert_allclose(result.trajectory.priority, expected, rtol=1e-6, atol=1e-12)


def test_the_first_answer_uses_no_memory_and_the_second_may_use_the_first():
    """One image twice: a self-vote would change the first answer."""
    once = make_stream(5, n_images=1).features
    twice = Stream.from_arrays(
        np.repeat(once.views, 2, axis=0),
        once.predictor.prototypes,
        {"good": np.repeat(once.spaces["good"], 2, axis=0)},
    )
    first, second = iter_steps(MARC("good"), twice)
    assert not first.evidence["retrieval"].any()
    assert second.evidence["retrieval"][first.label] == pytest.approx(2.0, rel=1e-6)


def test_the_future_cannot_change_the_past():
    stream = make_stream(6, n_images=80).shuffled(2)
    features = stream.features
    views = features.views.copy()
    late = stream.order[40:]
    views[late] = np.random.default_rng(9).standard_normal(views[late].shape)
    predictor = features.predictor
    other = Stream.from_arrays(
        views, predictor.prototypes, features.spaces, logit_scale=predictor.logit_scale
    ).reordered(stream.order)
    for answer in (run, replay):
        before = answer(MARC("good", capacity=2), stream).predictions[:40]
        assert np.array_equal(before, answer(MARC("good", capacity=2), other).predictions[:40])


def test_a_policy_that_looks_at_fused_answers_is_refused_by_name():
    with pytest.raises(MarcError, match="'retrieval_aware' cannot be replayed") as caught:
        replay(MARC("good", policy="retrieval_aware"), make_stream())
    assert "capacity, space, weight" in str(caught.value)
