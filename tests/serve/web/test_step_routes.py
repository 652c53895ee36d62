"""Lines of steps: their order, what fails among them, who goes away, and nothing is refused."""

import asyncio
import json
import socket
import time
from dataclasses import replace

import pytest
from helpers.asking import asking, encoded, pour, step_body
from helpers.serving import MARC, features

from marc.serve.refused import Refused
from marc.serve.service import Service
from marc.serve.web import step_routes


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    with asking(tmp_path_factory.mktemp("served")) as asker:
        yield asker


def statuses(answers):
    """A number of a step, or the status of its problem."""
    return [each.get("seq") or each["status"] for each in answers]


def head(memory, length=None):
    how = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    return (
        f"POST /v1/memories/{memory}/steps HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/x-ndjson\r\n{how}\r\n\r\n"
    ).encode()


def chunk(content):
    return b"%x\r\n%s\r\n" % (len(content), content)


def seq(ask, memory):
    return ask("GET", f"/v1/memories/{memory}").content["seq"]


def settled(ask, memory):
    """The number of steps, once there are no more to come."""
    before, now = -1, seq(ask, memory)
    while now != before:
        time.sleep(0.2)
        before, now = now, seq(ask, memory)
    return now


def test_lines_step_and_are_answered_in_their_order(ask):
    ask.make("order")
    answers = ask.lines([step_body(image) for image in range(300)], "order")
    assert [each["id"] for each in answers] == [str(image) for image in range(300)]
    assert statuses(answers) == [*range(1, 301)]
    one_by_one = ask("GET", "/v1/memories/order/steps/7").content
    assert answers[7] == one_by_one


def test_a_line_that_fails_is_its_problem_alone(ask):
    ask.make("odd")
    short = {"id": "short", "features": {"predictor": [1.0]}}
    lines = [step_body(1), b"{", step_body(2), short, b"", b"  \r", b"[]", step_body(1), b"\xff",
             step_body(3, deadline=0), {**step_body(4), "id": 5}, step_body(5)]  # fmt: skip
    answers = ask.lines(lines, "odd")
    assert statuses(answers) == [1, 400, 2, 422, 422, 1, 400, 504, 422, 3]
    assert [each["id"] for each in answers] == [
        "1", None, "2", "short", None, "1", None, "3", 5, "5"
    ]  # fmt: skip


def test_no_lines_are_no_answers(ask):
    ask.make("none")
    assert ask.lines([], "none") == []
    assert ask.lines([b"\n\n \n"], "none") == []


