"""A source is sent in order, each image once, however often it is stopped."""

import csv
import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.flaky_server import CLASSES, flaky_server, info, problem
from helpers.making import make_stream
from PIL import Image

import marc
from marc.errors import MarcError
from marc.serve.client import connection, items
from marc.serve.client.client import Client
from marc.serve.client.connection import NoAnswerError
from marc.serve.refused import Refused
from marc.stream import Stream

MEMORY = "/v1/memories/m"


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    from marc.serve.pictures import Pictures
    from marc.serve.server import running

    pictures = Pictures("mini:captions", ["mini:random"])
    with running(tmp_path_factory.mktemp("served"), pictures=pictures) as url:
        yield Client(url)


@pytest.fixture
def server(monkeypatch):
    pauses = SimpleNamespace(sleep=lambda _: None, monotonic=connection.time.monotonic)
    monkeypatch.setattr(connection, "time", pauses)
    with flaky_server() as flaky:
        flaky.answers["GET", MEMORY] = info()
        yield flaky


def plain(n_images=3, ids=None, labels=None):
    """A stream that fits the memory of the flaky server."""
    views = np.random.default_rng(0).standard_normal((n_images, 2))
    return Stream.from_arrays(views, np.eye(2), ids=ids, labels=labels, class_names=CLASSES)


def photos(folder, n_images=4, classes=("Star", "fish")):
    """Pictures in folders that are called like their classes."""
    for number in range(n_images):
        path = folder / classes[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 40), (90 + number, 0, 200 * (number % 2))).save(path)
    return folder


