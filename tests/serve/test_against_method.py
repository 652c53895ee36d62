"""Whatever is asked of a memory, in whatever order: its answers are those of the method alone."""

import copy
import json
import shutil
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from helpers.serving import MARC, N_CLASSES, body, features, remembered, request, served
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from marc.errors import MarcError
from marc.serve.memory import operations, snapshots
from marc.serve.memory.config import config_of
from marc.serve.memory.served import Served
from marc.types import Query

_METHODS = {
    "marc": MARC,
    "every part of marc": {
        "name": "marc", "space": "s", "capacity": 2, "weight": "auto", "negative_weight": 0.2,
        "clip_weight": 3.0, "refine_labels": True, "admission_capacity": 3,
    },
    "class-means": {"name": "class-means"},
    "tda": {"name": "tda"},
}  # fmt: skip
_IMAGES = st.integers(0, 30)
_MODES = ("off", "shadow", "canary", "live")


class _Memory(RuleBasedStateMachine):
    method = "marc"
    ids = Bundle("ids")

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp()) / "m"
        limits = {"snapshot_every": 1000, "window": 1000}
        self.config, mode, _ = config_of(body(_METHODS[self.method], limits=limits))
        Served.create(self.folder, self.config, mode, 0.5)
        self.served = Served(self.folder)
        self.twin, self.n_seen, self.seq = self.config.new_method(), 0, 0
        self.mode = "shadow"
        self.answers, self.labels, self.at_snapshot = {}, {}, {}
        self.n_ids = 0

    def teardown(self):
        self.served.close()
        shutil.rmtree(self.folder.parent)

    def _new_ids(self, count):
        self.n_ids += count
        return [str(number) for number in range(self.n_ids - count, self.n_ids)]

    def _expected(self, image, method):
        """Scores of the method alone, and of the predictor alone."""
        views, keys = features(image)
        query = Query.from_features(views, self.config.predictor, keys, item=self.n_seen)
        if self.mode == "off":
            return query.base.logits, query.base.logits
        step = method.step(query)
        return step.logits, step.base

    def _take(self, names, images, neighbours):
        """Answer a block, and compare it with steps of the method alone."""
        asked = [
            request(image, name, neighbours=neighbours)
            for name, image in zip(names, images, strict=True)
        ]
        for name, image, raw in zip(names, images, self.served.steps(asked), strict=True):
            answer = json.loads(raw)
            self._compare(answer, name, *self._expected(image, self.twin))
            self.seq += 1
            self.n_seen += self.mode != "off"
            assert answer["seq"] == self.seq
            assert len(answer["neighbours"]) <= neighbours * 2
            self.answers[name] = raw, self.mode != "off"

    def _compare(self, answer, name, logits, base):
        assert answer["id"] == name
        assert answer["prediction"] == logits.argmax()
        assert answer["base_prediction"] == base.argmax()
        assert answer["disagree"] == (logits.argmax() != base.argmax())
        canary = zlib.crc32(name.encode()) / 2**32 < 0.5
        by_memory = self.mode == "live" or (self.mode == "canary" and canary)
        assert answer["answered_by"] == ("memory" if by_memory else "base")
        number = logits.argmax() if by_memory else base.argmax()
        assert answer["class"] == str(number)
        added = {each["number"]: each["evidence"] for each in answer["top"]}
        assert len(added) == N_CLASSES
        if self.method.endswith("marc"):
            expected = logits - base
            assert np.allclose([added[c] for c in range(N_CLASSES)], expected, atol=1e-3)

    @rule(target=ids, image=_IMAGES, neighbours=st.integers(0, 3))
    def step(self, image, neighbours):
        [name] = self._new_ids(1)
        self._take([name], [image], neighbours)
        return name

    @rule(images=st.lists(_IMAGES, min_size=2, max_size=9))
    def block(self, images):
        self._take(self._new_ids(len(images)), images, 1)

    @rule(name=ids, image=_IMAGES)
    def retry(self, name, image):
        before = remembered(self.served)
        first, again = self.served.steps([request(image, name)] * 2)
        if name in self.answers:
            assert first == again == self.answers[name][0]
            assert remembered(self.served) == before
        else:  # it was restored away, so it is a new step
            assert first == again
            self._compare(json.loads(first), name, *self._expected(image, self.twin))
            self.seq, self.n_seen = self.seq + 1, self.n_seen + (self.mode != "off")
            self.answers[name] = first, self.mode != "off"

    @rule(image=_IMAGES, bad=st.sampled_from([np.nan, np.inf, 0.0, 1e30]))
    def refused(self, image, bad):
        """Features that are no features are refused alone."""
        before, [name] = remembered(self.served), self._new_ids(1)
        wrong = request(image, name)
        wrong.keys["s"][:] = bad
        dry = request(image, "dry", dry_run=True)
        error, answer = self.served.steps([wrong, dry])
        assert isinstance(error, MarcError)
        assert isinstance(answer, bytes)
        assert remembered(self.served) == before

    @rule(image=_IMAGES, neighbours=st.integers(0, 3))
    def dry_run(self, image, neighbours):
        before = remembered(self.served)
        [raw] = self.served.steps([request(image, "dry", dry_run=True, neighbours=neighbours)])
        answer = json.loads(raw)
        assert answer["seq"] is None
        self._compare(answer, "dry", *self._expected(image, copy.deepcopy(self.twin)))
        assert remembered(self.served) == before

    @rule(name=ids, label=st.integers(0, N_CLASSES - 1))
    def label(self, name, label):
        done = operations.label(self.served, [{"id": name, "label": label}])
        if name not in self.answers:
            assert done["unknown"] == [name]
            return
        kind = "accepted"
        if name in self.labels:
            kind = "repeated" if self.labels[name] == label else "changed"
        assert [k for k in ("accepted", "changed", "repeated") if done[k]] == [kind]
        self.labels[name] = label
        if done["fell_back"]:
            assert self.mode in ("canary", "live")
            self.mode = "shadow"

    @precondition(lambda self: self.answers)
    @rule(label=st.integers(0, N_CLASSES - 1))
    def label_all(self, label):
        rows = [{"id": name, "label": label} for name in self.answers]
        done = operations.label(self.served, rows)
        assert done["accepted"] == len({*self.answers} - {*self.labels})
        self.labels = dict.fromkeys(self.answers, label)
        if done["fell_back"]:
            assert self.mode in ("canary", "live")
            self.mode = "shadow"

    @rule(to=st.sampled_from(_MODES))
    def switch(self, to):
        operations.mode(self.served, to, expect=self.mode, anyway=True)
        self.mode = to

    @rule()
    def snapshot(self):
        file = operations.snapshot(self.served)["file"]
        self.at_snapshot[file] = copy.deepcopy(self.twin), self.n_seen, self.seq

    @rule()
    def reopen(self):
        before, info = remembered(self.served), operations.info(self.served)
        self.served.close()
        self.served = Served(self.folder)
        assert remembered(self.served) == before
        assert operations.info(self.served) == {**info, "space_weights": {}}
        assert self.served.differences == 0

    @precondition(lambda self: self.at_snapshot)
    @rule(draw=st.randoms(use_true_random=False))
    def restore(self, draw):
        file = draw.choice([each["file"] for each in snapshots.kept(self.folder)])
        self.served.close()
        snapshots.restore(self.folder, snapshots.restorable(self.folder, file, None))
        self.served = Served(self.folder)
        twin, self.n_seen, self.seq = self.at_snapshot[file]
        self.twin = copy.deepcopy(twin)
        self.mode, self.answers, self.labels = "shadow", {}, {}
        self.served.commit({**self.served.head, "fraction": 0.5})

    @invariant()
    def counts_are_right(self):
        head = self.served.head
        assert (head["seq"], head["n_seen"], head["mode"]) == (self.seq, self.n_seen, self.mode)
        judged = {name: json.loads(raw) for name, (raw, judged) in self.answers.items() if judged}
        assert head["steps"] == len(judged)
        contested = {name for name, answer in judged.items() if answer["disagree"]}
        assert head["disagreements"] == len(contested)
        won = lost = neither = 0
        for name in contested & {*self.labels}:
            won += judged[name]["prediction"] == self.labels[name]
            lost += judged[name]["base_prediction"] == self.labels[name]
            neither += self.labels[name] not in (
                judged[name]["prediction"], judged[name]["base_prediction"]
            )  # fmt: skip
        tally = operations.judgement(self.served)["labelled"]
        agreements = len({*judged} & {*self.labels} - contested)
        assert tally == {"won": won, "lost": lost, "neither": neither, "agreements": agreements}
        waiting = operations.audit(self.served, 1000)
        assert {each["id"] for each in waiting["items"]} == contested - {*self.labels}


@pytest.mark.parametrize("method", _METHODS)
def test_a_served_memory_answers_as_its_method(method):
    machine = type("Machine", (_Memory,), {"method": method})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_blocks_of_steps_may_come_in_any_cut(tmp_path):
    """Answers, and what is remembered, do not depend on how many steps came together."""
    answers = []
    for number, size in enumerate((1, 3, 16)):
        memory = served(tmp_path / str(number))
        steps = [request(image) for image in range(80)]
        blocks = [memory.steps(steps[start : start + size]) for start in range(0, 80, size)]
        answers.append([json.loads(raw)["prediction"] for block in blocks for raw in block])
        answers[-1].append(operations.info(memory)["sizes"])
        memory.close()
    assert answers[0] == answers[1] == answers[2]