def test_a_line_may_come_in_pieces_and_end_without_a_break(ask):
    ask.make("pieces")
    raw = b"\n".join(encoded(step_body(image)) for image in range(3))
    pieces = [raw[at : at + 11] for at in range(0, len(raw), 11)]
    answer = ask(
        "POST",
        "/v1/memories/pieces/steps",
        body=iter(pieces),
        chunked=True,
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert statuses(map(json.loads, answer.content.splitlines())) == [1, 2, 3]


def test_an_answer_comes_before_the_next_line_is_sent(ask):
    ask.make("talk")
    with ask.connect() as connection:
        connection.sendall(head("talk"))
        for image in range(3):
            connection.sendall(chunk(encoded(step_body(image)) + b"\n"))
            got = b""
            while b'"seq":%d,' % (image + 1) not in got:
                got += connection.recv(65536)
        connection.sendall(b"0\r\n\r\n")


def test_a_line_that_is_too_long_ends_the_request(tmp_path):
    with asking(tmp_path, quotas={"image_bytes": 1000}) as ask:
        ask.make()
        long = json.dumps(step_body(2, name="x" * 200_000))
        answers = ask.lines([step_body(1), long.encode(), step_body(3)])
        assert statuses(answers) in ([1, 413], [1, 422, 2])
        assert ask.lines([b"x" * 500_000])[-1]["status"] in (413, 400)
        assert ask.step(4).status == 200


def test_nothing_is_refused_because_too_much_waits_and_the_order_stays(ask):
    ask.make("small", limits={"queue": 1})
    answers = ask.lines([step_body(image) for image in range(150)], "small")
    assert statuses(answers) == [*range(1, 151)]


def test_lines_that_come_too_soon_wait_in_their_order(ask):
    ask.make("slow", limits={"steps_per_second": 20})
    begin = time.monotonic()
    answers = ask.lines([step_body(image) for image in range(30)], "slow")
    assert statuses(answers) == [*range(1, 31)]
    assert time.monotonic() - begin > 0.3


def test_a_step_that_comes_too_soon_is_refused(ask):
    ask.make("rated", limits={"steps_per_second": 3})
    answers = [ask.step(image, "rated") for image in range(8)]
    refused = [each for each in answers if each.status == 429]
    assert refused
    assert refused[0].headers["retry-after"] == "1"
    assert "steps_per_second" in refused[0].content["allowed"]
    assert "rated" in refused[0].content["allowed"]
    assert seq(ask, "rated") == len(answers) - len(refused)


def test_who_goes_away_has_whole_steps_and_nobody_else_waits(ask):
    ask.make("gone")
    lines = [encoded(step_body(image)) + b"\n" for image in range(2000)]
    connection = ask.connect()
    connection.sendall(head("gone"))
    connection.sendall(chunk(b"".join(lines[:500])))
    got = b""
    while got.count(b'"seq"') < 20:
        got += connection.recv(65536)
    connection.sendall(chunk(lines[500][:50])[:-20])  # half of a line
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
    done = settled(ask, "gone")
    assert 20 <= done <= 500
    answered = [json.loads(each) for each in got.splitlines() if each.startswith(b'{"id"')
                and each.endswith(b"}")]  # fmt: skip
    for each in answered:  # what was answered is there
        assert ask("GET", f"/v1/memories/gone/steps/{each['id']}").content == each
    again = ask.lines(lines, "gone")  # and every image was learned once
    assert statuses(again) == [*range(1, 2001)]


def test_who_reads_nothing_is_not_read_from_for_ever(ask):
    ask.make("deaf")
    line = encoded(step_body(1, neighbours=32)) + b"\n"
    with ask.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(head("deaf"))
        connection.settimeout(1.0)
        assert pour(connection, line * 100, 100e6) < 100e6
        assert ask.step(2, "deaf").status == 200


def test_an_error_that_nobody_thought_of_is_one_line(ask, monkeypatch):
    ask.make("surprise")
    real = step_routes.step_of

    def odd(raw, most):
        if raw["id"] == "2":
            raise ZeroDivisionError
        return real(raw, most)

    monkeypatch.setattr(step_routes, "step_of", odd)
    answers = ask.lines([step_body(image) for image in (1, 2, 3)], "surprise")
    assert statuses(answers) == [1, 500, 2]
    assert answers[1]["got"] == "ZeroDivisionError"


def test_the_same_lines_again_are_answered_alike(ask):
    ask.make("again", method=MARC)
    lines = [step_body(image) for image in range(40)]
    assert ask.lines(lines, "again") == ask.lines(lines, "again")
    assert seq(ask, "again") == 40


def test_pictures_among_lines_step_in_their_place(ask, monkeypatch):
    """Features of a picture are made while others are, and are ready in any order."""
    ask.make("pictures")

    async def seen(self, name, request):
        image = int(request.id)
        await asyncio.sleep(0.05 * (image * 7 % 5))
        if image == 9:
            raise Refused(422, "this is no picture")
        views, keys = features(image)
        return replace(request, image=None, views=views, keys=keys)

    monkeypatch.setattr(Service, "seen", seen)
    lines = [{"id": str(n), "image": "AAAA"} if n % 3 == 0 else step_body(n) for n in range(120)]
    answers = ask.lines(lines, "pictures")
    assert [each["id"] for each in answers] == [str(n) for n in range(120)]
    assert statuses(answers) == [*range(1, 10), 422, *range(10, 120)]


def test_after_a_line_that_is_refused_for_now_none_is_taken(ask, monkeypatch):
    """A client sends them again, and their order is the one that they had."""
    ask.make("away")
    real, refused = Service.step, []

    async def odd(self, name, body):
        if body.id == "5" and not refused:
            refused.append(Refused(503, "away for a moment", retry_after=1))
            raise refused[0]
        return await real(self, name, body)

    monkeypatch.setattr(Service, "step", odd)
    lines = [step_body(image) for image in range(200)]
    first = statuses(ask.lines(lines, "away"))
    taken = first.index(503)
    assert first == [*range(1, taken + 1)] + (200 - taken) * [503]
    assert taken <= 5
    assert statuses(ask.lines(lines, "away")) == [*range(1, 201)]


def test_a_line_that_is_wrong_keeps_no_other_back(ask):
    ask.make("wrong")
    lines = [step_body(1), {"id": "1"}, step_body(2), step_body(3, dry_run=2), step_body(4)]
    assert statuses(ask.lines(lines, "wrong")) == [1, 422, 2, 422, 3]


def test_lines_are_counted_where_steps_are(ask):
    def count():
        text = ask("GET", "/metrics").content.decode()
        return float(text.partition("marc_step_seconds_count ")[2].split()[0])

    ask.make("counted")
    before = count()
    ask.lines([step_body(image) for image in range(7)], "counted")
    assert count() == before + 7
