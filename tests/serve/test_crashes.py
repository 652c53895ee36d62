"""A server that is killed, or whose disk fails, anywhere: the memory is there, whole."""

import asyncio
import errno
import os
import resource
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.durable import (
    Injected,
    create,
    in_child,
    killed_copy,
    label,
    lived,
    opened,
    remembered_of,
    request,
    state_of,
    step,
)

from marc.serve.hosted import Hosted
from marc.serve.memory import operations, snapshots
from marc.serve.memory.served import Served, Unwritten
from marc.serve.refused import Refused

_MOST = 200  # points at which one piece of work is interrupted
KILLED = 77


@pytest.fixture(scope="module")
def memory(tmp_path_factory):
    """The folder of a memory as a kill leaves it, and its last state."""
    folder = tmp_path_factory.mktemp("memory")
    served, states, _ = lived(folder / "m", snapshot_at=9)
    killed_copy(served, folder / "killed")
    served.close()
    return folder / "killed", states[-1]


def take_snapshot(folder):
    with opened(folder) as served:
        operations.snapshot(served)


def restore(folder):
    snapshots.restore(folder, snapshots.restorable(folder, "000000000009.safetensors", None))
    with opened(folder):
        pass


def upload(folder):
    content = (folder / "snapshots" / "000000000009.safetensors").read_bytes()
    snapshots.restore(folder, snapshots.restorable(folder, None, content))
    with opened(folder):
        pass


def step_once(folder):
    with opened(folder) as served:
        step(served, 25)
        label(served, 25)


WORK = {"snapshot": take_snapshot, "restore": restore, "upload": upload, "steps": step_once}


def interrupted(folder, source, work, at, fail):
    """Do some work on a copy of a folder, with a failure at one point; whether it got so far."""
    shutil.rmtree(folder, ignore_errors=True)
    if source is not None:
        shutil.copytree(source, folder)

    def in_fork():
        injected = Injected(folder.parent, at, fail)
        try:
            work(folder)
        except (OSError, Unwritten, ValueError):
            return KILLED
        return KILLED if injected.count >= at else 0

    status = in_child(in_fork)
    assert status in (0, KILLED)
    return status == KILLED


def die(_event):
    os._exit(KILLED)


def disk_is_full(_event):
    raise OSError(errno.ENOSPC, "No space left on device")


def points(folder, source, work, fail):
    """Every point at which the work can be interrupted, one after the other."""
    for at in range(1, _MOST):
        if not interrupted(folder, source, work, at, fail):
            assert at > 3
            return
        yield at
    raise AssertionError("there is no end to it")


def may_follow(memory, name, tmp_path):
    """The states that may be there after some work was interrupted."""
    source, before = memory
    shutil.copytree(source, tmp_path / "whole")
    WORK[name](tmp_path / "whole")
    with opened(tmp_path / "whole") as served:
        after = state_of(served)
        states = {before, after}
    if name == "steps":  # and between the step and its label
        shutil.copytree(source, tmp_path / "half")
        with opened(tmp_path / "half") as served:
            step(served, 25)
            states.add(state_of(served))
    return states


@pytest.mark.parametrize("fail", [die, disk_is_full])
@pytest.mark.parametrize("name", WORK)
def test_a_memory_that_was_interrupted_is_whole(memory, tmp_path, name, fail):
    states = may_follow(memory, name, tmp_path)
    seen = set()
    for at in points(tmp_path / "copy" / "m", memory[0], WORK[name], fail):
        with opened(tmp_path / "copy" / "m") as served:
            seen.add(state := state_of(served))
            assert state in states, at
            if name == "snapshot":
                assert state == memory[1], at
            operations.snapshot(served)  # and it goes on
            step(served, 26)
        left = [path.name for path in (tmp_path / "copy" / "m").rglob("*.new")]
        assert not left, at
    assert len(seen) > (name != "snapshot")


@pytest.mark.parametrize("fail", [die, disk_is_full])
def test_a_memory_is_made_whole_or_not_at_all(tmp_path, fail):
    parent = tmp_path / "memories"
    parent.mkdir()
    for at in points(parent / "m", None, create, fail):
        if (parent / "m").exists():
            with opened(parent / "m") as served:
                assert served.seq == 0, at
        snapshots.remove_passing(parent)
        assert {path.name for path in parent.iterdir()} <= {"m"}, at


@pytest.mark.parametrize("fail", [die, disk_is_full])
def test_a_memory_is_deleted_whole_or_not_at_all(memory, tmp_path, fail):
    parent = tmp_path / "memories"
    parent.mkdir()
    for at in points(parent / "m", memory[0], snapshots.remove_folder, fail):
        if (parent / "m").exists():
            with opened(parent / "m") as served:
                assert state_of(served) == memory[1], at
        snapshots.remove_passing(parent)
        assert {path.name for path in parent.iterdir()} <= {"m"}, at


