from dataclasses import dataclass, field

import numpy as np
import pytest
from helpers.making import make_stream

from marc.errors import MarcError
from marc.loop import BatchMethod, iter_steps
from marc.memory import Resumable
from marc.method import MARC
from marc.peers.cards import MethodCard
from marc.peers.registry import METHODS, create_method
from marc.peers.zero_shot import NoMemory


def test_a_method_that_answers_batches_is_known_by_its_verb():
    assert not isinstance(NoMemory(), BatchMethod)
    assert not isinstance(MARC("good"), BatchMethod)
    assert isinstance(Pairs(), BatchMethod)


def test_batches_come_in_stream_order_and_the_last_may_be_short():
    stream = make_stream(n_images=7).shuffled(2)
    method = Pairs()
    steps = list(iter_steps(method, stream))
    assert method.sizes == [2, 2, 2, 1]
    assert [step.item for step in steps] == stream.order.tolist()


def test_without_a_batch_size_the_whole_stream_is_one_batch():
    stream = make_stream(n_images=7)
    method = Pairs()
    method.batch_size = None
    assert [step.item for step in iter_steps(method, stream)] == list(range(7))
    assert method.sizes == [7]


def test_a_part_of_a_batch_is_a_batch():
    stream = make_stream(n_images=7).shuffled(2)
    seen = []

    class Looks(Pairs):
        def step_batch(self, queries):
            seen.extend(query.item for query in queries[1:])
            return super().step_batch(queries)

    list(iter_steps(Looks(), stream))
    assert seen == stream.order[[1, 3, 5]].tolist()


def test_a_state_before_the_first_step_is_refused():
    with pytest.raises(MarcError, match="nothing was seen yet"):
        MARC("good").state()


@dataclass
class Rows(Resumable):
    name = "rows"
    scale: float = 1.0
    _memory: object = field(default=None, init=False)

    def _restored(self, state):
        return Kept(state["arrays"])


@dataclass
class Kept:
    arrays: dict

    def state(self):
        return self.arrays


def test_a_state_gives_its_settings_and_the_arrays_of_every_part_back():
    method = Rows(2.0)
    method._memory = Kept({"clip": {"rows": np.zeros(2)}, "none": {}, "seen": np.ones(1)})
    state = method.state()
    assert state["config"] == method.config() == {"method": "rows", "scale": 2.0}
    assert list(state["arrays"]) == ["clip/rows", "seen"]
    again = Rows.from_state(state)
    assert (again.scale, set(again._memory.arrays)) == (2.0, {"clip", "seen"})
    assert again.state()["arrays"].keys() == state["arrays"].keys()
    again.reset()
    assert again._memory is None
    with pytest.raises(MarcError, match="another format"):
        Rows.from_state({**state, "version": 99})


def test_published_settings_stand_behind_those_that_are_given(monkeypatch):
    card = MethodCard(
        "marc",
        "",
        MARC,
        reads_before_writes=True,
        paper="",
        published={"imagenet-a": {"alpha": 7.0, "beta": 8.0}},
    )
    monkeypatch.setitem(METHODS._things, "marc", card)
    config = create_method("marc", published="imagenet-a", space="good", beta=1.0).config()
    assert (config["alpha"], config["beta"], config["capacity"]) == (7.0, 1.0, 16)
    with pytest.raises(MarcError, match="unknown data set with published settings of marc"):
        create_method("marc", published="imagenet-b", space="good")


class Pairs(Resumable):
    """Answers two images together, without memory."""

    name, varies_with = "pairs", frozenset()

    def __init__(self):
        self.batch_size, self.sizes = 2, []

    def step_batch(self, queries):
        self.sizes.append(len(queries))
        return [NoMemory().step(query) for query in queries]

    def reset(self):
        self.sizes = []

    def config(self):
        return {"method": self.name}


def test_a_batch_method_says_what_it_wants_instead_of_a_list():
    with pytest.raises(MarcError, match="answers batches") as refused:
        list(iter_steps(Pairs(), list(make_stream(n_images=4))))
    assert "step_batch" in refused.value.hint
