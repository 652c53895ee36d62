"""Memories over Ray actors: one is killed under load, and nothing that was acknowledged is lost."""

import asyncio
import os
import signal
import time
from collections import Counter
from dataclasses import replace

import orjson
import pytest
from helpers.shard_memories import body, request

from marc.errors import MarcError
from marc.serve.cluster import shards
from marc.serve.cluster.shards import Shards, placed
from marc.serve.refused import Refused
from marc.serve.service import Service

NAMES = ["cam-1", "cam-2", "cam-3", "cam-4"]  # two in each of two shards


def test_names_are_spread_evenly_and_stay_where_they_are():
    names = [f"memory-{n}" for n in range(7000)]
    before = {name: placed(name, 7) for name in names}
    counts = Counter(before.values())
    assert sorted(counts) == [*range(7)]
    assert max(counts.values()) < 1.15 * 1000
    assert min(counts.values()) > 0.85 * 1000
    moved = [name for name in names if placed(name, 8) != before[name]]
    assert {placed(name, 8) for name in moved} == {7}  # what moves, moves to the new one
    assert 0.1 < len(moved) / len(names) < 0.15
    assert [placed(name, 5) for name in NAMES] == [1, 1, 2, 4]  # in every process and release
    assert sorted(placed(name, 2) for name in NAMES) == [0, 0, 1, 1]
    assert placed("any", 1) == 0


def test_ray_that_is_not_installed_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MarcError, match=r"marc-clip\[ray,serve\]"):
        asyncio.run(Shards(2).start("process"))


@pytest.mark.parametrize("address", ["ray://127.0.0.1:10001", "127.0.0.1:1"])
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_cannot_be_joined_is_named(address):
    pytest.importorskip("ray")
    with pytest.raises(MarcError, match=r"127\.0\.0\.1:1"):
        asyncio.run(Shards(2, address).start("process"))


@pytest.fixture(scope="module")
def cluster():
    """Ray on this machine, as a server starts it."""
    ray = pytest.importorskip("ray")
    shards._imported()
    before = [signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)]
    shards._join(ray, None, 2)
    yield [signal.getsignal(name) for name in (signal.SIGTERM, signal.SIGINT)] == before
    ray.shutdown()


async def started(data, hosts):
    service = Service(data, hosts=hosts)
    await service.start()
    return service


async def acknowledged(service, name, id):
    """The answer to a step, by a client that tries again as it is told to."""
    until = time.monotonic() + 60
    while True:
        try:
            return orjson.loads(await service.step(name, request(id)))
        except Refused as error:
            if error.status != 503 or time.monotonic() > until:
                raise
            await asyncio.sleep(0.1)


def without(answer):
    """An answer but for what the order of floating point sums may touch."""
    return {name: value for name, value in answer.items() if name not in ("top", "weight")}


async def history_of(service, name):
    """What a memory says of itself, but for times, and where it started from."""
    info = await service.call(name, "info")
    own = ("created", "snapshot", "answered_otherwise_on_recovery", "state")
    return {key: value for key, value in info.items() if key not in own}


async def killed_under_load(data, answers, n_steps):
    """Two shards, eight clients, two of one memory; what the memories say of themselves at last."""
    service = await started(data, Shards(2))
    for name in NAMES:
        await service.create(name, body())

    async def client(number):
        name = NAMES[number % 4]
        for n in range(n_steps):
            answers[name].append(await acknowledged(service, name, f"{number}-{n}"))

    link = service._hosts._links[0]
    before = await link.ask("process", tuple)
    clients = [asyncio.create_task(client(number)) for number in range(8)]
    while sum(map(len, answers.values())) < 8 * n_steps / 3:
        await asyncio.sleep(0.002)
    assert sum(map(len, answers.values())) < 8 * n_steps / 2  # it is in the middle
    os.kill(before, signal.SIGKILL)
    await asyncio.gather(*clients)
    assert await link.ask("process", tuple) != before
    told = {name: await history_of(service, name) for name in NAMES}
    for name in NAMES:  # what was answered before is known by its id
        assert await acknowledged(service, name, answers[name][0]["id"]) == answers[name][0]
    await service.stop()
    return told


async def compared(data, twin_data, answers, told):
    """An uninterrupted service gets the same steps, and a plain one opens what shards wrote."""
    twin, plain = await started(twin_data, None), await started(data, None)
    await plain._opening
    for name in NAMES:
        await twin.create(name, body())
        for answer in sorted(answers[name], key=lambda each: each["seq"]):
            assert without(await acknowledged(twin, name, answer["id"])) == without(answer)
        expected = await history_of(twin, name)
        for found in (told[name], await history_of(plain, name)):
            assert found == {**expected, "weight": pytest.approx(expected["weight"])}
    await twin.stop()
    await plain.stop()


@pytest.mark.filterwarnings("ignore")
def test_a_killed_shard_loses_nothing_and_is_started_again(cluster, tmp_path):
    assert cluster, "Ray took the signals of the server"
    answers = {name: [] for name in NAMES}
    told = asyncio.run(killed_under_load(tmp_path / "sharded", answers, 60))
    for name in NAMES:
        assert sorted(each["seq"] for each in answers[name]) == [*range(1, 121)]
    asyncio.run(compared(tmp_path / "sharded", tmp_path / "twin", answers, told))


@pytest.mark.filterwarnings("ignore")
def test_errors_and_events_cross_and_the_number_of_shards_may_change(cluster, tmp_path):
    async def main():
        service = await started(tmp_path, Shards(1))
        info, is_new = await service.create("cam", body())
        assert (info["name"], is_new, service.names()) == ("cam", True, ["cam"])
        assert (await service.create("cam", body()))[1] is False
        with pytest.raises(Refused, match="with another configuration") as refused:
            await service.create("cam", body(classes=list("abcd")))
        assert refused.value.status == 409
        with pytest.raises(Refused, match="no step with this id") as refused:
            await service.call("cam", "stored", id="nobody")
        assert (refused.value.status, refused.value.got) == (404, "'nobody'")
        with pytest.raises(MarcError, match="do not fit"):
            await service.step("cam", replace(request("1"), keys={}))
        with pytest.raises(Refused, match="was over") as refused:
            await service.step("cam", request("late", deadline=time.monotonic() - 1))
        assert refused.value.status == 504
        listener = service.listen("cam")
        await service.step("cam", request("1"))
        await service.call("cam", "mode", to="live", expect="shadow")
        events = {}
        while not {"step", "mode", "status"} <= {*events}:
            event, told = await asyncio.wait_for(listener.get(), 10)
            events.setdefault(event, told)
        assert (events["step"]["id"], events["mode"]["mode"]) == ("1", "live")
        assert (events["status"]["listeners"], events["status"]["shard"]) == (1, 0)
        assert service.status("cam")["seq"] == 1
        await service.create("gone", body())
        await service.delete("gone")
        assert service.names() == ["cam"]
        await service.stop()
        while await asyncio.wait_for(listener.get(), 1) is not None:
            pass  # what came before the end

        service = await started(tmp_path, Shards(2))
        await service._opening
        assert (await service.call("cam", "info"))["mode"] == "live"
        assert orjson.loads(await service.step("cam", request("2")))["seq"] == 2
        await service.stop()
        with pytest.raises(MarcError, match="each shard needs a core"):
            await Shards(10_000).start("process")

    asyncio.run(main())
