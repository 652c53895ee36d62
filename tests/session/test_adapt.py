"""`marc.adapt`: a folder of pictures in, answers and a page out."""

import csv
import json
import os

import numpy as np
import pytest
from PIL import Image

import marc
from marc.embed.store import FeatureStore
from marc.errors import MarcError
from marc.files import LOCK, locked
from marc.session import adapt as module
from marc.session.adapt import Adapted, adapt
from marc_lab.streams import plan_stream

PLAN = plan_stream("sketch-12")
MINI = {"predictor": "mini:captions", "encoders": ["mini:pairs-large"]}
COLUMNS = ["file", "base_answer", "answer", "base_confidence", "confidence", "changed"]


def draw(folder, rows=range(70), name="{row:03}.png"):
    """Sketches of the lab as files."""
    for row in rows:
        path = folder / name.format(row=row, label=PLAN.class_names[PLAN.labels[row]])
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(PLAN.picture(row)).save(path)
    return folder


def table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return draw(tmp_path_factory.mktemp("own") / "photos")


@pytest.fixture(scope="module")
def adapted(photos):
    return adapt(photos, PLAN.class_names, output=photos.parent / "out", **MINI)


def test_every_picture_has_an_answer_in_words_and_probabilities(photos, adapted):
    rows = table(adapted.answers)
    assert list(rows[0]) == [*COLUMNS, "nearest"]
    assert [row["file"] for row in rows] == sorted(path.name for path in photos.iterdir())
    stream = FeatureStore(adapted.folder / "features").stream()
    run = marc.run(marc.create_method("class-means"), stream)
    names = np.array(PLAN.class_names)
    assert [row["answer"] for row in rows] == names[run.predictions].tolist()
    assert [row["base_answer"] for row in rows] == names[run.base_predictions].tolist()
    assert [float(row["confidence"]) for row in rows] == pytest.approx(
        run.certainty.confidence, abs=1e-4
    )
    changed = [row["answer"] != row["base_answer"] for row in rows]
    assert [row["changed"] == "true" for row in rows] == changed
    assert adapted.n_changed == sum(changed) > 0


def test_the_nearest_remembered_pictures_came_before(adapted):
    rows = table(adapted.answers)
    seen = set()
    for row in rows:
        near = [name for name in row["nearest"].split("; ") if name]
        assert len(near) == min(3, len(seen))
        assert set(near) <= seen
        seen.add(row["file"])


def test_a_page_and_what_other_commands_read_lie_beside_the_answers(adapted):
    assert adapted.page.read_text(encoding="utf-8").startswith("<!doctype html>")
    [run] = marc.load_run(adapted.folder / "run")
    np.testing.assert_array_equal(run.predictions, adapted.run.predictions)
    pytest.importorskip("pyarrow")
    from pyarrow.parquet import read_table

    stored = read_table(adapted.folder / "answers.parquet").to_pydict()
    assert stored["answer"] == [row["answer"] for row in table(adapted.answers)]


def test_a_second_call_only_reads(photos, adapted, monkeypatch):
    monkeypatch.setattr(module, "embed_pictures", None)
    before = times(adapted.folder)
    again = adapt(photos, PLAN.class_names, output=adapted.folder, **MINI)
    assert again.was_there
    assert not adapted.was_there
    assert times(adapted.folder) == before
    assert (again.n_changed, again.trust) == (adapted.n_changed, adapted.trust)


@pytest.mark.parametrize("moment", ["_run", "_write_answers", "report"])
def test_killed_at_any_moment_the_next_call_goes_on(photos, adapted, tmp_path, moment, monkeypatch):
    def fail(*args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, moment, fail)
        with pytest.raises(KeyboardInterrupt):
            adapt(photos, PLAN.class_names, output=tmp_path / "out", **MINI)
    features = times(tmp_path / "out" / "features" / "predictor" / "views")
    whole = adapt(photos, PLAN.class_names, output=tmp_path / "out", **MINI)
    assert times(tmp_path / "out" / "features" / "predictor" / "views") == features
    assert whole.answers.read_bytes() == adapted.answers.read_bytes()


def test_other_classes_are_refused_and_with_force_keep_the_features(photos, tmp_path):
    out = tmp_path / "out"
    adapt(photos, PLAN.class_names, output=out, **MINI)
    views = times(out / "features" / "predictor" / "views")
    with pytest.raises(MarcError, match="answers to another question") as refused:
        adapt(photos, PLAN.class_names[:5], output=out, **MINI)
    assert "--force" in str(refused.value)
    assert len(table(out / "answers.csv")) == 70
    found = adapt(photos, PLAN.class_names[:5], output=out, force=True, **MINI)
    assert found.class_names == tuple(PLAN.class_names[:5])
    assert {row["answer"] for row in table(out / "answers.csv")} <= {*PLAN.class_names[:5]}
    after = times(out / "features" / "predictor" / "views")
    assert {path: after[path] for path in views if "/c/" in path.as_posix()} == {
        path: each for path, each in views.items() if "/c/" in path.as_posix()
    }


