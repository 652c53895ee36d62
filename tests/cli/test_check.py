import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import arrays_in, call, call_json
from helpers.image_trees import draw, odd_folder, photo, tree

import marc
import marc_lab
from marc.cli import _data_checks
from marc.cli import check as command
from marc.cli._label_order import check_label_order
from marc.encoders import list_encoders
from marc_lab.encoders import _mini_cards

ONE = ("--encoder", "mini:pixels")  # so that the data is what takes the time


def found(*words, status=0, section="data"):
    """Findings of one section, and that the exit status fits them."""
    outcome = call("check", *words, *ONE, "--json")
    assert outcome.status == status, outcome
    data = json.loads(outcome.out)
    assert data["kind"] == "check"
    assert data["ok"] is (status == 0)
    assert data["ok"] is all(each["level"] != "wrong" for each in data["findings"])
    return [each for each in data["findings"] if each["section"] == section]


def levels(findings, part):
    """Levels of the findings that say so."""
    return [each["level"] for each in findings if part in each["text"]]


@pytest.fixture
def photos(tmp_path):
    """Pictures of two classes, all different."""
    names = [f"{kind}/{number}.png" for kind in ("cat", "dog") for number in range(3)]
    return tree(tmp_path / "photos", *names, "dog/3.jpg")


def test_without_words_everything_that_ships_is_checked():
    data = call_json("check")
    assert data["ok"]
    sections = list(dict.fromkeys(each["section"] for each in data["findings"]))
    assert sections == ["program", "device", "disk", "encoders"]
    encoders = [each for each in data["findings"] if each["section"] == "encoders"]
    assert [each["data"]["name"] for each in encoders] == list_encoders("mini:*")
    assert {each["data"]["status"] for each in encoders} == {"same"}
    program = data["findings"][0]
    assert program["data"]["versions"]["marc-clip"] in program["text"]
    assert program["data"]["versions"]["numpy"] == np.__version__


def test_a_person_reads_one_finding_a_line_and_what_to_type_next(photos):
    outcome = call("check", f"folder/{photos}", *ONE)
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == "program"
    assert "  ok     7 pictures in folder/" in outcome.out
    assert "  ok     2 classes with 3 (cat) to 4 (dog) images each" in outcome.out
    assert "  ok     all pictures can be read" in outcome.out
    assert "  ok     no two pictures have the same bytes" in outcome.out
    assert lines[-3].startswith("nothing is wrong")  # without torch there is something to note
    assert lines[-2] == f"next: marc embed folder/{photos} --encoder mini:pixels"
    assert lines[-1].startswith("  then: marc check store/stores/")


def test_pictures_that_cannot_be_read_are_wrong(tmp_path):
    folder = odd_folder(tmp_path / "odd")
    findings = found(f"folder/{folder}", status=1)
    [bad] = [each for each in findings if "not readable" in each["text"]]
    assert bad["level"] == "wrong"
    unreadable = bad["data"]["unreadable"]
    assert set(unreadable) == {"text.jpg", "empty.jpg", "truncated.jpg", "bomb.png"}
    assert unreadable["empty.jpg"] == "empty file"
    assert "replace or delete" in bad["fix"]
    [passed] = [each for each in findings if "passed over" in each["text"]]
    assert passed["level"] == "note"
    assert "text.txt" in [path for path, _ in passed["data"]["passed_over"]]
    assert levels(findings, "no labels") == ["note"]
    printed = call("check", f"folder/{folder}", *ONE)
    assert printed.status == 1
    assert "  wrong  not readable: 4 pictures" in printed.out
    assert "         try: replace or delete them" in printed.out
    assert printed.out.splitlines()[-1].startswith("next: mend what is wrong")


def test_copies_are_a_note_and_under_two_labels_wrong(photos):
    shutil.copy(photos / "cat" / "0.png", photos / "cat" / "again.png")
    findings = found(f"folder/{photos}")
    assert levels(findings, "2 pictures have the same bytes, in 1 groups") == ["note"]
    shutil.copy(photos / "cat" / "1.png", photos / "dog" / "cat.png")
    findings = found(f"folder/{photos}", status=1)
    [torn] = [each for each in findings if "but different labels" in each["text"]]
    assert torn["level"] == "wrong"
    assert torn["data"]["copies"] == [["cat/1.png", "dog/cat.png"]]
    assert levels(findings, "2 pictures have the same bytes, in") == ["note"]


