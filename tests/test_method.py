import numpy as np
import pytest
from helpers.making import make_stream

from marc.admission import POLICIES
from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.method import MARC
from marc.peers.contract import check_method
from marc.scores import VIEW_ENTROPIES
from marc.types import Query

SETTINGS = [
    {},
    *({"policy": policy} for policy in POLICIES),
    *({"view_entropy": reading} for reading in VIEW_ENTROPIES),
    {"refine_labels": True, "negative_weight": 0.117, "gamma": 1.0, "clip_weight": 0.5},
    {"weight": "auto"},
    {"weight": "auto", "policy": "retrieval_aware", "gamma": 1.0, "clip_weight": 0.5},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_marc_keeps_the_contract_of_methods(settings):
    check_method(lambda: MARC("good", capacity=3, admission_capacity=2, **settings))


def test_the_defaults_are_the_papers_system():
    config = MARC("dinov2-b").config()
    assert config == {
        "method": "marc",
        "space": "dinov2-b",
        "capacity": 16,
        "weight": 10.0,
        "admission_capacity": 16,
        "alpha": 2.0,
        "beta": 5.0,
        "policy": "entropy",
        "view_entropy": "double_softmax",
        "seed": 0,
        "refine_labels": False,
        "negative_weight": 0.0,
        "gamma": 0.0,
        "clip_weight": 0.0,
        "use_base": True,
    }


def test_repr_prints_the_arguments_back():
    method = MARC("good", capacity=3, gamma=0.5)
    assert eval(repr(method)).config() == method.config()


def test_restoring_and_going_on_equals_never_stopping():
    stream = make_stream(0, n_images=120, n_views=2).shuffled(0)
    queries = list(stream)
    for settings in SETTINGS:
        whole = MARC("good", capacity=3, **settings)
        expected = [whole.step(query) for query in queries]
        first = MARC("good", capacity=3, **settings)
        for query in queries[:50]:
            first.step(query)
        second = MARC.from_state(first.state())
        for query, step in zip(queries[50:], expected[50:], strict=True):
            again = second.step(query)
            assert np.array_equal(again.logits, step.logits)
            assert (again.label, again.priority) == (step.label, step.priority)


def test_a_state_of_another_version_is_refused():
    method = MARC("good")
    with pytest.raises(MarcError, match="nothing was seen yet"):
        method.state()
    method.step(next(iter(make_stream())))
    with pytest.raises(MarcError, match="another format"):
        MARC.from_state({**method.state(), "version": 99})


def test_the_clip_memory_never_votes():
    stream = make_stream(1, n_images=80).shuffled(0)
    for step in iter_steps(MARC("good"), stream):
        assert step.weights["clip"] == 0
        fused = step.base.astype(np.float64) + 10.0 * step.evidence["retrieval"]
        np.testing.assert_allclose(step.logits, fused, rtol=1e-12)


def test_the_clip_memory_is_not_kept_where_nothing_reads_it():
    stream = make_stream(1, n_images=40)
    for policy in ("confidence", "fifo", "reservoir", "retrieval_aware"):
        assert all(
            "clip" not in s.evidence for s in iter_steps(MARC("good", policy=policy), stream)
        )


def test_memory_can_be_looked_into():
    stream = make_stream(2, n_images=40)
    method = MARC("good", capacity=2)
    assert method.memory is None
    run(method, stream)
    assert method.memory is not None
    found = method.memory.neighbors(stream.query(3).key("good"), 3)
    assert len(found) == 3


def test_a_live_query_from_raw_features_gives_the_same_answer():
    stream = make_stream(3, n_images=50, n_views=2)
    features = stream.features
    stored, live = MARC("good"), MARC("good")
    for item in range(50):
        query = Query.from_features(
            3.0 * features.views[item],
            features.predictor,
            {"good": 0.5 * features.spaces["good"][item]},
            item=item,
        )
        step, again = stored.step(stream.query(item)), live.step(query)
        np.testing.assert_allclose(again.logits, step.logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"capacity": -1}, "capacity must be an integer >= 0"),
        ({"capacity": 2.5}, "capacity must be an integer"),
        ({"capacity": True}, "capacity must be an integer"),
        ({"weight": -1}, "weight must be a finite number >= 0"),
        ({"weight": float("nan")}, "weight must be a finite number"),
        ({"beta": float("inf")}, "beta must be a finite number"),
        ({"alpha": "two"}, "alpha must be a finite number"),
        ({"policy": "oldest"}, "unknown admission policy"),
        ({"view_entropy": "triple"}, "unknown view entropy"),
        ({"seed": -3}, "seed must be an integer"),
        ({"space": None}, "space must be a name"),
    ],
)
def test_bad_settings_are_explained(settings, message):
    with pytest.raises(MarcError, match=message):
        MARC(**{"space": "good", **settings})


def test_an_unknown_space_is_named_with_those_there_are():
    with pytest.raises(MarcError, match="no space 'nowhere'") as caught:
        run(MARC("nowhere"), make_stream())
    assert "good, bad, predictor" in str(caught.value)