def test_sub_folders_are_the_classes_and_labels(tmp_path):
    photos = draw(tmp_path / "photos", name="{label}/{row:03}.png")
    found = adapt(photos, output=tmp_path / "out", **MINI)
    rows = table(found.answers)
    assert [row["label"] for row in rows] == [row["file"].partition("/")[0] for row in rows]
    assert found.run.accuracy == np.mean([row["right"] == "true" for row in rows])
    assert found.run.base_accuracy == np.mean([row["base_right"] == "true" for row in rows])


def test_sub_folders_called_like_a_class_are_labels_in_the_order_of_the_classes(tmp_path):
    photos = draw(tmp_path / "photos", range(30), name="{label}/{row:03}.png")
    names = [name.title() for name in PLAN.class_names[::-1]]
    lab = [name.lower() for name in names]
    found = adapt(photos, lab, output=tmp_path / "out", **MINI)
    assert found.class_names == tuple(lab)
    assert [row["label"] for row in table(found.answers)] == [
        row["file"].partition("/")[0] for row in table(found.answers)
    ]


def test_of_two_classes_of_one_name_a_sub_folder_is_the_one_that_can_be_answered(tmp_path):
    photos, names = (
        draw(tmp_path / "photos", range(10), "{label}/{row}.png"),
        tmp_path / "names.txt",
    )
    used = sorted({PLAN.class_names[PLAN.labels[row]] for row in range(10)})
    names.write_text("\n".join([*used, used[0]]), encoding="utf-8")
    found = adapt(photos, names, output=tmp_path / "out", **MINI)
    assert len(used) not in found.run.labels


def test_a_class_may_be_typed_as_its_folder_is_called(tmp_path):
    photos = draw(tmp_path / "photos", [0, 1], "hot_dog/{row}.png")
    draw(photos, [2], "Cat/{row}.png")
    images, notes = module._listed(photos, ["cat", "hot_dog"], "stored", None)
    assert (images.labels, notes) == ((0, 1, 1), [])


@pytest.mark.parametrize(
    ("source", "name"),
    [("folder/旅行/日本", "日本"), ("folder/a b:c?", "a-b-c"), ("folder/?", "pictures")],
)
def test_answers_are_called_as_their_pictures_in_any_script(source, name):
    assert module._default_folder(source).as_posix() == f"adapted/{name}"


def test_other_sub_folders_are_no_labels_and_that_is_said(tmp_path):
    photos = draw(tmp_path / "photos", range(30), name="2024/{row:03}.png")
    found = adapt(photos, PLAN.class_names, output=tmp_path / "out", **MINI)
    assert found.run.labels is None
    assert found.notes[0] == "sub-folders are not taken for labels: '2024' is none of the classes"


def test_pictures_may_come_by_the_time_of_their_files(tmp_path):
    photos = draw(tmp_path / "photos", range(12))
    for row in range(12):
        os.utime(photos / f"{row:03}.png", (1000 - row, 1000 - row))
    found = adapt(photos, PLAN.class_names, order="time", output=tmp_path / "out", **MINI)
    files = [row["file"] for row in table(found.answers)]
    assert files == [f"{row:03}.png" for row in range(12)][::-1]
    assert table(found.answers)[0]["nearest"] == ""


def test_where_no_space_can_be_trusted_the_predictor_answers_alone(tmp_path):
    photos = draw(tmp_path / "photos", range(40))
    options = {"predictor": "mini:captions", "encoders": ["mini:random"]}
    found = adapt(photos, PLAN.class_names, output=tmp_path / "out", **options)
    assert found.trust["random"] <= 0.1
    assert found.run.method["method"] == "zero-shot"
    assert found.n_changed == 0
    assert found.page.is_file()


def test_a_picture_that_cannot_be_read_is_counted_and_the_others_are_answered(tmp_path):
    photos = draw(tmp_path / "photos", range(20))
    (photos / "005.png").write_bytes(b"no picture")
    found = adapt(photos, PLAN.class_names, output=tmp_path / "out", **MINI)
    assert found.unreadable == 1
    assert len(table(found.answers)) == 19


