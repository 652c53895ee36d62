"""The bodies of the contract, every route, and what is refused without a step."""

import json
import time
from urllib.parse import quote

import numpy as np
import pytest
from helpers.asking import asking, step_body
from helpers.serving import MARC, N_CLASSES, body


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    with asking(tmp_path_factory.mktemp("served")) as asker:
        asker.make()
        for image in range(8):
            assert asker.step(image).status == 200
        yield asker


def url(rest="", memory="m"):
    return f"/v1/memories/{memory}{rest}"


def test_the_bodies_of_the_contract(ask):
    draw = np.random.default_rng(0)
    prototypes = draw.standard_normal((3, 4)).tolist()
    method = {"name": "marc", "space": "s", "capacity": 8, "weight": 10.0}
    made = {
        "method": method,
        "predictor": {"prototypes": prototypes, "logit_scale": 30.0},
        "spaces": {"s": 768},
        "mode": "shadow",
    }
    assert ask("PUT", url(memory="contract"), made).status == 201
    again = ask("PUT", url(memory="contract"), made)
    assert again.status == 200
    assert again.content["seq"] == 0
    other = {**made, "method": {**method, "capacity": 9}}
    assert ask("PUT", url(memory="contract"), other).status == 409
    for seq, predictor in enumerate((draw.standard_normal(4), draw.standard_normal((5, 4))), 1):
        spaces = {"s": draw.standard_normal(768).tolist()}
        features = {"predictor": predictor.tolist(), "spaces": spaces}
        answer = ask("POST", url("/step", "contract"), {"id": str(seq), "features": features})
        assert answer.status == 200
        step = answer.content
        assert [step["id"], step["seq"], step["answered_by"]] == [str(seq), seq, "base"]
        assert {step["prediction"], step["base_prediction"]} <= set(range(3))
        assert step["class"] == str(step["base_prediction"])
    info = ask("GET", url(memory="contract")).content
    assert [info["seq"], info["durable_seq"], info["mode"]] == [2, 2, "shadow"]
    assert ask("DELETE", url(memory="contract")).status == 204
    assert ask("GET", url(memory="contract")).status == 404


def test_a_repeated_id_gets_the_same_bytes_and_writes_nothing(ask):
    first = ask.step(100)
    again = ask.step(101, name="100")
    assert again.content == first.content
    assert ask("GET", url()).content["seq"] == first.content["seq"]


def test_a_dry_run_has_no_number(ask):
    seq = ask("GET", url()).content["seq"]
    answer = ask.step(102, dry_run=True, neighbours=2).content
    assert answer["seq"] is None
    assert len(answer["neighbours"]) == 2
    assert ask("GET", url()).content["seq"] == seq


def test_a_deadline_that_is_over_steps_nothing(ask):
    seq = ask("GET", url()).content["seq"]
    answer = ask.step(103, deadline=0)
    assert answer.status == 504
    assert ask("GET", url()).content["seq"] == seq
    assert ask.step(103, deadline=3600).status == 200


def test_every_look_at_a_memory(ask):
    listed = ask("GET", "/v1/memories").content["memories"]
    assert "m" in [each["name"] for each in listed]
    assert ask("GET", url("/audit?n=2")).content.keys() == {"items", "left"}
    assert ask("GET", url("/judgement")).status == 200
    assert len(ask("GET", url("/samples?n=1")).content["items"]) == 1
    assert ask("GET", url("/history?points=10")).content["points"]
    assert ask("GET", url("/steps/0")).content["id"] == "0"
    assert ask("GET", url("/pictures/1")).status == 404
    assert ask("GET", url("/snapshots")).content.keys() == {"items"}


def test_an_id_may_be_any_text_that_can_be_printed(ask):
    for name in ("a/b c", "?x=1#y", "...", "ü", "a%2Fb", "a/../b"):
        step = ask.step(7, name=name)
        assert step.status == 200
        assert ask("GET", url(f"/steps/{quote(name, safe='')}")).content == step.content


def test_labels_count_once(ask):
    labels = {"labels": [{"id": "0", "label": 1}, {"id": "1", "label": "neither"},
                         {"id": "gone", "label": "2"}]}  # fmt: skip
    first = ask("POST", url("/labels"), labels).content
    assert (first["accepted"], first["unknown"]) == (2, ["gone"])
    assert ask("POST", url("/labels"), labels).content["repeated"] == 2


def test_the_mode_is_changed_from_the_expected_one(ask):
    ask.make("modes")
    change = {"to": "canary", "expect": "shadow", "fraction": 0.5}
    changed = ask("POST", url("/mode", "modes"), change).content
    assert (changed["mode"], changed["before"], changed["fraction"]) == ("canary", "shadow", 0.5)
    refused = ask("POST", url("/mode", "modes"), {"to": "live", "expect": "shadow"})
    assert (refused.status, refused.content["allowed"]) == (409, "canary")


