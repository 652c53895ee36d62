import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import call, json_in
from PIL import Image

import marc
from marc import MarcError
from marc.pictures.views import make_views
from marc_lab import embedding
from marc_lab.streams import plan_stream

NAME = "drift-12"


@pytest.fixture(scope="module")
def stream():
    return marc.load_stream(f"lab/{NAME}")


@pytest.fixture
def files(stream):
    kept = sorted(next((embedding.cache_folder() / "lab-1").glob(f"{NAME}-*")).iterdir())
    return [path for path in kept if "views" not in path.name]


def test_a_stream_of_the_lab_has_every_encoder_as_a_space(stream):
    names = [name.removeprefix("mini:") for name in marc.list_encoders("mini:*")]
    names.remove("captions-vit")  # a second predictor, which the streams do not have
    assert list(stream.features.spaces) == names
    assert len(stream) == 500
    assert stream.name == f"lab/{NAME}"
    plan = plan_stream(NAME)
    assert np.array_equal(stream.row_labels, plan.labels)
    assert list(stream.features.class_names) == plan.class_names
    assert list(stream.features.ids) == plan.ids


def test_features_are_those_of_the_pictures(stream):
    rows = [0, 17, 499]
    pictures = np.stack([plan_stream(NAME).picture(row) for row in rows])
    for space in ("captions", "pixels"):
        expected = marc.create_encoder(f"mini:{space}").encode(pictures)
        assert np.allclose(stream.features.spaces[space][rows], expected, atol=1e-5)
    assert np.allclose(stream.features.views[rows, 0], stream.features.spaces["captions"][rows])


def test_a_second_call_reads_what_the_first_has_kept(stream, monkeypatch):
    monkeypatch.setattr(embedding, "create_encoder", None)  # nothing may be embedded again
    monkeypatch.setattr("marc_lab.streams.render", None)  # or drawn
    again = marc.load_stream(f"lab/{NAME}")
    assert again.fingerprint == stream.fingerprint


def test_what_is_damaged_is_made_again(stream, files):
    for path in files[:3]:
        path.write_bytes(path.read_bytes()[:100])
    files[3].unlink()
    assert marc.load_stream(f"lab/{NAME}").fingerprint == stream.fingerprint
    assert marc.load_stream(f"lab/{NAME}").fingerprint == stream.fingerprint


def test_an_array_of_another_shape_is_not_taken(stream, files):
    for path in files[:2]:
        np.savez(path, array=np.zeros((3, 3), dtype=np.float32))
    np.savez(files[2], something=np.zeros(3))
    assert marc.load_stream(f"lab/{NAME}").fingerprint == stream.fingerprint


