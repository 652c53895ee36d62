"""What a run remembers at its end is counted, kept in its folder, and never guessed."""

import numpy as np
import pytest
from helpers.making import make_stream

import marc
from marc.results.folder import Stored


@pytest.fixture
def stream():
    return make_stream(5, n_images=60).shuffled(0)


def bytes_of(method):
    return sum(array.nbytes for array in method.state()["arrays"].values())


def test_a_run_knows_what_its_method_remembers(stream):
    method = marc.MARC("good", capacity=3)
    run = marc.run(method, stream)
    assert run.memory_bytes == bytes_of(method) > 0
    assert marc.run(marc.MARC("good", capacity=1), stream).memory_bytes < run.memory_bytes
    assert marc.run(marc.create_method("no-memory"), stream).memory_bytes == 0


def test_the_folder_of_a_run_has_the_most_over_its_orders(stream, tmp_path):
    method = marc.MARC("good", capacity=3)
    runs = [marc.run(method, stream.in_order(seed)) for seed in (0, 1)]
    marc.save_run(runs, tmp_path / "run", stream)
    most = max(run.memory_bytes for run in runs)
    assert Stored.read(tmp_path / "run", "run").timing["memory_bytes"] == most
    assert [run.memory_bytes for run in marc.load_run(tmp_path / "run")] == [most, most]


def test_a_replay_remembers_nothing_that_could_be_counted(stream, tmp_path):
    run = marc.replay(marc.MARC("good"), stream)
    assert run.memory_bytes is None
    marc.save_run(run, tmp_path / "run", stream)
    assert Stored.read(tmp_path / "run", "run").timing == {}
    comparison = marc.compare(run, marc.run(marc.create_method("tda"), stream))
    assert comparison.reference["memory_bytes"] is None
    assert comparison.runs[0]["memory_bytes"] > 0
    assert comparison.runs[0]["gradients"] is False
    assert comparison.runs[0]["resets"] == "never"
    assert np.isnan(run.seconds)


def test_batches_of_a_method_that_may_see_the_whole_stream_are_told(stream):
    transclip = [marc.create_method("transclip", batch_size=size) for size in (None, 20)]
    whole, batches = marc.compare(
        *(marc.run(method, stream) for method in (marc.create_method("tda"), *transclip))
    ).runs
    assert (whole["sees"], whole["resets"]) == ("the whole stream", "stream")
    assert (batches["sees"], batches["resets"]) == ("batches of 20", "batch")