def test_a_snapshot_is_downloaded_and_restored(ask):
    ask.make("kept")
    for image in range(3):
        ask.step(image, "kept")
    file = ask("POST", url("/snapshot", "kept")).content["file"]
    whole = ask("GET", url(f"/snapshots/{file}", "kept"))
    assert whole.headers["content-type"] == "application/octet-stream"
    ask.step(9, "kept")
    restored = ask("POST", url("/restore", "kept"), {"file": file})
    assert (restored.status, restored.content["seq"]) == (200, 3)
    raw = {"Content-Type": "application/octet-stream"}
    sent = ask("POST", url("/restore", "kept"), body=whole.content, headers=raw)
    assert (sent.status, sent.content["seq"]) == (200, 3)
    half = ask("POST", url("/restore", "kept"), body=whole.content[:-9], headers=raw)
    assert half.status == 422
    assert ask("GET", url(memory="kept")).content["seq"] == 3
    for name in ("..%2F..%2Fmade.safetensors", "x.safetensors", "%00"):
        assert ask("GET", url(f"/snapshots/{name}", "kept")).status in (404, 422)


QUERIES = ["/audit?n=0", "/audit?n=1001", "/audit?n=x", "/audit?n=1e3", "/samples?n=61",
           "/history?points=0", "/history?points=99999999999999999999", "/pictures/0",
           "/pictures/x", "/pictures/99999999999999999999999"]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_parameters_have_a_range(ask, query):
    assert ask("GET", url(query)).status == 422


NAMES = ["con", "a" * 64, ".x", "a b", "a%00b", "%FF", "x.", "-x", "%F0%9F%90%88", "a%0Ab"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_no_folder_has(ask, name):
    assert ask("PUT", url(memory=name), body()).status == 422
    assert ask("GET", url(memory=name)).status == 404


def test_names_never_leave_the_folder(ask):
    for name in ("..", "..%2F..%2Fx", "%2Fetc"):
        assert ask("PUT", f"/v1/memories/{name}", body()).status in (404, 405, 422)


def test_addresses_and_methods_that_are_not_there(ask):
    assert ask("GET", "/v2/memories").status == 404
    assert ask("GET", "/page/../../../setup.py").status == 404
    assert ask("GET", "/page/%2e%2e/app.py").status == 404
    refused = ask("PATCH", url())
    assert refused.status == 405
    assert refused.headers["allow"] == "DELETE, GET, PUT"
    assert refused.content["allowed"] == refused.headers["allow"]
    assert ask("POST", url("/step", "gone"), step_body(1)).status == 404
    assert ask("POST", url("/steps", "gone"), body=b"").status == 404
    assert ask("GET", url("/events", "gone")).status == 404
    assert ask("POST", url("/labels", "gone"), {"labels": []}).status == 404


BROKEN = {
    "empty": b"",
    "half": b'{"id": "1", ',
    "nan": b'{"id": "1", "deadline": NaN}',
    "infinity": b'{"id": "1", "deadline": -Infinity}',
    "too large a number": b'{"id": "1", "deadline": 1e999}',
    "surrogate": b'{"id": "\\ud800"}',
    "no utf-8": b'{"id": "\xff"}',
    "utf-16": '{"id": "1"}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"id": "1"}',
    "nested": b"[" * 100_000,
    "two values": b"{} {}",
}
ROUTES = [("POST", "/step"), ("POST", "/labels"), ("POST", "/mode"), ("POST", "/restore"),
          ("PUT", "")]  # fmt: skip


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route[1] or "put")
@pytest.mark.parametrize("broken", BROKEN)
def test_what_is_no_json_is_400(ask, route, broken):
    method, path = route
    headers = {"Content-Type": "application/json"}
    answer = ask(method, url(path), body=BROKEN[broken], headers=headers)
    assert answer.status == 400, answer
    assert "no JSON" in answer.content["problem"]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route[1] or "put")
@pytest.mark.parametrize("other", [[], None, 1, "x", {}, {"id": 10**30}, {"x": {"y": [1]}}])
def test_json_of_another_form_is_422(ask, route, other):
    method, path = route
    headers = {"Content-Type": "application/json"}
    answer = ask(method, url(path), body=json.dumps(other), headers=headers)
    assert answer.status == 422, answer


@pytest.mark.parametrize("route", [*ROUTES, ("POST", "/steps")], ids=lambda route: str(route[1]))
@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
    ids=["text", "multipart", "gzip"],
)
def test_bodies_of_other_types_are_415(ask, route, headers):
    method, path = route
    answer = ask(method, url(path), body=b"{}", headers=headers)
    assert answer.status == 415
    assert answer.content["allowed"]


def test_what_curl_says_of_a_body_is_taken(ask):
    raw = json.dumps(step_body(200))
    for headers in ({"Content-Type": "application/x-www-form-urlencoded"}, {}):
        assert ask("POST", url("/step"), body=raw, headers=headers).status == 200


