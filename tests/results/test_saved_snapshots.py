"""Saving a snapshot: what cannot be written, full disks, killed writers, and many at once."""

import json
import os
import signal
import stat
import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np
import pytest
from helpers.repository import ROOT
from helpers.snapshots import saved

from marc.admission import POLICIES
from marc.errors import MarcError
from marc.files import writing
from marc.memory import Resumable
from marc.peers.cards import card_of
from marc.peers.registry import METHODS
from marc.results.snapshot import load_snapshot, save_snapshot


@dataclass
class Counting(Resumable):
    """A method of another's."""

    name = "counting"
    limit: object = 3
    _memory: dict | None = field(default=None, init=False)


@pytest.mark.parametrize(
    ("limit", "counts"),
    [
        (np.int64(3), np.zeros(3)),
        ({1, 2}, np.zeros(3)),
        (POLICIES["fifo"], np.zeros(3)),
        ("\ud800", np.zeros(3)),
        (3, np.array(["a", "b"])),
        (3, np.array([1j])),
        (3, [1, 2]),
    ],
    ids=["number", "set", "policy", "half", "text", "complex", "list"],
)
def test_a_state_that_cannot_be_written_is_refused_before_anything_is(tmp_path, limit, counts):
    method = Counting(limit)
    method._memory = {"counts": counts}
    with pytest.raises(MarcError, match="the state of this method cannot be written"):
        save_snapshot(method, tmp_path / "folder/memory")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("limit", [(1, 2), float("inf"), {"b": 1, "a": None}])
def test_plain_settings_of_another_method_come_back(tmp_path, limit, monkeypatch):
    monkeypatch.setitem(METHODS._things, "counting", card_of(Counting))
    method = Counting(limit)
    method._memory = {"counts": np.zeros((2, 0)), "n": np.array(3), "best": np.array([-np.inf])}
    save_snapshot(method, tmp_path / "memory")
    again = load_snapshot(tmp_path / "memory")
    assert json.dumps(again.config()) == json.dumps(method.config())
    assert again.state()["arrays"]["n"] == 3


def test_the_mode_of_a_snapshot_follows_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        path = saved(tmp_path / "memory")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_full_disk_leaves_the_old_snapshot(tmp_path, monkeypatch):
    path = saved(tmp_path / "memory")
    before = path.read_bytes()
    begin = writing._begin

    def full(path):
        partial, file = begin(path)
        file.close()
        return partial, open("/dev/full", "wb")  # noqa: PTH123

    monkeypatch.setattr(writing, "_begin", full)
    with pytest.raises(OSError, match="No space left"):
        saved(path, n_seen=50)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
import pytest
from helpers.failing_disk import Disk
from helpers.snapshots import saved
if sys.argv[3]:
    Disk(pytest.MonkeyPatch(), sys.argv[3], kill=True)
for _ in range(20):
    saved(sys.argv[2], n_seen=int(sys.argv[4]))
"""


def start_writer(path, step="", n_seen=50):
    """A process that saves snapshots, killed after a step of the first where one is told."""
    words = [str(ROOT / "tests"), str(path), step, str(n_seen)]
    return subprocess.Popen([sys.executable, "-c", WRITER, *words])


@pytest.mark.parametrize("step", ["create", "write", "sync file"])
def test_the_next_save_clears_what_a_killed_one_left(tmp_path, step):
    path = saved(tmp_path / "memory")
    before = path.read_bytes()
    assert start_writer(path, step).wait() == -signal.SIGKILL
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 2
    saved(path, n_seen=50)
    assert list(tmp_path.iterdir()) == [path]


def test_writers_at_once_all_succeed(tmp_path):
    path = saved(tmp_path / "memory", n_seen=5)
    writers = [start_writer(path, n_seen=n_seen) for n_seen in (5, 10, 15, 20)]
    while any(writer.poll() is None for writer in writers):
        assert load_snapshot(path).state()["n_seen"] in (5, 10, 15, 20)
    assert [writer.returncode for writer in writers] == [0] * 4
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_save_leaves_the_old_snapshot_as_it_was(tmp_path, monkeypatch):
    path = saved(tmp_path / "memory")
    before = path.read_bytes()

    def fail(descriptor):
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="no space left"):
        saved(path, n_seen=50)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
