"""A server as a process: it starts or is refused, answers what waits, and ends."""

import contextlib
import json
import logging
import os
import re
import signal
import socket
import sys
import threading
import time

import pytest
from helpers.asking import Asker, asking, encoded, pour, step_body
from helpers.serving_process import process
from starlette.testclient import TestClient
from threadpoolctl import threadpool_info, threadpool_limits

import marc
from marc.errors import MarcError
from marc.serve import server
from marc.serve.server import running
from marc.serve.service import Service
from marc.serve.web.access import Access, new_key
from marc.serve.web.app import create_app
from marc.serve.web.quotas import DEFAULTS

CHUNKED = (
    b"POST /v1/memories/m/steps HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def ended(started, within=8):
    """Status and log of a process that ends by itself."""
    _, err = started.communicate(timeout=within)
    return started.returncode, [json.loads(line) for line in err.splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
def test_what_waits_is_answered_before_the_end(tmp_path, number):
    with process(tmp_path, pause=0.02) as (started, ask), contextlib.ExitStack() as stack:
        ask.make()
        connections = [stack.enter_context(ask.connect()) for _ in range(60)]
        for image, connection in enumerate(connections):
            raw = encoded(step_body(image))
            head = "POST /v1/memories/m/step HTTP/1.1\r\nHost: localhost\r\n"
            connection.sendall(f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw)
        time.sleep(0.4)
        started.send_signal(number)
        answers = [whole(connection) for connection in connections]
        assert {each.partition(b"\r\n")[0] for each in answers} == {b"HTTP/1.1 200 OK"}
        seqs = sorted(json.loads(each.rpartition(b"\r\n")[2])["seq"] for each in answers)
        assert seqs == [*range(1, 61)]
        status, log = ended(started)
        assert (status, [each for each in log if each["status"] != 201]) == (0, [])
    with asking(tmp_path) as ask:
        assert ask("GET", "/v1/memories/m").content["seq"] == 60


def whole(connection):
    """Everything until the server closes."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def test_listeners_and_streams_are_let_go(tmp_path):
    listen = b"GET /v1/memories/m/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with process(tmp_path) as (started, ask), ask.connect() as events, ask.connect() as lines:
        ask.make()
        events.sendall(listen)
        lines.sendall(CHUNKED)
        raw = encoded(step_body(1)) + b"\n"
        lines.sendall(b"%x\r\n%s\r\n" % (len(raw), raw))
        assert b"event: status" in events.recv(65536) + events.recv(65536)
        assert b'"seq":1' in lines.recv(65536) + lines.recv(65536)
        begin = time.monotonic()
        started.send_signal(signal.SIGTERM)
        assert whole(events).endswith(b"0\r\n\r\n")
        rest = whole(lines)
        assert b'"status":503' in rest
        assert rest.endswith(b"0\r\n\r\n")
        assert ended(started)[0] == 0
        assert time.monotonic() - begin < 4


def test_who_sends_half_a_body_holds_up_no_end(tmp_path):
    with process(tmp_path) as (started, ask), ask.connect() as half:
        ask.make()
        head = (
            b"POST /v1/memories/m/step HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n"
        )
        half.sendall(head + b"{")
        time.sleep(0.2)
        begin = time.monotonic()
        started.send_signal(signal.SIGTERM)
        assert whole(half).startswith(b"HTTP/1.1 503 ")
        assert ended(started)[0] == 0
        assert time.monotonic() - begin < 4


def test_who_reads_nothing_holds_up_no_end(tmp_path):
    with process(tmp_path) as (started, ask), ask.connect() as lines:
        ask.make()
        lines.sendall(CHUNKED)
        raw = encoded(step_body(1, neighbours=32)) + b"\n"
        lines.settimeout(0.5)
        assert pour(lines, 100 * raw, 300e6) < 300e6
        begin = time.monotonic()
        started.send_signal(signal.SIGTERM)
        status, _ = ended(started)
        assert status == 0
        assert time.monotonic() - begin < 6


def test_nothing_begins_while_it_drains(tmp_path):
    app = create_app(Service(tmp_path, quotas=DEFAULTS), Access())
    with TestClient(app, base_url="http://localhost") as client:
        while client.get("/ready").status_code != 200:
            time.sleep(0.01)
        client.portal.call(app.state.context.drain)
        ready = client.get("/ready")
        assert (ready.status_code, ready.json()) == (503, {"state": "draining"})
        for method, path in (("POST", "/step"), ("PUT", ""), ("GET", "/events"), ("DELETE", "")):
            answer = client.request(method, f"/v1/memories/m{path}", json={})
            assert answer.status_code in (404, 503)


def test_a_folder_has_one_server(tmp_path):
    with asking(tmp_path) as ask:
        with pytest.raises(MarcError, match=r"^another server works in this folder"):
            running(tmp_path).__enter__()
        assert ask("GET", "/health").status == 200
    with asking(tmp_path) as ask:
        assert ask("GET", "/health").status == 200


def test_a_port_has_one_server(tmp_path):
    with asking(tmp_path / "a") as ask, pytest.raises(MarcError) as caught:
        running(tmp_path / "b", port=ask.address[1]).__enter__()
    assert "--port 0" in caught.value.hint
    with asking(tmp_path / "b"):
        pass  # and the folder is free again


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org", "", "-", "a" * 500])
def test_another_address_needs_keys(tmp_path, host):
    with pytest.raises(MarcError) as caught:
        running(tmp_path, host=host).__enter__()
    assert "--key-file" in caught.value.hint


@pytest.mark.parametrize(
    "options",
    [
        {"port": -1},
        {"port": 65536},
        {"port": True},
        {"port": "x"},
        {"durability": "paper"},
        {"key_file": "no-such-file.json"},
        {"host": "192.0.2.1", "key_file": "KEYS"},
        {"trace": True},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_it_listens(tmp_path, monkeypatch, options):
    if options.get("key_file") == "KEYS":
        options["key_file"] = tmp_path / "keys.json"
        new_key(options["key_file"], "a")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp", None)
    with pytest.raises(MarcError) as caught:
        running(tmp_path / "data", **options).__enter__()
    assert caught.value.problem
    with asking(tmp_path / "data") as ask:
        assert ask("GET", "/health").status == 200


def test_what_fails_at_the_start_is_said_and_gives_everything_back(tmp_path, capfd):
    class Pictures:
        def start(self):
            raise MarcError("there are no weights", hint="--weights FILE")

        def close(self):
            pass

    with pytest.raises(MarcError, match=r"^there are no weights"):
        running(tmp_path, pictures=Pictures()).__enter__()
    with pytest.raises(MarcError, match=r"^there are no weights"):
        marc.serve(tmp_path, port=0, pictures=Pictures(), on_ready=pytest.fail)
    assert "Traceback" not in capfd.readouterr().err
    assert not logging.getLogger("marc.serve").handlers
    with asking(tmp_path) as ask:
        assert ask("GET", "/ready").status == 200


def test_servers_of_one_process_come_and_go(tmp_path):
    for _ in range(3):
        before = threading.active_count()
        with asking(tmp_path) as ask:
            if ask("GET", "/v1/memories/m").status == 404:
                ask.make()
            seq = ask("GET", "/v1/memories/m").content["seq"]
            assert ask.step(seq).content["seq"] == seq + 1
            with ask.connect() as events:
                events.sendall(b"GET /v1/memories/m/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert events.recv(100).startswith(b"HTTP/1.1 200")
        assert threading.active_count() <= before + 1


def test_every_line_of_the_log_is_json_and_none_has_a_key(tmp_path):
    key = new_key(tmp_path / "keys.json", "me")
    files = {"key_file": str(tmp_path / "keys.json"), "verbose": True}
    with process(tmp_path / "data", **files) as (started, ask):
        asker = Asker(ask.url, key)
        asker.make()
        asker.step(1)
        asker.lines([step_body(2)])
        asker("GET", "/v1/memories?" + key)
        asker("GET", "/v1/odd%0a%1b[31mpath")
        ask("GET", "/v1/memories", headers={"Authorization": f"Basic {key}"})
        started.send_signal(signal.SIGTERM)
        _, err = started.communicate(timeout=8)
    assert key not in err
    lines = [json.loads(line) for line in err.splitlines()]
    assert {each["level"] for each in lines} <= {"debug", "info", "warning"}
    asked = [(each["method"], each["status"]) for each in lines if "method" in each]
    assert ("PUT", 201) in asked
    assert ("GET", 401) in asked
    assert all({"time", "level", "logger", "message"} <= each.keys() for each in lines)


def test_routine_is_not_logged(tmp_path):
    with process(tmp_path, log="text") as (started, ask):
        ask.make()
        ask.step(1)
        ask.lines([step_body(2)])
        ask("POST", "/v1/memories/m/labels", {"labels": []})
        ask("GET", "/v1/memories")
        ask("GET", "/odd%0a%1b[31mpath")
        started.send_signal(signal.SIGTERM)
        _, err = started.communicate(timeout=8)
    assert [re.sub(r"^\S+ | \S+ ms$", "", line) for line in err.splitlines()] == [
        "INFO    PUT /v1/memories/m 201",
        "INFO    GET /odd\\n\\x1b[31mpath 404",
    ]


def test_a_second_interrupt_ends_it_at_once(tmp_path):
    with process(tmp_path, pause=1.0) as (started, ask), ask.connect() as connection:
        ask.make()
        raw = encoded(step_body(1))
        head = f"POST /v1/memories/m/step HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(raw)}"
        for _ in range(2):
            connection.sendall(f"{head}\r\n\r\n".encode() + raw)
        time.sleep(0.2)
        for _ in range(2):
            started.send_signal(signal.SIGINT)
            time.sleep(0.2)
        status, _ = ended(started)
        assert status == 0


def test_the_address_of_a_server_on_the_other_protocol(tmp_path):
    if not socket.has_ipv6 or os.environ.get("MARC_NO_IPV6"):
        pytest.skip("this machine has no IPv6")
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6")
    with running(tmp_path, host="::1") as url:
        assert url.startswith("http://[::1]:")
        assert Asker(url)("GET", "/version").status == 200


def test_a_product_has_one_thread_while_it_serves_unless_it_is_said_how_many(monkeypatch):
    def threads():
        return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}

    for name in server._THREADS:
        monkeypatch.delenv(name, raising=False)
    with threadpool_limits(2, "blas"):
        with server._one_thread_a_product():
            assert threads() == {1}
            assert os.environ["OPENBLAS_NUM_THREADS"] == "1"
        assert threads() == {2}
        assert "OPENBLAS_NUM_THREADS" not in os.environ
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        with server._one_thread_a_product():
            assert threads() == {2}