def test_bodies_in_parts_are_read(ask):
    raw = json.dumps(step_body(201)).encode()
    parts = (raw[at : at + 7] for at in range(0, len(raw), 7))
    headers = {"Content-Type": "application/json"}
    assert ask("POST", url("/step"), body=parts, chunked=True, headers=headers).status == 200


@pytest.mark.parametrize("path", ["/step", "/labels", "/mode", "/restore"])
def test_a_body_that_is_too_long_is_refused_unread(ask, path):
    begin = time.monotonic()
    head = f"POST {url(path)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with ask.connect() as connection:
        connection.sendall(f"{head}Content-Length: 100000000\r\n\r\n{{".encode())
        answer = connection.recv(65536).decode()
    assert answer.startswith("HTTP/1.1 413 ")
    assert "application/problem+json" in answer
    with ask.connect() as connection:  # and one that does not say how long it is
        connection.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        part = b"%x\r\n%s\r\n" % (2**20, b" " * 2**20)
        connection.settimeout(0.01)
        answer = b""
        for _ in range(100):
            connection.settimeout(20)
            connection.sendall(part)
            connection.settimeout(0.01)
            try:
                answer = connection.recv(65536)
                break
            except TimeoutError:
                pass
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert time.monotonic() - begin < 10


def test_two_values_of_a_key_are_the_last(ask):
    raw = json.dumps(step_body(202))[:-1] + ', "dry_run": false, "dry_run": true}'
    headers = {"Content-Type": "application/json"}
    assert ask("POST", url("/step"), body=raw, headers=headers).content["seq"] is None


STEPS = {
    "no id": {"id": None},
    "empty id": {"id": ""},
    "number": {"id": 5},
    "long id": {"id": "x" * 513},
    "id that moves": {"id": "a\nb"},
    "neighbours": {"neighbours": 33},
    "neighbours as text": {"neighbours": "1"},
    "neighbours as truth": {"neighbours": True},
    "negative": {"neighbours": -1},
    "dry": {"dry_run": 1},
    "deadline": {"deadline": -1},
    "late": {"deadline": 3601},
    "deadline as text": {"deadline": "1"},
    "unknown": {"extra": 1},
    "both": {"image": "aaaa"},
    "features": {"features": []},
    "spaces": {"features": {"predictor": [1], "spaces": [1]}},
    "predictor as a space": {"features": {"predictor": [1], "spaces": {"predictor": [1]}}},
    "no predictor": {"features": {"spaces": {}}},
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_that_no_memory_takes(ask, name):
    seq = ask("GET", url()).content["seq"]
    answer = ask("POST", url("/step"), {**step_body(300), **STEPS[name]})
    assert answer.status == 422
    assert ask("GET", url()).content["seq"] == seq


CHANGES = [{"to": "on"}, {"to": "live", "fraction": 2}, {"to": "live", "anyway": 1}, {},
           {"to": "live", "more": 1}, {"to": None}]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_mode_that_are_none(ask, change):
    assert ask("POST", url("/mode"), change).status == 422


LABELS = [{"id": "0", "label": 99}, {"id": "0", "label": "unicorn"}, {"id": "0", "label": True},
          {"id": "0", "label": 1.0}, {"id": 0, "label": 1}, {"id": "0"}, {"id": "\0", "label": 1},
          {"id": "0", "label": 10**30}, {"id": "0", "label": 1, "more": 1}]  # fmt: skip


@pytest.mark.parametrize("label", LABELS, ids=str)
def test_labels_that_are_none(ask, label):
    assert ask("POST", url("/labels"), {"labels": [label]}).status == 422


def test_too_many_labels_at_once(ask):
    labels = [{"id": "0", "label": 1}] * 10_001
    assert ask("POST", url("/labels"), {"labels": labels}).status == 422


MEMORIES = [{"method": "no"}, {"method": {"name": "marc", "space": "x"}}, {"mode": "on"},
            {"fraction": 2}, {"limits": {"queue": 0}}, {"limits": {"more": 1}}, {"more": 1},
            {"classes": ["a"]}, {"classes": ["a"] * N_CLASSES}, {"spaces": {"s": 0}},
            {"method": {**MARC, "capacity": -1}}, {"predictor": None},
            {"predictor": {"prototypes": [[1.0], [2.0, 3.0]], "logit_scale": 1}},
            {"predictor": {"prototypes": [[0.0], [0.0]], "logit_scale": 0}}]  # fmt: skip


@pytest.mark.parametrize("more", MEMORIES, ids=str)
def test_memories_that_cannot_be(ask, more):
    assert ask("PUT", url(memory="odd"), {**body(), **more}).status == 422
    assert ask("GET", url(memory="odd")).status == 404


def test_what_every_answer_says_to_a_browser(ask):
    for path in ("/", "/v1/memories", "/no", "/page/page.js"):
        headers = ask("GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'self'" in headers["content-security-policy"]
