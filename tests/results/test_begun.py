"""A run that is killed inside an order goes on there, and ends as one that never stopped."""

import contextlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers.commands import arrays_in, call, events

from marc.loop import Pauses, run
from marc.peers.registry import METHODS, create_method
from marc.results import begun
from marc.results.begun import paused
from marc.results.folder import Folder
from marc.results.run import RunPlan
from marc.sources.pack import write_pack
from marc.sources.synthetic import synthetic_stream

STREAM = synthetic_stream(n_images=300, n_classes=5, n_views=1).in_order(0)
ONE_BY_ONE = ["class-means", "marc", "no-memory", "zero-shot", "tda", "dota", "ecalp", "bca", "dpe"]
IN_BATCHES = ["lame", "oga", "stata"]
TOGETHER = ["transclip", "zlap"]
INTERRUPTED = (
    "from marc.results import begun; begun._EVERY = 500; from marc.cli import app; app.main()"
)


def make_method(name, **settings):
    space = {"space": "classes"} if "space" in METHODS[name].needs else {}
    return create_method(name, **space, **settings)


def folder_in(path):
    return Folder.open(path / "out", {"kind": "run", "name": "a run"})


def outcome(found):
    """All numbers of a run but its time."""
    known = {"prediction": found.predictions, "base": found.base_predictions}
    known |= {"label": found.trajectory.label, "priority": found.trajectory.priority}
    known |= {"weight": found.weights, **found.space_weights}
    for side in ("certainty", "base_certainty"):
        sure = getattr(found, side)
        known |= {} if sure is None else {f"{side}/{n}": v for n, v in sure.known().items()}
    return known


def run_with_pauses(folder, method, every=64, stop=None):
    """A run that ends at an error after so many images, as a killed one would."""
    method, pauses = paused(folder, "order-0", method)
    seen = [] if pauses.kept is None else [None] * len(pauses.kept["prediction"])
    start = len(seen)

    def count(step):
        seen.append(step)
        if len(seen) == stop:
            raise KeyboardInterrupt

    return run(method, STREAM, count, pauses=Pauses(every, pauses.keep, pauses.kept)), start


@pytest.mark.parametrize("name", [*ONE_BY_ONE, *IN_BATCHES, "auto"])
def test_a_run_that_goes_on_is_the_run_that_never_stopped(tmp_path, name):
    settings = {"weight": "auto"} if name == "auto" else {}
    make = lambda: make_method("marc" if name == "auto" else name, **settings)  # noqa: E731
    whole = run(make(), STREAM)
    folder = folder_in(tmp_path)
    with folder.begin():
        for stop in (70, 200):
            with pytest.raises(KeyboardInterrupt):
                run_with_pauses(folder, make(), stop=stop)
        found, start = run_with_pauses(folder, make())
    assert start == 192
    expected = outcome(whole)
    assert outcome(found).keys() == expected.keys()
    for key, values in expected.items():
        np.testing.assert_array_equal(outcome(found)[key], values, strict=True, err_msg=key)
    assert found.memory_bytes == whole.memory_bytes


@pytest.mark.parametrize("name", TOGETHER)
def test_a_method_of_the_whole_stream_begins_again(tmp_path, name):
    folder = folder_in(tmp_path)
    with folder.begin():
        with pytest.raises(KeyboardInterrupt):
            run_with_pauses(folder, make_method(name), stop=200)
        found, start = run_with_pauses(folder, make_method(name))
    assert start == 0
    assert np.array_equal(found.predictions, run(make_method(name), STREAM).predictions)


def test_what_cannot_be_taken_up_is_begun_again(tmp_path):
    folder = folder_in(tmp_path)
    with folder.begin():
        with pytest.raises(KeyboardInterrupt):
            run_with_pauses(folder, make_method("marc"), stop=200)
        kept = folder.begun("order-0")
        for change in (
            {"told": np.array("{")},
            {"method/retrieval/keys": 3 * kept["method/retrieval/keys"]},
            {"told": np.array(str(kept["told"]).replace('"capacity": 16', '"capacity": 17'))},
        ):
            folder.keep_begun("order-0", {**kept, **change})
            _, pauses = paused(folder, "order-0", make_method("marc"))
            assert pauses.kept is None
        folder.keep_begun("order-0", kept)
        _, pauses = paused(folder, "order-0", make_method("marc"))
        assert len(pauses.kept["prediction"]) == 192


class Unwritable:
    """Nearly a method: its state is no data."""

    def state(self):
        return {"arrays": {"memory": np.array([object()])}, "version": 1}


class Untold(Unwritable):
    def state(self):
        return {"arrays": {}, "held": object()}


@pytest.mark.parametrize("method", [Unwritable(), Untold(), object.__new__(type("Empty", (), {}))])
def test_a_state_that_cannot_be_written_is_not_kept(tmp_path, method):
    method.state = getattr(method, "state", lambda: {})
    folder = folder_in(tmp_path)
    with folder.begin():
        _, pauses = paused(folder, "order-0", method)
        pauses.keep(method, {"prediction": np.arange(3)})
        assert folder.begun("order-0") is None


def test_a_finished_folder_has_no_trace_of_its_pauses(tmp_path, monkeypatch):
    monkeypatch.setattr(begun, "_EVERY", 64)
    plan = RunPlan(STREAM, [0, 1], "class-means", {})
    told = []

    def watch(name, stream, done):
        told.append(done)
        steps = iter(range(done + 1, len(stream) + 1))

        def stop(step):
            if next(steps) == 150 and len(told) == 2:
                raise KeyboardInterrupt

        return stop

    folder = Folder.open(tmp_path / "out", plan.config())
    with pytest.raises(KeyboardInterrupt):
        plan.write(folder, watch)
    assert (folder.work / "order-0.begun.part.npz").exists()
    assert Folder.parts_done(folder.path) == []
    plan.write(folder, watch)
    assert told == [0, 0, 0, 128, 0]
    assert {path.name for path in folder.path.iterdir()} == {
        *("config.json", "metrics.json", "predictions.npz", "timing.json"),
        *("digests.json", "log.jsonl"),
    }
    monkeypatch.setattr(begun, "_EVERY", 2**15)
    other = Folder.open(tmp_path / "other", plan.config())
    plan.write(other)
    for name in ("predictions.npz", "metrics.json", "config.json"):
        assert (folder.path / name).read_bytes() == (other.path / name).read_bytes()
    assert not [line for line in events(other.path) if "begun" in line]


def test_a_killed_command_goes_on_inside_an_order(tmp_path):
    pack = tmp_path / "large.npz"
    write_pack(synthetic_stream(n_images=4000, n_classes=20), pack)
    words = ["run", f"arrays/{pack}", "--seed", "0", "-o"]
    log = tmp_path / "killed.partial/log.jsonl"
    argv = [sys.executable, "-c", INTERRUPTED, *words, str(tmp_path / "killed")]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(FileNotFoundError):
            if log.read_text().count("begun") == 2:
                break
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL, "it ended before it could be killed"
    assert call(*words, tmp_path / "killed").status == 0
    assert call(*words, tmp_path / "whole").status == 0
    lines = events(tmp_path / "killed")
    assert lines.count("started") == 2
    for name in ("predictions.npz", "metrics.json", "answers.csv"):
        killed, whole = (tmp_path / place / name for place in ("killed", "whole"))
        assert killed.read_bytes() == whole.read_bytes(), name
    assert "order" in arrays_in(tmp_path / "whole" / "predictions.npz")
