"""Many at once: 1,000 connections, listeners who read and one who does not."""

import asyncio
import contextlib
import json
import resource
import time

from helpers.asking import asking, encoded, step_body
from helpers.serving import body, request, serving

from marc.serve.web import routes
from marc.serve.web.access import Access
from marc.serve.web.app import create_app
from marc.serve.web.quotas import DEFAULTS

CONNECTIONS, EACH = 1000, 2


def posted(image, memory="m"):
    raw = encoded(step_body(image))
    head = f"POST /v1/memories/{memory}/step HTTP/1.1\r\nHost: localhost\r\n"
    return f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw


async def answer(reader):
    """Status and content of the next answer on a connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line[16:]) for line in head.split(b"\r\n") if line.startswith(b"content-length")
    )
    return int(head[9:12]), json.loads(await reader.readexactly(length))


async def one(address, number, gate):
    """Some steps on a connection that stays open; those that are refused are sent again."""
    reader, writer = await asyncio.open_connection(*address)
    await gate.wait()
    answers = []
    for image in range(number * EACH, (number + 1) * EACH):
        status = 429
        while status == 429:
            writer.write(posted(image))
            status, content = await answer(reader)
            if status == 429:
                await asyncio.sleep(0.1)
        assert status == 200, content
        answers.append(content)
    writer.close()
    return answers


def room_for(connections):
    """Files that a process may have open, both ends of each connection among them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * connections + 200:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * connections + 200), hard))


def test_a_thousand_connections_step_without_a_gap(tmp_path):
    room_for(CONNECTIONS)

    async def all_of_them(address):
        gate = asyncio.Event()
        waiting = [asyncio.create_task(one(address, n, gate)) for n in range(CONNECTIONS)]
        await asyncio.sleep(1)
        gate.set()
        return await asyncio.gather(*waiting)

    with asking(tmp_path) as ask:
        ask.make(limits={"queue": 500})
        begin = time.monotonic()
        answers = [each for some in asyncio.run(all_of_them(ask.address)) for each in some]
        seconds = time.monotonic() - begin
        assert sorted(each["seq"] for each in answers) == [*range(1, CONNECTIONS * EACH + 1)]
        assert {each["id"] for each in answers} == {str(n) for n in range(CONNECTIONS * EACH)}
        assert seconds < 30
        assert ask("GET", "/metrics").status == 200


def listen(ask, stack):
    connection = stack.enter_context(ask.connect())
    connection.sendall(b"GET /v1/memories/m/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return connection


def received(connection, event):
    """What a connection has received, up to an event that is waited for."""
    got = b""
    while event not in got:
        part = connection.recv(65536)
        assert part, "the server closed"
        got += part
    return got


def test_many_listen_while_it_steps(tmp_path):
    with contextlib.ExitStack() as stack, asking(tmp_path, quotas={"listeners": 60}) as ask:
        ask.make()
        listeners = [listen(ask, stack) for _ in range(60)]
        for each in listeners:
            received(each, b"event: status")
        answers = ask.lines([step_body(image) for image in range(300)])
        assert [each["seq"] for each in answers] == [*range(1, 301)]
        ask("POST", "/v1/memories/m/mode", {"to": "live"})
        for each in listeners:  # nobody of them read until now
            assert b"event: step" in received(each, b"event: mode")
        status = ask("GET", "/v1/memories").content["memories"][0]
        assert status["listeners"] == 60


class Client:
    """A client of an application that takes as much of an answer as it is let."""

    def __init__(self, app):
        self.app, self.sent, self.takes = app, b"", asyncio.Event()
        self.takes.set()

    async def listen(self):
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/v1/memories/m/events",
            "headers": [(b"host", b"localhost")],
            "query_string": b"",
            "client": ("127.0.0.1", 1),
        }
        await self.app(scope, asyncio.Event().wait, self.send)

    async def send(self, message):
        await self.takes.wait()
        self.sent += message.get("body", b"")

    async def has(self, event):
        while event not in self.sent:
            await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def client_of(folder):
    async with serving(folder, quotas=DEFAULTS) as service:
        await service.create("m", body())
        client = Client(create_app(service, Access()))
        listening = asyncio.create_task(client.listen())
        await client.has(b"event: status")
        yield client, listening, service
        listening.cancel()
        await asyncio.wait([listening])


def test_who_listens_slowly_holds_little_and_learns_what_was_missed(tmp_path):
    async def slowly():
        async with client_of(tmp_path) as (client, _, service):
            client.takes.clear()
            [listener] = client.app.state.context.listeners
            for number in range(10_000):
                listener.tell("mode", {"number": number})
            assert len(listener._events) <= 256
            await service.step("m", request(1))  # and nobody waits for it
            client.takes.set()
            await client.has(b"event: missed")
            missed = json.loads(client.sent.rpartition(b"event: missed\r\ndata: ")[2])
            numbers = client.sent.count(b"event: mode") + client.sent.count(b"event: step")
            assert 10_000 <= numbers + missed["count"] <= 10_001 + service.status("m")["seq"]

    asyncio.run(asyncio.wait_for(slowly(), 20))


def test_who_never_reads_is_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(routes, "_SEND_TIMEOUT", 0.2)

    async def never():
        async with client_of(tmp_path) as (client, listening, service):
            aborted = []
            client.app.state.context.abort = aborted.append
            client.takes.clear()
            [listener] = client.app.state.context.listeners
            listener.tell("mode", {})
            await listening
            assert aborted == [("127.0.0.1", 1)]
            assert not client.app.state.context.listeners
            assert service.status("m")["listeners"] == 0

    asyncio.run(asyncio.wait_for(never(), 20))


def test_who_goes_before_the_answer_begins_is_forgotten(tmp_path):
    async def at_once():
        async with client_of(tmp_path) as (client, _, service):
            other = Client(client.app)
            other.takes.clear()
            listening = asyncio.create_task(other.listen())
            while service.status("m")["listeners"] < 2:
                await asyncio.sleep(0)
            listening.cancel()
            await asyncio.wait([listening])
            assert service.status("m")["listeners"] == 1

    asyncio.run(asyncio.wait_for(at_once(), 20))
