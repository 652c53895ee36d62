"""What waits for a shard: one call at a time for a memory, in order, asked again where it died."""

import asyncio
import time
from types import SimpleNamespace

import pytest
from helpers.shard_memories import request

from marc.serve.cluster import shards
from marc.serve.cluster.shard import Failure
from marc.serve.cluster.shards import _Link
from marc.serve.refused import Refused


class RayError(Exception):
    pass


class RayActorError(RayError):
    pass


RAY = SimpleNamespace(exceptions=SimpleNamespace(RayError=RayError, RayActorError=RayActorError))


class Actor:
    """An actor whose calls wait for the test; it answers a step with its id."""

    def __init__(self):
        self.calls, self.answers = [], asyncio.Queue()
        for name in ("steps", "call", "open", "close", "hear"):
            remote = SimpleNamespace(remote=lambda *given, name=name: self._asked(name, given))
            setattr(self, name, remote)
        never = SimpleNamespace(as_future=asyncio.get_running_loop().create_future)
        self.watch = SimpleNamespace(remote=lambda *given: never)

    def _asked(self, name, given):
        ids = [step.request.id for step in given[0]] if name == "steps" else list(given)
        self.calls.append((name, ids))
        return SimpleNamespace(as_future=lambda: asyncio.ensure_future(self._answer(name, ids)))

    async def _answer(self, name, ids):
        if isinstance(error := await self.answers.get(), Exception):
            raise error
        return ([each.encode() for each in ids], []) if name == "steps" else error

    def let(self, *answers):
        for answer in answers:
            self.answers.put_nowait(answer)


async def two_memories(tmp_path):
    actor = Actor()
    link = _Link(RAY, 0, actor)
    remotes = [link.host(tmp_path / name) for name in "ab"]
    actor.let({"state": "ready"}, {"state": "ready"})
    for each in remotes:
        await each.open()
    actor.calls.clear()
    return actor, link, remotes


def asked(remote, *names):
    return [asyncio.create_task(remote.step(request(name))) for name in names]


def end(link):
    link._watching.cancel()


async def settled():
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_waits_goes_as_one_call_and_in_order(tmp_path):
    async def main():
        actor, link, (a, b) = await two_memories(tmp_path)
        tasks = asked(a, "1", "2") + asked(b, "3")
        await settled()
        tasks += asked(a, "4", "5")  # while others of this memory are on their way
        await settled()
        assert actor.calls == [("steps", ["1", "2", "3"])]
        assert (len(a), a.status()["queue_length"], len(b)) == (4, 4, 1)
        actor.let(None, None)
        assert await asyncio.gather(*tasks) == [b"1", b"2", b"3", b"4", b"5"]
        assert actor.calls[1:] == [("steps", ["4", "5"])]
        assert (len(a), len(b)) == (0, 0)
        end(link)

    asyncio.run(main())


def test_a_memory_on_its_way_does_not_hold_up_another(tmp_path):
    async def main():
        actor, link, (a, b) = await two_memories(tmp_path)
        tasks = asked(a, "1")
        await settled()
        tasks += asked(b, "2")
        await settled()
        assert actor.calls == [("steps", ["1"]), ("steps", ["2"])]
        actor.let(None, None)
        await asyncio.gather(*tasks)
        end(link)

    asyncio.run(main())


def test_steps_of_a_shard_that_died_are_asked_again_in_their_order(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "_AGAIN", 0.01)

    async def main():
        actor, link, (a, _) = await two_memories(tmp_path)
        tasks = asked(a, "1", "2")
        await settled()
        tasks += asked(a, "3")
        actor.let(RayActorError(), RayActorError(), None, None)
        assert await asyncio.gather(*tasks) == [b"1", b"2", b"3"]
        assert [ids for _, ids in actor.calls] == [["1", "2"]] * 3 + [["3"]]
        end(link)

    asyncio.run(main())


