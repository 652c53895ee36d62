"""The memories of a folder: made, found again, asked, deleted, and given back."""

import asyncio
import json
import time

import pytest
from helpers.serving import MARC, body, request, run, serving

from marc.errors import MarcError
from marc.serve.memory.config import StepRequest
from marc.serve.refused import Refused
from marc.serve.service import Service


def _run(scenario, folder, **more):
    async def main():
        async with serving(folder, **more) as service:
            await asyncio.wait_for(scenario(service), 30)

    run(main())


async def _status_of(refused):
    try:
        await refused
    except Refused as error:
        return error.status
    return None


def test_a_memory_is_made_once_and_found_alike(tmp_path):
    async def scenario(service):
        info, is_new = await service.create("cam", body())
        assert (info["name"], info["seq"], is_new) == ("cam", 0, True)
        await service.step("cam", request(1))
        info, is_new = await service.create("cam", body())
        assert (info["seq"], is_new) == (1, False)
        other = body({**MARC, "weight": 3.0})
        for wrong in (other, body(limits={"window": 7})):
            assert await _status_of(service.create("cam", wrong)) == 409
        assert await _status_of(service.create("CAM", body())) == 409
        assert await _status_of(service.create("..", body())) == 422
        with pytest.raises(MarcError):
            await service.create("new", {"method": "none"})
        assert service.names() == ["cam"]

    _run(scenario, tmp_path)


def test_two_that_make_the_same_memory_at_once_both_have_it(tmp_path):
    async def scenario(service):
        made = await asyncio.gather(*(service.create("cam", body()) for _ in range(5)))
        assert sorted(is_new for _, is_new in made) == [False] * 4 + [True]
        cases = await asyncio.gather(
            *(service.create(name, body()) for name in ("dog", "Dog", "DOG")),
            return_exceptions=True,
        )
        assert sorted(isinstance(each, Refused) for each in cases) == [False, True, True]
        assert len([*(tmp_path / "memories").iterdir()]) == 2

    _run(scenario, tmp_path)


