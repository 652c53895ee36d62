"""`marc.Session`: from a picture to an answer, one at a time."""

import io
import math

import numpy as np
import pytest
from helpers.image_trees import encoded
from PIL import Image
from safetensors.numpy import load_file, save_file

import marc
from marc.errors import MarcError
from marc.session.session import Session
from marc_lab.streams import plan_stream

PLAN = plan_stream("sketch-12")
SPACES = ["mini:pairs-large", "mini:random"]


def new_session(**options):
    return Session(PLAN.class_names, "mini:captions", SPACES, **options)


def answers(session, rows, **options):
    return [session.step(PLAN.picture(row), name=f"{row}", **options) for row in rows]


def facts(answer):
    return answer.answer, answer.confidence, answer.base_answer, answer.neighbors


def test_a_session_answers_as_a_run_over_the_embedded_folder_does(tmp_path):
    for row in range(60):
        (tmp_path / "photos").mkdir(exist_ok=True)
        Image.fromarray(PLAN.picture(row)).save(tmp_path / "photos" / f"{row:03}.png")
    names = tmp_path / "names.txt"
    names.write_text("\n".join(PLAN.class_names), encoding="utf-8")
    stream = marc.embed(
        f"folder/{tmp_path / 'photos'}",
        SPACES,
        predictor="mini:captions",
        class_names=names,
        output=tmp_path / "store",
    )
    run = marc.run(marc.create_method("class-means"), stream)
    session = new_session()
    live = [session.step(tmp_path / "photos" / f"{row:03}.png") for row in range(60)]
    assert [each.answer for each in live] == [PLAN.class_names[c] for c in run.predictions]
    np.testing.assert_allclose(
        [each.confidence for each in live], run.certainty.confidence, atol=1e-3
    )
    np.testing.assert_allclose(
        [each.base_confidence for each in live], run.base_certainty.confidence, atol=1e-3
    )
    assert any(each.changed for each in live)


def test_a_picture_may_come_as_path_bytes_pil_or_pixels(tmp_path):
    pixels = PLAN.picture(3)
    data = encoded(pixels)
    path = tmp_path / "three.png"
    path.write_bytes(data)
    forms = [path, str(path), data, Image.open(io.BytesIO(data)), pixels]
    seen = [new_session().step(form) for form in forms]
    assert len({(each.answer, each.confidence) for each in seen}) == 1
    assert [each.name for each in seen] == [str(path)] * 2 + ["picture 0"] * 3


def test_a_photograph_is_turned_as_its_camera_says():
    turned = Image.fromarray(PLAN.picture(3)).transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[0x0112] = 6
    data = encoded(turned, "PNG", exif=exif)
    plain = new_session().step(encoded(PLAN.picture(3)))
    for turning in (data, Image.open(io.BytesIO(data))):
        assert new_session().step(turning).base_confidence == plain.base_confidence
    assert new_session().step(encoded(turned)).base_confidence != plain.base_confidence


def test_without_learning_the_session_stays_as_it_was():
    session, twin = new_session(), new_session()
    answers(session, range(20)), answers(twin, range(20))
    twice = [session.step(PLAN.picture(30), learn=False, why=True) for _ in range(2)]
    assert facts(twice[0]) == facts(twice[1])
    assert len(session) == 20
    assert [facts(each) for each in answers(session, range(20, 40), why=3)] == [
        facts(each) for each in answers(twin, range(20, 40), why=3)
    ]


def test_neighbours_are_the_nearest_remembered_pictures_of_each_space():
    session = new_session()
    answers(session, range(40))
    near = session.step(PLAN.picture(7), learn=False, why=True).neighbors
    assert list(near) == ["predictor", "pairs-large", "random"]
    for neighbors in near.values():
        assert neighbors[0].name == "7"  # itself: it was seen
        assert neighbors[0].similarity == pytest.approx(1, abs=1e-5)
        similarity = [each.similarity for each in neighbors]
        assert similarity == sorted(similarity, reverse=True)
        assert len(neighbors) == 5
    assert session.step(PLAN.picture(7), learn=False).neighbors == {}
    assert new_session().step(PLAN.picture(7), why=True).neighbors["predictor"] == ()


