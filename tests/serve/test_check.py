import json
import os
import shutil
import sqlite3

import pytest
from helpers.durable import create, killed_copy, lived, opened, step

from marc.errors import MarcError
from marc.files import LOCK, locked
from marc.serve.check import check_data


@pytest.fixture
def data(tmp_path):
    """A data folder with three memories: closed, killed, and one that saw nothing."""
    folder = tmp_path / "data"
    (folder / "memories").mkdir(parents=True)
    served, _, _ = lived(folder / "memories" / "closed")
    killed_copy(served, folder / "memories" / "killed")
    served.close()
    create(folder / "memories" / "new", "class-means")
    (folder / "memories" / ".gone-1").mkdir()
    (folder / LOCK).touch()
    return folder


def contents(folder):
    """Every file, its bytes and when it was changed; but locks, which are touched."""
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and path.name != LOCK
    }


def report_of(data, name):
    return next(each for each in check_data(data).memories if each.name == name)


def test_a_check_reports_every_memory_and_changes_nothing(data):
    before = contents(data)
    report = check_data(str(data))
    assert contents(data) == before
    assert [each.name for each in report.memories] == ["closed", "killed", "new"]
    assert report.problems == []
    assert report.sqlite == sqlite3.sqlite_version
    assert report.has_wal_fix == (sqlite3.sqlite_version_info >= (3, 51, 3))
    closed, killed, new = report.memories
    for each in (closed, killed):
        assert (each.state, each.integrity, each.problem) == ("ready", "ok", None)
        assert (each.steps, each.n_seen, each.mode) == (24, 24, "shadow")
        assert (each.snapshot, each.snapshot_seq) == ("000000000009.safetensors", 9)
        assert each.answered_otherwise == 0
        assert 0 < each.recovery_seconds < 10
    logs = [path.stat().st_size for path in (data / "memories" / "killed").glob("log.sqlite*")]
    assert killed.log_bytes == sum(logs)
    assert (new.steps, new.snapshot) == (0, None)
    assert killed.cells()[:4] == ["killed", "ready", "24", "9"]
    assert new.cells()[3] == "-"
    assert json.loads(json.dumps(report.to_dict()))["memories"][2]["name"] == "new"


def test_a_killed_memory_opens_after_a_check(data):
    check_data(data)
    with opened(data / "memories" / "killed") as served:
        assert served.seq == 24
        step(served, 25)


@pytest.mark.parametrize("name", ["log.sqlite", "log.sqlite-wal", "made.safetensors",
                                  "snapshots/000000000009.safetensors"])  # fmt: skip
def test_a_memory_that_would_not_open_is_named_and_the_others_are_checked(data, name):
    path = data / "memories" / "killed" / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    before = contents(data)
    report = check_data(data)
    assert contents(data) == before
    assert report.problems == ["killed"]
    assert [each.state for each in report.memories] == ["ready", "quarantined", "ready"]
    killed = report.memories[1]
    assert killed.integrity == "damaged"
    assert killed.log_bytes > 0
    assert "\n" not in killed.problem
    assert "marc-check-" not in killed.problem  # the copy, which is gone
    assert killed.cells()[1] == "quarantined, damaged"


def test_damage_that_a_recovery_does_not_meet_is_reported(data):
    db = sqlite3.connect(data / "memories" / "closed" / "log.sqlite")
    db.execute("update steps set answer = x'00' where seq = 2")
    db.commit()
    db.close()
    report = report_of(data, "closed")
    assert (report.state, report.integrity) == ("ready", "damaged")
    assert "step 2 is not what was written" in report.problem
    assert check_data(data).problems == ["closed"]


def test_an_older_snapshot_that_is_damaged_is_reported(data):
    folder = data / "memories" / "closed" / "snapshots"
    path = folder / "000000000003.safetensors"
    path.write_bytes((folder / "000000000009.safetensors").read_bytes()[:-1])
    report = report_of(data, "closed")
    assert (report.state, report.integrity) == ("ready", "damaged")
    assert "000000000003" in report.problem


def test_a_folder_that_a_server_has_is_not_read(data):
    with locked(data, "here"):
        report = check_data(data)
    assert {each.state for each in report.memories} == {"open"}
    assert {each.integrity for each in report.memories} == {"not checked"}
    assert report.problems == []
    assert "server" in report.memories[0].problem


def test_a_memory_that_another_process_has_is_not_read(data):
    with opened(data / "memories" / "closed"):
        states = [each.state for each in check_data(data).memories]
    assert states == ["open", "ready", "ready"]


def test_a_folder_without_memories_is_refused(tmp_path):
    with pytest.raises(MarcError, match="no memories"):
        check_data(tmp_path)


def test_an_empty_data_folder_is_fine(tmp_path):
    (tmp_path / "memories").mkdir()
    assert check_data(tmp_path).memories == ()
    assert not (tmp_path / LOCK).exists()


def test_a_folder_that_is_no_memory_is_named(data):
    (data / "memories" / "strange").mkdir()
    (data / "memories" / "file").touch()
    assert check_data(data).problems == ["strange"]


def test_a_restore_that_was_not_finished_is_what_counts(data):
    from marc.serve.memory import snapshots

    folder = data / "memories" / "killed"
    snapshots.restore(folder, snapshots.restorable(folder, "000000000009.safetensors", None))
    assert report_of(data, "killed").steps == 9
    assert (folder / "restored.sqlite").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_that_cannot_be_written_to_is_checked(data):
    (data / LOCK).chmod(0o444)
    data.chmod(0o555)
    try:
        assert check_data(data).problems == []
    finally:
        data.chmod(0o755)


def test_no_copies_are_left(data, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    shutil.rmtree(data / "memories" / "new" / "snapshots")
    check_data(data)
    assert not [*(tmp_path / "temporary").iterdir()]