def test_a_kill_within_a_write_loses_no_acknowledged_step(tmp_path):
    """A write beyond a size is answered with a signal that kills, wherever that size is."""
    served, _, answers = lived(tmp_path / "twin", n=24)
    served.close()
    acknowledged = tmp_path / "acknowledged"
    for size in range(8_000, 1_000_000, 31_000):
        folder = tmp_path / "m"
        shutil.rmtree(folder, ignore_errors=True)
        create(folder)

        def work(folder=folder, size=size):
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            served = Served(folder)
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            for number in range(1, 25):
                step(served, number)
                acknowledged.write_text(str(number))
                if number == 9:
                    operations.snapshot(served)
            return 0

        acknowledged.write_text("0")
        status = in_child(work)
        assert status in (0, -signal.SIGXFSZ)
        with opened(folder) as again:
            assert again.seq - int(acknowledged.read_text()) in (0, 1)
            for number in range(again.seq + 1, 25):
                assert step(again, number) == answers[number - 1]
            assert again.log.step(24).answer == answers[-1]
    assert status == 0


@pytest.fixture
def small_files():
    """A switch for the largest size that any file of this process may have."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size=None):
        soft = before[0] if size is None else size
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, before[1]))

    yield limit
    limit()


@pytest.mark.parametrize("method", ["marc", "marc-auto", "class-means"])
def test_a_step_that_does_not_fit_on_the_disk_is_not_taken(tmp_path, small_files, method):
    twin, _, answers = lived(tmp_path / "twin", method, n=24, snapshot_at=9, labelled=())
    twin_state = state_of(twin)
    twin.close()
    refused = 0
    for size in range(1000, 250_000, 23_000):
        folder = create(tmp_path / f"m{size}", method)
        served, number = Served(folder), 1
        small_files(size)
        while number <= 24:
            try:
                answer = step(served, number)
            except Unwritten:
                refused += 1
                small_files()
                served.close()
                served = Served(folder)  # as its host does
                assert served.seq == number - 1
                continue
            assert answer == answers[number - 1]
            if number == 9:
                small_files()
                operations.snapshot(served)
                small_files(size)
            number += 1
        small_files()
        assert state_of(served) == twin_state
        served.close()
    assert refused > 3


def test_a_restore_that_does_not_fit_on_the_disk_leaves_the_memory(memory, tmp_path, small_files):
    content = (memory[0] / "snapshots" / "000000000009.safetensors").read_bytes()
    failed = 0
    for size in range(0, 60_000, 3_000):
        folder = shutil.copytree(memory[0], tmp_path / f"m{size}")
        small_files(size)
        try:
            snapshots.restore(folder, snapshots.restorable(folder, None, content))
        except OSError:
            failed += 1
            small_files()
            with opened(folder) as served:
                assert state_of(served) == memory[1]
            assert len([*(folder / "snapshots").iterdir()]) == 1
        else:
            small_files()
            with opened(folder) as served:
                assert served.seq == 9
    assert 0 < failed < 20


def test_a_disk_that_stays_full_keeps_what_was_acknowledged(tmp_path, small_files):
    served, states, _ = lived(tmp_path / "m")
    small_files(1)  # not a byte more anywhere
    for _ in range(3):
        with pytest.raises(Unwritten):
            step(served, 25)
        with pytest.raises((OSError, Unwritten)):
            operations.snapshot(served)
        served.close()
        try:
            served = Served(tmp_path / "m")
        except OSError:
            continue  # SQLite needs room to open: the host tries again
        assert state_of(served) == states[-1]
    small_files()
    served.close()
    with opened(tmp_path / "m") as served:
        assert state_of(served) == states[-1]
        step(served, 25)
    assert not [*(tmp_path / "m" / "snapshots").glob("*.new")]


def test_a_database_without_room_is_not_half_written(tmp_path):
    with opened(create(tmp_path / "m")) as served:
        step(served, 1)
        pages = served.log._db.execute("pragma page_count").fetchone()[0]
        served.log._db.execute(f"pragma max_page_count = {pages}")
        number, problem = 1, None
        while problem is None:
            number, before, remembered = number + 1, state_of(served), remembered_of(served)
            try:
                step(served, number)
            except Unwritten as error:
                problem = str(error)
        assert "full" in problem
        assert served.seq == number - 1 < 50
    with opened(tmp_path / "m") as served:
        assert (state_of(served), remembered_of(served)) == (before, remembered)
        step(served, number)


def test_a_host_refuses_with_507_and_goes_on_when_there_is_room(tmp_path, small_files):
    twin, states, answers = lived(tmp_path / "twin", n=4, snapshot_at=0, closed_at=0, labelled=())
    twin.close()

    async def serve(pool):
        hosted = Hosted(create(tmp_path / "m"), "process", pool)
        await hosted.open()
        assert await hosted.step(request(1)) == answers[0]
        file = (await hosted.call("snapshot"))["file"]
        small_files(1)
        with pytest.raises(Refused) as refused:
            await hosted.restore(file)
        assert refused.value.status == 507
        for number in (2, 3):
            with pytest.raises(Refused) as refused:
                await hosted.step(request(number))
            assert refused.value.status in (507, 503)  # it may need room to be opened again
        with pytest.raises(Refused):
            await hosted.call("snapshot")
        small_files()
        hosted._tried = 0.0
        while hosted.state != "ready":
            hosted.tick()
            await asyncio.sleep(0.01)
        assert [await hosted.step(request(number)) for number in (2, 3, 4)] == answers[1:]
        await hosted.close()

    with ThreadPoolExecutor(2) as pool:
        asyncio.run(asyncio.wait_for(serve(pool), 20))
    with opened(tmp_path / "m") as served:
        assert state_of(served) == states[-1]
