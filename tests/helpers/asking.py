"""Requests to a server that runs in this process, as they go over a socket."""

import contextlib
import json
import socket
import time
from collections import namedtuple
from urllib.parse import urlsplit

import urllib3

from helpers.serving import body, features
from marc.serve.server import running

Answer = namedtuple("Answer", "status headers content")
PARTS = {"type", "title", "status", "problem", "got", "allowed", "hint"}


class Asker:
    """Somebody who asks a server, with a key or without."""

    def __init__(self, url, key=None):
        self.url, self.key = url, key
        self.address = urlsplit(url).hostname, urlsplit(url).port
        self._pool = urllib3.PoolManager(maxsize=8)

    def __call__(self, method, path, json_body=None, **how):
        """The answer, its content as data if it is JSON."""
        headers = {**self._headers(), **how.pop("headers", {})}
        if json_body is not None:
            how["body"] = json.dumps(json_body)
            headers.setdefault("Content-Type", "application/json")
        how.setdefault("timeout", 20)
        is_problem = how.pop("is_problem", True)
        answer = self._pool.request(method, self.url + path, headers=headers, retries=False, **how)
        return read(answer.status, answer.headers, answer.data, is_problem)

    def _headers(self):
        return {} if self.key is None else {"Authorization": f"Bearer {self.key}"}

    def make(self, name="m", **more):
        """A new memory."""
        answer = self("PUT", f"/v1/memories/{name}", body(**more))
        assert answer.status == 201, answer
        return answer.content

    def step(self, image, memory="m", **more):
        """What a step is answered."""
        return self("POST", f"/v1/memories/{memory}/step", step_body(image, **more))

    def lines(self, lines, memory="m", **how):
        """What each line is answered."""
        content = b"\n".join(each if isinstance(each, bytes) else encoded(each) for each in lines)
        answer = self("POST", f"/v1/memories/{memory}/steps", body=content, **how)
        assert answer.status == 200, answer
        return [json.loads(line) for line in answer.content.splitlines()]

    def connect(self):
        """A socket, for what no library sends."""
        return socket.create_connection(self.address, timeout=20)

    def raw(self, sent):
        """All that comes back for some bytes, until the server closes."""
        with self.connect() as connection:
            connection.sendall(sent)
            return b"".join(iter(lambda: connection.recv(65536), b""))


def pour(connection, content, most):
    """How much a server takes before it reads no more, at most so many bytes."""
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < most:
            connection.sendall(b"%x\r\n%s\r\n" % (len(content), content))
            sent += len(content)
    return sent


def step_body(image, name=None, **more):
    """A step with the features of an image, as lists."""
    views, keys = features(image)
    spaces = {space: key.tolist() for space, key in keys.items()}
    return {
        "id": str(image) if name is None else name,
        "features": {"predictor": views[0].tolist(), "spaces": spaces},
        **more,
    }


def encoded(value):
    return json.dumps(value).encode()


def read(status, headers, content, is_problem=True):
    """An answer; a problem has all its parts, whatever it is about."""
    kind = headers.get("content-type", "")
    if "json" in kind and "ndjson" not in kind:
        content = json.loads(content)
    if status >= 400 and is_problem:
        assert kind == "application/problem+json", (status, kind, content)
        assert content.keys() == PARTS, content
        assert content["status"] == status
        assert content["problem"]
    return Answer(status, headers, content)


@contextlib.contextmanager
def asking(folder, key=None, **options):
    """A server for the time of some tests."""
    with running(folder, **options) as url:
        asker = Asker(url, key)
        while asker("GET", "/ready", is_problem=False).status == 503:
            time.sleep(0.01)
        yield asker
