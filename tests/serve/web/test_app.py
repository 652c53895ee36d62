"""What stands around all routes: spans that are reported to a collector, if they are asked for."""

import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from helpers.asking import Asker
from helpers.serving_process import process

from marc.serve.web.access import new_key


@pytest.fixture
def collector():
    """Something that spans are sent to: its address, and what came."""
    came = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            came.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", came
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_spans_are_reported_and_hold_no_key(tmp_path, collector, monkeypatch):
    pytest.importorskip("opentelemetry.exporter.otlp", reason="spans cannot be exported")
    address, came = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    key = new_key(tmp_path / "keys.json", "me")
    options = {"trace": True, "key_file": str(tmp_path / "keys.json")}
    with process(tmp_path / "data", **options) as (started, ask):
        asker = Asker(ask.url, key)
        asker.make()
        assert asker.step(1).status == 200
        assert ask("GET", "/health").status == 200
        started.send_signal(signal.SIGTERM)
        _, err = started.communicate(timeout=15)
        assert started.returncode == 0, err
    spans = b"".join(content for path, content in came if path == "/v1/traces")
    assert b"/v1/memories/{m}/step" in spans
    assert b"/health" not in spans
    assert not any(key.encode() in content for _, content in came)


def test_nothing_is_reported_unasked(tmp_path, collector, monkeypatch):
    address, came = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    with process(tmp_path / "data") as (started, ask):
        ask.make()
        ask.step(1)
        started.send_signal(signal.SIGTERM)
        started.communicate(timeout=15)
        assert started.returncode == 0
    assert came == []
