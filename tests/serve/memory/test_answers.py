"""An answer as plain data, and what a sample of it shows."""

import json

import numpy as np
import orjson
import pytest
from helpers.serving import N_CLASSES, body, features, request

from marc.serve.memory.answers import (
    Names,
    answer,
    sample,
    sample_of_stored,
    weight_of,
    without_memory,
)
from marc.serve.memory.config import config_of
from marc.serve.memory.effects import Learned, Near
from marc.types import Query, Step

_NAMES = Names(("cat", "dog", "cow", "hen", "pig", "fox", "owl"), {3: (4, "three"), 5: (6, "five")})


def _step(base, evidence, weight=1.0, **more):
    arrays = np.array(base, np.float32), {"retrieval": np.array(evidence, float)}
    return Step(9, *arrays, {"retrieval": weight}, int(np.argmax(base)), 0.0, **more)


def _answer(step, by_memory=True, near=None, admitted=False, evicted=None, neighbours=0):
    learned = Learned(step, near or {}, admitted, evicted, b"")
    asked = request(1, "an id", neighbours=neighbours)
    return answer(asked, 10, learned, by_memory, _NAMES, 9)


def test_an_answer_has_both_sides():
    step = _step([3, 1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0], weight=4.0)
    body, more = _answer(step, admitted=True, evicted=3)
    assert (body["id"], body["seq"]) == ("an id", 10)
    assert (body["prediction"], body["class"]) == (1, "dog")
    assert (body["base_prediction"], body["base_class"]) == (0, "cat")
    assert body["disagree"] is True
    assert body["answered_by"] == "memory"
    assert body["weight"] == 4.0
    assert body["stored"] == {"admitted": True, "class": "cat", "evicted": "three"}
    top = body["top"]
    assert [each["number"] for each in top] == [1, 0, 2, 3, 4]
    assert [each["evidence"] for each in top] == [4.0, 0, 0, 0, 0]
    powers = np.exp([3, 5, 0, 0, 0, 0, 0])
    assert top[0]["probability"] == pytest.approx(powers[1] / powers.sum())
    assert more["confidence"] == top[0]["probability"]
    assert more["base_confidence"] == top[1]["base_probability"]
    base, _ = _answer(step, by_memory=False)
    assert (base["class"], base["answered_by"], base["prediction"]) == ("cat", "base", 1)


def test_on_a_tie_the_lowest_class_answers_and_leads():
    body, _ = _answer(_step([0.0] * 7, [0.0] * 7))
    assert body["prediction"] == body["top"][0]["number"] == 0
    assert len(body["top"]) == 5
    body, _ = _answer(_step([0, 2, 2, 2, 2, 2, 2], [0.0] * 7))
    assert body["prediction"] == body["top"][0]["number"] == 1


def test_neighbours_are_cut_in_each_space_and_a_sample_has_all():
    near = {
        "s": tuple(Near(item, 1, 0.9, 0.5) for item in (3, 5, 7)),
        "t": tuple(Near(item, 2, 0.8, None) for item in (5, 3)),
    }
    body, more = _answer(_step([1.0] * 7, [0.0] * 7), near=near, neighbours=1)
    assert body["neighbours"] == [
        {"id": "three", "seq": 4, "class": "dog", "similarity": 0.9, "vote": 0.5, "age": 6,
         "space": "s"},
        {"id": "five", "seq": 6, "class": "cow", "similarity": 0.8, "vote": None, "age": 4,
         "space": "t"},
    ]  # fmt: skip
    assert [len(each) for each in more["neighbours"].values()] == [3, 2]
    assert more["neighbours"]["s"][2]["id"] is None  # no id is known any more


@pytest.mark.parametrize("weight", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_null(weight):
    with np.errstate(all="ignore"):
        body, _ = _answer(_step([1.0, 0, 0, 0, 0, 0, 0], [1.0] * 7, weight=weight))
    assert body["weight"] is None
    json.loads(orjson.dumps(body))
    assert weight_of(_step([1.0], [1.0], weight=2.5)) == 2.5


def test_weights_of_several_spaces_add_up():
    evidence = {"a": np.zeros(2), "b": np.zeros(2)}
    step = Step(0, np.zeros(2, np.float32), evidence, {"a": 1.5, "b": 2.0}, 0, 0.0,
                spaces=("a", "b"))  # fmt: skip
    assert weight_of(step) == 3.5


def test_scores_without_probabilities_have_none():
    body, more = _answer(_step([1.0] * 7, [0.0] * 7, to_probabilities=None))
    assert {each["probability"] for each in body["top"]} == {None}
    assert (more["confidence"], more["base_confidence"]) == (None, None)
    assert sample_of_stored(body, 1.0, picture=False)["confidence"] is None


def test_without_memory_the_predictor_answers():
    config, _, _ = config_of(body())
    views, keys = features(1)
    query = Query.from_features(views, config.predictor, keys, item=4)
    learned = without_memory(query)
    assert learned.step.prediction == learned.step.base_prediction == query.base.label
    assert not learned.admitted
    assert len(learned.step.logits) == N_CLASSES


def test_a_sample_shows_the_class_of_the_memory_whoever_answers():
    step = _step([3, 1, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0], weight=4.0)
    body, more = _answer(step, by_memory=False)
    shown = sample(body, 5.0, more, picture=True)
    assert (shown["class"], shown["base_class"], shown["at"]) == ("dog", "cat", 5.0)
    assert shown["picture"] is True
    stored = sample_of_stored(json.loads(orjson.dumps(body)), 5.0, picture=True)
    assert {**shown, "neighbours": {}} == stored


def test_a_base_class_that_scores_badly_has_no_confidence_in_the_log():
    step = _step([1.0, 0, 0, 0, 0, 0, 0], [-9, 1, 2, 3, 4, 5, 6])
    body, more = _answer(step)
    assert 0 not in [each["number"] for each in body["top"]]
    assert more["base_confidence"] > 0.2
    assert sample_of_stored(body, 1.0, picture=False)["base_confidence"] is None