def test_answers_are_those_of_the_method_and_a_second_time_changes_nothing(real, tmp_path):
    stream = make_stream(n_images=50).shuffled(3)
    sent = real.send(stream, "stream", labels=True, output=tmp_path / "answers.csv")
    run = marc.run(marc.create_method("class-means"), stream)
    assert [reply.prediction for _, reply in sent.replies] == run.predictions.tolist()
    assert sent.accuracies == pytest.approx((run.accuracy, run.base_accuracy))
    assert (sent.created, sent.n_repeated, sent.mode, sent.refused) == (True, 0, "shadow", ())
    assert sent.n_changed == (run.predictions != run.base_predictions).sum() > 0
    assert sent.labelled["accepted"] == 50
    memory = real.memory("stream")
    before = memory.info()
    again = real.send(stream, "stream", labels=True)
    assert (again.n_repeated, again.created) == (50, False)
    assert again.replies == sent.replies
    assert again.labelled["repeated"] == 50
    assert memory.info() == before
    with (tmp_path / "answers.csv").open(newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [row["id"] for row in rows] == [stream.features.ids[item] for item in stream.order]
    names = stream.features.class_names
    assert [row["label"] for row in rows] == [names[label] for label in stream.labels]
    assert [row["answer"] for row in rows] == [names[label] for label in run.predictions]
    assert {row["changed"] for row in rows} == {"true", "false"}


def test_the_first_images_then_the_rest(real):
    stream = make_stream(n_images=30)
    assert len(real.send(stream, "part", limit=10).replies) == 10
    assert real.send(stream, "part").n_repeated == 10
    assert real.memory("part").info()["n_seen"] == 30


def test_stopped_by_a_person_it_goes_on(real):
    stream = make_stream(n_images=80)

    def stop(what, done, total):
        assert total == 80
        if done == 40:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        real.send(stream, "stopped", on_progress=stop)
    sent = real.send(stream, "stopped")
    assert 40 <= sent.n_repeated < 80
    answers = marc.run(marc.create_method("class-means"), stream).predictions.tolist()
    assert [reply.prediction for _, reply in sent.replies] == answers
    assert real.memory("stopped").info()["n_seen"] == 80


def test_two_sources_of_the_same_names(real):
    first, second = make_stream(n_images=10), make_stream(seed=0, n_images=20)
    real.send(first, "two", prefix="a/")
    assert real.send(second, "two", prefix="b/").n_repeated == 0
    assert real.memory("two").answer("b/7").id == "b/7"


def test_a_folder_of_pictures(real, tmp_path):
    folder = photos(tmp_path / "photos")
    (folder / "fish" / "broken.png").write_bytes(b"no picture")
    (folder / "fish" / "notes.txt").write_text("x")
    sent = real.send(folder, "photos", classes=["star", "fish", "heart"], labels=True)
    assert [reply.id for _, reply in sent.replies] == [
        "Star/0.png", "Star/2.png", "fish/1.png", "fish/3.png"
    ]  # fmt: skip
    assert [name for name, _ in sent.refused] == ["fish/broken.png"]
    assert sent.classes == ("star", "fish", "heart")
    assert [sent.labels[at] for at, _ in sent.replies] == [0, 0, 1, 1]
    assert sent.labelled["accepted"] == 4
    assert any(note == "passed over, as no pictures: 1" for note in sent.notes)
    assert real.send(folder, "photos").n_repeated == 4  # the classes are the memory's


def test_folders_that_are_no_labels(real, tmp_path):
    folder = photos(tmp_path / "photos", classes=("monday", "tuesday"))
    sent = real.send(folder, "days", classes=["star", "fish"])
    assert any("not taken for labels" in note for note in sent.notes)
    with pytest.raises(MarcError, match="no labels to send"):
        real.send(folder, "days", classes=["star", "fish"], labels=True)


def test_labels_come_after_all_steps(server):
    server.answers["POST", f"{MEMORY}/labels"] = {
        "accepted": 3, "changed": 0, "repeated": 0, "unknown": [], "judgement": {}
    }  # fmt: skip
    sent = Client(server.url).send(plain(labels=[0, 1, 1]), "m", labels=True)
    paths = [seen.path.rpartition("/")[2] for seen in server.seen]
    assert paths == ["m", "steps", "labels", "m"]
    given = json.loads(server.seen[2].body)["labels"]
    assert given == [{"id": str(n), "label": label} for n, label in enumerate([0, 1, 1])]
    assert sent.accuracies == (2 / 3, 1 / 3)
    assert sent.to_dict()["selection"] == "fixed"
    assert Client(server.url).send(plain(labels=[0, 1, 1]), "m").accuracies is None


def test_a_lost_server_is_said_with_how_far_it_came(server):
    server.faults += [("none",)] * 3 + [("cut",)] * 9
    client = Client(server.url, retries=3)
    with pytest.raises(NoAnswerError, match="64 of 100 answered") as caught:
        client.send(plain(100), "m")
    assert "the same command goes on" in caught.value.hint
    server.faults.clear()
    server.answers["GET", MEMORY] = info(seq=64)
    assert client.send(plain(100), "m").n_repeated == 64
    assert len(server.order) == 100


@pytest.mark.parametrize("status", [401, 403, 404, 409, 500, 507])
def test_what_is_not_of_one_image_stops_it(server, status):
    server.lines += [None, problem(status, "it is over")]
    with pytest.raises(Refused, match="it is over") as caught:
        Client(server.url).send(plain(3), "m")
    assert caught.value.status == status
    assert "1 of 3 answered" in caught.value.got


def test_where_no_image_is_taken_it_is_not_the_images(server):
    server.lines += [problem(422, "features do not fit")] * 100
    with pytest.raises(Refused, match="features do not fit"):
        Client(server.url).send(plain(100), "m")
    assert len(server.seen) == 2  # one request of steps
    server.lines = type(server.lines)([None, *[problem(422, "a zero vector")] * 30])
    assert len(Client(server.url).send(plain(40), "m").refused) == 30


def test_a_picture_that_went_away_is_refused_alone(server, tmp_path):
    server.answers["GET", MEMORY] = info(takes_pictures=True, classes=["Star", "fish"])
    folder = photos(tmp_path / "photos")
    images = items.open_items(folder, ["Star", "fish"], None, None)
    (folder / "Star" / "2.png").unlink()
    steps = [*items.paced(images, range(4), None, "", 0)]
    assert [isinstance(step, MarcError) for step in steps] == [False, True, False, False]
    (folder / "Star" / "2.png").symlink_to("nowhere")
    sent = Client(server.url).send(folder, "m", classes=["Star", "fish"])
    assert server.order == ["Star/0.png", "fish/1.png", "fish/3.png"]
    assert [name for name, _ in sent.refused] == ["Star/2.png"]


def test_a_rate_is_kept(server, monkeypatch):
    now = [100.0]
    clock = SimpleNamespace(
        monotonic=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s)
    )
    monkeypatch.setattr(items, "time", clock)
    Client(server.url).send(plain(21), "m", rate=4)
    assert now[0] == pytest.approx(105)
    sizes = [len(s.body.splitlines()) for s in server.seen if s.path.endswith("/steps")]
    assert sizes == [4, 4, 4, 4, 4, 1]  # none waits long for the others


