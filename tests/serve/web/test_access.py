"""Keys: which opens what, and what happens to them while the server runs."""

import json
import logging
import os
import stat
import time

import pytest
from helpers.asking import Asker, asking, step_body
from helpers.serving import body

import marc
from marc.errors import MarcError
from marc.serve.refused import Refused
from marc.serve.web import access
from marc.serve.web.access import SCOPES, Access, new_key

ROUTES = {
    ("GET", ""): "read",
    ("GET", "/audit"): "read",
    ("GET", "/judgement"): "read",
    ("GET", "/snapshots"): "read",
    ("GET", "/samples"): "read",
    ("GET", "/history"): "read",
    ("GET", "/steps/1"): "read",
    ("GET", "/pictures/1"): "read",
    ("GET", "/events"): "read",
    ("POST", "/step"): "write",
    ("POST", "/steps"): "write",
    ("POST", "/labels"): "write",
    ("GET", "/snapshots/x.safetensors"): "admin",
    ("PUT", ""): "admin",
    ("POST", "/mode"): "admin",
    ("POST", "/snapshot"): "admin",
    ("POST", "/restore"): "admin",
    ("DELETE", ""): "admin",
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """A key file, and the keys in it by name."""
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    made = {scope: new_key(path, scope, scope, ["m", "cam-*"]) for scope in SCOPES}
    made["all"] = new_key(path, "all", "admin")
    made["mixed"] = new_key(path, "mixed", "read", ["*"])
    made["slow"] = new_key(path, "slow", "write", steps_per_second=2)
    kept = json.loads(path.read_text())
    kept["keys"][4]["memories"] = {"*": "read", "cam-?": "write", "m": "admin"}
    path.write_text(json.dumps(kept))
    return path, made


@pytest.fixture(scope="module")
def asks(keys, tmp_path_factory):
    """Somebody for each key, and "nobody"."""
    path, made = keys
    with asking(tmp_path_factory.mktemp("served"), made["all"], key_file=path) as asker:
        for memory in ("m", "cam-1", "cam-22", "hidden"):
            asker.make(memory)
        yield {"nobody": Asker(asker.url)} | {n: Asker(asker.url, key) for n, key in made.items()}


def test_every_route_of_the_application_is_in_the_table(asks):
    paths = asks["nobody"]("GET", "/openapi.json").content["paths"]
    prefix = "/v1/memories/{m}"
    known = {(method.upper(), path.removeprefix(prefix)) for path, methods in paths.items()
             if path.startswith(prefix) for method in methods}  # fmt: skip
    table = {(method, rest.replace("/1", "/{id}") if "steps/" in rest else rest)
             for method, rest in ROUTES}  # fmt: skip
    table = {(m, r.replace("pictures/1", "pictures/{seq}").replace("x.safetensors", "{file}"))
             for m, r in table}  # fmt: skip
    assert table == known


@pytest.mark.parametrize("route", ROUTES, ids=" ".join)
def test_a_route_needs_its_scope_and_no_more(asks, route):
    method, path = route
    least = SCOPES.index(ROUTES[route])
    for scope in SCOPES:
        may = SCOPES.index(scope) >= least
        answer = asks[scope](method, f"/v1/memories/cam-gone{path}")
        if may:
            assert answer.status in (400, 404, 413, 415, 422), (scope, answer)
        else:
            assert answer.status == 403, (scope, answer)
            assert ROUTES[route] in answer.content["problem"]
        assert asks[scope](method, f"/v1/memories/hidden{path}").status == 403
    assert asks["nobody"](method, f"/v1/memories/m{path}").status == 401


def test_scopes_by_pattern_of_names(asks):
    mixed = asks["mixed"]
    for memory, status in {"m": 200, "cam-1": 200, "cam-22": 403, "hidden": 403}.items():
        assert mixed.step(1, memory).status == status, memory
        assert mixed("GET", f"/v1/memories/{memory}").status == 200
    assert mixed("POST", "/v1/memories/m/snapshot").status == 200
    assert mixed("POST", "/v1/memories/cam-1/snapshot").status == 403
    assert mixed("PUT", "/v1/memories/new", body()).status == 403


SCHEMES = ["", "Bearer", "Bearer ", "Bearer x", "Basic {}", "{}", "Bearer {}x", "Token {}",
           "Bearer \u00e4"]  # fmt: skip


@pytest.mark.parametrize("header", SCHEMES)
def test_what_is_no_known_key_is_401(asks, keys, header):
    given = header.format(keys[1]["all"]).encode("latin-1").decode("latin-1")
    answer = asks["nobody"]("GET", "/v1/memories", headers={"Authorization": given})
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert keys[1]["all"] not in str(answer.content)


def test_the_scheme_may_be_written_as_one_likes(asks, keys):
    for header in ("bearer {}", "BEARER  {} "):
        headers = {"Authorization": header.format(keys[1]["all"])}
        assert asks["nobody"]("GET", "/v1/memories", headers=headers).status == 200


def test_what_needs_no_key(asks):
    nobody = asks["nobody"]
    for path in ("/health", "/", "/page/page.js", "/openapi.json", "/docs"):
        assert nobody("GET", path).status == 200, path
    for path in ("/metrics", "/ready", "/version", "/v1/memories"):
        assert nobody("GET", path).status == 401, path
        assert asks["read"]("GET", path).status == 200, path


def test_nobody_learns_of_memories_that_are_not_for_them(asks):
    listed = asks["read"]("GET", "/v1/memories").content["memories"]
    assert [each["name"] for each in listed] == ["cam-1", "cam-22", "m"]
    assert "hidden" not in asks["read"]("GET", "/metrics").content.decode()
    assert "hidden" in asks["mixed"]("GET", "/metrics").content.decode()
    assert "hidden" not in str(asks["read"]("GET", "/v1/memories/cam-gone").content)
    there, gone = (asks["read"]("GET", f"/v1/memories/{name}") for name in ("hidden", "hiddem"))
    assert there.status == gone.status == 403


def test_a_key_has_a_rate_of_its_own(asks):
    answers = [asks["slow"].step(image, "m") for image in range(6)]
    refused = [each for each in answers if each.status == 429]
    assert refused
    assert "'steps_per_second' of key slow" in refused[0].content["allowed"]
    assert asks["all"].step(1, "m").status == 200


def test_a_server_with_keys_answers_under_any_name(asks):
    headers = {"Host": "marc.example.org", "Origin": "https://pages.example.org"}
    assert asks["read"]("GET", "/v1/memories", headers=headers).status == 200
    assert asks["nobody"]("GET", "/v1/memories", headers=headers).status == 401


def test_the_file_has_digests_alone_and_is_its_owners(keys):
    path, made = keys
    text = path.read_text()
    assert not any(key in text for key in made.values())
    assert len({*made.values()}) == len(made)
    assert all(len(key) >= 43 for key in made.values())


def test_a_new_file_is_its_owners_alone(tmp_path):
    path = tmp_path / "new" / "keys.json"
    new_key(path, "a")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    new_key(path, "b")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(MarcError, match="of this name"):
        new_key(path, "a")
    assert len(json.loads(path.read_text())["keys"]) == 2


def test_a_key_that_can_never_be_used_is_refused(tmp_path):
    path = tmp_path / "keys.json"
    for odd in ({"name": ""}, {"name": "a", "scope": "root"}, {"name": "a", "steps_per_second": 0}):
        with pytest.raises(MarcError):
            new_key(path, **odd)
    assert not path.exists()


GOOD = {"name": "a", "sha256": "0" * 64, "memories": {"*": "read"}}
NO_FILES = {
    "empty": "",
    "no json": "{",
    "a list": "[]",
    "no keys": "{}",
    "more": json.dumps({"keys": [], "more": 1}),
    "two of a name": json.dumps({"keys": [GOOD, GOOD]}),
    "a short digest": json.dumps({"keys": [{**GOOD, "sha256": "00"}]}),
    "an odd digest": json.dumps({"keys": [{**GOOD, "sha256": "Z" * 64}]}),
    "an unknown scope": json.dumps({"keys": [{**GOOD, "memories": {"*": "all"}}]}),
    "a rate of nothing": json.dumps({"keys": [{**GOOD, "steps_per_second": 0}]}),
    "a rate without end": json.dumps({"keys": [{**GOOD, "steps_per_second": 10**30}]}),
    "an unknown field": json.dumps({"keys": [{**GOOD, "key": "secret"}]}),
}


@pytest.mark.parametrize("name", NO_FILES)
def test_a_file_that_is_none_is_refused(tmp_path, name):
    path = tmp_path / "keys.json"
    path.write_text(NO_FILES[name])
    with pytest.raises(MarcError):
        Access(path)


def test_a_file_that_is_not_there_is_refused_with_what_makes_it(tmp_path):
    with pytest.raises(MarcError) as caught:
        Access(tmp_path / "keys.json")
    assert "--new-key" in caught.value.hint


def test_keys_are_added_and_taken_back_while_it_runs(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(access, "_CHECK_EVERY", 0.0)
    path = tmp_path / "keys.json"
    first = new_key(path, "first")
    lock = Access(path)
    assert lock.identify(f"Bearer {first}").name == "first"
    second = new_key(path, "second")
    assert lock.identify(f"Bearer {second}").name == "second"
    kept = json.loads(path.read_text())
    times = path.stat()
    whole = json.dumps({"keys": kept["keys"][1:]})
    path.write_text(whole)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # within one tick of a coarse clock
    with pytest.raises(Refused):
        lock.identify(f"Bearer {first}")
    monkeypatch.setattr(logging.getLogger("marc.serve"), "propagate", True)
    for broken in ("{", None):
        path.unlink() if broken is None else path.write_text(broken)
        for _ in range(3):
            assert lock.identify(f"Bearer {second}").name == "second"
    assert len(caplog.records) == 2  # not once a request
    assert second not in caplog.text
    path.write_text(json.dumps({"keys": []}))
    with pytest.raises(Refused):
        lock.identify(f"Bearer {second}")


def test_rates_of_keys_and_memories_are_their_own():
    lock = Access()
    key = access.Key("m", "", {"*": "admin"}, steps_per_second=2)
    other = access.Key("other", "", {"*": "admin"})
    while time.time() % 1 > 0.5:  # two of one second
        time.sleep(0.05)
    for _ in range(2):
        lock.count_step(key, "m", 3)
    with pytest.raises(Refused, match="key m"):
        lock.count_step(key, "m", 3)
    lock.count_step(other, "m", 3)
    with pytest.raises(Refused, match="of m"):
        lock.count_step(other, "m", 3)
    lock.count_step(other, "n", 3)


FOREIGN = [
    {"Host": "evil.example"},
    {"Host": "evil.example:8123"},
    {"Host": "127.0.0.1.evil.example"},
    {"Host": "localhost.evil.example:80"},
    {"Host": ""},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
]


def test_no_page_from_elsewhere_uses_a_server_without_keys(tmp_path):
    with asking(tmp_path) as ask:
        ask.make()
        for headers in FOREIGN:
            for method, path in (("GET", "/v1/memories"), ("POST", "/v1/memories/m/step")):
                assert ask(method, path, step_body(1), headers=headers).status == 403, headers
        post = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert ask("POST", "/v1/memories/m/step", step_body(1), headers=post).status == 403
        form = {"Content-Type": "text/plain", "Origin": "http://evil.example"}
        assert ask("POST", "/v1/memories/m/mode", {"to": "off"}, headers=form).status == 403
        assert ask("GET", "/v1/memories/m").content["seq"] == 0
        port = ask.address[1]
        own = [{"Host": f"LocalHost:{port}"}, {"Host": "[::1]:1"}, {"Origin": ask.url},
               {"Sec-Fetch-Site": "same-origin"},
               {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}]  # fmt: skip
        for headers in own:
            assert ask("GET", "/v1/memories", headers=headers).status == 200, headers
        assert "access-control-allow-origin" not in ask("GET", "/health").headers


def test_a_step_that_its_memory_refuses_costs_its_key_nothing():
    lock = Access()
    key = access.Key("m", "", {"*": "admin"}, steps_per_second=5)
    while time.time() % 1 > 0.5:  # all of one second
        time.sleep(0.05)
    lock.count_step(key, "slow", 1)
    for _ in range(20):
        with pytest.raises(Refused, match="of slow"):
            lock.count_step(key, "slow", 1)
    for _ in range(4):
        lock.count_step(key, "quick")


def test_who_listens_with_a_key_that_is_taken_back_hears_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(access, "_CHECK_EVERY", 0.0)
    path = tmp_path / "keys.json"
    keys = {name: new_key(path, name) for name in ("stays", "goes")}
    with asking(tmp_path / "data", keys["stays"], key_file=path) as ask:
        ask.make("m")
        events = marc.Client("http://{}:{}".format(*ask.address), keys["goes"]).memory("m").events()
        assert next(events)[0] == "status"
        kept = json.loads(path.read_text())["keys"]
        path.write_text(json.dumps({"keys": [each for each in kept if each["name"] == "stays"]}))
        with pytest.raises(Refused, match="asks for a key"):
            for _ in events:
                pass
        assert ask("GET", "/v1/memories/m").status == 200
