"""`marc serve`: help, keys, checks, what is refused, and a server as a person starts it."""

import json
import os
import signal
import sqlite3
import subprocess

import pytest
from helpers.asking import Asker, asking, step_body
from helpers.commands import MARC, call, call_json

from marc.serve.web.access import SCOPES, Access


def test_the_help_fits_a_terminal_and_shows_examples():
    printed = subprocess.run(
        [MARC, "serve", "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "80", "TERM": "dumb"},
    )
    assert printed.returncode == 0
    assert max(map(len, printed.stdout.splitlines())) <= 80
    for example in ("marc serve --data served", "--demo", "--predictor clip-b16", "--new-key me"):
        assert example in printed.stdout


def test_a_new_key_is_shown_once_and_opens_what_it_says(tmp_path):
    path = tmp_path / "keys.json"
    words = ["--key-file", path, "--scope", "write", "--memories", "cam-*"]
    made = call("serve", "--new-key", "camera", *words, "--steps-per-second", 30)
    assert made.status == 0
    key = made.out.strip()
    assert key not in made.err
    assert key not in path.read_text()
    known = Access(path).identify(f"Bearer {key}")
    assert (known.name, known.steps_per_second) == ("camera", 30)
    assert [known.may("cam-1", scope) for scope in SCOPES] == [True, True, False]
    assert not known.may("m", "read")
    again = call("serve", "--new-key", "camera", *words)
    assert (again.status, again.out) == (2, "")
    assert "of this name" in again.err
    printed = call_json("serve", "--new-key", "other", *words)
    assert Access(path).identify(f"Bearer {printed['key']}").name == "other"


def test_a_check_says_what_is_there(tmp_path):
    with asking(tmp_path) as ask:
        ask.make("cam-1")
        ask.step(1, "cam-1")
        assert "a server has it open" in call("serve", "--check", tmp_path).out
    good = call("serve", "--check", tmp_path)
    assert good.status == 0
    assert "cam-1" in good.out
    assert "ready" in good.out
    assert f"SQLite {sqlite3.sqlite_version}" in good.out
    report = call_json("serve", "--check", tmp_path)
    [memory] = report["memories"]
    assert (memory["steps"], memory["integrity"], report["problems"]) == (1, "ok", [])
    for path in (tmp_path / "memories" / "cam-1").glob("made*"):
        path.write_bytes(path.read_bytes()[:-20])
    bad = call("serve", "--check", tmp_path)
    assert bad.status == 1
    assert "quarantined" in bad.out
    nothing = call("serve", "--check", tmp_path / "nothing")
    assert nothing.status == 2


REFUSED = {
    "an open address": (["--host", "0.0.0.0"], "--new-key me"),
    "no key file": (["--key-file", "keys.json"], "--key-file"),
    "a key for no file": (["--new-key", "me"], "--key-file keys.json"),
    "an unknown quota": (["--quota", "money=1"], "memories"),
    "a quota of nothing": (["--quota", "memories=0"], ">= 1"),
    "an unknown durability": (["--durability", "paper"], "power, process"),
    "an unknown log": (["--log", "xml"], "json"),
    "a port that is none": (["--port", "65536"], "<= 65535"),
    "a negative port": (["--port", "-1"], ">= 0"),
    "encoders alone": (["--encoder", "dinov2-b"], "--predictor clip-b16"),
    "a demo with keys": (["--demo", "--key-file", "keys.json"], "without keys"),
    "an unknown scope": (["--key-file", "k.json", "--new-key", "a", "--scope", "root"], "admin"),
    "an unknown predictor": (["--predictor", "no-such-model"], "no-such-model"),
    "a file as a folder": (["--data", "file"], "file"),
    "a folder below a file": (["--data", "file/below"], "file"),
    "a name without end": (["--data", "a" * 5000], "a"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    words, needed = REFUSED[case]
    outcome = call("serve", *words)
    assert outcome.status == 2, outcome
    assert outcome.err.startswith("error: ")
    assert needed in " ".join(outcome.err.split())
    assert "Traceback" not in outcome.err


def test_a_person_starts_and_stops_it(tmp_path):
    with subprocess.Popen(
        [MARC, "serve", "--data", tmp_path / "data", "--port", "0", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            printed = ""
            while not printed.endswith("}\n") or printed.count("{") > printed.count("}"):
                printed += started.stdout.readline()
            ask = Asker(json.loads(printed)["url"])
            ask.make()
            assert ask.step(1).content["seq"] == 1
            assert ask.lines([step_body(2)])[0]["seq"] == 2
            started.send_signal(signal.SIGINT)
            out, err = started.communicate(timeout=10)
        finally:
            started.kill()
    assert started.returncode == 0
    assert "Traceback" not in err
    assert out == ""
    assert "stopped; every memory is on disk\n" in err
    assert call_json("serve", "--check", tmp_path / "data")["memories"][0]["steps"] == 2