def test_names_that_no_server_takes_are_shortened_and_stay_distinct(server):
    ids = ["a" * 600, "a" * 601, "b"]
    Client(server.url).send(plain(3, ids=ids), "m")
    assert len({*server.order}) == 3
    assert [len(name) for name in server.order] == [512, 512, 1]
    first = server.order[0]
    Client(server.url).send(plain(3, ids=ids), "m")
    assert server.order[0] == first
    assert len(server.order) == 3


def test_a_memory_that_forgets_names_says_so(server):
    server.answers["GET", MEMORY] = info(window=2)
    assert any("last 2 names" in note for note in Client(server.url).send(plain(), "m").notes)


def test_a_memory_is_made_to_know_all_names(server, monkeypatch):
    found = iter([("status", 404, {})])
    server.faults += [next(found)]
    monkeypatch.setattr("marc.serve.client.sending._WINDOW", 2)
    sent = Client(server.url).send(plain(), "m")
    assert sent.created
    asked = json.loads(server.seen[1].body)
    assert asked["limits"] == {"window": 3}
    assert (asked["mode"], asked["classes"]) == ("shadow", CLASSES)
    assert asked["predictor"]["prototypes"] == [[1.0, 0.0], [0.0, 1.0]]


OTHER = {
    "other classes": (plain(), info(classes=["cat", "cow"]), "other classes"),
    "another predictor": (plain(), info(dim=3), "not those of this memory"),
    "a space that is missing": (plain(), info(spaces={"s": 4}), "not those of this memory"),
    "a quarantined memory": (plain(), {"state": "quarantined", "problem": "x"}, "quarantined: x"),
    "no labels": (plain(), info(), "no labels to send"),
}


@pytest.mark.parametrize("case", OTHER)
def test_what_does_not_fit_is_refused_before_a_step(server, case):
    stream, about, words = OTHER[case]
    server.answers["GET", MEMORY] = about
    with pytest.raises(MarcError, match=words):
        Client(server.url).send(stream, "m", labels=True)
    assert len(server.seen) == 1


def test_pictures_need_a_server_with_encoders(server, tmp_path):
    folder = photos(tmp_path / "photos")
    server.answers["GET", MEMORY] = info(classes=["Star", "fish"])
    with pytest.raises(MarcError, match="takes features, not pictures") as caught:
        Client(server.url).send(folder, "m")
    assert "marc embed" in caught.value.hint
    bare = tmp_path / "bare"
    bare.mkdir()
    Image.new("RGB", (9, 9)).save(bare / "x.png")
    server.faults.append(("status", 404, {}))
    with pytest.raises(MarcError, match="not known what may be on") as caught:
        Client(server.url).send(bare, "m")
    assert "--classes" in caught.value.hint


def test_a_stream_has_its_own_classes(server, sources):
    with pytest.raises(MarcError, match="classes of its own"):
        Client(server.url).send(sources["labelled"], "m", classes=["cat", "dog"])
    assert not server.seen


def test_only_the_spaces_of_the_memory_are_sent(server):
    spaces = {"s": np.eye(3), "t": np.eye(3)}
    stream = replace(
        Stream.from_arrays(np.ones((3, 2)), np.eye(2), spaces, class_names=CLASSES), name="x"
    )
    server.answers["GET", MEMORY] = info(spaces={"t": 3})
    Client(server.url).send(stream, "m")
    [line, *_] = server.seen[1].body.splitlines()
    assert [*json.loads(line)["features"]["spaces"]] == ["t"]