def test_a_conflict_shows_one_copy_of_each_label(photos):
    for name in ("cat/0 again.png", "dog/0.png"):
        shutil.copy(photos / "cat" / "0.png", photos / name)
    [torn] = [
        each
        for each in found(f"folder/{photos}", status=1)
        if "but different labels" in each["text"]
    ]
    assert torn["text"].endswith("cat/0 again.png = dog/0.png")
    assert torn["data"]["copies"] == [["cat/0 again.png", "cat/0.png", "dog/0.png"]]


def test_a_predictor_that_knows_nothing_is_not_told_that_labels_are_permuted(tmp_path):
    """Each class has an answer of its own at random, and folders have names."""
    draw = np.random.default_rng(1)
    labels = np.repeat(np.arange(10), 30)
    views = np.eye(10)[draw.integers(10, size=10)][labels] + 0.1 * draw.standard_normal((300, 10))
    names = [f"thing {letter}" for letter in "abcdefghij"]
    ids = [f"{names[label]}/{row}.jpg" for row, label in enumerate(labels)]
    stream = marc.Stream.from_arrays(views, np.eye(10), labels=labels, class_names=names, ids=ids)
    marc.write_pack(stream, tmp_path / "random.npz")
    [order] = [
        each for each in found(f"arrays/{tmp_path / 'random.npz'}") if "label_order" in each["data"]
    ]
    assert order["level"] == "note"
    assert "as can be if the predictor does not know these classes" in order["text"]
    assert "numbers" not in order["text"] + order["data"]["label_order"]["best"]
    assert "weights of the encoder" in order["fix"]


@pytest.mark.skipif(find_spec("timm") is None, reason="the class list comes with timm")
def test_a_published_set_is_counted(tmp_path):
    for label in (0, 1, 10):
        draw(tmp_path / "imagenetv2-matched-frequency-format-val" / str(label) / "a.jpg", label)
    findings = found("imagenet-v2", "--root", tmp_path, status=1)
    assert levels(findings, "has 10,000 pictures, this one 3") == ["wrong"]
    assert levels(findings, "classes without images") == ["note"]
    refused = call("check", "imagenet-v2", *ONE)
    assert refused.status == 2
    assert "--root" in refused.err


def test_features_are_counted_and_their_labels_tried(sources):
    findings = found(sources["labelled"])
    assert levels(findings, "200 images, 5 classes; spaces: ") == ["ok"]
    assert levels(findings, "no two images have equal features") == ["ok"]
    [order] = [each for each in findings if "label_order" in each["data"]]
    stream = marc.load_stream(sources["labelled"]).with_views(1)
    expected = check_label_order(stream.features.base.label, stream.row_labels, 5)
    assert order["level"] == "ok"
    assert order["text"] == expected.message
    assert order["data"]["label_order"]["accuracy"] == expected.accuracy
    unlabelled = found(sources["unlabelled"])
    assert levels(unlabelled, "no labels") == ["note"]
    assert not [each for each in unlabelled if "label_order" in each["data"]]
    assert call("check", sources["labelled"], *ONE).out.endswith(
        f"next: marc select {sources['labelled']}\n"
    )


def test_labels_in_text_order_are_wrong_and_the_fix_is_named(tmp_path):
    draw = np.random.default_rng(0)
    labels = np.repeat(np.arange(30), 6)
    views = np.eye(30)[labels] + 0.1 * draw.standard_normal((180, 30))
    in_text_order = np.argsort(sorted(range(30), key=str))
    stream = marc.Stream.from_arrays(views, np.eye(30), labels=in_text_order[labels])
    marc.write_pack(stream, tmp_path / "v2.npz")
    findings = found(f"arrays/{tmp_path / 'v2.npz'}", status=1)
    [order] = [each for each in findings if "label_order" in each["data"]]
    assert order["level"] == "wrong"
    assert "imagenet-v2" in order["fix"]
    mended = np.array(order["data"]["label_order"]["order"])[in_text_order[labels]]
    assert np.array_equal(mended, labels)


def test_equal_features_under_two_labels_are_wrong(sources, tmp_path):
    arrays = arrays_in(sources["labelled"].removeprefix("arrays/"))
    first = int(np.flatnonzero(arrays["labels"] == 0)[0])
    other = int(np.flatnonzero(arrays["labels"] == 1)[0])
    arrays["predictor/views"] = arrays["predictor/views"].copy()
    arrays["predictor/views"][other] = arrays["predictor/views"][first]
    np.savez(tmp_path / "copies.npz", **arrays)
    findings = found(f"arrays/{tmp_path / 'copies.npz'}", status=1)
    [torn] = [each for each in findings if "but different labels" in each["text"]]
    assert torn["level"] == "wrong"
    assert len(torn["data"]["copies"]) == 1


