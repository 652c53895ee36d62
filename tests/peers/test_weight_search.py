"""Weights chosen on labels, against a run at each weight."""

import itertools

import numpy as np
import pytest
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import run
from marc.method import MARC
from marc.peers.weight_search import WeightSearch, weighed_by
from marc.types import Step

WEIGHTS = (0.0, 0.3, 1.0, 10.0)


def test_a_search_gives_the_answers_of_a_run_at_each_weight():
    stream = make_stream(3, n_images=80).shuffled(1)
    search = WeightSearch({"retrieval_weight": WEIGHTS, "clip_weight": (0.5, 2.0)}, len(stream))
    run(MARC("bad", capacity=2, clip_weight=1.0), stream, search.take)
    runs = []
    for weight, clip_weight in itertools.product(WEIGHTS, (0.5, 2.0)):
        method = MARC("bad", capacity=2, weight=weight, clip_weight=clip_weight)
        runs.append(run(method, stream))
    for place, single in enumerate(runs):
        np.testing.assert_array_equal(search.predictions[:, place], single.predictions)
    chosen, answers = search.best(stream.labels)
    accuracies = [single.accuracy for single in runs]
    best = int(np.argmax(accuracies))
    assert (answers == stream.labels).mean() == max(accuracies)
    assert tuple(chosen.values()) == list(itertools.product(WEIGHTS, (0.5, 2.0)))[best]
    assert len(set(accuracies)) > 1


def test_the_first_of_equal_weights_is_chosen():
    search = WeightSearch({"weight": (3.0, 1.0)}, 1)
    search.take(a_step({"only": np.array([0.0, 1.0])}))
    assert search.best(np.array([1]))[0] == {"weight": 3.0}


def test_evidence_that_is_not_searched_keeps_its_weight():
    search = WeightSearch({"second_weight": (0.0, 5.0)}, 1)
    first, second = np.array([0.0, 2.0, 0.0]), np.array([0.0, 0.0, 1.0])
    search.take(a_step({"first": first, "second": second}))
    assert search.predictions.tolist() == [[1, 2]]


@pytest.mark.parametrize("setting", ["weight", "third_weight", "alpha"])
def test_a_setting_that_weighs_nothing_is_refused(setting):
    with pytest.raises(MarcError, match="weighs no evidence"):
        weighed_by(setting, a_step({"first": np.zeros(2), "second": np.zeros(2)}))


def a_step(evidence):
    size = len(next(iter(evidence.values())))
    base = np.zeros(size, dtype=np.float32)
    return Step(0, base, evidence, dict.fromkeys(evidence, 1.0), 0, 0.0)
