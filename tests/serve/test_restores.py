"""A memory goes back to a snapshot: all of it or nothing, answered once, and safe to ask for."""

import asyncio
import json
import time

import pytest
from helpers.serving import (
    contested,
    hosted_run,
    hosting,
    request,
    run,
    served,
    step,
    take_steps,
)

from marc.errors import MarcError
from marc.serve.memory import operations, snapshots
from marc.serve.memory.served import Served


def test_a_snapshot_of_before_a_restore_never_counts(tmp_path, monkeypatch):
    """It is being written while the memory goes back: then it is of what was given up."""

    async def scenario(hosted):
        await take_steps(hosted, range(3))
        first = await hosted.call("snapshot")
        own = snapshots.Snapshot.write

        def slowly(made, folder):
            time.sleep(0.2)
            return own(made, folder)

        monkeypatch.setattr(snapshots.Snapshot, "write", slowly)
        await take_steps(hosted, range(3, 40))
        assert hosted._writing is not None
        info = await hosted.call("restore", file=first["file"])
        assert (info["seq"], info["state"], info["mode"]) == (3, "ready", "shadow")
        assert info["shadow"]["steps"] == 0
        monkeypatch.undo()
        assert (await take_steps(hosted, [100]))[0]["seq"] == 4

    hosted_run(scenario, tmp_path, limits={"snapshot_every": 20})
    memory = Served(tmp_path / "m")
    assert memory.seq == memory.head["n_seen"] == 4
    memory.close()


def test_a_restore_begins_the_trial_again(tmp_path):
    memory = served(tmp_path / "m", mode="live")
    steps = contested(memory, 60)
    snapshot = operations.snapshot(memory)
    memory.close()

    async def main():
        async with hosting(tmp_path / "m") as hosted:
            listener = hosted.listen()
            rows = [{"id": name, "label": base} for name, _, base in steps[:12]]
            result = await hosted.call("labels", labels=rows)
            assert result["judgement"]["verdict"] == "harms"
            assert hosted.status()["verdict"] == "harms"
            assert hosted.status()["fell_back"]["from"] == "live"
            await hosted.call("labels", labels=rows[:1])
            names = [name for name, _ in listener._events]
            assert names == ["judgement", "mode", "judgement"]  # it fell back once
            mode = dict(listener._events)["mode"]
            assert (mode["mode"], mode["before"]) == ("shadow", "live")
            assert "harms" in mode["why"]
            info = await hosted.call("restore", file=snapshot["file"])
            assert info["shadow"]["verdict"] == "not shown"
            assert info["fell_back"] is None
            judged = await hosted.call("judgement")
            assert judged["since_seq"] == 61
            late = await hosted.call("labels", labels=rows[:1])
            assert late["unknown"] == [rows[0]["id"]]
            assert (await hosted.call("mode", to="live"))["mode"] == "live"

    run(main())


def test_a_restore_that_cannot_be_leaves_the_memory_as_it_was(tmp_path):
    async def scenario(hosted):
        await take_steps(hosted, range(5))
        for wrong in (
            {},
            {"file": "000000000001.safetensors"},
            {"file": "../../x"},
            {"content": b"no"},
            {"file": "a", "content": b"b"},
        ):
            with pytest.raises(MarcError):
                await hosted.call("restore", **wrong)
            assert hosted.state == "ready"
        assert (await take_steps(hosted, [9]))[0]["seq"] == 6

    hosted_run(scenario, tmp_path)


def test_a_restore_takes_a_snapshot_from_elsewhere(tmp_path):
    other = served(tmp_path / "other", limits={"window": 3})  # limits may be others
    contested(other, 20)
    made = operations.snapshot(other)
    content = (tmp_path / "other" / "snapshots" / made["file"]).read_bytes()
    expected = step(other, 50, dry_run=True)
    other.close()

    async def scenario(hosted):
        await take_steps(hosted, range(5))
        info = await hosted.call("restore", content=content)
        assert (info["seq"], info["n_seen"]) == (20, 20)
        answer = json.loads(await hosted.step(request(50, dry_run=True)))
        assert answer["top"] == expected["top"]

    hosted_run(scenario, tmp_path)


def test_a_restore_of_a_busy_memory_is_answered_once_it_is_done(tmp_path, monkeypatch):
    """A refusal would have it done again, and throw away what was acknowledged since."""

    async def scenario(hosted):
        await take_steps(hosted, range(2))
        await take_steps(hosted, range(2, 4))
        made = await hosted.call("snapshot")
        await take_steps(hosted, [4])
        began, read = asyncio.Event(), snapshots.restorable
        loop = asyncio.get_running_loop()

        def slowly(*given):
            loop.call_soon_threadsafe(began.set)
            time.sleep(0.1)
            return read(*given)

        monkeypatch.setattr(snapshots, "restorable", slowly)
        restoring = asyncio.create_task(hosted.call("restore", file=made["file"]))
        await began.wait()
        waiting = [asyncio.create_task(hosted.step(request(n))) for n in (10, 11)]
        assert (await restoring)["seq"] == 4
        answers = [json.loads(await each) for each in waiting]
        assert [each["seq"] for each in answers] == [5, 6]

    hosted_run(scenario, tmp_path, limits={"queue": 2})


def test_a_restore_that_cannot_be_closes_nothing_meanwhile(tmp_path, monkeypatch):
    states = []

    async def scenario(hosted):
        await take_steps(hosted, range(5))
        served, read = hosted._served, snapshots.restorable

        def noted(*given):
            states.append(hosted.state)
            return read(*given)

        monkeypatch.setattr(snapshots, "restorable", noted)
        for wrong in ({"file": "000000000001.safetensors"}, {"content": b"no"}):
            with pytest.raises(MarcError):
                await hosted.call("restore", **wrong)
        assert hosted._served is served
        assert states == ["ready", "ready"]

    hosted_run(scenario, tmp_path)


@pytest.mark.parametrize(("mode", "after"), [("off", "off"), ("live", "shadow")])
def test_a_restore_lets_nobody_answer_who_has_not_asked_again(tmp_path, mode, after):
    async def scenario(hosted):
        await take_steps(hosted, range(4))
        made = await hosted.call("snapshot")
        await hosted.call("mode", to=mode, fraction=0.7)
        info = await hosted.call("restore", file=made["file"])
        assert (info["mode"], info["fraction"]) == (after, 0.7)

    hosted_run(scenario, tmp_path)


def test_what_was_sent_is_refused_without_the_paths_of_the_server(tmp_path):
    async def scenario(hosted):
        with pytest.raises(MarcError) as caught:
            await hosted.call("restore", content=b"no snapshot")
        assert str(tmp_path) not in str(caught.value)
        assert ".upload" not in str(caught.value)

    hosted_run(scenario, tmp_path)