def test_a_client_that_goes_away_leaves_no_half_made_memory(tmp_path, monkeypatch):
    from marc.serve import creation

    own = creation.made

    def slowly(*settings):
        time.sleep(0.1)
        own(*settings)

    monkeypatch.setattr(creation, "made", slowly)

    async def scenario(service):
        making = asyncio.ensure_future(service.create("cam", body()))
        while not service.names():
            await asyncio.sleep(0.001)
        making.cancel()
        await asyncio.wait([making])
        assert making.cancelled()
        _, is_new = await service.create("cam", body())  # waits until it is made
        assert not is_new
        assert json.loads(await service.step("cam", request(1)))["seq"] == 1
        deleting = asyncio.ensure_future(service.delete("cam"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        deleting.cancel()
        _, is_new = await service.create("cam", body())
        assert is_new
        assert json.loads(await service.step("cam", request(1)))["seq"] == 1

    _run(scenario, tmp_path)


def test_deleting_while_it_is_made_or_used(tmp_path):
    async def scenario(service):
        making = asyncio.ensure_future(service.create("cam", body()))
        while not service.names():
            await asyncio.sleep(0.001)
        await service.delete("cam")
        await asyncio.wait([making])
        assert service.names() == []
        assert [*(tmp_path / "memories").iterdir()] == []
        await service.create("cam", body())
        steps = [asyncio.ensure_future(service.step("cam", request(n))) for n in range(50)]
        await asyncio.sleep(0)
        both = await asyncio.gather(
            service.delete("cam"), service.delete("cam"), return_exceptions=True
        )
        assert [getattr(each, "status", None) for each in both] == [None, 404]
        answers = await asyncio.gather(*steps)  # they waited before it was deleted
        assert [json.loads(each)["seq"] for each in answers] == list(range(1, 51))
        assert [*(tmp_path / "memories").iterdir()] == []
        assert await _status_of(service.step("cam", request(1))) == 404

    _run(scenario, tmp_path)


def test_a_creation_that_cannot_be_written_may_be_tried_again(tmp_path, monkeypatch):
    from marc.serve import creation

    def fails(*_):
        raise OSError("no room")

    async def scenario(service):
        own = creation.made
        monkeypatch.setattr(creation, "made", fails)
        assert await _status_of(service.create("cam", body())) == 507
        assert service.names() == []
        monkeypatch.setattr(creation, "made", own)
        _, is_new = await service.create("cam", body())
        assert is_new

    _run(scenario, tmp_path)


def test_memories_are_there_again_after_a_stop(tmp_path):
    async def first(service):
        for name, method in (("a", MARC), ("b", "class-means"), ("c", "tda")):
            await service.create(name, body(method))
            await asyncio.gather(*(service.step(name, request(n)) for n in range(20)))

    async def second(service):
        assert service.names() == ["a", "b", "c"]
        for name in service.names():
            assert service.status(name)["seq"] == 20
            again = json.loads(await service.step(name, request(7)))
            assert again["seq"] == 8
            assert json.loads(await service.step(name, request(30)))["seq"] == 21

    _run(first, tmp_path)
    _run(second, tmp_path)


def test_one_damaged_memory_leaves_the_others(tmp_path):
    async def first(service):
        await service.create("bad", body())
        await service.create("good", body())

    async def second(service):
        assert service.state == "ready"
        assert service.status("bad")["state"] == "quarantined"
        assert await _status_of(service.step("bad", request(1))) == 503
        assert await _status_of(service.create("bad", body())) == 503
        assert json.loads(await service.step("good", request(1)))["seq"] == 1
        await service.delete("bad")
        _, is_new = await service.create("bad", body())
        assert is_new

    _run(first, tmp_path)
    (tmp_path / "memories" / "bad" / "made.safetensors").write_bytes(b"")
    _run(second, tmp_path)


def test_a_quota_of_memories(tmp_path):
    async def scenario(service):
        made = await asyncio.gather(
            *(service.create(f"m{n}", body()) for n in range(4)), return_exceptions=True
        )
        refused = [each for each in made if isinstance(each, Refused)]
        assert [each.status for each in refused] == [507, 507]
        assert "'memories'" in refused[0].problem
        await service.delete(service.names()[0])
        await service.create("another", body())

    _run(scenario, tmp_path, quotas={"memories": 2})


def test_a_stopping_server_refuses_and_answers_what_waits(tmp_path, monkeypatch):
    from marc.serve import creation

    own = creation.made

    def slowly(*settings):
        time.sleep(0.1)
        own(*settings)

    async def main():
        async with serving(tmp_path) as service:
            await service.create("cam", body())
            monkeypatch.setattr(creation, "made", slowly)
            making = asyncio.ensure_future(service.create("late", body()))
            steps = [asyncio.ensure_future(service.step("cam", request(n))) for n in range(70)]
            while "late" not in service.names():
                await asyncio.sleep(0.001)
            stopping = asyncio.ensure_future(service.stop())
            await asyncio.sleep(0)
            assert await _status_of(service.step("cam", request(99))) == 503
            for change in (service.create("x", body()), service.delete("cam")):
                assert await _status_of(change) == 503
            assert await _status_of(service.call("cam", "restore", file="x")) == 503
            await stopping
            await service.stop()
            assert len(await asyncio.gather(*steps)) == 70
            [made] = await asyncio.gather(making, return_exceptions=True)
            assert isinstance(made, (tuple, Refused)), made
        async with serving(tmp_path) as service:  # the folder was given back
            assert service.names() == ["cam", "late"]
            assert {service.status(name)["state"] for name in service.names()} == {"ready"}

    run(main())


def test_what_was_deleted_while_the_server_stops_is_gone(tmp_path):
    async def main():
        async with serving(tmp_path) as service:
            await service.create("cam", body())
            steps = [asyncio.ensure_future(service.step("cam", request(n))) for n in range(70)]
            await asyncio.sleep(0)
            deleting = asyncio.ensure_future(service.delete("cam"))
            await asyncio.sleep(0)
            await asyncio.gather(service.stop(), *steps)
            await deleting
        assert [*(tmp_path / "memories").iterdir()] == []

    run(main())


def test_a_folder_has_one_server(tmp_path):
    async def scenario(_):
        with pytest.raises(MarcError, match="another server"):
            Service(tmp_path)

    _run(scenario, tmp_path)


def test_what_is_odd_is_refused_before_it_is_asked(tmp_path):
    async def scenario(service):
        await service.create("cam", body())
        with pytest.raises(MarcError):
            await service.step("cam", request(1, ""))
        with pytest.raises(MarcError):
            await service.step("cam", request(1, neighbours=33))
        for name in ("dog", "../cam", ""):
            assert await _status_of(service.step(name, request(1))) == 404
            assert await _status_of(service.call(name, "info")) == 404
        with pytest.raises(Refused):
            service.status("dog")
        with pytest.raises(Refused):
            await service.step("cam", StepRequest("1", None, {}, image=b"x"))
        assert service.status("cam")["seq"] == 0

    _run(scenario, tmp_path)


def test_listeners_hear_the_ticks_and_the_end(tmp_path):
    async def scenario(service):
        await service.create("cam", body())
        listener = service.listen("cam")
        await service.step("cam", request(1))
        assert (await listener.get())[0] == "step"
        event, status = await asyncio.wait_for(listener.get(), 5)
        assert (event, status["seq"], status["listeners"]) == ("status", 1, 1)
        await service.delete("cam")
        while (event := await asyncio.wait_for(listener.get(), 5)) is not None:
            pass

    _run(scenario, tmp_path)


def test_many_memories_have_their_own_order(tmp_path):
    async def scenario(service):
        names = [f"m{n}" for n in range(6)]
        await asyncio.gather(*(service.create(name, body()) for name in names))
        steps = [(name, service.step(name, request(n))) for n in range(40) for name in names]
        answers = await asyncio.gather(*(step for _, step in steps))
        for name in names:
            own = [json.loads(a) for a, (of, _) in zip(answers, steps, strict=True) if of == name]
            assert [each["seq"] for each in own] == list(range(1, 41))
        first, *others = (
            [json.loads(a)["top"] for a, (of, _) in zip(answers, steps, strict=True) if of == name]
            for name in names
        )
        for other in others:
            same = [a[0]["number"] == b[0]["number"] for a, b in zip(first, other, strict=True)]
            assert all(same)

    _run(scenario, tmp_path)
