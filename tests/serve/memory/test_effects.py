import dataclasses

import numpy as np
import pytest
from helpers.durable import config_of, request

from marc.admission import POLICIES
from marc.errors import MarcError
from marc.peers.registry import METHODS
from marc.serve.memory.effects import Learner

N = 60
SETTINGS = [
    *({"policy": name} for name in POLICIES),
    *({"policy": name, "weight": "auto"} for name in POLICIES),
    {"negative_weight": 0.117},
    {"negative_weight": 0.117, "weight": "auto", "clip_weight": 1.0},
    {"refine_labels": True},
    {"clip_weight": 2.0, "gamma": 1.0},
    {"use_base": False},
    {"admission_capacity": 0},
    {"capacity": 0},
    {"capacity": 1, "seed": 3},
    {"view_entropy": "posterior"},
    {"space": "predictor", "weight": "auto"},
]


def queries(config, n=N, n_views=None):
    requests = [request(number) for number in range(n)]
    cut = [dataclasses.replace(each, views=each.views[:n_views]) for each in requests]
    return [config.query(each, item) for item, each in enumerate(cut)]


def same(one, other):
    states = [learner.method.state() for learner in (one, other)]
    arrays = [state.pop("arrays") for state in states]
    assert states[0] == states[1]
    assert arrays[0].keys() == arrays[1].keys()
    return all(
        array.dtype == arrays[1][name].dtype and array.tobytes() == arrays[1][name].tobytes()
        for name, array in arrays[0].items()
    )


@pytest.mark.parametrize("block", [1, 7])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_effects_make_the_very_memory_that_stepped(settings, block):
    config = config_of({"name": "marc", "space": "s", "capacity": 3, **settings})
    learner, again = (Learner(config, config.new_method()) for _ in range(2))
    stream, evicted = queries(config), 0
    for start in range(0, N, block):
        some = stream[start : start + block]
        for query, learned in zip(some, learner.learn(some, [0] * len(some)), strict=True):
            assert again.apply(learned.effect, query.item) is None
            evicted += learned.evicted is not None
        assert (learner.sums() is not None) == learner.learns_weight
        if learner.learns_weight:
            again.set_sums(learner.sums())
        assert same(learner, again)
    assert evicted > 0 or settings.get("capacity") == 0
    [one], [other] = (each.learn(queries(config, N + 1)[-1:], [3]) for each in (learner, again))
    assert one.effect == other.effect
    assert one.near == other.near
    assert (one.step.logits == other.step.logits).all()


def test_effects_without_the_sums_are_another_memory():
    config = config_of({"name": "marc", "space": "s", "capacity": 3, "weight": "auto"})
    learner, again = (Learner(config, config.new_method()) for _ in range(2))
    for query in queries(config):
        again.apply(learner.learn([query], [0])[0].effect, query.item)
    assert not same(learner, again)


def replayed():
    """Methods that a server takes and that see their inputs again."""
    files = {"shots", "unlabelled"}
    names = [name for name in METHODS if name != "marc" and not files & {*METHODS[name].needs}]
    return [name for name in names if _is_taken(name)]


def _is_taken(name):
    try:
        config_of({"name": name}).check()
    except MarcError:
        return False
    return True


@pytest.mark.parametrize("name", replayed())
def test_a_method_that_sees_its_inputs_again_remembers_nearly_the_same(name):
    config = config_of({"name": name})
    learner, again = (Learner(config, config.new_method()) for _ in range(2))
    for query in queries(config, n_views=1):
        [learned] = learner.learn([query], [2])
        step = again.apply(learned.effect, query.item)
        assert step.prediction == learned.step.prediction
        np.testing.assert_allclose(step.logits, learned.step.logits, rtol=1e-4, atol=1e-5)
    assert learner.items == again.items
    arrays = [each.method.state()["arrays"] for each in (learner, again)]
    assert arrays[0].keys() == arrays[1].keys()
    for key, array in arrays[0].items():
        np.testing.assert_allclose(array, arrays[1][key], rtol=1e-4, atol=1e-5)


def test_there_are_methods_that_see_their_inputs_again():
    assert {"class-means", "tda"} <= {*replayed()}


def test_a_logged_query_has_the_same_bits():
    from marc.serve.memory.effects import _decoded_query, _encoded_query

    config = config_of({"name": "class-means"})
    for query in queries(config):
        again = _decoded_query(config, _encoded_query(query), query.item)
        assert again.views.tobytes() == query.views.tobytes()
        assert again.keys["s"].tobytes() == query.keys["s"].tobytes()
        assert again.item == query.item


def test_a_peek_changes_nothing():
    for settings in ({"name": "marc", "space": "s", "weight": "auto"}, {"name": "class-means"}):
        config = config_of(settings)
        learner, other = (Learner(config, config.new_method()) for _ in range(2))
        for query in queries(config, 20):
            for _ in range(2):
                learner.peek(query, 3)
            one, two = (each.learn([query], [3])[0] for each in (learner, other))
            assert (one.step.logits == two.step.logits).all()
        assert same(learner, other)


def test_a_method_that_failed_learns_nothing_more():
    class Failing:
        name = "failing"

        def step(self, query):
            raise RuntimeError("it failed")

    learner = Learner(config_of({"name": "class-means"}), Failing())
    stream = queries(learner.config, 2)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="it failed"):
            learner.learn(stream, [0, 0])


def apply_all(learner, effects):
    for item, effect in enumerate(effects):
        learner.apply(effect, item)


def test_what_was_taken_before_is_taken_again_or_refused():
    config = config_of({"name": "marc", "space": "s", "capacity": 3})
    learner = Learner(config, config.new_method())
    effects = [learner.learn([query], [0])[0].effect for query in queries(config)]
    smaller = config_of({"name": "marc", "space": "s", "capacity": 1})
    again = Learner(smaller, smaller.new_method())
    with pytest.raises(MarcError, match="does not take what it took before"):
        apply_all(again, effects)