def test_a_cache_that_cannot_be_written_costs_time_only(stream, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MARC_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.warns(UserWarning, match="not kept"):
        again = marc.load_stream(f"lab/{NAME}")
    assert again.fingerprint == stream.fingerprint
    outcome = call("geometry", f"lab/{NAME}", "--space", "pixels")
    assert outcome.status == 0
    assert outcome.err.count("not kept in") == 1
    assert "Not a directory" in outcome.err


def test_progress_is_reported_until_everything_is_done(monkeypatch, tmp_path):
    monkeypatch.setenv("MARC_CACHE", str(tmp_path))
    told = []
    embedding._lab_stream("clean-12", lambda *report: told.append(report))
    last = {what: (done, total) for what, done, total in told}
    assert set(last.values()) == {(500, 500)}
    assert len(last) == len(marc.list_encoders("mini:*"))


def test_the_folder_is_the_one_that_was_asked_for(monkeypatch, tmp_path):
    monkeypatch.setenv("MARC_CACHE", str(tmp_path / "here"))
    assert embedding.cache_folder() == tmp_path / "here"
    monkeypatch.setenv("MARC_CACHE", "~/there")
    assert embedding.cache_folder() == Path("~/there").expanduser()
    monkeypatch.delenv("MARC_CACHE")
    assert embedding.cache_folder().name == "marc"


@pytest.fixture
def fresh(stream, monkeypatch, tmp_path):
    """A cache with the plain features of the stream and no views; its folder."""
    there = next((embedding.cache_folder() / "lab-1").glob(f"{NAME}-*"))
    here = tmp_path / "cache" / "lab-1" / there.name
    shutil.copytree(there, here, ignore=shutil.ignore_patterns("*views*"))
    monkeypatch.setenv("MARC_CACHE", str(tmp_path / "cache"))
    return here


def test_views_are_crops_of_the_drawn_picture_in_the_predictors_eyes(stream):
    several = embedding._lab_stream(NAME, n_views=6)
    encoder = marc.create_encoder("mini:captions")
    plan = plan_stream(NAME)
    for row in (0, 13, 61, 62, 83, 250, 499):  # rows of several blocks and the last one
        picture = Image.fromarray(plan.picture(row))
        views = make_views(picture, encoder.card.crop, "VC", 6, key=plan.ids[row], seed=0)
        expected = encoder.encode(views)
        assert np.allclose(several.features.views[row], expected, atol=1e-5)
        assert np.abs(expected[1:] - expected[0]).max(axis=1).min() > 1e-3  # they do differ


def test_the_plain_view_and_the_spaces_do_not_depend_on_the_number_of_views(stream):
    several = embedding._lab_stream(NAME, n_views=6)
    assert several.n_views == 6
    assert several.features.views[:, :1].tobytes() == stream.features.views.tobytes()
    assert several.with_views(1).fingerprint == stream.fingerprint
    assert several.features.clip_keys.tobytes() == stream.features.clip_keys.tobytes()


def test_more_views_later_leave_those_that_are_there(fresh, monkeypatch):
    few = embedding._lab_stream(NAME, n_views=2)
    kept = {path: path.stat().st_mtime_ns for path in fresh.iterdir()}
    more = embedding._lab_stream(NAME, n_views=8)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert len([*fresh.iterdir()]) == len(kept) + 1
    assert few.n_views == 2
    assert more.with_views(2).fingerprint == few.fingerprint
    monkeypatch.setattr(embedding, "create_encoder", None)  # nothing may be embedded again
    for n_views in (1, 2, 3, 4, 5, 7, 8):
        again = embedding._lab_stream(NAME, n_views=n_views)
        assert again.fingerprint == more.with_views(n_views).fingerprint


def test_views_are_named_after_all_that_they_depend_on(fresh, monkeypatch):
    embedding._lab_stream(NAME, n_views=4)
    [file] = fresh.glob("*views*")
    digest = marc.create_encoder("mini:captions").card.digest
    assert file.name == f"captions-{digest[:12]}-views-VC-0-1-3.npz"
    with np.load(file) as kept:
        first = kept["array"]
    assert (first.shape, first.dtype) == ((500, 3, 128), np.float32)
    monkeypatch.setattr(embedding, "VIEW_SEED", 1)
    other = embedding._lab_stream(NAME, n_views=4).features.views[:, 1:]
    assert (np.abs(other - first).max(axis=2) > 1e-3).mean() > 0.99


def test_views_that_are_damaged_are_made_again(fresh):
    whole = embedding._lab_stream(NAME, n_views=4)
    [file] = fresh.glob("*views*")
    content = file.read_bytes()
    file.write_bytes(content[:100])
    assert embedding._lab_stream(NAME, n_views=4).fingerprint == whole.fingerprint
    assert file.stat().st_size == len(content)


def test_progress_of_views_is_reported_in_pictures(fresh):
    told = []
    embedding._lab_stream(NAME, lambda *report: told.append(report), n_views=4)
    assert {what for what, _, _ in told} == {"embedding views 1 to 3 with mini:captions"}
    done = [done for _, done, total in told if total == 500]
    assert done == sorted(set(done))
    assert (done[0], done[-1]) == (0, 500)
    assert len(done) == len(told) > 3


@pytest.mark.parametrize("n_views", [0, -1, 1.5])
def test_a_number_of_views_that_cannot_be_is_refused(n_views):
    with pytest.raises(MarcError, match="views must be an integer"):
        embedding._lab_stream(NAME, n_views=n_views)


def test_a_run_on_drawn_views_has_a_report_on_those_views(tmp_path):
    words = ["--method", "marc", "--space", "vicreg", "--views", "3", "--seed", "0"]
    assert call("run", f"lab/{NAME}", *words, "-o", tmp_path / "run").status == 0
    assert json_in(tmp_path / "run/config.json")["n_views"] == 3
    page = marc.report(tmp_path / "run", output=tmp_path / "page.html")
    assert "3 views an image" in page.path.read_text("utf-8")


@pytest.mark.parametrize("n_views", [0, 4097, 2**63])
def test_views_without_bound_are_refused_before_any_work(n_views, monkeypatch):
    monkeypatch.setattr(embedding, "_embedded", None)
    with pytest.raises(MarcError, match="views must be an integer"):
        embedding._lab_stream(NAME, n_views=n_views)


def test_the_second_predictor_sees_the_same_pictures(stream):
    other = marc.load_stream(f"lab/{NAME}@captions-vit", n_views=3)
    assert "captions-vit" in other.features.spaces
    assert "captions" not in other.features.spaces
    assert other.features.ids == stream.features.ids
    assert np.array_equal(other.row_labels, stream.row_labels)
    encoder = marc.create_encoder("mini:captions-vit")
    for row in (0, 17):
        crops = other.query(row).pixels()
        assert np.abs(encoder.encode(crops) - other.query(row).views).max() < 1e-5


def test_a_predictor_that_the_lab_has_not_is_refused():
    with pytest.raises(MarcError, match="unknown predictor of the lab"):
        marc.load_stream(f"lab/{NAME}@clip")