def test_what_is_shown_is_bounded():
    session = Session(["star", "fish"], "mini:captions", "mini:random")
    for row in range(90):
        session.step(PLAN.picture(row % 40), name=f"{row}")
    memory = session._record._memories["random"]
    assert len(memory) <= 2 * 16
    assert len(session._record._names) <= 2 * len(memory) + 16


@pytest.mark.parametrize("method", ["class-means", marc.MARC("pairs-large", capacity=3)])
def test_saved_and_restored_is_never_stopped(tmp_path, method):
    session, whole = new_session(method=method), new_session(method=method)
    answers(session, range(25)), answers(whole, range(25))
    session.save(tmp_path / "session.safetensors")
    later = new_session(method=method)
    later.restore(tmp_path / "session.safetensors")
    assert len(later) == 25
    assert [facts(each) for each in answers(later, range(25, 50), why=True)] == [
        facts(each) for each in answers(whole, range(25, 50), why=True)
    ]


def test_a_session_of_other_classes_encoders_or_settings_is_refused(tmp_path):
    path = tmp_path / "session.safetensors"
    session = new_session()
    answers(session, range(3))
    session.save(path)
    others = [
        Session(PLAN.class_names[::-1], "mini:captions", SPACES),
        Session(PLAN.class_names, "mini:captions", SPACES[:1]),
        new_session(method=marc.create_method("class-means", spaces=["random"])),
    ]
    for other in others:
        with pytest.raises(MarcError, match="saved with other classes, prompts, encoders"):
            other.restore(path)
        assert len(other) == 0
    with pytest.raises(MarcError, match="not a memory snapshot"):
        marc.load_snapshot(path)


def test_a_damaged_session_is_refused(tmp_path):
    path = tmp_path / "session.safetensors"
    session = new_session()
    answers(session, range(3))
    session.save(path)
    arrays = load_file(path)
    save_file(arrays, path, metadata={"marc": "{}"})
    with pytest.raises(MarcError, match="not a memory snapshot"):
        new_session().restore(path)


@pytest.mark.parametrize(
    ("picture", "problem"),
    [
        (b"", "empty file"),
        (b"not a picture", "not a picture of a known format"),
        ("no/such/file.png", "missing"),
        (np.zeros((4, 4), dtype=np.uint8), "no pixels of a picture"),
        (np.zeros((4, 4, 3)), "no pixels of a picture"),
        (7, "this is no picture"),
    ],
    ids=["empty", "text", "missing", "grey", "floats", "number"],
)
def test_what_is_no_picture_is_refused_and_not_learned(picture, problem):
    session = new_session()
    with pytest.raises(MarcError, match=problem):
        session.step(picture)
    assert len(session) == 0


@pytest.mark.parametrize("classes", ["star", None, ["star", 3], ["star", "Star"], {"star", "fish"}])
def test_classes_are_a_list_of_distinct_names(classes):
    with pytest.raises(MarcError, match="class"):
        marc.Session(classes, "mini:captions", "mini:pairs-small")


def test_how_many_neighbours_is_a_number():
    with pytest.raises(MarcError, match="why"):
        new_session().step(np.zeros((8, 8, 3), np.uint8), why="x")


def test_a_method_of_batches_is_refused():
    with pytest.raises(MarcError, match="one picture at a time"):
        new_session(method="lame")


def test_a_method_without_probabilities_has_no_confidence():
    session = new_session(method=marc.create_method("zero"))
    answer = session.step(PLAN.picture(0))
    assert math.isnan(answer.confidence)
    assert answer.answer in PLAN.class_names


def test_answers_compare_by_what_they_say_and_a_session_says_what_it_is():
    one, other = new_session(), new_session()
    assert answers(one, [3], why=True) == answers(other, [3], why=True)
    assert repr(one).endswith(
        "of 12 classes by mini:captions, mini:pairs-large, mini:random; 1 pictures)"
    )
