"""A memory as a server has it: opened, opened again, quarantined, restored, and closed."""

import asyncio
import json
import logging

import numpy as np
import pytest
from helpers.serving import (
    MARC,
    body,
    contested,
    hosted_run,
    hosting,
    remembered,
    request,
    run,
    served,
    take_steps,
)

from marc.class_means import ClassMeans
from marc.errors import MarcError
from marc.serve.memory import operations, snapshots
from marc.serve.memory.config import config_of
from marc.serve.memory.served import LOG, Served
from marc.serve.refused import Refused


def test_steps_in_their_order_and_a_status_without_waiting(tmp_path):
    async def scenario(hosted):
        assert hosted.state == "ready"
        answers = await take_steps(hosted, range(150))
        assert [each["seq"] for each in answers] == list(range(1, 151))
        status = hosted.status()
        assert (status["seq"], status["n_seen"], status["steps_total"]) == (150, 150, 150)
        assert status["disagreements_total"] == sum(each["disagree"] for each in answers)
        assert status["admitted_total"] == sum(each["stored"]["admitted"] for each in answers)
        assert (status["state"], status["problem"], status["queue_length"]) == ("ready", None, 0)
        assert status["verdict"] == "not shown"

    hosted_run(scenario, tmp_path)


def test_a_client_that_goes_away_is_answered_all_the_same(tmp_path):
    async def scenario(hosted):
        cancelled = asyncio.ensure_future(hosted.step(request(1)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # it is being answered
        cancelled.cancel()
        later = json.loads(await hosted.step(request(2)))
        again = json.loads(await hosted.step(request(1)))
        assert sorted((later["seq"], again["seq"])) == [1, 2]

    hosted_run(scenario, tmp_path)


def test_snapshots_are_written_while_steps_go_on(tmp_path):
    async def scenario(hosted):
        listener = hosted.listen()
        for start in range(0, 100, 10):
            await take_steps(hosted, range(start, start + 10))
            if start in (40, 90):
                while hosted._writing is not None:
                    await asyncio.wait([hosted._writing])
        events = [await listener.get() for _ in range(len(listener._events))]
        written = [data["seq"] for name, data in events if name == "snapshot"]
        assert written == sorted(written)
        assert len(written) >= 2
        listener.close()

    hosted_run(scenario, tmp_path, limits={"snapshot_every": 20, "window": 5})
    memory = Served(tmp_path / "m")
    assert memory.seq == 100
    assert memory.head["snapshot"]["seq"] == 100  # the last one was written when it was closed
    memory.close()


def test_a_snapshot_that_fails_is_reported_and_tried_again(tmp_path, monkeypatch):
    def fails(*_):
        raise OSError("no room")

    async def scenario(hosted):
        listener = hosted.listen()
        monkeypatch.setattr(snapshots.Snapshot, "write", fails)
        await take_steps(hosted, range(5))
        while hosted._writing is not None:
            await asyncio.wait([hosted._writing])
        assert "no room" in hosted.status()["problem"]
        assert hosted.state == "ready"
        await take_steps(hosted, range(5, 10))
        assert hosted._writing is None  # not at once
        monkeypatch.undo()
        hosted._no_snapshot_before = 0.0
        await take_steps(hosted, range(10, 15))
        while hosted._writing is not None:
            await asyncio.wait([hosted._writing])
        assert hosted.status()["problem"] is None
        events = [await listener.get() for _ in range(len(listener._events))]
        names = [name for name, _ in events if name != "step"]
        assert names == ["problem", "snapshot"]

    hosted_run(scenario, tmp_path, limits={"snapshot_every": 5})


def test_a_write_that_fails_opens_the_memory_again(tmp_path, monkeypatch):
    async def scenario(hosted):
        await take_steps(hosted, range(4))
        own = hosted._served.log.commit

        def fails(*_, **__):
            raise OSError("disk full")

        monkeypatch.setattr(hosted._served.log, "commit", fails)
        for attempt in (
            hosted.step(request(4)),
            hosted.call("labels", labels=[{"id": "1", "label": 0}]),
        ):
            first = hosted._served
            with pytest.raises(Refused) as refused:
                await attempt
            assert (refused.value.status, refused.value.retry_after) == (507, 5)
            assert hosted._served is not first
            monkeypatch.setattr(hosted._served.log, "commit", fails)
        monkeypatch.setattr(hosted._served.log, "commit", own.__func__.__get__(hosted._served.log))
        assert (await take_steps(hosted, [4]))[0]["seq"] == 5

    hosted_run(scenario, tmp_path)


def test_a_method_that_fails_half_way_is_read_again_and_the_others_answered(tmp_path, monkeypatch):
    bad = request(3).views
    own = ClassMeans.step

    def fails(method, query):
        step = own(method, query)  # so something was learned already
        if np.allclose(query.views, bad / np.linalg.norm(bad)):
            raise ZeroDivisionError("half way")
        return step

    async def scenario(hosted):
        monkeypatch.setattr(ClassMeans, "step", fails)
        steps = [hosted.step(request(n)) for n in range(6)]
        results = await asyncio.gather(*steps, return_exceptions=True)
        assert [isinstance(each, MarcError) for each in results] == [n == 3 for n in range(6)]
        assert results[3].status == 500
        assert [json.loads(results[n])["seq"] for n in (0, 1, 2, 4, 5)] == [1, 2, 3, 4, 5]
        monkeypatch.undo()
        state = remembered(hosted._served)
        await hosted.call("snapshot")
        assert '"n_seen": 5' in state

    hosted_run(scenario, tmp_path, "class-means")


def test_what_is_damaged_is_quarantined_until_it_is_restored(tmp_path):
    memory = served(tmp_path / "m")
    contested(memory, 10)
    snapshot = operations.snapshot(memory)["file"]
    memory.close()
    (tmp_path / "m" / LOG).write_bytes(b"no log" * 1000)

    async def main():
        async with hosting(tmp_path / "m") as hosted:
            assert hosted.state == "quarantined"
            assert hosted.status()["problem"]
            for ask in (hosted.step(request(1)), hosted.call("info")):
                with pytest.raises(Refused) as refused:
                    await ask
                assert refused.value.status == 503
            hosted._tried = -1e9
            hosted.tick()
            assert len(hosted) == 0  # it cannot pass, so it is not tried again
            info = await hosted.call("restore", file=snapshot)
            assert info["seq"] == 10
            assert hosted.state == "ready"

    run(main())


def test_what_may_pass_is_tried_again(tmp_path, monkeypatch):
    served(tmp_path / "m").close()

    async def main():
        monkeypatch.setattr("marc.serve.hosted.Served", _raising(OSError("too many files")))
        async with hosting(tmp_path / "m") as hosted:
            assert hosted.state == "quarantined"
            monkeypatch.undo()
            hosted.tick()
            assert len(hosted) == 0  # not at once
            hosted._tried = -1e9
            hosted.tick()
            await hosted._turns.drained()
            assert hosted.state == "ready"
            assert hosted.status()["problem"] is None

    run(main())


def _raising(cause):
    def opening(*_):
        raise MarcError("this memory snapshot is damaged") from cause

    return opening


def test_nothing_opens_a_memory_that_was_closed(tmp_path):
    async def scenario(hosted):
        await take_steps(hosted, range(3))
        closing = asyncio.ensure_future(hosted.close(keep=False))
        await asyncio.sleep(0)
        late = hosted._turns.do(hosted._open_in_turn, always=True)
        await closing
        await late
        assert hosted.state == "draining"
        assert hosted._served is None
        with pytest.raises(Refused) as refused:
            await hosted.step(request(9))
        assert refused.value.status == 503
        with pytest.raises(Refused):
            await hosted.restore(file="000000000003.safetensors")
        Served(hosted.folder).close()  # nobody holds it
        await hosted.close()

    hosted_run(scenario, tmp_path)


def test_what_waits_is_answered_before_the_end(tmp_path):
    async def scenario(hosted):
        steps = [asyncio.ensure_future(hosted.step(request(n))) for n in range(100)]
        await asyncio.sleep(0)
        listener = hosted.listen()
        await hosted.close()
        assert [json.loads(await each)["seq"] for each in steps] == list(range(1, 101))
        events = [await listener.get() for _ in range(len(listener._events))]
        assert {name for name, _ in events} <= {"step", "snapshot"}
        assert await listener.get() is None

    hosted_run(scenario, tmp_path)


def test_the_same_configuration_is_no_other(tmp_path):
    async def scenario(hosted):
        await hosted.same(config_of(body())[0])
        for other in (body({**MARC, "weight": 3.0}), body(limits={"window": 9})):
            with pytest.raises(Refused) as refused:
                await hosted.same(config_of(other)[0])
            assert refused.value.status == 409

    hosted_run(scenario, tmp_path)


def test_pictures_are_for_memories_that_were_made_for_them(tmp_path):
    async def scenario(hosted):
        with pytest.raises(Refused) as refused:
            hosted.check_pictures(None)
        assert refused.value.status == 422

    hosted_run(scenario, tmp_path)


def test_a_quarantined_memory_is_logged_and_lists_its_snapshots(tmp_path, monkeypatch, caplog):
    memory = served(tmp_path / "m")
    contested(memory, 10)
    file = operations.snapshot(memory)["file"]
    memory.close()
    (tmp_path / "m" / LOG).write_bytes(b"no log" * 1000)
    monkeypatch.setattr(logging.getLogger("marc.serve"), "propagate", True)

    async def main():
        async with hosting(tmp_path / "m") as hosted:
            assert [each["file"] for each in (await hosted.call("snapshots"))["items"]] == [file]
            path = await hosted.call("snapshot_file", file=file)
            assert path == str(tmp_path / "m" / "snapshots" / file)
            await hosted._turns.do(hosted._open_in_turn)  # as the clock does, again and again

    run(main())
    (record,) = caplog.records
    assert "memory m cannot be opened" in record.getMessage()


def test_a_damaged_configuration_says_what_is_left_to_do(tmp_path):
    memory = served(tmp_path / "m")
    memory.close()
    (tmp_path / "m" / "made.safetensors").write_bytes(b"nothing")

    async def main():
        async with hosting(tmp_path / "m") as hosted:
            assert "configuration of this memory cannot be read" in hosted.status()["problem"]
            assert "PUT it again" in hosted.status()["problem"]

    run(main())
