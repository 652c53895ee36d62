"""`marc adapt`: parses, calls, prints."""

import pytest
from helpers.commands import call, call_json
from PIL import Image

import marc
from marc_lab.streams import plan_stream

PLAN = plan_stream("sketch-12")
MINI = ["--predictor", "mini:captions", "--encoder", "mini:pairs-large"]
CLASSES = ["--classes", ", ".join(PLAN.class_names)]


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own") / "photos"
    folder.mkdir()
    for row in range(70):
        Image.fromarray(PLAN.picture(row)).save(folder / f"{row:03}.png")
    return folder


def test_the_command_is_the_call(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = call_json("adapt", photos, *CLASSES, *MINI, "-o", "out")
    options = {"predictor": "mini:captions", "encoders": ["mini:pairs-large"]}
    found = marc.adapt(photos, PLAN.class_names, output="other", **options)
    assert (tmp_path / "out/answers.csv").read_bytes() == found.answers.read_bytes()
    assert said["n_changed"] == found.n_changed
    assert said["trust"] == found.trust
    assert said["answers"] == "out/answers.csv"
    assert said["selection"] == "fixed"


def test_a_person_reads_what_changed_and_where_it_is(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["adapt", photos, *CLASSES, *MINI]
    first, second = call(*words), call(*words)
    assert first.status == second.status == 0
    assert "70 pictures, 12 classes" in first.out
    assert "answers: adapted/photos/answers.csv\n" in first.out
    assert "next: marc judge adapted/photos/run --audit 50" in first.out
    assert "answers: adapted/photos/answers.csv (already there)" in second.out
    assert "about" in first.err  # the estimate


def test_labels_are_told_with_their_baseline(photos, tmp_path):
    for row in range(40):
        folder = tmp_path / "photos" / PLAN.class_names[PLAN.labels[row]]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(PLAN.picture(row)).save(folder / f"{row:03}.png")
    out = call("adapt", tmp_path / "photos", *MINI, "-o", tmp_path / "out").out
    assert "sub-folders are labels" in out
    assert "without memory" in out
    assert "fixed" in out


def test_a_dry_run_says_what_it_would_take(photos, tmp_path):
    out = call("adapt", photos, *CLASSES, *MINI, "-o", tmp_path / "out", "--dry-run").out
    assert out.startswith("70 pictures: about ")
    assert not (tmp_path / "out").exists()


def test_without_classes_it_says_what_to_type(photos, tmp_path):
    outcome = call("adapt", photos, *MINI, "-o", tmp_path / "out")
    assert outcome.status == 2
    assert "--classes" in outcome.err