def test_a_store_tells_what_is_in_quarantine(photos, tmp_path):
    (photos / "dog").rename(photos / "balloon")  # the small predictor knows few words
    (photos / "cat" / "broken.jpg").write_bytes(photo(5, "JPEG")[:-200])
    store = tmp_path / "store"
    names = ("--encoder", "mini:pixels", "--predictor", "mini:captions", "--prompts", "lab")
    made = call("embed", f"folder/{photos}", *names, "--workers", 0, "-o", store)
    assert made.status == 0, made
    findings = found(f"store/{store}")
    assert levels(findings, "in quarantine: 1 of 8 pictures (1 truncated") == ["note"]
    assert levels(findings, "7 images, 2 classes; spaces: ") == ["ok"]
    assert levels(findings, "too close to tell") == ["note"]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """An ONNX file with a card, and a cache folder of its own."""
    monkeypatch.setenv("MARC_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "own.onnx"
    card = _mini_cards()["mini:pairs-small"]
    weights = str(Path(marc_lab.__file__).with_name("weights") / "pairs-small.onnx")
    shutil.copy(weights, path)
    about = {"name": "own", "dim": card.dim, "size": 64, "mean": [0, 0, 0], "std": [1, 1, 1]}
    (tmp_path / "own.json").write_text(json.dumps(about))
    return path


def test_an_encoder_of_your_own_is_stored_then_compared(own):
    words = ("check", "--encoder", f"onnx:{own}")
    assert "  note   " in call(*words).out
    same = call(*words)
    assert same.status == 0
    assert "gives the vectors of its first check" in same.out
    about = json.loads(own.with_suffix(".json").read_text())
    own.with_suffix(".json").write_text(json.dumps({**about, "std": [0.5, 0.5, 0.5]}))
    changed = call(*words)
    assert changed.status == 1
    assert "  wrong  own: does not give the vectors of its first check" in changed.out
    assert "std is [0.5, 0.5, 0.5], was [1.0, 1.0, 1.0]" in changed.out
    assert "rm '" in changed.out


def test_an_encoder_that_cannot_be_loaded_is_wrong_and_the_others_are_still_checked(tmp_path):
    missing = tmp_path / "missing.onnx"
    weights = f"mini:captions={missing}"
    words = ("check", "--encoder", "mini:captions", "mini:pixels", "--weights", weights, "--json")
    outcome = call(*words)
    assert outcome.status == 1
    findings = [e for e in json.loads(outcome.out)["findings"] if e["section"] == "encoders"]
    assert [each["level"] for each in findings] == ["wrong", "ok"]
    assert findings[0]["text"].startswith("mini:captions: ")


def test_little_room_on_the_disk_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("MARC_CACHE", str(tmp_path / "not" / "there" / "yet"))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(command.shutil, "disk_usage", lambda path: usage._replace(free=10**9))
    disk = found(section="disk")
    assert [each["level"] for each in disk] == ["note", "note"]
    assert "1.0 GB free" in disk[0]["text"]
    assert "MARC_CACHE" in disk[0]["fix"]


def test_what_is_not_installed_is_told(monkeypatch):
    real = command.find_spec
    absent = ("torch", "timm", "open_clip")
    monkeypatch.setattr(command, "find_spec", lambda n: None if n in absent else real(n))
    program = found(section="program")
    assert program[1]["level"] == "note"
    assert program[1]["fix"] == "pip install 'marc-clip[encoders]'"
    assert len(found(section="device")) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere/photos"], "this type is not known"),
        (["folder/no-such-folder"], "no such folder"),
        (["--encoder", "mini:unheard-of"], "mini:unheard-of"),
        (["--weights", "file.onnx"], "weights belong to an encoder"),
        (["lab/sketch-12", "--root", "somewhere", *ONE], "root folder"),
    ],
)
def test_bad_use_is_refused(words, message):
    outcome = call("check", *words)
    assert (outcome.status, outcome.out) == (2, "")
    assert message in outcome.err


def test_pictures_that_are_turned_are_read_as_the_source_says(photos, monkeypatch):
    asked = []
    real = _data_checks.read_picture
    monkeypatch.setattr(
        _data_checks,
        "read_picture",
        lambda at, upright: asked.append(upright) or real(at, upright=upright),
    )
    (photos / "cat" / "new.png").write_bytes(photo(99))
    found(f"folder/{photos}")
    assert asked == [True] * 8
