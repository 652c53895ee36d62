"""What runs in the process of a shard, here in this one: no Ray is needed."""

import asyncio
import pickle
import time
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from helpers.shard_memories import body, request

from marc.errors import MarcError
from marc.files import locked
from marc.serve.cluster.shard import Failure, Shard, Step
from marc.serve.creation import checked, made
from marc.serve.refused import Refused


@pytest.fixture
def folder(tmp_path):
    made(tmp_path / "cam", *checked(body(), None, {}))
    return str(tmp_path / "cam")


def crossed(thing):
    """As Ray carries it: by pickle, between processes of one program."""
    return pickle.loads(pickle.dumps(thing))  # noqa: S301


@pytest.mark.parametrize(
    "error",
    [
        MarcError("it does not fit", got=(3, 4), allowed="(3, 5)", hint="reshape"),
        Refused(429, "too many wait", got=9, allowed=8, retry_after=2),
    ],
)
def test_an_error_is_the_same_beyond_a_process(error):
    there = crossed(Failure.of(error)).error()
    assert (type(there), str(there)) == (type(error), str(error))
    if isinstance(error, Refused):
        assert (there.status, there.retry_after) == (error.status, error.retry_after)


def test_an_error_that_is_no_refusal_crosses_as_one():
    class OwnError(Exception):  # of a module that the other process may not have
        pass

    there = crossed(Failure.of(OwnError("the disk is odd"))).error()
    assert there.status == 500
    assert "OwnError: the disk is odd" in str(there)


def test_a_deadline_does_not_depend_on_the_clock_of_a_machine(monkeypatch, tmp_path):
    step = crossed(Step.of(tmp_path, request("1", deadline=time.monotonic() + 3)))
    assert step.arrived().deadline == pytest.approx(time.monotonic() + 3, abs=0.5)
    now = time.monotonic() + 1e6
    monkeypatch.setattr(time, "monotonic", lambda: now)
    assert step.arrived().deadline == pytest.approx(now + 3, abs=0.5)
    assert Step.of(tmp_path, request("1")).arrived().deadline is None


def test_steps_of_one_memory_keep_their_order(folder):
    async def main():
        shard = Shard("process", 2)
        names = [f"{n}" for n in range(150)]
        answers, statuses = await shard.steps([Step(folder, request(n)) for n in names])
        assert [orjson.loads(each)["id"] for each in answers] == names
        assert [orjson.loads(each)["seq"] for each in answers] == [*range(1, 151)]
        assert [(each["name"], each["seq"]) for each in statuses] == [("cam", 150)]
        odd = replace(request("odd"), keys={})
        again, _ = await shard.steps([Step(folder, request("7")), Step(folder, odd)])
        assert again[0] == answers[7]
        assert again[1].problem == "the features of the spaces do not fit"
        await shard.close(folder, True)
        await shard.close(folder, True)  # asked again, as its answer was lost

    asyncio.run(main())


def test_a_memory_that_another_process_holds_is_waited_for(folder):
    async def main():
        shard = Shard("process", 2)
        with locked(Path(folder), "another server has this memory open"):
            asked = asyncio.create_task(shard.steps([Step(folder, request("1"))]))
            await asyncio.wait([asked], timeout=0.5)
            assert not asked.done()
        [answer], _ = await asyncio.wait_for(asked, 5)
        assert orjson.loads(answer)["seq"] == 1
        await shard.close(folder, True)

    asyncio.run(main())


def test_a_memory_that_stays_held_is_refused_for_now_and_opened_later(folder, monkeypatch):
    monkeypatch.setattr("marc.serve.cluster.shard._PATIENCE", 0.3)

    async def main():
        shard = Shard("process", 2)
        with locked(Path(folder), "another server has this memory open"):
            [told], _ = await shard.steps([Step(folder, request("1"))])
            assert (told.status, told.retry_after) == (503, 1)
            assert "another server has this memory open" in told.got
        state, until = "", time.monotonic() + 10
        while state != "ready" and time.monotonic() < until:
            _, statuses = await shard.watch([folder], [])
            state = statuses[0]["state"] if statuses else state
        assert state == "ready"
        await shard.close(folder, True)

    asyncio.run(main())


def test_what_cannot_be_opened_harms_no_other_memory(folder, tmp_path):
    made(tmp_path / "bad", *checked(body(), None, {}))
    (tmp_path / "bad" / "log.sqlite").write_bytes(b"no log" * 1000)

    async def main():
        shard = Shard("process", 2)
        bad = str(tmp_path / "bad")
        results, statuses = await shard.steps([Step(p, request("1")) for p in (bad, folder)])
        assert (results[0].status, orjson.loads(results[1])["seq"]) == (503, 1)
        assert [each["state"] for each in statuses] == ["quarantined", "ready"]
        told, status = await shard.call(bad, "info", {})
        assert (told.status, status["state"]) == (503, "quarantined")
        await shard.close(folder, True)

    asyncio.run(main())


def test_events_are_collected_and_a_slow_front_learns_what_it_missed(folder):
    async def main():
        shard = Shard("process", 2)
        await shard.hear(folder)
        for n in range(700):
            await shard.call(folder, "mode", {"to": ("off", "shadow")[n % 2]})
        events = []
        while not events or events[-1][1][0] != "missed":
            events += (await shard.watch([folder], [folder]))[0]
        modes = [told for _, (event, told) in events if event == "mode"]
        assert [told["mode"] for told in modes[:3]] == ["off", "shadow", "off"]
        assert 256 < len(modes) < 700
        statuses = 1  # of the tick of the first watch, which found no room either
        assert events[-1][1][1]["count"] == 700 - len(modes) + statuses
        await shard.watch([folder], [])
        await shard.call(folder, "mode", {"to": "live"})
        assert (await shard.watch([folder], []))[0] == []
        await shard.close(folder, True)

    asyncio.run(main())
