"""Streams of a plan: opened once, let go when they are too many, known for ever."""

import numpy as np
import pytest
from helpers.studies import PLAN, tiny_plan, tiny_stream

from marc.sources.pack import write_pack
from marc_paper.study import streams as study_streams
from marc_paper.study.streams import OpenStreams, _n_bytes


@pytest.fixture
def plan(tmp_path):
    streams = {}
    for seed, name in enumerate(("first", "second", "third")):
        write_pack(tiny_stream(name, seed), tmp_path / f"{name}.npz")
        source = f"arrays/{tmp_path / name}.npz"
        streams[name] = {**PLAN["streams"][name], "source": source}
    return tiny_plan(streams={**PLAN["streams"], **streams})


@pytest.fixture
def opened(monkeypatch):
    told, load = [], study_streams.load_stream

    def counted(source, *rest, **options):
        told.append(source.rpartition("/")[2].removesuffix(".npz"))
        return load(source, *rest, **options)

    monkeypatch.setattr(study_streams, "load_stream", counted)
    return told


def test_a_stream_is_opened_once(plan, opened):
    streams = OpenStreams(plan, {}, None)
    for _ in range(2):
        for name in ("first", "second", "third"):
            assert streams.get(name).n_views == plan.streams[name].views
    assert opened == ["first", "second", "third"]


def test_the_oldest_is_let_go_where_they_take_too_much(plan, opened, monkeypatch):
    streams = OpenStreams(plan, {}, None)
    size = _n_bytes(streams.get("first"))
    monkeypatch.setattr(study_streams, "_BYTES", int(1.8 * size))
    for name in ("second", "first", "third", "second"):
        streams.get(name)
    assert opened == ["first", "second", "third", "second"]


def test_digests_and_labels_stay_known(plan, opened, monkeypatch):
    monkeypatch.setattr(study_streams, "_BYTES", 0)
    streams = OpenStreams(plan, {}, None)
    first = streams.fingerprint("first"), streams.labels("first")
    streams.get("second")
    assert streams.fingerprint("first") == first[0]
    np.testing.assert_array_equal(streams.labels("first"), first[1])
    assert opened == ["first", "second"]


def test_bytes_are_those_of_all_features():
    stream = tiny_stream("first", 0)
    features = stream.features
    keys = sum(each.nbytes for each in features.spaces.values())
    assert _n_bytes(stream) == np.asarray(features.views, np.float32).nbytes + keys
