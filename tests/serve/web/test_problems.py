"""Errors as a client sees them."""

import json
import logging

import pytest
from helpers.asking import PARTS, asking

from marc.errors import MarcError
from marc.serve.refused import Refused
from marc.serve.service import Service
from marc.serve.web import problems


def test_every_part_of_an_error_is_there():
    error = Refused(429, "too soon", got=3, allowed=2, hint="later", retry_after=1.2)
    response = problems.response(error)
    content = json.loads(response.body)
    assert content.keys() == PARTS
    assert content == {
        "type": "about:blank",
        "title": "Too Many Requests",
        "status": 429,
        "problem": "too soon",
        "got": "3",
        "allowed": "2",
        "hint": "later",
    }
    assert response.headers["retry-after"] == "2"  # never sooner than it says
    assert response.media_type == "application/problem+json"


def test_an_error_without_a_status_is_of_the_content():
    response = problems.response(MarcError("no"))
    assert response.status_code == 422
    assert "retry-after" not in response.headers


def test_who_has_no_key_learns_how_to_show_one():
    response = problems.response(Refused(401, "no key"))
    assert response.headers["www-authenticate"] == "Bearer"


def test_what_nobody_thought_of_is_a_problem_too(tmp_path, monkeypatch, caplog):
    def status(*_):
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr(logging.getLogger("marc.serve"), "propagate", True)
    with asking(tmp_path) as ask:
        ask.make()
        with monkeypatch.context() as patch:
            patch.setattr(Service, "status", status)
            answer = ask("GET", "/v1/memories")
        assert answer.status == 500
        assert answer.content["got"] == "ZeroDivisionError"
        assert "secret" not in str(answer.content)
        assert answer.headers["x-content-type-options"] == "nosniff"
        counted = ask("GET", "/metrics").content.decode()
    assert 'marc_requests_total{route="/v1/memories",status="500"} 1.0' in counted
    assert [each.exc_info is not None for each in caplog.records] == [True]


@pytest.mark.parametrize("sent", [b"hello\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n",
                                  b"GET /v1/memories/\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                  b"GET /" + b"a" * 200_000, b"\0" * 1000])  # fmt: skip
def test_what_is_hardly_http_ends_with_a_status(tmp_path, sent):
    with asking(tmp_path) as ask:
        with ask.connect() as connection:
            connection.sendall(sent)
            connection.settimeout(1)
            try:
                answer = connection.recv(1000)
            except (TimeoutError, ConnectionResetError):
                answer = b""  # it waits for the rest of a line, or closed
        assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4"))
        assert ask("GET", "/health").status == 200
