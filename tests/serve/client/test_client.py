"""What a client repeats, what it does not, and what it says when there is no hope."""

import json
import subprocess
import sys
import threading
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.flaky_server import flaky_server, problem
from helpers.making import make_stream

import marc
from marc.errors import MarcError
from marc.serve.client import connection
from marc.serve.client.client import Client
from marc.serve.client.connection import NoAnswerError
from marc.serve.refused import Refused

KEY = "k-0123456789"
FEATURES = {"features": [1.0, 0.0]}


@pytest.fixture
def server():
    with flaky_server() as flaky:
        yield flaky


@pytest.fixture
def pauses(monkeypatch):
    """Seconds that the client would have waited."""
    waited = []
    times = SimpleNamespace(sleep=waited.append, monotonic=connection.time.monotonic)
    monkeypatch.setattr(connection, "time", times)
    return waited


def memory(server, **options):
    return Client(server.url, **{"timeout": 5.0, **options}).memory("m")


FAULTS = {
    "busy": ("status", 429, {"Retry-After": "1"}),
    "recovering": ("status", 503, {}),
    "between": ("status", 502, {}),
    "late between": ("status", 504, {}),
    "no room on the disk": ("status", 507, {"Retry-After": "5"}),
    "cut before": ("cut",),
    "cut after": ("lost",),
    "cut in the answer": ("half",),
    "slow": ("slow", 0.5),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_step_is_taken_once_whatever_happens_to_the_request(server, pauses, fault):
    server.faults += [FAULTS[fault]] * 2
    reply = memory(server, timeout=0.2).step(**FEATURES)
    assert len(server.steps) == 3
    assert len({step["id"] for step in server.steps}) == 1  # drawn once, not for each try
    assert server.order == [reply.id]
    assert reply.seq == 1
    assert len(pauses) == 2


def test_a_server_says_how_long_to_wait_and_pauses_grow(server, pauses):
    server.faults += [("status", 429, {"Retry-After": "3"})] * 3 + [("cut",)] * 3
    memory(server).step(**FEATURES)
    busy, cut = pauses[:3], pauses[3:]
    assert all(3 <= pause <= 5 for pause in busy)
    assert all(pause < 3 for pause in cut[:1])
    assert cut[-1] > cut[0]
    assert len(set(pauses)) == 6  # not in step with others


@pytest.mark.parametrize("fault", ["busy", "cut before"])
def test_it_gives_up_in_four_parts(server, pauses, fault):
    server.faults += [FAULTS[fault]] * 9
    with pytest.raises(MarcError) as caught:
        memory(server, retries=2).step(**FEATURES)
    assert len(server.seen) == 3
    if fault == "busy":
        assert (caught.value.status, caught.value.problem) == (429, "not now")
    else:
        assert isinstance(caught.value, NoAnswerError)
        assert server.url in str(caught.value)
        assert "marc serve" in caught.value.hint


def test_a_long_wait_is_for_a_person_to_decide(server, pauses):
    server.faults.append(("status", 503, {"Retry-After": "3600"}))
    with pytest.raises(Refused, match="not now") as caught:
        memory(server).step(**FEATURES)
    assert caught.value.retry_after == 3600
    assert not pauses


def test_what_the_server_says_is_what_a_person_reads(server, pauses):
    parts = {"got": "7", "allowed": "0 to 5", "hint": "less"}
    for status in (400, 403, 404, 409, 413, 422, 500, 507):
        server.faults.append(("status", status, {}, problem(status, "too much", **parts)))
        with pytest.raises(Refused) as caught:
            memory(server).step(**FEATURES)
        error = caught.value
        assert error.status == status
        assert str(error) == "too much.\n  got:  7\n  allowed:  0 to 5\n  try:  less"
    server.faults.append(("status", 401, {}, problem(401, "this server asks for a key", hint="H")))
    with pytest.raises(Refused, match=r"this server asks for a key[^$]*MARC_KEY"):
        memory(server).step(**FEATURES)
    assert not pauses  # none of these passes


def test_nobody_there():
    with pytest.raises(NoAnswerError, match=r"no answer from http://127\.0\.0\.1:1\b"):
        Client("http://127.0.0.1:1", retries=0).memories()


@pytest.mark.parametrize("status", [200, 404])
def test_another_kind_of_server(server, status):
    server.faults.append(("status", status, {}, b"<html>welcome</html>"))
    with pytest.raises(MarcError, match="marc serve") as caught:
        memory(server).info()
    assert ("welcome" in str(caught.value)) == (status == 200)


def test_the_key_goes_to_this_server_alone_and_is_never_shown(server):
    client = Client(server.url, KEY)
    client.memory("m").info()
    assert server.seen[0].headers["Authorization"] == f"Bearer {KEY}"
    with flaky_server() as other:
        server.faults.append(("status", 307, {"Location": f"{other.url}/v1/memories/m"}, b""))
        with pytest.raises(Refused, match="elsewhere") as caught:
            client.memory("m").info()
        assert not other.seen
    server.faults.append(("status", 401, {}))
    with pytest.raises(Refused) as again:
        client.memory("m").info()
    shown = [client, client.memory("m"), client._connection, caught.value, again.value]
    assert not any(KEY in repr(each) + str(each) for each in shown)
    Client(server.url).memory("m").info()
    assert "Authorization" not in server.seen[-1].headers


@pytest.mark.parametrize(
    ("url", "key"),
    [
        (f"http://me:{KEY}@127.0.0.1", None),
        ("http://127.0.0.1", f"{KEY}\r\nX: y"),
        ("http://127.0.0.1", f"{KEY} two"),
        ("http://127.0.0.1", f"{KEY}é"),
        ("http://127.0.0.1", ""),
    ],
)
def test_a_bad_key_is_refused_and_not_repeated(url, key):
    with pytest.raises(MarcError, match="key") as caught:
        Client(url, key)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("url", ["", "127.0.0.1:8123", "ftp://x", "http://", "http://x?y=1", 7])
def test_what_is_no_url(url):
    with pytest.raises(MarcError, match="no URL of a server"):
        Client(url)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a?b", "-a", "ä", "a" * 64, 7])
def test_a_name_leads_nowhere_else(name):
    with pytest.raises(MarcError, match="no name for a memory"):
        Client("http://127.0.0.1:1").memory(name)


def test_a_deadline_is_said_to_the_server_and_kept_here(server, pauses):
    server.faults += [("status", 504, {})]
    with pytest.raises(Refused) as caught:
        memory(server).step(**FEATURES, deadline=5.0)
    assert caught.value.status == 504
    assert server.steps[0]["deadline"] == 5.0
    server.faults += [("status", 429, {"Retry-After": "20"})]
    with pytest.raises(Refused) as caught:
        memory(server).step(**FEATURES, deadline=5.0)
    assert caught.value.status == 429
    assert not pauses


def test_a_deadline_ends_a_wait_for_a_slow_server(server):
    server.faults += [("slow", 3.0)] * 2
    started = connection.time.monotonic()
    with pytest.raises(NoAnswerError):
        memory(server).step(**FEATURES, deadline=0.3)
    assert connection.time.monotonic() - started < 2


ONCE = {
    "delete": lambda m, path: m.delete(),
    "restore": lambda m, path: m.restore("000000000001.safetensors"),
    "upload": lambda m, path: m.restore(path),
    "mode": lambda m, path: m.mode("live", expect="shadow"),
}


@pytest.mark.parametrize("name", ONCE)
def test_what_may_not_be_done_twice_is_not_sent_again(server, pauses, tmp_path, name):
    path = tmp_path / "s"
    path.write_bytes(b"snapshot")
    server.faults += [("status", 503, {}), ("lost",)]  # not done: sent again; perhaps done: not
    with pytest.raises(NoAnswerError):
        ONCE[name](memory(server), path)
    assert len(server.seen) == 2


def test_a_snapshot_of_the_server_or_of_this_machine(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "000000000001.safetensors"
    (tmp_path / name).write_bytes(b"snapshot")
    memory(server).restore(name)
    assert json.loads(server.seen[-1].body) == {"file": name}
    memory(server).restore(f"./{name}")
    assert server.seen[-1].body == b"snapshot"
    assert server.seen[-1].headers["Content-Type"] == "application/octet-stream"
    with pytest.raises(MarcError, match="no such snapshot"):
        memory(server).restore("nothing")


@pytest.mark.parametrize("fault", ["half", "lost"])
def test_half_a_snapshot_is_none(server, pauses, tmp_path, fault):
    told = {"file": "000000000001.safetensors", "seq": 1, "bytes": 8}
    server.answers["POST", "/v1/memories/m/snapshot"] = told
    server.answers["GET", f"/v1/memories/m/snapshots/{told['file']}"] = b"snapshot"
    server.faults += [("none",), (fault,)]
    if fault == "half":
        with pytest.raises(NoAnswerError):
            memory(server).download_snapshot(tmp_path / "s")
        assert not [*tmp_path.iterdir()]
    else:  # nothing came yet: asked again
        assert memory(server).download_snapshot(tmp_path / "s") == told
        assert (tmp_path / "s").read_bytes() == b"snapshot"


def some(count):
    return [{"features": [1.0, float(n)], "id": str(n)} for n in range(count)]


@pytest.mark.parametrize("fault", ["busy", "cut after", "cut in the answer"])
def test_many_steps_are_answered_in_order_and_each_once(server, pauses, fault):
    server.faults += [("none",), FAULTS[fault], ("none",), FAULTS[fault]]
    answers = [*memory(server).steps(some(70), together=32)]
    assert [each.id for each in answers] == [str(n) for n in range(70)]
    assert server.order == [str(n) for n in range(70)]
    assert len(server.seen) == 5


def test_lines_that_were_not_taken_are_sent_again(server, pauses):
    server.lines += [None, None, problem(429, retry_after=1)]
    answers = [*memory(server).steps(some(6))]
    assert [each.id for each in answers] == [str(n) for n in range(6)]
    assert len(server.seen[1].body.splitlines()) == 4
    server.lines += [problem(503)] * 9
    with pytest.raises(Refused, match="not now"):
        [*memory(server, retries=2).steps(some(1))]


def test_a_server_that_answers_fewer_lines_is_asked_again(server, pauses):
    server.answers["POST", "/v1/memories/m/steps"] = b""
    with pytest.raises(NoAnswerError, match="without an answer"):
        [*memory(server, retries=2).steps(some(2))]
    assert len(server.seen) == 3


def test_one_bad_image_among_many_has_its_reason_in_its_place(server):
    server.lines += [None, problem(422, "a zero vector")]
    unreadable = MarcError("this picture cannot be read")
    requests = [some(1)[0], unreadable, {"features": "no", "id": "x"}, *some(3)[1:]]
    first, second, third, fourth, fifth = memory(server).steps(requests)
    assert (first.id, fifth.id) == ("0", "2")
    assert second is unreadable
    assert third.problem.startswith("features must be an array")
    assert (fourth.status, fourth.problem) == (422, "a zero vector")


def test_steps_are_taken_from_the_caller_as_they_are_sent(server):
    taken = []
    answers = memory(server).steps(
        (taken.append(n) or s for n, s in enumerate(some(9))), together=3
    )
    assert next(answers).seq == 1
    assert taken == [0, 1, 2]


def test_arrays_are_32_bit_floats_whatever_they_were(server):
    for dtype in (np.float16, np.float64, ">f4"):
        key = np.array([0.5, -2.0], dtype=dtype)
        memory(server).step(np.ones((3, 2), dtype), {"s": key[::-1]}, id="x", neighbours=4)
        body = server.steps[-1]
        assert body["features"]["predictor"]["shape"] == [3, 2]
        assert body["features"]["spaces"] == {"s": {"b64": "AAAAwAAAAD8=", "shape": [2]}}
        assert (body["id"], body["neighbours"]) == ("x", 4)


BAD = {
    "nothing": {},
    "both": {"features": [1.0], "image": b"x"},
    "keys alone": {"keys": {"s": [1.0]}},
    "text": {"features": "1.0"},
    "three dimensions": {"features": np.ones((1, 2, 3))},
    "empty": {"features": []},
    "a key of two dimensions": {"features": [1.0], "keys": {"s": np.ones((2, 2))}},
    "complex": {"features": np.ones(2) * 1j},
    "no file": {"image": "nothing.jpg"},
    "no picture": {"image": 7},
    "an id that is no text": {"features": [1.0], "id": b"7"},
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_step_is_refused_before_it_is_sent(server, case):
    with pytest.raises(MarcError):
        memory(server).step(**BAD[case])
    assert not server.seen


def test_a_picture_by_its_path_or_its_bytes(server, tmp_path):
    (tmp_path / "cat.jpg").write_bytes(b"picture")
    for image in (tmp_path / "cat.jpg", str(tmp_path / "cat.jpg"), b"picture"):
        memory(server).step(image=image)
    assert {step["image"] for step in server.steps} == {"cGljdHVyZQ=="}


def test_a_reply_says_what_to_act_on(server):
    reply = memory(server).step(**FEATURES)
    assert (reply.prediction, reply.base_prediction, reply.acted) == (1, 0, 0)
    assert reply.disagree
    assert (reply.confidence, reply.base_confidence) == (0.75, 0.75)
    server.answers["POST", "/v1/memories/m/step"] = {"id": "x"}
    with pytest.raises(MarcError, match="no answer to a step"):
        memory(server).step(**FEATURES)


def test_labels_go_in_parts_and_are_counted_together(server, pauses):
    def taken(body):
        n = len(json.loads(body)["labels"])
        told = {"accepted": n - 1, "changed": 0, "repeated": 0, "unknown": ["x"]}
        return {**told, "judgement": {"sentence": str(n)}}

    server.answers["POST", "/v1/memories/m/labels"] = taken
    server.faults.append(("lost",))
    told = memory(server).label({str(n): np.int64(n % 2) for n in range(12_000)})
    assert (told["accepted"], told["unknown"]) == (11_997, ["x"] * 3)
    assert told["judgement"] == {"sentence": "2000"}
    assert len(server.seen) == 4
    assert memory(server).label({"7": "cat"})["accepted"] == 0


def test_events_go_on_after_a_cut(server, pauses):
    events = b'event: status\ndata: {"a": 1}\n\n: ping\n\nevent: step\ndata: {"b":\ndata: 2}\n\n'
    server.answers["GET", "/v1/memories/m/events"] = events
    server.faults += [("none",), ("half",), ("none",), ("status", 404, {})]
    came = []

    def listen():
        for event in memory(server).events():
            came.append(event)

    with pytest.raises(Refused):
        listen()
    status, step = ("status", {"a": 1}), ("step", {"b": 2})
    assert came == [status, step, status, status, step]  # half of an event is none
    assert Counter(seen.headers["Accept"] for seen in server.seen) == {"text/event-stream": 4}
    assert len(pauses) == 3


def test_a_server_that_only_hangs_up_is_not_listened_to_for_ever(server, pauses):
    server.answers["GET", "/v1/memories/m/events"] = b""
    with pytest.raises(NoAnswerError):
        next(memory(server, retries=3).events())
    assert len(server.seen) == 4


def test_threads_share_a_client(server, pauses):
    server.faults += [("lost",), ("none",), ("half",), ("cut",)] * 5
    shared = memory(server)

    def step_some(worker):
        for n in range(20):
            assert shared.step(**FEATURES, id=f"{worker}-{n}").id == f"{worker}-{n}"

    threads = [threading.Thread(target=step_some, args=(worker,)) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert Counter(server.order) == Counter(f"{w}-{n}" for w in range(8) for n in range(20))


@pytest.mark.parametrize("library", ["urllib3", "orjson"])
def test_a_library_that_is_missing_is_named_with_what_to_type(monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MarcError, match=library) as caught:
        Client("http://127.0.0.1:1")
    assert caught.value.hint == 'pip install "marc-clip[serve]"'


def test_the_name_alone_loads_no_library():
    code = """import sys, marc; marc.Client
import marc.cli.app
print([name for name in ("urllib3", "orjson", "fastapi", "uvicorn") if name in sys.modules])"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    from marc.serve.server import running

    with running(tmp_path_factory.mktemp("served")) as url:
        yield Client(url)


def test_everything_against_a_server(real, tmp_path):
    stream = make_stream(n_images=40)
    features = stream.features
    made = real.create(
        "cam-1",
        method={"name": "marc", "space": "good", "capacity": 4},
        predictor=(features.predictor.prototypes, features.predictor.logit_scale),
        classes=features.class_names,
        spaces={"good": 6},
        limits={"queue": 50},
    )
    same = {"method": {"name": "marc", "space": "good", "capacity": 4}, "spaces": {"good": 6}}
    same |= {"predictor": features.predictor, "classes": features.class_names}
    assert real.create("cam-1", **same, limits={"queue": 50}).name == "cam-1"
    with pytest.raises(Refused) as caught:
        real.create("cam-1", **same)
    assert caught.value.status == 409
    method = marc.MARC("good", capacity=4)
    expected = [method.step(query) for query in stream]
    asked = [
        {"features": features.views[n], "keys": {"good": features.spaces["good"][n]}, "id": str(n)}
        for n in range(len(stream))
    ]
    listening = made.events()
    assert next(listening)[0] == "status"
    first = made.step(**asked[0], dry_run=True)
    assert (first.seq, first.prediction) == (None, expected[0].prediction)
    answers = [*made.steps(asked, together=7)]
    assert [each.prediction for each in answers] == [step.prediction for step in expected]
    assert [each.seq for each in answers] == [*range(1, 41)]
    assert made.answer("7") == made.step(**asked[7]) == answers[7]
    assert made.step(**asked[3], neighbours=2).neighbours == ()  # the stored answer
    assert len(made.step(**asked[3], neighbours=2, dry_run=True).neighbours) == 2
    assert any(name == "step" for name, _ in (next(listening) for _ in range(3)))
    listening.close()
    told = made.label({str(n): int(stream.labels[n]) for n in range(40)} | {"none": 0})
    assert (told["accepted"], told["unknown"]) == (40, ["none"])
    assert made.judgement() == told["judgement"]
    assert made.audit(3)["items"] == []
    saved = made.download_snapshot(tmp_path / "s.safetensors")
    assert saved["seq"] == 40
    assert made.mode("live", expect="shadow")["mode"] == "live"
    live = made.step([*np.ones(8)], {"good": np.ones(6)}, id="new")
    assert live.answered_by == "memory"
    assert live.acted == live.prediction
    assert made.restore(saved["file"])["n_seen"] == 40
    again = made.snapshot()["file"]  # its name is of after a restore
    assert made.restore(again)["n_seen"] == 40
    assert made.restore(tmp_path / "s.safetensors")["seq"] == 40
    assert [each["name"] for each in real.memories()] == ["cam-1"]
    made.delete()
    assert real.memories() == []
    with pytest.raises(Refused) as caught:
        made.info()
    assert caught.value.status == 404