def test_only_what_is_the_same_twice_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "_AGAIN", 0.01)

    async def main():
        actor, link, (a, _) = await two_memories(tmp_path)
        actor.let(RayActorError(), ({"accepted": 1}, {"name": "a", "state": "ready"}))
        assert await a.call("labels", labels=[]) == {"accepted": 1}
        for operation, given in (("mode", {"to": "live"}), ("restore", {"file": "x"})):
            actor.let(RayActorError())
            with pytest.raises(Refused, match="may have been done, or not") as refused:
                await a.call(operation, **given)
            assert (refused.value.status, refused.value.retry_after) == (502, None)
        assert len(actor.calls) == 2 + 1 + 1
        actor.let(RayError("a bug"))
        with pytest.raises(Refused, match="a bug") as refused:
            await a.call("info")
        assert refused.value.status == 500
        actor.let((Failure.of(Refused(404, "no such step")), {"name": "a", "state": "ready"}))
        with pytest.raises(Refused, match="no such step") as refused:
            await a.call("stored", id="x")
        assert refused.value.status == 404
        end(link)

    asyncio.run(main())


def test_a_shard_that_stays_silent_is_refused_for_now(tmp_path, monkeypatch):
    async def main():
        actor, link, (a, b) = await two_memories(tmp_path)
        monkeypatch.setattr(shards, "_PATIENCE", 0.1)
        results = await asyncio.gather(*asked(a, "1", "2"), return_exceptions=True)
        assert [(each.status, each.retry_after) for each in results] == [(503, 1)] * 2
        started = time.monotonic()
        with pytest.raises(Refused, match="is away"):
            await b.step(request("3"))
        assert time.monotonic() - started < 0.5  # nobody waits for what is known to be away
        assert (len(a), len(b), len(actor.calls)) == (0, 0, 1)
        end(link)

    asyncio.run(main())


def test_a_memory_takes_so_many_requests_and_forgets_those_whose_asker_is_gone(tmp_path):
    async def main():
        actor, link, (a, _) = await two_memories(tmp_path)
        a._limit = 3
        first = asked(a, "0")
        await settled()
        tasks = asked(a, "1", "2", "3", "4")
        await settled()
        assert isinstance(tasks[3].exception(), Refused)
        assert tasks[3].exception().status == 429
        tasks[1].cancel()
        await settled()
        actor.let(None, None)
        await asyncio.gather(*first, tasks[0], tasks[2])
        assert [ids for _, ids in actor.calls] == [["0"], ["1", "3"]]
        end(link)

    asyncio.run(main())


def test_closing_answers_what_waits_first_and_a_failure_leaves_it_open(tmp_path, monkeypatch):
    async def main():
        actor, link, (a, b) = await two_memories(tmp_path)
        tasks = asked(a, "1")
        await settled()
        closing = asyncio.create_task(a.close())
        await settled()
        with pytest.raises(Refused, match="draining"):
            await a.step(request("2"))
        assert a.status()["state"] == "draining"
        actor.let(None, None)
        await closing
        assert (await tasks[0], [name for name, _ in actor.calls]) == (b"1", ["steps", "close"])
        actor.let(RayError("no"))
        with pytest.raises(Refused):
            await b.close(keep=False)
        assert b.status()["state"] == "ready"
        end(link)

    asyncio.run(main())


def test_listeners_learn_that_events_are_missing_and_see_the_queue_of_the_front(tmp_path):
    async def main():
        actor, link, (a, _) = await two_memories(tmp_path)
        listener = a.listen()
        assert actor.calls == [("hear", [str(tmp_path / "a")])]
        assert a.is_heard
        a.forward("status", {"name": "a", "listeners": 77})
        event, told = await listener.get()
        assert (event, told["listeners"], told["shard"]) == ("status", 1, 0)
        a.lose("it ended.")
        event, told = await listener.get()
        assert (event, told["problem"]) == ("problem", "it ended. Until then, events are missing.")
        assert a.status()["state"] == "opening"
        listener.close()
        assert not a.is_heard
        end(link)

    asyncio.run(main())
