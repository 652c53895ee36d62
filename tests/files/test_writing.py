"""`write_whole`, cut between any two of its steps: the old file or the whole new one."""

import errno
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.failing_disk import Cut, Disk

from marc.errors import MarcError
from marc.files import (
    PARTIAL,
    csv_bytes,
    locked,
    quoted,
    unquoted,
    whole_file,
    write_json,
    write_whole,
)
from marc.files import writing as module

OLD, NEW = b"old", b"new and longer " * 1000
STEPS = ("create", "write", "flush", "sync file", "rename", "close", "sync folder")


def after_power_returns(disk, path, new_name):
    """What is read under a name, if the disk kept the new name or only the old one."""
    if not new_name:
        return OLD
    facts = path.stat()
    return path.read_bytes()[: disk.synced.get(facts.st_ino, 0)]


def test_the_steps_and_their_order(tmp_path, monkeypatch):
    disk = Disk(monkeypatch)
    write_whole(tmp_path / "a", NEW)
    assert tuple(disk.steps) == STEPS


@pytest.mark.parametrize("last", STEPS)
def test_power_that_goes_between_two_steps_leaves_the_old_or_the_new_file(
    tmp_path, monkeypatch, last
):
    path = tmp_path / "a"
    path.write_bytes(OLD)
    disk = Disk(monkeypatch, cut_after=last)
    disk.synced[path.stat().st_ino] = len(OLD)
    monkeypatch.setattr(Path, "unlink", lambda *args, **options: None)  # nobody is left to tidy up
    with pytest.raises(Cut):
        write_whole(path, NEW)
    renamed = "rename" in disk.steps
    for new_name in {renamed, disk.named}:  # without the folder's sync either name may be there
        assert after_power_returns(disk, path, new_name) == (NEW if new_name else OLD)
    assert disk.named == (last == "sync folder")


def test_the_disk_of_these_tests_sees_a_missing_sync(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(OLD)
    disk = Disk(monkeypatch, cut_after="rename")
    monkeypatch.setattr(module.os, "fsync", lambda descriptor: None)
    with pytest.raises(Cut):
        write_whole(path, NEW)
    assert after_power_returns(disk, path, new_name=True) == b""


KILLED = """
import sys
sys.path.insert(0, sys.argv[3])
import pytest
from helpers.failing_disk import Disk
from marc.files import write_whole
from pathlib import Path
Disk(pytest.MonkeyPatch(), sys.argv[2], kill=True)
write_whole(Path(sys.argv[1]), b'new and longer ' * 1000)
"""


@pytest.mark.parametrize("last", STEPS)
def test_a_writer_killed_between_two_steps_leaves_a_whole_file_and_nothing_for_ever(tmp_path, last):
    path = tmp_path / "a"
    path.write_bytes(OLD)
    tests = str(Path(__file__).parents[1])
    words = [sys.executable, "-c", KILLED, str(path), last, tests]
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    renamed = STEPS.index(last) >= STEPS.index("rename")
    assert path.read_bytes() == (NEW if renamed else OLD)
    left = [each.name for each in tmp_path.iterdir() if each.name.endswith(PARTIAL)]
    assert bool(left) != renamed
    write_whole(path, b"next")
    assert [each.name for each in tmp_path.iterdir()] == ["a"]
    assert path.read_bytes() == b"next"


@pytest.mark.parametrize("step", ["begin", "sync file", "rename"])
def test_a_full_disk_leaves_the_old_file_alone(tmp_path, monkeypatch, step):
    path = tmp_path / "a"
    path.write_bytes(OLD)

    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    if step == "sync file":
        monkeypatch.setattr(os, "fsync", fail)
    if step == "rename":
        monkeypatch.setattr(Path, "replace", fail)
    if step == "begin":
        monkeypatch.setattr(module, "_begin", fail)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, NEW)
    assert path.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_living_writer_has_in_hand_is_not_removed(tmp_path):
    path = tmp_path / "a"
    with whole_file(path) as first:
        first.write(b"first")
        write_whole(path, b"second")  # clears what was left, not what is being written
        assert len(list(tmp_path.iterdir())) == 2
    assert path.read_bytes() == b"first"


def test_files_of_other_names_are_never_cleared(tmp_path):
    others = {tmp_path / "ab.0123.new", tmp_path / "a.txt", tmp_path / "a.new.bak"}
    for other in others:
        other.write_bytes(b"mine")
    write_whole(tmp_path / "a", NEW)
    assert set(tmp_path.iterdir()) == {*others, tmp_path / "a"}


def test_a_file_has_the_mode_that_the_user_asks_for(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "a", NEW)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_two_writers_of_one_file_do_not_mix(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as first, whole_file(path) as second:
        first.write(b"first")
        second.write(b"second, and longer")
        assert not path.exists()
    assert path.read_bytes() == b"first"  # the last to end
    assert list(tmp_path.iterdir()) == [path]


def test_many_writers_of_one_file_all_succeed(tmp_path):
    code = (
        "import sys; from pathlib import Path; from marc.files import write_json\n"
        "for i in range(100): write_json(Path(sys.argv[1]), {'writer': sys.argv[2], 'i': i})"
    )
    path = tmp_path / "a.json"
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), str(k)]) for k in range(4)]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_not_a_number_is_never_written(tmp_path):
    with pytest.raises(ValueError, match="Out of range"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_second_holder_of_a_lock_is_told(tmp_path):
    with (
        locked(tmp_path, "another is writing here"),
        pytest.raises(MarcError, match=r"(?s)another is writing here.*-o FOLDER"),
        locked(tmp_path, "another is writing here"),
    ):
        pass
    with locked(tmp_path, "free again"):
        pass


ODD = [
    "=1+1",
    "+x",
    "-x",
    "@x",
    "\tx",
    "\rx",
    "'=x",
    "''-",
    "'",
    "'x",
    "",
    "x=1",
    " =1",
    "caf\udce9",
]


@pytest.mark.parametrize("text", ODD)
def test_no_text_is_a_formula_and_each_comes_back(text):
    assert not quoted(text).startswith(("=", "+", "-", "@", "\t", "\r"))
    assert unquoted(quoted(text)) == text


def test_numbers_in_a_table_stay_numbers():
    assert csv_bytes([("a", -1, -0.5, None, "-1")]) == b"a,-1,-0.5,,'-1\n"
    assert csv_bytes([("caf\udce9", "a,b")]) == b'caf\xe9,"a,b"\n'


@pytest.mark.parametrize("kind", ["folder", "pipe", "link to a pipe"])
def test_what_is_no_plain_file_is_not_replaced(tmp_path, kind):
    path = tmp_path / "a"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    if kind == "link to a pipe":
        path = tmp_path / "b"
        path.symlink_to(tmp_path / "a")
    before = path.stat()
    with pytest.raises(MarcError, match="no plain file, so it is not replaced"):
        write_whole(path, NEW)
    assert path.stat() == before
    assert {each.name for each in tmp_path.iterdir()} == {"a", path.name}


def test_a_file_is_written_where_a_link_leads(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "a").symlink_to(tmp_path / "disk" / "a")
    for content in (OLD, NEW):
        write_whole(tmp_path / "a", content)
        assert (tmp_path / "disk" / "a").read_bytes() == content
    assert (tmp_path / "a").is_symlink()
