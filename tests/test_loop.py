from dataclasses import replace

import numpy as np
import pytest
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import iter_steps, run
from marc.method import MARC
from marc.peers.contract import check_method
from marc.peers.zero_shot import NoMemory


def test_no_memory_keeps_the_contract_of_methods():
    check_method(NoMemory)


def test_no_memory_is_marc_at_weight_zero():
    stream = make_stream(0, n_views=8).shuffled(0)
    assert np.array_equal(
        run(NoMemory(), stream).predictions, run(MARC("good", weight=0), stream).predictions
    )


def test_permuting_the_stream_leaves_the_baseline_alone():
    stream = make_stream(0)
    first, second = run(MARC("good"), stream.shuffled(0)), run(MARC("good"), stream.shuffled(1))
    base = [r.base_predictions[np.argsort(r.order)] for r in (first, second)]
    assert np.array_equal(*base)
    memory = [r.predictions[np.argsort(r.order)] for r in (first, second)]
    assert not np.array_equal(*memory)


def test_run_starts_from_nothing_and_iter_steps_goes_on():
    stream = make_stream(0)
    method = MARC("good")
    list(iter_steps(method, stream))
    warm = next(iter_steps(method, stream))
    assert warm.evidence["retrieval"].any()
    again = run(method, stream)
    assert np.array_equal(again.predictions, run(MARC("good"), stream).predictions)


def test_progress_hears_every_step():
    items = []
    stream = make_stream(0, n_images=12).shuffled(5)
    run(MARC("good"), stream, lambda step: items.append(step.item))
    assert items == stream.order.tolist()


def test_answers_that_are_no_numbers_are_refused():
    class Broken(NoMemory):
        def step(self, query):
            step = super().step(query)
            evidence = {"learned": np.full(len(step.base), np.nan)}
            return replace(step, evidence=evidence, weights={"learned": 1.0})

    with pytest.raises(MarcError, match="what are no numbers"):
        run(Broken(), make_stream(0))
