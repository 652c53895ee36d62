import numpy as np
import pytest
from helpers import reference
from helpers.making import make_stream

from marc.loop import iter_steps, run
from marc.method import MARC
from marc_paper.analysis.interaction import Stability


@pytest.mark.parametrize(("weight", "capacity"), [(0.0, 4), (0.01, 2), (0.1, 16), (10.0, 3)])
def test_a_certain_answer_is_the_same_in_both_spaces_and_the_reference_agrees(weight, capacity):
    stream = make_stream(0, n_images=120, n_classes=4).shuffled(1)
    features = stream.features
    method = MARC("good", capacity=capacity, weight=weight)
    result = Stability.of(method, stream, "bad")
    here = run(method, stream)
    there = run(MARC("bad", capacity=capacity, weight=weight), stream)
    certain = result.certain
    assert np.array_equal(here.predictions[certain], there.predictions[certain])
    if weight <= 0.1:
        assert certain.any()
    keys, other = (reference.unit(features.keys(name)) for name in ("good", "bad"))
    method.reset()
    steps = iter_steps(method, stream)
    for t, step in enumerate(steps):
        proved = reference.stability(
            step.base.astype(np.float64),
            step.evidence["retrieval"],
            keys,
            other,
            step.item,
            here.trajectory.retained(t, capacity),
            weight,
            2.0,
            5.0,
            stream.n_classes,
        )
        if abs(result.gap[t] - result.bound[t]) > 1e-4:
            assert proved == certain[t]


def test_the_bound_holds_for_evidence_of_every_class():
    """|L_s - L_s'| <= alpha beta sum |u_s - u_s'| over the items that both retain."""
    stream = make_stream(2, n_images=80, n_classes=4).shuffled(0)
    keys, other = (stream.features.keys(name).astype(np.float64) for name in ("good", "bad"))
    pairs = zip(
        iter_steps(MARC("good", capacity=5), stream),
        iter_steps(MARC("bad", capacity=5), stream),
        strict=True,
    )
    trajectory = run(MARC("good", capacity=5), stream).trajectory
    for t, (a, b) in enumerate(pairs):
        retained = trajectory.retained(t, 5)
        for label in range(stream.n_classes):
            change = sum(
                abs(keys[a.item] @ keys[i] - other[a.item] @ other[i])
                for i in retained.get(label, [])
            )
            difference = abs(a.evidence["retrieval"][label] - b.evidence["retrieval"][label])
            assert difference <= 10 * change + 1e-5


def test_a_space_cannot_differ_from_itself():
    stream = make_stream(3, n_images=60)
    result = Stability.of(MARC("good"), stream, "good")
    assert result.certain.all()
    assert not result.bound.any()