def test_a_new_picture_is_noticed(tmp_path):
    photos = draw(tmp_path / "photos", range(10))
    adapt(photos, PLAN.class_names, output=tmp_path / "out", **MINI)
    draw(photos, [10])
    with pytest.raises(MarcError, match="another question"):
        adapt(photos, PLAN.class_names, output=tmp_path / "out", **MINI)
    found = adapt(photos, PLAN.class_names, output=tmp_path / "out", force=True, **MINI)
    assert len(table(found.answers)) == 11


def test_what_changed_is_said_in_numbers(tmp_path):
    photos = draw(tmp_path / "photos", range(10))
    adapt(photos, PLAN.class_names, output=tmp_path / "out", **MINI)
    draw(photos, [10])
    with pytest.raises(MarcError, match="number: stored 10, now 11"):
        adapt(photos, PLAN.class_names, output=tmp_path / "out", **MINI)


def test_prompts_and_weights_that_are_files_are_known_by_more_than_their_names(tmp_path):
    file = tmp_path / "mine.pt"
    file.write_text("one", encoding="utf-8")
    named = [str(file), f"mine={file}", "tip-7"]
    before = module._named_files(named)
    assert [*before] == named[:2]
    assert module._named_files(named) == before == json.loads(json.dumps(before))
    file.write_text("another", encoding="utf-8")
    assert module._named_files(named) != before


def test_after_a_request_that_was_refused_another_needs_no_force(photos, tmp_path):
    out = tmp_path / "out"
    for options in ({"encoders": ["nosuch"]}, {"predictor": "none"}, {"classes": ["star"]}):
        with pytest.raises(MarcError):
            adapt(photos, **{"classes": PLAN.class_names, "output": out, **MINI, **options})
    (out / "adapt.json.123.new").write_text("", encoding="utf-8")  # of a writer that was killed
    assert not adapt(photos, PLAN.class_names, output=out, **MINI).was_there


def test_one_picture_is_too_few_and_the_error_says_what_answers_it(tmp_path):
    photos = draw(tmp_path / "photos", [0])
    with pytest.raises(MarcError, match="two pictures at least"):
        adapt(photos, PLAN.class_names, output=tmp_path / "out", **MINI)


def test_one_encoder_needs_no_list(photos, adapted):
    options = {**MINI, "encoders": "mini:pairs-large"}
    assert adapt(photos, PLAN.class_names, output=adapted.folder, **options).was_there


def test_a_folder_of_something_else_is_left_alone(photos, tmp_path):
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(MarcError, match="left alone"):
        adapt(photos, PLAN.class_names, output=tmp_path, force=True, **MINI)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_two_at_once_one_works_and_the_other_is_told(photos, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    with (
        locked(out, "busy"),
        pytest.raises(MarcError, match="another marc adapt is writing here"),
    ):
        adapt(photos, PLAN.class_names, output=out, **MINI)
    assert {path.name for path in out.iterdir()} == {LOCK}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "what may be on these pictures"),
        ({"classes": ["star", "Star"]}, "named twice"),
        ({"classes": ["star", " "]}, "class name must be text"),
        ({"classes": PLAN.class_names, "order": "random"}, "order"),
        ({"classes": PLAN.class_names, "encoders": ["nosuch"]}, "unknown encoder"),
        ({"classes": PLAN.class_names, "predictor": "none"}, "answers need a predictor"),
    ],
    ids=["none", "repeated", "empty", "order", "encoder", "predictor"],
)
def test_bad_requests_are_refused_and_nothing_is_written(photos, tmp_path, options, problem):
    with pytest.raises(MarcError, match=problem):
        adapt(photos, output=tmp_path / "out", **{**MINI, **options})
    assert not (tmp_path / "out" / "answers.csv").exists()


def test_a_dry_run_estimates_and_writes_nothing(photos, tmp_path):
    estimate = adapt(photos, PLAN.class_names, output=tmp_path / "out", dry_run=True, **MINI)
    assert estimate.n_images == 70
    assert estimate.seconds > 0
    assert not (tmp_path / "out").exists()


def test_progress_is_told_from_the_first_picture_to_the_last_answer(photos, tmp_path):
    told = []
    adapt(
        photos,
        PLAN.class_names,
        output=tmp_path / "out",
        on_progress=lambda *each: told.append(each),
        on_estimate=lambda estimate: told.append(("estimate", 0, estimate.n_images)),
        **MINI,
    )
    names = list(dict.fromkeys(what for what, _, _ in told))
    assert names.index("estimate") < names.index("embedding") < names.index("answering")
    assert told[-1] == ("answering", 70, 70)


def test_the_orders_are_those_that_the_command_names():
    assert Adapted.ORDERS == ("stored", "time")
