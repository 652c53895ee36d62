"""What a server takes at most: each quota is named where it refuses something."""

import contextlib

import pytest
from helpers.asking import asking, encoded, step_body
from helpers.serving import MARC, body

from marc.errors import MarcError
from marc.serve.web.quotas import DEFAULTS, quotas_of

QUOTAS = {
    "memories": 2,
    "classes": 4,
    "capacity": 16,
    "dims": 8,
    "bytes": 4 * 16 * 11 * 4,
    "image_bytes": 1000,
    "listeners": 2,
    "restore_bytes": 1000,
}


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    with asking(tmp_path_factory.mktemp("served"), quotas=QUOTAS) as asker:
        asker.make()
        yield asker


def put(ask, **more):
    return ask("PUT", "/v1/memories/big", {**body(), **more})


def test_there_is_a_test_of_every_quota():
    assert QUOTAS.keys() == DEFAULTS.keys()


def test_the_size_of_a_memory(ask):
    wide = {"prototypes": [[1.0] * 9, [-1.0] * 9], "logit_scale": 1.0}
    many = {"prototypes": [[1.0, n] for n in range(5)], "logit_scale": 1.0}
    too_large = {
        "dims": put(ask, predictor=wide),
        "classes": put(ask, predictor=many),
        "capacity": put(ask, method={**MARC, "capacity": 17}),
        "bytes": put(ask, spaces={"s": 6}),
    }
    for name, answer in too_large.items():
        assert answer.status == 413, name
        assert f"'{name}'" in answer.content["problem"]
        assert answer.content["allowed"] == str(QUOTAS[name])
    assert ask("GET", "/v1/memories/big").status == 404


def test_the_number_of_memories(ask):
    ask.make("second")
    answer = put(ask)
    assert answer.status == 507
    assert "'memories'" in answer.content["problem"]
    assert ask("DELETE", "/v1/memories/second").status == 204
    assert put(ask).status == 201
    ask("DELETE", "/v1/memories/big")


def test_the_size_of_a_picture(ask):
    answer = ask("POST", "/v1/memories/m/step", {"id": "1", "image": "A" * 2000})
    assert answer.status == 413
    assert "'image_bytes'" in answer.content["problem"]
    answer = ask("POST", "/v1/memories/m/step", {"id": "1", "image": "A" * 500_000})
    assert answer.status == 413
    assert "bytes" in answer.content["allowed"]


def test_the_size_of_what_is_restored(ask):
    raw = {"Content-Type": "application/octet-stream"}
    answer = ask("POST", "/v1/memories/m/restore", body=b"x" * 1001, headers=raw)
    assert answer.status == 413
    assert "'restore_bytes'" in answer.content["allowed"]


def test_the_number_of_listeners(ask):
    listen = b"GET /v1/memories/m/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            connection = stack.enter_context(ask.connect())
            connection.sendall(listen)
            assert b"event: status" in connection.recv(65536) + connection.recv(65536)
        answer = ask("GET", "/v1/memories/m/events")
        assert answer.status == 429
        assert "'listeners'" in answer.content["allowed"]
        assert answer.headers["retry-after"] == "10"
    for _ in range(100):  # who goes away makes room
        with ask.connect() as connection:
            connection.sendall(listen)
            if connection.recv(65536).startswith(b"HTTP/1.1 200"):
                break
    else:
        pytest.fail("nobody was let go")


def test_the_queue_of_a_memory(tmp_path):
    with asking(tmp_path) as ask:
        ask.make(limits={"queue": 1})
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(ask.connect()) for _ in range(40)]
            for image, connection in enumerate(connections):
                connection.sendall(_posted(image))
            answers = [connection.recv(65536) for connection in connections]
        refused = [each for each in answers if each.startswith(b"HTTP/1.1 429")]
        assert refused
        assert b"retry-after: 1" in refused[0]
        assert b"'queue'" in refused[0]
        done = sum(each.startswith(b"HTTP/1.1 200") for each in answers)
        assert done + len(refused) == 40
        assert ask("GET", "/v1/memories/m").content["seq"] == done


def _posted(image):
    raw = encoded(step_body(image))
    head = "POST /v1/memories/m/step HTTP/1.1\r\nHost: localhost\r\n"
    return f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw


ODD = ["", "memories", "memories=", "memories=-1", "memories=x", "memories=0", "no=1",
       "memories=" + "9" * 5000, "memories=\u0663x", "memories=1.5", "=1"]  # fmt: skip


@pytest.mark.parametrize("assignment", ODD)
def test_what_is_no_quota_is_refused(assignment):
    with pytest.raises(MarcError) as caught:
        quotas_of([assignment])
    assert len(str(caught.value)) < 500


def test_quotas_that_are_not_given_stay():
    assert quotas_of([]) == DEFAULTS
    assert quotas_of(["dims=5", "dims=6"]) == {**DEFAULTS, "dims": 6}
