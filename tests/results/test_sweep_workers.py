"""A sweep on Ray workers has the bytes of a serial one, whoever dies in the middle of it."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.commands import call, events, tree
from helpers.making import make_stream
from helpers.mortal_streams import has_killed, install, mortal

import marc
from marc import MarcError
from marc.replay import evidence, sweep_job
from marc.replay.sweep_job import SweepJob
from marc.results.sweep import SweepPlan
from marc.results.sweep_worker import SweepWorker
from marc.sources.pack import write_pack
from marc.sources.synthetic import synthetic_stream

SPACES = ("classes", "both", "styles", "noise")


def files(folder):
    """All but the log, which has times and the order in which pieces came."""
    return {name: content for name, content in tree(folder).items() if name != "log.jsonl"}


def assert_same(found, wanted):
    assert found.spaces == wanted.spaces
    for space in wanted.spaces:
        for ends in zip(found.intervals[space], wanted.intervals[space], strict=True):
            assert ends[0].tobytes() == ends[1].tobytes()


@pytest.fixture
def in_pieces(monkeypatch):
    """Small streams are cut into pieces as very large ones are."""
    for name, value in {"_HELD": 0, "_BLOCK": 2**14, "_PIECE": 1}.items():
        monkeypatch.setattr(evidence, name, value)


@pytest.mark.filterwarnings("ignore")  # Ray has warnings of its own
def test_of_two_workers_one_is_killed_and_the_bytes_are_the_same(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    install(tmp_path / "installed", monkeypatch)
    pack = tmp_path / "pack.npz"
    write_pack(synthetic_stream(n_images=300, n_classes=8), pack)
    source = mortal(pack, "both")
    assert call("sweep", source, "-o", tmp_path / "serial").status == 0
    assert not has_killed(pack)
    outcome = call("sweep", source, "--ray", "2", "-o", tmp_path / "shared")
    assert outcome.status == 0, outcome.err
    assert has_killed(pack)
    assert files(tmp_path / "shared") == files(tmp_path / "serial")
    assert sorted(events(tmp_path / "shared")) == sorted(events(tmp_path / "serial"))
    stream = replace(marc.load_stream(f"arrays/{pack}"), source=None)  # it goes to workers as it is
    wanted = marc.load_sweep(tmp_path / "serial")
    assert_same(marc.sweep(stream, ray=1), wanted)


@pytest.mark.parametrize("kind", ["shuffled", "long-tail:ratio=4", "sorted"])
@pytest.mark.parametrize("travels", [False, True])
def test_a_worker_computes_the_pieces_of_this_process(sources, in_pieces, kind, travels):
    stream = marc.load_stream(sources["labelled"], n_views=1).ordered(kind)
    job = SweepJob.plan(replace(stream, source=None) if travels else stream)
    worker = SweepWorker.of(job, SPACES)
    assert (worker.stream is None) is not travels
    for each in worker.histories:  # as they come out of an object store
        for array in (each.time, each.items, each.last, each.starts):
            array.flags.writeable = False
    compute = worker()
    for part in ((0, 0), (2, job.n_pieces("styles") - 1)):
        wanted = job.piece(SPACES[part[0]], part[1])
        found = compute(part)
        assert found.keys() == wanted.keys()
        for name, array in wanted.items():
            np.testing.assert_array_equal(found[name], array)


def test_a_worker_refuses_other_features_under_the_same_name(tmp_path):
    pack = tmp_path / "pack.npz"
    write_pack(synthetic_stream(n_images=60, n_classes=3), pack)
    worker = SweepWorker.of(SweepJob.plan(marc.load_stream(f"arrays/{pack}")), SPACES)
    write_pack(synthetic_stream(n_images=60, n_classes=3, seed=1), pack)
    with pytest.raises(MarcError, match=r"other features(?s:.*)differs in views, "):
        worker()


def test_one_call_in_python_writes_the_folder_of_the_command(sources, tmp_path, monkeypatch):
    stream = marc.load_stream(sources["labelled"])
    told = []
    options = {"output": tmp_path / "python", "on_progress": lambda *what: told.append(what)}
    swept = marc.sweep(stream, seeds=(0, 1), **options)
    call("sweep", sources["labelled"], "--seed", 0, 1, "-o", tmp_path / "command")
    assert files(tmp_path / "python") == files(tmp_path / "command")
    assert told[0][0] == "trajectories"
    assert_same(swept, marc.sweep(stream, seeds=(0, 1)))
    monkeypatch.setattr(SweepJob, "piece", None)  # nothing is computed again
    assert_same(marc.sweep(stream, seeds=(0, 1), **options), swept)


def test_a_sweep_that_failed_goes_on_with_the_pieces_that_are_there(
    tmp_path, monkeypatch, in_pieces
):
    stream, whole = synthetic_stream(n_images=300, n_classes=8), SweepJob.piece
    assert SweepJob.plan(stream).n_pieces("both") == 3
    done = []

    def fail_at_the_fifth(job, space, number):
        done.append((space, number))
        if len(done) == 5:
            raise OSError("no more")
        return whole(job, space, number)

    with monkeypatch.context() as failing:
        failing.setattr(SweepJob, "piece", fail_at_the_fifth)
        with pytest.raises(OSError, match="no more"):
            marc.sweep(stream, output=tmp_path / "out")
        failing.setattr(sweep_job, "admit", None)  # nor are the trajectories computed again
        swept = marc.sweep(stream, output=tmp_path / "out")
    assert done[4] == done[5] == ("both", 1)
    assert len(set(done)) == len(done) - 1 == 3 * 4
    assert_same(swept, marc.sweep(stream))


@pytest.mark.parametrize("writer", ["sweep", "save_sweep"])
def test_a_sweep_that_failed_after_its_last_piece_is_finished(tmp_path, monkeypatch, writer):
    stream, path = synthetic_stream(n_images=100, n_classes=8), tmp_path / "out"
    swept = marc.sweep(stream)
    write = {
        "sweep": lambda: marc.sweep(stream, output=path),
        "save_sweep": lambda: marc.save_sweep(swept, path, stream),
    }[writer]

    def fail(sweep):
        raise OSError("no more")

    with monkeypatch.context() as failing:
        failing.setattr(SweepPlan, "envelope", fail)
        with pytest.raises(OSError, match="no more"):
            write()
    monkeypatch.setattr(SweepJob, "piece", None)  # nothing is computed again
    assert_same(marc.sweep(stream, output=path), swept)
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_a_dry_run_says_which_pieces_are_there(sources, tmp_path, monkeypatch, in_pieces):
    stream, whole = marc.load_stream(sources["labelled"]), SweepJob.piece

    def fail(job, space, number):
        if (space, number) == ("both", 1):
            raise OSError("no more")
        return whole(job, space, number)

    with monkeypatch.context() as failing:
        failing.setattr(SweepJob, "piece", fail)
        with pytest.raises(OSError, match="no more"):
            marc.sweep(stream, output=tmp_path / "out")
    lines = call("sweep", sources["labelled"], "--dry-run", "-o", tmp_path / "out").out.splitlines()
    assert [line.strip() for line in lines[-4:]] == [
        "classes: at most 0.0 billion operations, 2 pieces of it done already",
        "both: at most 0.0 billion operations, 1 piece of it done already",
        "styles: at most 0.0 billion operations",
        "noise: at most 0.0 billion operations",
    ]


def test_workers_and_a_gpu_are_not_for_one_sweep():
    job = replace(SweepJob.plan(make_stream()), gpu="cuda:1")
    with pytest.raises(MarcError, match="--ray --device cuda:1"):
        SweepPlan(job, ["good"], 0)


def test_an_order_that_a_folder_cannot_record_is_refused_before_any_work(tmp_path):
    stream = make_stream()
    backwards = stream.reordered(np.arange(len(stream))[::-1])
    with pytest.raises(MarcError, match="an order by its seed"):
        marc.sweep(backwards, seeds=None, output=tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--ray=-1"], "--ray must be an integer >= 0"),
        (["--ray", "--dry-run"], "--dry-run computes nothing that could be spread"),
        (["--ray=two"], "--ray must be an integer"),
    ],
)
def test_odd_options_are_refused_before_any_work(sources, tmp_path, monkeypatch, words, told):
    pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    for verb in (["sweep", sources["labelled"]], ["study", "--lab"]):
        outcome = call(*verb, *words)
        assert outcome.status == 2
        assert told in outcome.err
    assert not list(tmp_path.iterdir())
