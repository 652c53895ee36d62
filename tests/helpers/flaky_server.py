"""A server that answers steps as `marc serve` does, and fails as networks do, on request."""

import contextlib
import json
import socket
import threading
import time
from collections import deque, namedtuple
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Seen = namedtuple("Seen", "method path headers body")
CLASSES = ["cat", "dog"]


class Flaky:
    """What it was asked, what it took, and the faults that the next requests meet."""

    def __init__(self):
        self.seen, self.order, self.lock = [], [], threading.Lock()
        self.faults = deque()
        self.lines = deque()  # problems that the next lines of /steps meet
        self.answers = {}  # (method, path): what else there is to be answered
        self.url = ""

    def take(self, step):
        """The answer to a step, which counts once."""
        with self.lock:
            if step["id"] not in self.order:
                self.order.append(step["id"])
            seq = self.order.index(step["id"]) + 1
        return reply(step["id"], seq)

    @property
    def steps(self):
        """The bodies of all requests to step, one after the other."""
        return [json.loads(each.body) for each in self.seen if each.path.endswith("/step")]


def reply(id, seq, prediction=1):
    top = [
        {
            "class": CLASSES[n],
            "number": n,
            "probability": p,
            "base_probability": 1 - p,
            "evidence": 0,
        }
        for n, p in ((1, 0.75), (0, 0.25))
    ]
    return {
        "id": id, "seq": seq, "prediction": prediction, "class": "cat", "base_prediction": 0,
        "base_class": "cat", "disagree": prediction != 0, "answered_by": "base", "weight": 1.0,
        "top": top, "neighbours": [], "stored": {"admitted": True, "class": "cat", "evicted": None},
        "of a later version": True,
    }  # fmt: skip


def problem(status, what="not now", **parts):
    return {"type": "about:blank", "title": "", "status": status, "problem": what, **parts}


def info(**more):
    """What GET of a memory answers."""
    return {
        "name": "m", "state": "ready", "mode": "shadow", "classes": CLASSES, "dim": 2,
        "spaces": {}, "seq": 0, "window": 100_000, "takes_pictures": False, **more,
    }  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    flaky: Flaky

    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        flaky = self.flaky
        if self.path == "/health":  # which is well whatever the others are
            return self.write(200, {})
        flaky.seen.append(Seen(self.command, self.path, dict(self.headers), body))
        fault, *how = flaky.faults.popleft() if flaky.faults else ("none",)
        if fault == "cut":
            return self.cut()
        if fault == "status":
            status, headers, *rest = how
            return self.write(status, rest[0] if rest else problem(status), headers)
        content = self.done(body)
        if fault == "lost":
            return self.cut()
        if fault == "half":
            return self.write(200, content, half=True)
        if fault == "slow":
            time.sleep(how[0])
        self.write(200, content)

    do_GET = do_POST = do_PUT = do_DELETE = answer  # noqa: N815  (the library's names)

    def done(self, body):
        other = self.flaky.answers.get((self.command, self.path))
        if other is not None:
            return other(body) if callable(other) else other
        if self.path.endswith("/step"):
            return self.flaky.take(json.loads(body))
        if self.path.endswith("/steps"):
            return b"".join(self.line(each) for each in body.splitlines())
        return {}

    def line(self, line):
        told = self.flaky.lines.popleft() if self.flaky.lines else None
        told = told or self.flaky.take(json.loads(line))
        return json.dumps(told).encode() + b"\n"

    @staticmethod
    def encoded(content):
        return content if isinstance(content, bytes) else json.dumps(content).encode()

    def write(self, status, content, headers=None, half=False):
        content = self.encoded(content)
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if half else content)
        if half:
            self.cut()

    def cut(self):
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_):
        pass


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that went away is part of the plan."""


@contextlib.contextmanager
def flaky_server():
    """One that runs on this machine for as long as it is needed."""
    flaky = Flaky()
    handler = type("Handler", (_Handler,), {"flaky": flaky})
    server = _Quiet(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    flaky.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield flaky
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
