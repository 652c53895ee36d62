"""`marc send`: what a person sees of a source that goes to a server."""

import json

import pytest
from helpers.commands import call, call_json
from helpers.flaky_server import flaky_server, info

import marc
from marc.serve.client import connection
from marc.serve.server import running
from marc.serve.web.access import new_key


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    with running(tmp_path_factory.mktemp("served")) as url:
        yield url


def send(url, source, memory, *words):
    return "send", source, "--to", url, "--memory", memory, *words


def test_a_source_is_sent_and_judged(url, sources, tmp_path):
    answers = tmp_path / "answers.csv"
    outcome = call(*send(url, sources["labelled"], "a", "--labels", "-o", answers))
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == f"a of {url}, made for it"
    table = {line.rpartition("  ")[0].strip(): line.split()[-1] for line in lines[2:6]}
    assert table["answered"] == "200"
    assert table["answered before, not learned again"] == "0"
    assert table["refused"] == "0"
    assert "mode shadow: the base answers; the memory learns and is judged" in lines
    run = marc.run(marc.create_method("class-means"), marc.load_stream(sources["labelled"]))
    changed = int((run.predictions != run.base_predictions).sum())
    assert int(table["answers that the memory changed"]) == changed
    both = f"{100 * run.accuracy:.2f} % right, without memory {100 * run.base_accuracy:.2f} %:"
    assert f"200 images with a label: {both}" in lines
    assert "points, settings fixed" in outcome.out
    judgement = marc.Client(url).memory("a").judgement()
    assert judgement["sentence"] in lines
    assert f"labelled disagreements: memory right {judgement['labelled']['won']}" in outcome.out
    assert lines[-1] == f"written: {answers}"
    assert answers.read_text().count("\n") == 201
    assert max(map(len, lines[:-1])) <= 80


def test_a_second_time_nothing_is_learned(url, sources):
    call(*send(url, sources["labelled"], "twice"))
    data = call_json(*send(url, sources["labelled"], "twice"))
    assert (data["n_answered"], data["n_repeated"], data["created"]) == (200, 200, False)
    assert "accuracy" not in data
    assert marc.Client(url).memory("twice").info()["n_seen"] == 200


def test_json_has_each_accuracy_with_its_baseline(url, sources):
    data = call_json(*send(url, sources["labelled"], "json", "--labels", "--limit", 50))
    assert data["gain"] == pytest.approx(data["accuracy"] - data["base_accuracy"])
    assert (data["selection"], data["labelled"]["accepted"]) == ("fixed", 50)


@pytest.fixture
def guarded(tmp_path):
    """A server that asks for a key, and the file that has it."""
    keys, path = tmp_path / "keys.json", tmp_path / "key.txt"
    path.write_text(new_key(keys, "me") + "\n")
    with running(tmp_path / "served", key_file=keys) as url:
        yield url, path


def test_the_key_comes_from_a_file_or_the_environment_and_is_never_printed(
    guarded, sources, monkeypatch
):
    url, path = guarded
    key = path.read_text().strip()
    words = send(url, sources["labelled"], "m", "--limit", 3)
    outcomes = [call(*words), call(*words, "--key-file", path)]
    monkeypatch.setenv("MARC_KEY", key)
    outcomes.append(call(*words))
    monkeypatch.setenv("MARC_KEY", "another")
    outcomes += [call(*words), call(*words, "--json")]
    assert [each.status for each in outcomes] == [2, 0, 0, 2, 2]
    assert all("key" in each.err for each in outcomes if each.status)
    assert not any(key in each.out + each.err for each in outcomes)


@pytest.mark.parametrize("content", ["", "two\nlines", '{\n"keys": []\n}'])
def test_a_file_that_is_no_key(url, sources, tmp_path, content):
    path = tmp_path / "key"
    path.write_text(content)
    outcome = call(*send(url, sources["labelled"], "m", "--key-file", path))
    assert outcome.status == 2
    assert "one line" in outcome.err


def test_a_key_in_the_open_is_said(sources, monkeypatch):
    monkeypatch.setenv("MARC_KEY", "secret")
    monkeypatch.setattr(connection, "_FIRST_PAUSE", 0.0)
    monkeypatch.setattr(connection, "_LONGEST_WAIT", -1.0)  # one try
    outcome = call(*send("http://no-such-host.invalid:1", sources["labelled"], "m"))
    assert outcome.status == 2
    assert "https hides it" in outcome.err
    assert "there is no answer from http://no-such-host.invalid:1" in outcome.err
    assert "secret" not in outcome.err


@pytest.fixture
def server():
    with flaky_server() as flaky:
        flaky.answers["GET", "/v1/memories/m"] = info(takes_pictures=True, classes=["cat", "dog"])
        yield flaky


@pytest.fixture
def pictures(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number:02d}.png").write_bytes(b"picture %d" % number)
    return folder


def test_stopped_it_says_how_far_it_came(server, pictures, monkeypatch):
    def take(body):
        if len(server.order) >= 16:
            raise AssertionError("it was stopped")
        return b"".join(
            json.dumps(server.take(json.loads(line))).encode() + b"\n" for line in body.splitlines()
        )

    server.answers["POST", "/v1/memories/m/steps"] = take
    loads = connection.Connection.loads

    def stop(self, content):
        if len(server.order) > 8:
            raise KeyboardInterrupt
        return loads(self, content)

    monkeypatch.setattr(connection.Connection, "loads", stop)
    outcome = call(*send(server.url, pictures, "m"))
    assert outcome.status == 130
    assert "8 of 20 sent" in outcome.err
    assert "the same command goes on" in outcome.err
    monkeypatch.undo()
    server.answers["GET", "/v1/memories/m"] = info(
        takes_pictures=True, classes=["cat", "dog"], seq=len(server.order)
    )
    del server.answers["POST", "/v1/memories/m/steps"]
    data = call_json(*send(server.url, pictures, "m"))
    assert (data["n_answered"], data["n_repeated"]) == (20, 16)
    assert server.order == [f"{number:02d}.png" for number in range(20)]


def test_what_was_refused_is_said_with_its_reason(server, pictures):
    (pictures / "07.png").unlink()
    (pictures / "07.png").symlink_to("nowhere")
    outcome = call(*send(server.url, pictures, "m"))
    assert outcome.status == 0
    assert "refused: there is no such file: 1 (07.png)" in outcome.out


BAD = {
    "no server": (["photos", "--memory", "m"], "--to"),
    "no memory": (["photos", "--to", "http://127.0.0.1:1"], "--memory"),
    "no URL": (["photos", "--to", "nowhere", "--memory", "m"], "http://127.0.0.1:8123"),
    "a key": (["photos", "--to", "http://127.0.0.1:1", "--memory", "m", "--key", "k"], "--key"),
    "no source": (["nothing", "--to", "http://127.0.0.1:1", "--memory", "m"], "nothing"),
    "a rate of 0": (
        ["photos", "--to", "http://127.0.0.1:1", "--memory", "m", "--rate", "0"], "rate"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_send_refuses(pictures, monkeypatch, case):
    monkeypatch.chdir(pictures.parent)
    words, part = BAD[case]
    outcome = call("send", *words)
    assert outcome.status == 2
    assert part in outcome.err


def test_the_key_is_no_option():
    text = call("send", "--help").out
    assert "--key-file" in text
    assert "--key " not in text
    assert "MARC_KEY" in text
